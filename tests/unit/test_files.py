from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from safetensors.numpy import load

import sparseleaf
from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf._files import as_path, expand, local_copy, read_bytes, replacing
from sparseleaf._remote import RemotePath
from sparseleaf.data import load_mapped, load_table, load_xc, make_xc, map_xc, save_xc

X, Y = make_xc(80, 20, 10, labels_per_row=2, nnz_per_row=5, seed=1)


class FailingFile:
    """Takes the first bytes, then fails; what it took is there, as on a disk that is full."""

    def __init__(self, file, limit):
        self._file, self._left = file, limit

    def write(self, block):
        taken = block[: self._left]
        self._file.write(taken)
        self._left -= len(taken)
        if len(taken) < len(block):
            raise RuntimeError("the network went away")
        return len(block)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


class FailingFileSystem(MemoryFileSystem):
    """In memory; writing more than ``limit`` bytes fails, and so does a rename where ``renames`` is false."""

    protocol = "failing"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    limit = None
    renames = True

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("failing://", "memory://"))

    def _open(self, path, mode="rb", **more):
        file = super()._open(path, mode, **more)
        return FailingFile(file, self.limit) if "w" in mode and self.limit is not None else file

    def mv(self, path1, path2, **more):
        if not self.renames:
            raise RuntimeError("renaming went wrong")
        super().mv(path1, path2, **more)


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.store.clear()
    return system


@pytest.fixture
def failing(monkeypatch):
    fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
    FailingFileSystem.store.clear()
    monkeypatch.setattr(FailingFileSystem, "limit", None)
    monkeypatch.setattr(FailingFileSystem, "renames", True)
    return fsspec.filesystem("failing")


def files(system):
    return sorted(system.store)


# --- which path is which


def test_urls_are_remote_and_all_else_is_local():
    assert as_path("a/b.txt") == Path("a/b.txt")
    assert as_path(Path("a:/b")) == Path("a:/b")
    assert as_path("file:///tmp/a%20b") == Path("/tmp/a b")
    remote = as_path("s3://bucket/folder/m.txt.gz")
    assert isinstance(remote, RemotePath)
    assert (str(remote), remote.name, remote.suffix) == ("s3://bucket/folder/m.txt.gz", "m.txt.gz", ".gz")
    assert as_path(remote) == remote
    assert isinstance(as_path("simplecache::memory://x"), RemotePath)


def test_a_file_url_is_a_local_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)  # local files do without
    save_xc(f"file://{tmp_path}/d.txt", X, Y)
    assert (load_xc(tmp_path / "d.txt")[0] != X).nnz == 0
    clf = SparseGBDTClassifier(n_trees=2).fit(X, Y, checkpoint=f"file://{tmp_path}/c")
    clf.save(f"file://{tmp_path}/m")
    assert sparseleaf.load(f"file://{tmp_path}/m").model_.n_trees == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d.txt", "m"]


# --- what is missing is said


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for use in (
        lambda: load_xc("s3://bucket/d.txt"),
        lambda: sparseleaf.load("s3://bucket/m"),
        lambda: save_xc("s3://bucket/d.txt", X, Y),
        lambda: SparseGBDTClassifier(n_trees=2).fit(X, Y, checkpoint="s3://bucket/c"),
    ):
        with pytest.raises(
            ImportError, match=r"s3://bucket/.*: remote files require fsspec. .*'sparseleaf\[remote\]'"
        ):
            use()


def test_a_protocol_whose_package_is_missing_is_named():
    fsspec.register_implementation(
        "lost", "no_such_package.LostFileSystem", errtxt="Install lostfs to be found", clobber=True
    )
    with pytest.raises(
        ImportError, match=r"lost://a/b: this protocol requires another package .*Install lostfs"
    ):
        load_xc("lost://a/b")


def test_a_protocol_that_nobody_knows_is_named():
    with pytest.raises(ValueError, match=r"nosuch://a/b: Protocol not known: nosuch"):
        load_xc("nosuch://a/b")


