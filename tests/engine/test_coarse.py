"""With the few levels of 10⁹ rows gradients are rounded at random: still the same bytes for any workers and threads."""

from pathlib import Path

import coarse
import jobs
import numpy as np
import pytest

from sparseleaf import MultiGBDTRegressor
from sparseleaf.training import scales


@pytest.fixture(scope="module")
def alone():
    """Digests of the models that one process trains, with one thread and with three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scales, "LARGEST_SUM", coarse.LARGEST_SUM)
        made = jobs.make_jobs()
        found = []
        for n_jobs in (1, 3):
            fitted = {
                name: made[name][0].set_params(n_jobs=n_jobs).fit(**made[name][1]) for name in coarse.NAMES
            }
            found.append({name: jobs.digest(estimator) for name, estimator in fitted.items()})
    return found


def test_threads_change_no_byte(alone):
    assert alone[0] == alone[1]


def test_the_scale_is_coarse(alone):
    made = jobs.make_jobs()
    fine = {name: jobs.digest(made[name][0].fit(**made[name][1])) for name in coarse.NAMES}
    assert not set(fine.values()) & set(alone[0].values())


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "features"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_ranks_train_the_model_of_one_process(n, layout, mpiexec, alone):
    done = mpiexec(n, Path(coarse.__file__), layout, *coarse.NAMES)
    assert done.returncode == 0, done.stderr
    assert dict(line.split("\t") for line in done.stdout.splitlines()) == alone[0]


def test_small_differences_survive_few_levels(monkeypatch):
    """Some rows have much larger targets; those of the others are told apart only if rounding keeps their means."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 4)).astype(np.float32)
    y = np.where(X[:, 0] > 0.99, 1000.0, np.sign(X[:, 1] - 0.5))
    one_tree = MultiGBDTRegressor(1, 1.0, max_depth=2, l2=0.0)

    def error():
        small = X[:, 0] <= 0.98  # but for a bin that has both
        return float(np.mean((one_tree.fit(X, y).predict(X)[small] - y[small]) ** 2))

    assert error() < 0.05
    monkeypatch.setattr(scales, "LARGEST_SUM", 2 * len(X))
    assert error() < 0.05
    monkeypatch.setattr(scales, "NEAREST_LEVELS", 0)
    assert error() > 0.9, "to nearest, all of them are equal"
