"""Dask's workers give the model of one process, to the byte, and go on when one of them is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import jobs
import numpy as np
import pytest
import scipy.sparse as sp

from marks import first
from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.cli import run
from sparseleaf.data import load_xc, save_xc
from sparseleaf.distributed import dask as launcher
from sparseleaf.distributed.dask import QUIET, DaskLauncher, DaskWorkers, local_cluster
from sparseleaf.estimators import ESTIMATORS
from sparseleaf.training.program import COMPLETE

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Dask and of its libraries are not ours


@pytest.fixture(scope="module")
def alone():
    """Digests of the models that one process trains."""
    return {name: jobs.digest(estimator.fit(**rows)) for name, (estimator, rows) in jobs.make_jobs().items()}


@pytest.fixture(scope="module")
def client():
    """Of a cluster of four worker processes."""
    cluster = distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None)
    with distributed.Client(cluster) as client:
        yield client
    # closing it ends the workers, and then raises the error of its task that watches them, which may have met a killed
    # worker that it had not been told of
    with suppress(KeyError):
        cluster.close()


def train(job, client, n, layout, **more):
    estimator, rows = job
    client.wait_for_workers(n, timeout=60)
    return estimator.set_params(n_jobs=1).fit(**rows, engine=DaskLauncher(client, n), layout=layout, **more)


@pytest.mark.parametrize("layout", ["rows", "features"])
@pytest.mark.parametrize(("n", "names"), first(1, [
    (3, ("sparse", "multi", "rank")),
    (1, ("sparse",)),
    (2, ("sampled", "names", "leml", "reranked", "unknown", "absolute", "classes",
         "bagged classes", "separate")),
    (4, ("sparse", "multi", "per output")),
]))  # fmt: skip
def test_workers_train_the_model_of_one_process(n, names, layout, client, alone):
    made = jobs.make_jobs()
    found = {name: jobs.digest(train(made[name], client, n, layout)) for name in names}
    assert found == {name: alone[name] for name in names}


@pytest.mark.parametrize("name", ["ldsm", "forest of outputs"])
def test_workers_grow_whole_trees(name, client, alone):
    estimator, rows = jobs.make_jobs()[name]
    assert jobs.digest(estimator.set_params(n_jobs=1).fit(**rows, engine=client)) == alone[name]


def test_the_settings_of_the_local_cluster_are_dasks():
    import dask.config

    known = [name for name in QUIET if "environ.MALLOC_MMAP" not in name]  # which Dask only passes on
    assert len(known) == len(QUIET) - 1
    for name in known:
        assert dask.config.get(name, None) is not None, name
    with local_cluster(1) as cluster, distributed.Client(cluster) as client:
        (found,) = client.run(
            lambda: [os.environ["MALLOC_MMAP_THRESHOLD_"], *map(dask.config.get, QUIET)]
        ).values()
    assert found == [str(1 << 25), *QUIET.values()]
    assert dask.config.get("distributed.worker.profile.enabled")  # elsewhere as it was


def test_an_error_in_one_worker_ends_the_training_of_all(client):
    def loss(y, scores):
        if (y > 100).any():
            raise ValueError("too large for me")
        return scores - y, np.ones_like(scores)

    X, scores, _ = jobs.make_rows()
    y = scores[:, :2].astype(np.float32)
    y[-1] = 1000  # in the last worker only
    small = MultiGBDTRegressor(n_trees=2, max_leaves=4, n_jobs=1, loss=loss)
    with pytest.raises(ValueError, match="too large for me"):
        small.fit(X, y, engine=DaskLauncher(client, 2))


def test_dask_arrays_and_frames(client):
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    X, scores, weights = jobs.make_rows()
    y = scores[:, :2].astype(np.float32)
    small = MultiGBDTRegressor(n_trees=2, max_leaves=4, n_jobs=1)
    wanted = jobs.digest(small.fit(X, y, sample_weight=weights))
    parts = {
        "X": da.from_array(X, (100, 3)), "y": da.from_array(y, (200, 1)), "sample_weight": da.from_array(weights, 150),
    }  # fmt: skip
    assert jobs.digest(small.fit(**parts, engine=client)) == wanted
    frame = pd.DataFrame(X, columns=[f"column {f}" for f in range(7)])
    wanted = jobs.digest(small.fit(frame, y))
    blocks = dd.from_pandas(frame, npartitions=4)
    rows = [len(part) for part in blocks.partitions]
    found = small.fit(blocks, da.from_array(y, (tuple(rows), 2)), engine=client)
    assert jobs.digest(found) == wanted
    assert found.feature_names_in_.tolist() == frame.columns.tolist()


def test_part_files(client, tmp_path):
    X, scores, _ = jobs.make_rows()
    X, Y = sp.csr_matrix(np.nan_to_num(X)), sp.csr_matrix((scores > 2.5).astype(np.float32))
    paths = [tmp_path / f"part-{i}.txt" for i in range(4)]
    for path, begin, end in zip(paths, (0, 50, 200, 201), (50, 200, 201, 420), strict=True):
        save_xc(path, X[begin:end], Y[begin:end])
    small = SparseGBDTClassifier(n_trees=2, max_depth=3, min_samples_leaf=3, n_jobs=1)
    assert jobs.digest(small.fit(paths, None, engine=client)) == jobs.digest(small.fit(X, Y))
    paths[1].write_text(paths[1].read_text()[:-200])
    with pytest.raises(ValueError, match=r"part-1\.txt"):
        small.fit(paths, None, engine=client)
    paths[1].unlink()
    with pytest.raises((ValueError, OSError), match=r"part-1\.txt"):
        small.fit(paths, None, engine=client)
    save_xc(paths[1], X[50:200, :5], Y[50:200])
    with pytest.raises(ValueError, match=r"must have \d+ features|part-1\.txt"):
        small.fit(paths, None, engine=client)


@pytest.mark.slow
@pytest.mark.parametrize("method", first(1, ["forest", "ldsm"]))
def test_part_files_for_whole_trees(method, client, tmp_path):
    import dask.array as da

    X, scores, _ = jobs.make_rows()
    X, Y = sp.csr_matrix(np.nan_to_num(X)), sp.csr_matrix((scores > 2.5).astype(np.float32))
    paths = [tmp_path / f"p{i}.txt" for i in range(2)]
    for path, rows in zip(paths, (slice(0, 150), slice(150, None)), strict=True):
        save_xc(path, X[rows], Y[rows])
    save_xc(tmp_path / "all.txt", X, Y)
    X, Y = load_xc(tmp_path / "all.txt")
    kind = ESTIMATORS[method]["classification"]
    small = kind(n_trees=3, n_jobs=1)
    wanted = jobs.digest(small.fit(X, Y))
    assert jobs.digest(small.fit(paths, None, engine=client)) == wanted
    assert jobs.digest(small.fit(list(map(str, paths)), None, engine=client)) == wanted
    with pytest.raises(ValueError, match="must be None if X are part files"):
        small.fit(paths, Y, engine=client)
    blocks = da.from_array(X.toarray(), (100, 3)), da.from_array(Y.toarray(), (200, 12))
    assert jobs.digest(small.fit(*blocks, engine=client)) == jobs.digest(small.fit(X.toarray(), Y.toarray()))
    where = ["--engine", "dask", "--scheduler", client.scheduler.address]
    same = ["--method", method, "-q", "-j", "1", "-s", "n_trees=3"]
    for name, words in (("one", [tmp_path / "all.txt"]), ("many", [*paths, *where])):
        assert run(["train", *map(str, words), *same, "-m", str(tmp_path / name)]) == 0
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()
    paths[1].write_text(paths[1].read_text()[:-200])
    with pytest.raises(ValueError, match=r"p1\.txt"):
        small.fit(paths, None, engine=client)


@pytest.mark.slow
def test_the_command_line_goes_on_from_a_checkpoint(client, tmp_path):
    X, scores, _ = jobs.make_rows()
    X, Y = sp.csr_matrix(np.nan_to_num(X)), sp.csr_matrix((scores > 2.5).astype(np.float32))
    save_xc(tmp_path / "all.txt", X, Y)
    for i in range(3):
        save_xc(tmp_path / f"part-{i}.txt", X[i * 140 : i * 140 + 140], Y[i * 140 : i * 140 + 140])
    parts = [str(tmp_path / f"part-{i}.txt") for i in range(3)]
    same = ["-q", "-j", "1", "-s", "max_depth=3", "-m", str(tmp_path / "model")]
    assert run(["train", str(tmp_path / "all.txt"), *same, "-s", "n_trees=4"]) == 0
    wanted = (tmp_path / "model").read_bytes()
    where = [
        "--engine",
        "dask",
        "--scheduler",
        client.scheduler.address,
        "--checkpoint",
        str(tmp_path / "kept"),
    ]
    for n_trees, layout in ((2, "rows"), (4, "features")):
        more = ["-s", f"n_trees={n_trees}", "--layout", layout, "--profile", str(tmp_path / "profile.json")]
        assert run(["train", *parts, *same, *where, *more]) == 0
    assert (tmp_path / "model").read_bytes() == wanted
    assert len(json.loads((tmp_path / "profile.json").read_text())) == 2


@pytest.mark.parametrize("layout", ["rows", pytest.param("features", marks=pytest.mark.slow)])
def test_it_goes_on_when_a_worker_is_killed(layout, client, alone):
    def kill(state):
        if state.tree == 2 and not killed:
            pids = client.run(os.getpid)
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    killed = []
    estimator = train(jobs.make_jobs()["sparse"], client, 2, layout, callbacks=[kill])
    assert killed
    assert jobs.digest(estimator) == alone["sparse"]


PHASES = ("build", "connect", "describe", "prepare", "replay", "first tree")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "features"])
@pytest.mark.parametrize("phase", PHASES)
def test_it_goes_on_when_a_worker_is_killed_before_the_first_tree(phase, layout, client, alone, monkeypatch):
    killed, steps = kill_at(phase, client, monkeypatch)
    estimator = train(jobs.make_jobs()["leml"], client, 2, layout)
    assert len(killed) == 1
    assert steps.count("build") > 1
    assert jobs.digest(estimator) == alone["leml"]


def kill_at(phase, client, monkeypatch):
    """Kill a worker as soon as it is to do a phase; the pids of those killed, and the tasks of the second worker."""

    def submit(self, rank, task, *args):
        future = plain(self, rank, task, *args)
        if rank == 1:
            steps.append(task.__name__)
            advances = ("describe", "prepare", "replay", "first tree")[: steps.count("advance")]
            at = advances[-1] if task.__name__ == "advance" else task.__name__
            if at == phase and not killed:
                killed.extend(client.run(os.getpid, workers=[self._addresses[rank]]).values())
                os.kill(killed[0], signal.SIGKILL)
        return future

    killed, steps = [], []
    plain = DaskWorkers._submit
    monkeypatch.setattr(DaskWorkers, "_submit", submit)
    return killed, steps


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "features"])
def test_it_goes_on_when_a_worker_is_killed_within_a_round(layout, client, monkeypatch):
    """The trees of a round have the gradients of its beginning, which new workers lack."""

    def kill(self):
        trees.append(len(trees))
        if trees[-1] in (6, 8):  # of 4 to 7, in its middle; then the first of those that are grown again
            pids = client.run(os.getpid, workers=self._addresses[1:])
            killed.extend(pids.values())
            os.kill(killed[-1], signal.SIGKILL)
        return step(self)

    trees, killed = [], []
    estimator, rows = jobs.make_jobs()["classes"]  # four of them, whose gradients depend on each other
    wanted = jobs.digest(estimator.set_params(tree_per_output=True, n_jobs=1).fit(**rows))
    step = DaskWorkers.step
    monkeypatch.setattr(DaskWorkers, "step", kill)
    found = train((estimator, rows), client, 2, layout)
    assert len(killed) == 2
    assert jobs.digest(found) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "features"])
def test_it_goes_on_when_a_worker_is_killed_before_the_forest(layout, client, alone, monkeypatch):
    """New workers evaluate the held-out rows of all rounds again."""

    def kill(self, message):
        if message == COMPLETE and not killed:
            killed.append(next(iter(client.run(os.getpid, workers=self._addresses[1:]).values())))
            os.kill(killed[0], signal.SIGKILL)
        return send(self, message)

    killed, send = [], DaskWorkers.send
    monkeypatch.setattr(DaskWorkers, "send", kill)
    found = train(jobs.make_jobs()["bagged classes"], client, 2, layout)
    assert len(killed) == 1
    assert jobs.digest(found) == alone["bagged classes"]


@pytest.mark.slow
def test_whole_trees_go_on_when_a_worker_is_killed(client, alone):
    def kill(state):
        if state.tree == 2 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    killed = []
    client.wait_for_workers(3, timeout=60)
    estimator, rows = jobs.make_jobs()["ldsm"]
    found = estimator.set_params(n_jobs=1).fit(**rows, engine=DaskLauncher(client, 2), callbacks=[kill])
    assert killed
    assert jobs.digest(found) == alone["ldsm"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", first(1, ["rows", "features"]))
def test_it_goes_on_when_a_connection_breaks(layout, client, alone):
    def lose(state):
        if state.tree == 2:
            lost.extend(client.run(_break_connections).values())

    lost = []
    estimator = train(jobs.make_jobs()["sparse"], client, 2, layout, callbacks=[lose])
    assert sum(lost) == 1
    assert jobs.digest(estimator) == alone["sparse"]


def _break_connections(dask_worker):
    """In a worker: the connection of the first member ends as if the network had failed."""
    broken = 0
    for key, member in list(launcher._MEMBERS.items()):
        if key.endswith("-0"):
            for comm in member._connections:
                for peer in comm._peers.values():
                    peer.shutdown(2)
                    broken += 1
    return broken


def test_two_trainings_at_once_with_one_thread_a_worker(client, alone):
    names = ("sparse", "multi", "rank", "sampled")
    client.wait_for_workers(2, timeout=60)
    with ThreadPoolExecutor(len(names)) as pool:
        made = [jobs.make_jobs()[name] for name in names]
        found = list(pool.map(lambda job: train(job, client, 2, "rows"), made))
    assert {name: jobs.digest(one) for name, one in zip(names, found, strict=True)} == {
        name: alone[name] for name in names
    }


def test_an_interrupt_keeps_the_trees_so_far(client):
    def interrupt(state):
        if state.tree == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted; the model has the 2 trees grown so far"):
        found = train(jobs.make_jobs()["multi"], client, 2, "rows", callbacks=[interrupt])
    assert found.interrupted_
    estimator, rows = jobs.make_jobs()["multi"]
    alone = estimator.set_params(n_trees=2, n_jobs=1).fit(**rows)
    assert not alone.interrupted_
    assert_same_trees(found, alone)


def assert_same_trees(found, wanted):
    for name in ("feature", "threshold", "leaf_values"):
        np.testing.assert_array_equal(getattr(found.model_.trees, name), getattr(wanted.model_.trees, name))


def test_nothing_stays_on_the_workers(client):
    train(jobs.make_jobs()["sparse"], client, 2, "rows")
    with pytest.raises(RuntimeError, match="enough"):
        train(jobs.make_jobs()["multi"], client, 2, "features", callbacks=[_fail])
    X, scores, _ = jobs.make_rows()
    failing = MultiGBDTRegressor(n_trees=2, n_jobs=1, loss=_failing_loss)
    with pytest.raises(RuntimeError, match="in a worker"):
        failing.fit(X, scores[:, :2], engine=DaskLauncher(client, 2))
    assert_nothing_left(client)


def _fail(state):
    raise RuntimeError("enough")


def _failing_loss(y, scores):
    raise RuntimeError("in a worker")


def _members():
    return len(launcher._MEMBERS)


def _listening():
    """In a worker: its ports; Dask's nanny and worker have the same ones all the time."""
    import psutil

    return sum(one.status == "LISTEN" for one in psutil.Process().net_connections(kind="tcp"))


