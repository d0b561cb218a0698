"""Texts with several workers: the same model as in one process."""

from __future__ import annotations

import json

import pytest

from sparseleaf import SparseGBDTClassifier
from sparseleaf.cli import run

TEXTS = [
    f"{first} and {second}"
    for first in ("bread", "soup", "goal", "race")
    for second in ("oven", "match", "stock")
]
RECORDS = [{"title": text, "tags": text.split(" and ")} for text in TEXTS * 6]
SAME = ("--text", "title", "--labels", "tags", "--method", "gbdt-sparse", "-j", "1", "-q", "-s", "n_trees=3")


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def alone(records, tmp_path):
    assert run(["train", str(records), "-m", str(tmp_path / "alone"), "--valid", str(records), *SAME]) == 0
    return (tmp_path / "alone").read_bytes()


@pytest.mark.slow
def test_ranks_vectorise_all_records(mpiexec, records, tmp_path):
    where = ("--engine", "mpi", "--valid", records)
    done = mpiexec(2, "-m", "sparseleaf", "train", records, "-m", tmp_path / "model", *SAME, *where)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model").read_bytes() == alone(records, tmp_path)


@pytest.mark.slow
def test_the_client_vectorises(records, tmp_path):
    distributed = pytest.importorskip("distributed")
    texts, tags = [record["title"] for record in RECORDS], [record["tags"] for record in RECORDS]
    small = SparseGBDTClassifier(n_trees=3, n_jobs=1)
    small.fit(texts, tags).save(tmp_path / "local")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=False
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        small.fit(texts, tags, engine=client).save(tmp_path / "workers")
        where = ["--engine", "dask", "--scheduler", client.scheduler.address, "--valid", str(records)]
        assert run(["train", str(records), "-m", str(tmp_path / "model"), *SAME, *where]) == 0
    assert (tmp_path / "workers").read_bytes() == (tmp_path / "local").read_bytes()
    assert (tmp_path / "model").read_bytes() == alone(records, tmp_path)
