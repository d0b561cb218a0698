"""Several ranks give the model of one process, to the byte; what fails in one rank ends all of them."""

import json
import sys
from pathlib import Path

import jobs
import numpy as np
import pytest
import scipy.sparse as sp

from marks import first
from sparseleaf.cli import run
from sparseleaf.data import save_xc

PROGRAM = Path(jobs.__file__)


@pytest.fixture(scope="module")
def alone():
    """Digests of the models that one process trains."""
    return {name: jobs.digest(estimator.fit(**rows)) for name, (estimator, rows) in jobs.make_jobs().items()}


def test_a_job_has_outputs_with_trees_of_their_own():
    estimator, rows = jobs.make_jobs()["separate"]
    assert estimator.fit(**rows).model_.parameters["tree_per_output"] is True


@pytest.mark.parametrize("layout", first(1, ["rows", "features"]))
@pytest.mark.parametrize("n", first(1, [2, 1, 3, 4]))
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
    sys.stdout.write(f"rank {{comm.rank}}: {{error}}\\n")  # at once: other ranks write to the same place
    sys.stdout.flush()
"""


def run_failing(mpiexec, tmp_path, layout="rows", fail="pass", args="X, y", more=""):
    program = tmp_path / "failing.py"
    program.write_text(FAILING.format(fail=fail, args=args, more=more, layout=layout))
    return mpiexec(3, program)  # a hang is a timeout, and fails


@pytest.mark.parametrize("layout", first(1, ["rows", "features"]))
@pytest.mark.slow
def test_a_rank_that_fails_ends_the_job_and_says_why(layout, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, layout, fail='raise RuntimeError("no more disk")')
    assert done.returncode != 0
    assert "rank 1 of 3 failed, aborting the job: RuntimeError: no more disk" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "features"])
def test_a_killed_rank_ends_the_job(layout, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, layout, fail="os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode != 0
    assert "signal 9" in (done.stdout + done.stderr).lower()


@pytest.mark.slow
@pytest.mark.parametrize(("args", "match"), [
    ("X[:, :7 - (comm.rank == 2)], y", "rank 2 has n_features 6, rank 0 has 7"),
    ("X, y[:, :3 - (comm.rank == 2)]", "rank 2 has columns of y 2, rank 0 has 3"),
    ("X, y if comm.rank else np.full(100, np.inf)", "infinity"),
    ("X[: 100 * (comm.rank < 2)], y[: 100 * (comm.rank < 2)]", "minimum of 1 is required"),
])  # fmt: skip
def test_bad_rows_of_one_rank_are_told_to_all_before_training(args, match, mpiexec, tmp_path):
    done = run_failing(mpiexec, tmp_path, args=args)
    assert done.returncode == 0, done.stderr
    assert sorted(line[:6] for line in done.stdout.splitlines()) == ["rank 0", "rank 1", "rank 2"]
    assert all(match in line for line in done.stdout.splitlines()), done.stdout


DISAGREEING = """
import sys
import numpy as np
import scipy.sparse as sp
from mpi4py import MPI
import jobs
import sparseleaf
from sparseleaf import GBDTRanker, LdSMClassifier, MultiGBDTClassifier, MultiGBDTRegressor, SketchForestClassifier
from sparseleaf import SparseGBDTClassifier

comm = MPI.COMM_WORLD
odd = comm.rank == 1
X, scores, weights = jobs.make_rows()
rows = slice(comm.rank * 100, comm.rank * 100 + 100)
X, y, weights = X[rows], scores[rows, :3], weights[rows]
Y, text, classes = sp.csr_matrix(y > 1), np.nan_to_num(X), np.arange(100) % 3
version = sparseleaf.__version__
for number, case in enumerate({cases!r}):
    try:
        eval(case)
        found = "trained"
    except ValueError as error:
        found = str(error)
    sparseleaf.__version__ = version
    sys.stdout.write(f"{{number}}\\t{{comm.rank}}\\t{{found}}\\n")
    sys.stdout.flush()
