"""Several ranks give the model of one process, to the byte; what fails in one rank ends all of them."""

from pathlib import Path

import jobs
import pytest

PROGRAM = Path(jobs.__file__)


@pytest.fixture(scope="module")
def alone():
    """Digests of the models that one process trains."""
    return {name: jobs.digest(estimator.fit(**rows)) for name, (estimator, rows) in jobs.make_jobs().items()}


@pytest.mark.parametrize("layout", ["rows", "features"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ranks_train_the_model_of_one_process(n, layout, mpiexec, alone):
    names = [name for name in jobs.BY_RANKS[n] if not (name == "exact" and layout == "rows")]
    done = mpiexec(n, PROGRAM, layout, *names)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("\t") for line in done.stdout.splitlines())
    assert found == {name: alone[name] for name in names}


FAILING = """
import sys, os, signal, time
import numpy as np
from mpi4py import MPI
import jobs
comm = MPI.COMM_WORLD
X, scores, _ = jobs.make_rows()
rows = slice(comm.rank * 100, comm.rank * 100 + 100)
X, y = X[rows], scores[rows, :3]
from sparseleaf import MultiGBDTRegressor

def fail(state):
    if comm.rank == 1 and state.tree == 3:
        {fail}

try:
    MultiGBDTRegressor(n_trees=2000, n_jobs=1, {more}).fit({args}, engine="mpi", layout="{layout}", callbacks=[fail])
except ValueError as error:
    print(f"rank {{comm.rank}}: {{error}}", flush=True)
"""


def run_failing(mpiexec, tmp_path, layout="rows", fail="pass", args="X, y", more=""):
    program = tmp_path / "failing.py"
    program.write_text(FAILING.format(fail=fail, args=args, more=more, layout=layout))
    return mpiexec(3, program, env={"PYTHONPATH": str(PROGRAM.parent)})  # a hang is a timeout, and fails


@pytest.mark.parametrize("layout", ["rows", "features"])
def test_a_rank_that_fails_ends_the_job_and_says_why(layout, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, layout, fail='raise RuntimeError("no more disk")')
    assert done.returncode != 0
    assert "rank 1 of 3 failed, which ends the job: RuntimeError: no more disk" in done.stderr


@pytest.mark.parametrize("layout", ["rows", "features"])
def test_a_killed_rank_ends_the_job(layout, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, layout, fail="os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode != 0
    assert "signal 9" in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize(("args", "match"), [
    ("X[:, :7 - (comm.rank == 2)], y", "found 6 features in part 2; wanted 7"),
    ("X, y[:, :3 - (comm.rank == 2)]", "found 2 outputs in part 2; wanted 3"),
    ("X, y if comm.rank else np.full(100, np.inf)", "infinity"),
    ("X[: 100 * (comm.rank < 2)], y[: 100 * (comm.rank < 2)]", "minimum of 1 is required"),
])  # fmt: skip
def test_bad_rows_of_one_rank_are_told_to_all_before_training(args, match, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, args=args)
    assert done.returncode == 0, done.stderr
    assert sorted(line[:6] for line in done.stdout.splitlines()) == ["rank 0", "rank 1", "rank 2"]
    assert all(match in line for line in done.stdout.splitlines()), done.stdout


def test_exact_search_by_rows_is_refused(mpiexec):
    done = mpiexec(2, PROGRAM, "rows", "exact")
    assert "layout='features'" in done.stderr
