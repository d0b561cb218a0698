"""What the tasks of a Spark job do, in threads of this process: rows are exchanged, and the model is that of one."""

import json
import pickle
import threading
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import jobs  # noqa: E402

from sparseleaf.distributed import spark as tasks  # noqa: E402
from sparseleaf.distributed.communicator import WorkerLostError  # noqa: E402
from sparseleaf.spark.training import FrameTraining, balance, from_pieces  # noqa: E402
from workers import run_workers  # noqa: E402


class Context:
    """A BarrierTaskContext whose tasks are threads."""

    def __init__(self, rank, barrier, board):
        self._rank, self._barrier, self._board = rank, barrier, board

    def partitionId(self):
        return self._rank

    def getTaskInfos(self):
        return [type("Info", (), {"address": "127.0.0.1:7077"})] * self._barrier.parties

    def cpus(self):
        return 1

    def allGather(self, message):
        self._board[self._rank] = message
        self._barrier.wait(60)
        messages = list(self._board)
        self._barrier.wait(60)
        return messages


def run_tasks(work, parts, version=None):
    """The rows that all tasks return, or the exceptions that end them."""
    barrier, board = threading.Barrier(len(parts)), [None] * len(parts)
    payload = pickle.dumps((version or tasks.sparseleaf.__version__, work, None))
    returned = [None] * len(parts)

    def run(rank):
        context = Context(rank, barrier, board)
        try:
            returned[rank] = list(tasks.run_task(payload, context, iter(parts[rank])))
        except WorkerLostError as error:
            returned[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return returned


def batch(**columns):
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def arrow(values):
    return values if isinstance(values, list) or values.ndim == 1 else values.tolist()


def pieces_of(rows, borders):
    return [
        [batch(**{name: arrow(value[a:b]) for name, value in rows.items()})] if b > a else []
        for a, b in pairwise(borders)
    ]


@pytest.mark.parametrize("name", ["names", "multi", "classes"])
def test_tasks_train_the_model_of_one_process(name):
    estimator, rows = jobs.make_jobs()[name]
    parts = pieces_of(rows, [0, 10, 200, jobs.N_ROWS])
    parts[1] = [part for whole in pieces_of(rows, [10, 50, 200]) for part in whole]
    first, *others = run_tasks(FrameTraining(estimator, {"layout": "rows"}), parts)
    assert others == [[], []]
    profile, *pieces = [one.column("content")[0].as_py() for one in first]
    assert len(json.loads(profile)) == 3
    assert len(json.loads(profile)[0]["workers"]) == 3
    assert jobs.digest(from_pieces(pieces)) == jobs.digest(estimator.fit(**rows))


def error_of(returned):
    (found,) = {bytes(one.column("content")[0].as_py()) for ones in returned for one in ones}
    assert all(one.column("number")[0].as_py() == tasks.ERROR for ones in returned for one in ones)
    return pickle.loads(found)


def test_an_error_of_one_task_is_that_of_all():
    estimator, rows = jobs.make_jobs()["names"]
    work = FrameTraining(estimator, {})
    parts = pieces_of({"X": rows["X"], "y": rows["y"]}, [0, 100, jobs.N_ROWS])
    parts[1] = [batch(X=rows["X"][:5].tolist(), y=[["a"], None, ["b"], [], []]), *parts[1]]
    error = error_of(run_tasks(work, parts))
    assert "labelCol must not have nulls" in str(error)
    assert error.__notes__ == ["(in worker 1 of 2)"]
    parts = pieces_of({"X": rows["X"], "y": rows["y"]}, [0, 0, 0])
    assert "at least one training row" in str(error_of(run_tasks(work, parts)))
    parts = pieces_of({"X": rows["X"], "y": rows["y"]}, [0, 1, 1])
    assert "numWorkers must be at most the number of training rows, 1" in str(
        error_of(run_tasks(work, parts))
    )
    parts = pieces_of({"X": rows["X"], "y": rows["y"]}, [0, 100, jobs.N_ROWS])
    assert "the driver has 0.0" in str(error_of(run_tasks(work, parts, version="0.0")))


class Losing:
    """Work of which one task loses its connections."""

    def read(self, batches):
        return list(batches)

    def train(self, comm, rows, n_jobs, progress):
        if comm.rank == 1:
            comm.close()
        return comm.allgather(comm.rank)


def test_a_lost_worker_fails_the_stage():
    assert all(isinstance(one, WorkerLostError) for one in run_tasks(Losing(), [[], [], []]))


class Failing(Losing):
    """Work of which one task fails while the others wait for it."""

    def train(self, comm, rows, n_jobs, progress):
        if comm.rank == 1:
            raise MemoryError("too much")
        return comm.allgather(comm.rank)


def test_a_failing_task_does_not_let_others_wait():
    assert isinstance(error_of(run_tasks(Failing(), [[], [], []])), MemoryError)


@pytest.mark.parametrize("sizes", [(7, 1, 4), (0, 12, 0), (3, 0, 0), (4, 4, 4)])
def test_rows_are_divided_evenly_in_order(sizes):
    ends = np.cumsum([0, *sizes])
    X = np.arange(2 * ends[-1], dtype=np.float32).reshape(-1, 2)

    def work(comm):
        own = slice(ends[comm.rank], ends[comm.rank + 1])
        rows = {"X": sp.csr_matrix(X[own]), "y": [[str(i)] for i in range(*own.indices(len(X)))]}
        return balance(comm, rows if sizes[comm.rank] else None)

    parts = run_workers(3, work)
    assert max(part["X"].shape[0] for part in parts) - min(part["X"].shape[0] for part in parts) <= 1
    assert sp.vstack([part["X"] for part in parts]).toarray().tolist() == X.tolist()
    assert [row for part in parts for row in part["y"]] == [[str(i)] for i in range(len(X))]


@pytest.mark.parametrize("lengths", [(1, 1, 50), (50, 1, 1), (5, 5, 5, 5), (1, 30, 2, 3)])
def test_queries_are_not_divided(lengths):
    qid = np.repeat(np.arange(len(lengths)), lengths)
    X = np.arange(len(qid), dtype=np.float32)[:, None]

    def work(comm):
        rows = {"X": X, "y": X[:, 0], "qid": qid} if comm.rank == 0 else None
        return balance(comm, rows)

    parts = run_workers(3, work)
    seen = [set(part["qid"].tolist()) for part in parts]
    assert all(seen)
    assert sum(map(len, seen)) == len(lengths)
    assert np.concatenate([part["X"] for part in parts]).tolist() == X.tolist()