def test_a_remote_file_that_is_not_there_is_named(memory):
    with pytest.raises(FileNotFoundError, match=r"memory://nowhere\.txt"):
        load_xc("memory://nowhere.txt")
    with pytest.raises(FileNotFoundError, match="no model file at 'memory://m'"):
        sparseleaf.load("memory://m")


# --- data


@pytest.mark.parametrize("name", ["d.txt", "d.txt.gz"])
def test_xc_text(name, memory, tmp_path):
    save_xc(f"memory://folder/{name}", X, Y)
    save_xc(tmp_path / name, X, Y)
    assert memory.cat(f"/folder/{name}") == (tmp_path / name).read_bytes()
    assert files(memory) == [f"/folder/{name}"]
    found = load_xc([f"memory://folder/{name}", tmp_path / name])
    assert found[0].shape == (160, 20)
    assert (found[0][:80] != X).nnz == 0
    assert (found[1][80:] != Y).nnz == 0
    map_xc(f"memory://folder/{name}", tmp_path / "mapped")
    assert (load_mapped(tmp_path / "mapped")[0] != X).nnz == 0


def test_errors_in_remote_data_name_the_url(memory):
    memory.pipe("/bad.txt", b"2 3 4\n0 1:1\n9 1:1\n")
    with pytest.raises(ValueError, match=r"memory://bad\.txt: line 3"):
        load_xc("memory://bad.txt")
    memory.pipe("/cut.txt.gz", gzip.compress(b"1 1 1\n0 0:1\n")[:-4])
    with pytest.raises(ValueError, match=r"memory://cut.txt.gz: truncated gzip stream"):
        load_xc("memory://cut.txt.gz")
    memory.pipe("/bad.svm", b"1 2:x\n")
    with pytest.raises(ValueError, match=r"memory://bad\.svm: line 1"):
        load_table("memory://bad.svm")


def test_tables(memory):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"], "t": [1, 2]})
    memory.pipe("/d.csv.gz", gzip.compress(frame.to_csv(index=False).encode()))
    packed = io.BytesIO()
    frame.to_parquet(packed)
    memory.pipe("/d.parquet", packed.getvalue())
    for name in ("d.csv.gz", "d.parquet"):
        table = load_table(f"memory://{name}", "t")
        assert table.y.tolist() == [1, 2]
        assert table.X["a"].tolist() == [1.5, 2.5]
    memory.pipe("/d.svm", b"1 2:0.5\n0 1:2\n")
    table = load_table("memory://d.svm")
    assert table.X.toarray().tolist() == [[0, 0, 0.5], [0, 2, 0]]