def assert_nothing_left(client):
    deadline = time.monotonic() + 60
    while sum(client.run(_members).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sum(client.run(_members).values()) == 0
    assert len(set(client.run(_listening).values())) == 1


LOST_CLIENT = """
import sys, time
import distributed
import jobs
from sparseleaf.distributed.dask import DaskLauncher

def stay(state):
    if state.tree == 2:
        print("growing", flush=True)
        time.sleep(1000)

with distributed.Client(sys.argv[1]) as client:
    estimator, rows = jobs.make_jobs()["sparse"]
    estimator.fit(**rows, engine=DaskLauncher(client, 2), callbacks=[stay])
"""


@pytest.mark.slow
def test_workers_drop_what_they_keep_for_a_client_that_is_killed(client, alone):
    assert_nothing_left(client)
    command = [sys.executable, "-c", LOST_CLIENT, client.scheduler.address]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as other:
        try:
            assert other.stdout.readline() == "growing\n"
            assert sum(client.run(_members).values()) == 2
            # another training goes on beside it, and stays when the first one's client is gone
            estimator = train(
                jobs.make_jobs()["sparse"], client, 2, "rows", callbacks=[lambda state: other.kill()]
            )
        finally:
            other.kill()
    assert jobs.digest(estimator) == alone["sparse"]
    assert_nothing_left(client)


@pytest.mark.slow
def test_a_worker_with_another_version_is_refused(client):
    address = next(iter(client.nthreads()))
    estimators = {name: jobs.make_jobs()[name] for name in ("sparse", "forest")}
    for version, said in (
        ("0.0.1", "has sparseleaf 0.0.1, the client has"),
        (None, "does not have sparseleaf"),
    ):
        client.run(_pretend, version, workers=[address])
        try:
            for estimator, rows in estimators.values():
                with pytest.raises(ValueError, match=f"the Dask worker {address} {said}"):
                    estimator.fit(**rows, engine=client)
        finally:
            client.run(_pretend, "", workers=[address])


def _pretend(version):
    """In a worker: have that version of the package, none (None), or the real one again ("")."""
    from importlib import metadata

    real = getattr(metadata, "real_version", metadata.version)

    def found(name):
        if name != "sparseleaf" or version == "":
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    metadata.real_version, metadata.version = real, found