"""
MULTI = "MultiGBDTRegressor(n_trees=3, {}).fit({}, engine=comm)"
SPARSE = "SparseGBDTClassifier(n_trees=3, {}).fit({}, engine=comm)"
FOREST = "SketchForestClassifier(n_trees=3, {}).fit({}, engine=comm)"
EITHER = "(MultiGBDTRegressor if odd else MultiGBDTClassifier)(n_trees=3).fit(X, classes, engine=comm)"
CLASSES = "MultiGBDTClassifier(n_trees=3).fit(X, classes.astype(str) if odd else classes, engine=comm)"
RANK = "GBDTRanker(n_trees=3, loss='gbrank' if odd else 'lambdamart').fit(X, y[:, 0] > 0, group=[100], engine=comm)"
LDSM = "LdSMClassifier(n_trees=3, epochs=1 + odd).fit(text, Y, engine=comm)"
OTHER_VERSION = "setattr(sparseleaf, '__version__', '0.0.1' if odd else version) or "
STARTED = "init_model=MultiGBDTRegressor(n_trees=1 + odd).fit(X, y)"
DISAGREEMENTS = [
    (MULTI.format("learning_rate=0.1 + 0.1 * odd", "X, y"), "learning_rate 0.2, rank 0 has 0.1"),
    (MULTI.format("l2=1.0 + odd", "X, y"), "l2 2.0, rank 0 has 1.0"),
    (MULTI.format("max_bins=32 - odd", "X, y"), "max_bins 31, rank 0 has 32"),
    (MULTI.format("subsample=1.0 - 0.5 * odd", "X, y"), "subsample 0.5, rank 0 has 1.0"),
    (MULTI.format("max_depth=4 + odd", "X, y"), "max_depth 5, rank 0 has 4"),
    ("MultiGBDTRegressor(n_trees=3 + odd).fit(X, y, engine=comm)", "n_trees 4, rank 0 has 3"),
    (MULTI.format("random_state=None if odd else 0", "X, y"), "random_state 'drawn', rank 0 has 0"),
    (MULTI.format("", "X, y, layout='features' if odd else 'rows'"), "layout 'features', rank 0 has 'rows'"),
    (MULTI.format("", "X, y, sample_weight=weights if odd else None"), "'sample_weight': True"),
    (MULTI.format("", f"X, y, {STARTED}"), "init_model "),
    (EITHER, "estimator 'MultiGBDTRegressor', rank 0 has 'MultiGBDTClassifier'"),
    (CLASSES, "must have the same type"),
    (RANK, "loss 'gbrank', rank 0 has 'lambdamart'"),
    (SPARSE.format("sketch_dim=8 + odd", "X, Y"), "sketch_dim 9, rank 0 has 8"),
    (SPARSE.format("", "X, Y[:, :2] if odd else Y"), "columns of y 2, rank 0 has 3"),
    (OTHER_VERSION + SPARSE.format("", "X, Y"), "sparseleaf version '0.0.1', rank 0 has "),
    (OTHER_VERSION + FOREST.format("", "text, Y"), "sparseleaf version '0.0.1', rank 0 has "),
    (FOREST.format("arity=2 + odd", "text, Y"), "arity 3, rank 0 has 2"),
    (FOREST.format("", "text[:, : 7 - odd], Y"), "n_features 6, rank 0 has 7"),
    (FOREST.format("", "text, classes.astype(str) if odd else classes"), "must have the same type"),
    (LDSM, "epochs 2, rank 0 has 1"),
    # what is wrong in one rank only, the others learn too
    (MULTI.format("learning_rate=-1.0 if odd else 0.1", "X, y"), "learning_rate"),
    (MULTI.format("", "X, y, layout='row' if odd else 'rows'"), "layout"),
    (FOREST.format("arity='two' if odd else 2", "text, Y"), "arity"),
    # the same number is the same in any type; threads are each rank's own
    (MULTI.format("l2=1 if odd else 1.0, n_jobs=1 + odd", "X, y"), None),
]


@pytest.mark.slow
def test_ranks_that_disagree_end_with_an_error_in_all_of_them(mpiexec, tmp_path):
    program = tmp_path / "disagreeing.py"
    program.write_text(DISAGREEING.format(cases=[case for case, _ in DISAGREEMENTS]))
    done = mpiexec(2, program)  # a hang is a timeout, and fails
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for number, (case, wanted) in enumerate(DISAGREEMENTS):
        found = {rank: message for at, rank, message in lines if int(at) == number}
        assert set(found) == {"0", "1"}, case
        for message in found.values():
            if wanted is None:
                assert message == "trained", case
            else:
                assert message != "trained", case
                assert wanted in message, case


@pytest.mark.slow
def test_exact_search_by_rows_is_refused(mpiexec):
    done = mpiexec(2, PROGRAM, "rows", "exact")
    assert "layout='features'" in done.stderr


@pytest.fixture
def parts(tmp_path):
    """Rows in four files of uneven size, and all of them in one."""
    X, scores, _ = jobs.make_rows()
    X, Y = sp.csr_matrix(np.nan_to_num(X)), sp.csr_matrix((scores > 2.5).astype(np.float32))
    paths = [tmp_path / f"part-{i}.txt.gz" for i in range(4)]
    for path, begin, end in zip(paths, (0, 50, 200, 201), (50, 200, 201, 420), strict=True):
        save_xc(path, X[begin:end], Y[begin:end])
    save_xc(tmp_path / "all.txt.gz", X, Y)
    return paths


SETTINGS = ("-j", "1", "-q", "-s", "n_trees=6", "-s", "min_samples_leaf=3", "-s", "max_depth=4")


def train_alone(tmp_path, *more):
    model = tmp_path / "alone"
    assert run(["train", str(tmp_path / "all.txt.gz"), "-m", str(model), *SETTINGS, *more]) == 0
    return model.read_bytes()


@pytest.mark.parametrize(
    ("n", "layout"),
    [(2, "rows"), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(3, "features"), (6, "rows")])],
)
def test_the_command_line_reads_parts(n, layout, mpiexec, parts, tmp_path):
    model, profile = tmp_path / "model", tmp_path / "profile.json"
    where = ("--engine", "mpi", "--layout", layout, "--profile", profile)
    done = mpiexec(n, "-m", "sparseleaf", "train", *parts, "-m", model, *SETTINGS, *where)
    assert done.returncode == 0, done.stderr
    assert model.read_bytes() == train_alone(tmp_path)
    found = json.loads(profile.read_text())
    assert [tree["tree"] for tree in found] == list(range(6))
    assert all(len(tree["workers"]) == n for tree in found)
    assert all(worker["received"] > 0 for tree in found for worker in tree["workers"])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "method"), [(2, "forest"), (3, "ldsm")])
def test_the_command_line_reads_parts_for_whole_trees(n, method, mpiexec, parts, tmp_path):
    model, same = tmp_path / "model", ("--method", method, "-j", "1", "-q", "-s", "n_trees=3")
    done = mpiexec(n, "-m", "sparseleaf", "train", *parts, "-m", model, *same, "--engine", "mpi")
    assert done.returncode == 0, done.stderr
    assert run(["train", str(tmp_path / "all.txt.gz"), "-m", str(tmp_path / "alone"), *same]) == 0
    assert model.read_bytes() == (tmp_path / "alone").read_bytes()


@pytest.mark.slow
def test_a_job_that_was_cut_short_goes_on_in_any_number_of_ranks_and_layout(mpiexec, parts, tmp_path):
    wanted = train_alone(tmp_path, "--valid", str(parts[0]))
    model, kept = tmp_path / "model", ("--checkpoint", tmp_path / "kept", "--checkpoint-every", "1")
    command = ("-m", "sparseleaf", "train", *parts, "-m", model, "--engine", "mpi", *kept)
    command += ("--valid", parts[0])
    for n_trees, n, layout in ((2, 2, "rows"), (4, 3, "features"), (6, 2, "features")):
        settings = [*SETTINGS, "-s", f"n_trees={n_trees}", "--layout", layout]
        done = mpiexec(n, *command, *settings)
        assert done.returncode == 0, done.stderr
    assert model.read_bytes() == wanted
    # another set is told from this one
    done = mpiexec(
        2, "-m", "sparseleaf", "train", *parts[::-1], "-m", model, "--engine", "mpi", *kept, *SETTINGS
    )
    assert done.returncode == 2
    assert "another training: expected X" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("odd", "said"), [
    (("-s", "l2=2.5", "--layout", "features"), "rank 1 has l2 2.5, rank 0 has 1.0; rank 1 has layout 'features'"),
    pytest.param(
        ("--method", "forest"),
        "rank 1 has estimator 'SketchForestClassifier', rank 0 has 'SparseGBDTClassifier'",
        marks=pytest.mark.slow,
    ),
])  # fmt: skip
def test_command_lines_that_disagree_are_refused(odd, said, mpiexec, parts, tmp_path):
    same = ("-m", "sparseleaf", "train", *parts, "-m", tmp_path / "model", "--engine", "mpi", "-j", "1", "-q")
    done = mpiexec(1, *same, ":", "-n", "1", sys.executable, *same, *odd)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("error") == 1, done.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "truncated", "shape"])
def test_a_bad_part_is_named_before_training(damage, mpiexec, parts, tmp_path):
    bad = parts[2]
    if damage == "missing":
        bad.unlink()
    elif damage == "truncated":
        bad.write_bytes(bad.read_bytes()[:-20])
    else:
        save_xc(bad, sp.csr_matrix((3, 5), dtype=np.float32), sp.csr_matrix((3, 12), dtype=np.float32))
    model = tmp_path / "model"
    done = mpiexec(2, "-m", "sparseleaf", "train", *parts, "-m", model, *SETTINGS, "--engine", "mpi")
    assert done.returncode == 2
    assert "part-2.txt.gz" in done.stderr
    assert done.stderr.count("error") == 1, done.stderr
    assert not model.exists()