def test_patterns(memory, tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        memory.pipe(f"/parts/{name}", b"")
    found = expand([as_path("memory://parts/*.txt"), tmp_path / "x*"])
    assert [str(path) for path in found] == [
        "memory:///parts/a.txt",
        "memory:///parts/b.txt",
        f"{tmp_path}/x*",
    ]
    with pytest.raises(ValueError, match=r"memory://parts/\*.svm: no file matches the pattern"):
        expand([as_path("memory://parts/*.svm")])


# --- models and checkpoints


def test_models(memory, tmp_path):
    clf = SparseGBDTClassifier(n_trees=3).fit(X, Y)
    clf.save("memory://models/m.safetensors")
    clf.save(tmp_path / "m")
    remote, local = memory.cat("/models/m.safetensors"), (tmp_path / "m").read_bytes()
    assert remote == local
    loaded = sparseleaf.load("memory://models/m.safetensors")
    memory.rm("/models/m.safetensors")
    for wanted, found in zip(
        sparseleaf.load(tmp_path / "m").predict_topk(X), loaded.predict_topk(X), strict=True
    ):
        np.testing.assert_array_equal(wanted, found)
    memory.pipe("/broken", local[:-7])
    with pytest.raises(sparseleaf.ModelFileError, match="'memory://broken' is not a valid model file"):
        sparseleaf.load("memory://broken")


def test_the_local_copy_of_a_model_does_not_stay(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    SparseGBDTClassifier(n_trees=3).fit(X, Y).save("memory://m")
    loaded = sparseleaf.load("memory://m")
    assert not list(tmp_path.iterdir())
    loaded.predict_topk(X)


class Stop(Exception):
    pass


def stop(state):
    if state.tree == 5:
        raise Stop


def test_checkpoints(memory, tmp_path):
    with pytest.raises(Stop):
        SparseGBDTClassifier(n_trees=8).fit(
            X, Y, checkpoint="memory://run/c", checkpoint_every=2, callbacks=[stop]
        )
    assert files(memory) == ["/run/c"]
    assert len(load(memory.cat("/run/c"))["trees.tree_nodes"]) == 4
    SparseGBDTClassifier(n_trees=8).fit(X, Y, checkpoint="memory://run/c").save(tmp_path / "resumed")
    SparseGBDTClassifier(n_trees=8).fit(X, Y).save(tmp_path / "whole")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
    memory.pipe("/run/c", memory.cat("/run/c")[:-1])
    with pytest.raises(ValueError, match=r"checkpoint: 'memory://run/c': the file is corrupt"):
        SparseGBDTClassifier(n_trees=8).fit(X, Y, checkpoint="memory://run/c")


# --- writes that fail


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize(("limit", "renames"), [(0, True), (100, True), (None, False)])
def test_a_remote_write_that_fails_leaves_what_was_there(old, limit, renames, failing, monkeypatch):
    if old is not None:
        failing.pipe("/m", old)
    monkeypatch.setattr(FailingFileSystem, "limit", limit)
    monkeypatch.setattr(FailingFileSystem, "renames", renames)
    clf = SparseGBDTClassifier(n_trees=2).fit(X, Y)
    for write in (clf.save, lambda path: save_xc(path, X, Y)):
        with pytest.raises(OSError, match=r"failing://m: RuntimeError: (the network went away|renaming)"):
            write("failing://m")
    assert files(failing) == ([] if old is None else ["/m"])
    if old is not None:
        assert failing.cat("/m") == old
    with pytest.raises(OSError, match="failing://c: RuntimeError"):
        clf.fit(X, Y, checkpoint="failing://c")


def test_a_remote_checkpoint_that_fails_later_costs_that_checkpoint_alone(failing, monkeypatch, tmp_path):
    def fails(state):
        FailingFileSystem.limit = 50 if state.tree in (4, 5) else None

    with pytest.warns(
        UserWarning, match=r"checkpoint could not be written.*failing://c: RuntimeError"
    ) as caught:
        found = MultiGBDTRegressor(n_trees=5, min_samples_leaf=5).fit(
            X, Y.toarray(), checkpoint="failing://c", checkpoint_every=1, callbacks=[fails]
        )
    assert len(caught) == 2
    assert found.best_iteration_ == 5
    assert files(failing) == ["/c"]
    assert len(load(failing.cat("/c"))["trees.tree_nodes"]) == 3
    FailingFileSystem.limit = None
    found.save(tmp_path / "a")
    found.fit(X, Y.toarray(), checkpoint="failing://c").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("url", [False, True])
def test_nothing_is_written_when_the_writer_fails(url, memory, tmp_path):
    path = as_path("memory://x.gz") if url else tmp_path / "x.gz"

    def write():
        with replacing(path) as file:
            file.write(b"half")
            raise Stop

    with pytest.raises(Stop):
        write()
    assert not files(memory)
    assert not list(tmp_path.iterdir())


def test_a_local_copy_is_the_file_itself_or_a_copy(memory, tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    memory.pipe("/x", b"abc")
    with local_copy(tmp_path / "x") as here:
        assert here == tmp_path / "x"
    with local_copy(as_path("memory://x")) as here:
        assert here.read_bytes() == b"abc"
    assert not here.exists()
    assert read_bytes(as_path("memory://x")) == b"abc"


# --- the command line


def test_the_command_line_takes_urls_everywhere(memory, tmp_path, capfd):
    from sparseleaf.cli import run

    save_xc("memory://in/part-0.txt.gz", X[:40], Y[:40])
    save_xc("memory://in/part-1.txt.gz", X[40:], Y[40:])
    save_xc(tmp_path / "all.txt", X, Y)
    train = ["-s", "n_trees=3", "-q"]
    remote = [
        "-m",
        "memory://out/m",
        "--checkpoint",
        "memory://out/c",
        "--valid",
        "memory://in/part-1.txt.gz",
    ]
    assert run(["train", "memory://in/part-*.txt.gz", *remote, *train]) == 0
    assert run(["train", str(tmp_path / "all.txt"), "-m", str(tmp_path / "m"), *train]) == 0
    assert files(memory) == ["/in/part-0.txt.gz", "/in/part-1.txt.gz", "/out/c", "/out/m"]
    assert len(sparseleaf.load("memory://out/m").history_["valid precision@1"]) == 3
    outputs = [("memory://out/m", "memory://out/top.txt"), (tmp_path / "m", tmp_path / "top.txt")]
    for model, output in outputs:
        assert run(["predict", str(model), "memory://in/part-1.txt.gz", "-o", str(output)]) == 0
    assert memory.cat("/out/top.txt") == (tmp_path / "top.txt").read_bytes()
    capfd.readouterr()
    assert run(["evaluate", "memory://out/m", "memory://in/part-1.txt.gz", "--json"]) == 0
    assert "precision@1" in json.loads(capfd.readouterr().out)
    assert run(["inspect", "memory://out/m", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["n_trees"] == 3
    MultiGBDTRegressor(n_trees=2).fit(X.toarray(), np.arange(80.0)).save("memory://out/r")
    assert run(["export", "memory://out/r", "-o", "memory://out/r.onnx"]) == 0
    assert memory.size("/out/r.onnx") > 100
    for command in (
        ["inspect", "memory://out/m"],
        ["evaluate", "memory://out/m", "memory://in/part-1.txt.gz"],
    ):
        assert run(command) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "memory://in/d.txt"], "--model memory://in/d.txt: the file is an input, too"),
        (["-m", "nosuch://m"], "nosuch://m: Protocol not known"),
        (["-m", "memory://in"], "memory://in: IsADirectoryError"),
        (["-m", "failing://m"], "failing://m: RuntimeError: the network went away"),
        (
            ["-m", "memory://m", "--checkpoint", "memory://m"],
            "--checkpoint memory://m: the file must not be the model file",
        ),
        (["-m", "memory://m", "--valid", "memory://no"], "memory://no: No such file"),
    ],
)
def test_mistakes_are_one_line(arguments, said, memory, failing, monkeypatch, capfd):
    from sparseleaf.cli import run

    save_xc("memory://in/d.txt", X, Y)
    monkeypatch.setattr(FailingFileSystem, "limit", 3)
    assert run(["train", "memory://in/d.txt", *arguments]) == 2
    err = capfd.readouterr().err
    assert err.startswith("sparseleaf: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert files(memory) == ["/in/d.txt"]
    assert not files(failing)


# --- permissions and drafts


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "model"
    clf = SparseGBDTClassifier(n_trees=1).fit(X, Y)
    clf.save(path)
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode  # a new file is like any other
    path.chmod(mode)
    clf.save(path)
    assert path.stat().st_mode & 0o777 == mode
    save_xc(path, X, Y)
    assert path.stat().st_mode & 0o777 == mode


def test_a_draft_is_not_readable_by_others(tmp_path):
    with replacing(tmp_path / "file"):
        (draft,) = tmp_path.iterdir()
        assert draft.stat().st_mode & 0o077 == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from sparseleaf._files import drafting
with drafting(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    (draft.parent / ".tmp123").write_text("what a library that writes the file leaves")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_drafts_of_killed_writers_go_away_and_those_of_others_stay(tmp_path):
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    (tmp_path / f".file.{'0' * 16}.part").write_text("as an earlier version left it")
    assert len(list(tmp_path.iterdir())) == 2
    with replacing(path) as first:
        assert len(list(tmp_path.iterdir())) == 1  # its own
        first.write(b"first")
        with replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
