"""Trials on the workers of a Dask cluster."""

from __future__ import annotations

import numpy as np
import pytest

import sparseleaf
from smalldata import saved_bytes
from sparseleaf.cli import run
from sparseleaf.estimators import ESTIMATORS

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Dask and of its libraries are not ours

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = X[:, :2] ** 2
OPTIONS = {"cv": 2, "params": {"n_trees": 9}}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_trials_in_parallel(client, tmp_path):
    study = tmp_path / "study.db"
    result = sparseleaf.tune(X, Y, n_trials=8, client=client, study=study, **OPTIONS)
    assert len(result.trials) == 8
    # the trials that are not sampled do not depend on timing
    alone = sparseleaf.tune(X, Y, n_trials=3, **OPTIONS)
    assert result.default_score == alone.default_score
    starts = {trial["value"] for trial in result.trials if trial["defaults"]}
    assert starts == {trial["value"] for trial in alone.trials}
    assert result.best_score == min(t["value"] for t in result.trials if t["state"] == "complete")
    kind = ESTIMATORS[result.best_method]["regression"]
    expected = kind.from_settings({"n_trees": 9, **result.best_params}).fit(X, Y)
    assert saved_bytes(result.best_estimator_, tmp_path, "a") == saved_bytes(expected, tmp_path, "b")
    # a study of parallel trials continues in this process
    assert len(sparseleaf.tune(X, Y, n_trials=9, study=study, **OPTIONS).trials) == 9


@pytest.mark.slow
def test_an_error_in_a_worker_is_that_of_tune(client):
    with pytest.raises(ValueError, match="requires non-negative y"):
        sparseleaf.tune(X, Y - 5, n_trials=3, client=client, cv=2, params={"loss": "poisson", "n_trees": 3})


def test_the_command_line(client, tmp_path):
    lines = [",".join(map(str, (*x, *y))) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,y,z", *lines]))
    code = run([
        "tune", str(tmp_path / "rows.csv"), "-m", str(tmp_path / "m.safetensors"), "-t", "y,z", "--trials", "3",
        "--folds", "2", "--set", "n_trees=3", "--engine", "dask", "--scheduler", client.scheduler.address, "-q",
    ])  # fmt: skip
    assert code == 0
    assert sparseleaf.load(tmp_path / "m.safetensors").model_.n_trees <= 3
