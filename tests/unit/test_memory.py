import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import sparseleaf
from smalldata import make_set
from sparseleaf import LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier, memory
from sparseleaf.data import make_xc
from sparseleaf.training.routed import RowsSize


def test_estimate_of_a_known_shape():
    X, Y = np.zeros((1000, 7)), sp.csr_matrix(np.eye(1000, 50))
    found = sparseleaf.estimate_memory(
        X, Y, sketch_dim=25, n_trees=3, leaf_labels=5, min_samples_leaf=10, max_depth=4, histogram_mb=1
    )
    assert found.features == 0
    assert found.bins == 1000 * 7
    assert found.residuals == 1000 * (4 * 25 + 2 * 32)
    assert found.histograms == 1 << 20
    assert found.scores == 8 * (50 + 1000 * 3 * 5)
    assert found.model == 3 * 16 * (8 * 5 + 34)
    assert found.certain == found.bins + found.residuals
    assert found.total == sum(vars(found).values())
    assert "memory at most" in str(found)


def test_the_former_name_of_the_targets_warns():
    X, Y = np.zeros((100, 3)), sp.csr_matrix(np.eye(100, 5))
    wanted = SparseGBDTClassifier().estimate_memory(X, Y)
    for estimate in (SparseGBDTClassifier().estimate_memory, sparseleaf.estimate_memory):
        with pytest.warns(FutureWarning, match="The 'Y' argument was renamed to 'y'"):
            assert estimate(X, Y=Y) == wanted
        with pytest.raises(TypeError, match="got both 'y' and its former name 'Y'"):
            estimate(X, Y, Y=Y)


def test_estimates_follow_the_parameters():
    X, Y = np.zeros((1000, 7)), sp.csr_matrix(np.eye(1000, 50))
    exact = sparseleaf.estimate_memory(X, Y, split="exact")
    assert (exact.bins, exact.residuals, exact.histograms) == (4 * 7000, 0, 0)
    assert sparseleaf.estimate_memory(X, Y, split="full").residuals == 1000 * (4 * 50 + 2 * 56)
    projected = sparseleaf.estimate_memory(X, Y, projection="random", projection_dim=3, keep_raw=False)
    assert projected.features == 3 * (4 * 1000 + 6 * 7)
    assert projected.bins == 3000
    assert sparseleaf.estimate_memory(X, Y, projection="random", projection_dim=3).bins == 3000 + 7000
    few = sparseleaf.estimate_memory(X, Y, max_leaves=2, max_bins=3)
    assert few.histograms == (2 + 32) * 7 * (3 + 1) * 4 * (32 + 1), "no more than nodes can wait for"
    all_labels = sparseleaf.estimate_memory(X, Y, leaf_labels=None, n_trees=1000)
    assert all_labels.scores == 8 * 1000 * 50, "never more than rows × labels"


def test_estimate_of_ldsm(monkeypatch):
    X, Y = sp.random(1000, 40, 0.2, "csr", np.float32, 0), sp.csr_matrix(np.eye(1000, 50))
    made = LdSMClassifier(n_trees=3, arity=3, max_nodes=20, leaf_labels=2, n_jobs=2)
    found = made.estimate_memory(X, Y)
    assert X.nnz == 8000
    tables, copies = 8 * 90 + 4 * 40 * 7 + 16 * 50 * 4, 8 * 8000 + 4 * 50 + 20 * 1000
    assert found.work == 2 * (tables + copies)
    assert found.rows == 16 * 1000 * 3 + X.indices.nbytes + X.indptr.nbytes
    # six inner nodes in levels of 1, 3 and 2, each with all features; 13 leaves
    nodes = 6 * 40 * 16 + 6 * 12 + 16 * 19
    assert found.trees == 3 * (nodes + 12 * 50)
    assert found.model == 3 * (nodes + 16 * 26)
    assert found.certain == found.work + found.rows
    dense = made.estimate_memory(X.toarray(), Y)
    assert dense.work == found.work + 2 * (4 * 40 * 6 + 8 * (40_000 - 8000)) + 8 * 1000 + 4 * 40_000
    few_rows = clone(made).set_params(min_samples_leaf=400).estimate_memory(X, Y)
    assert few_rows.model == 3 * (16 + 16 * 2), "one leaf: no three could have 400 rows"
    monkeypatch.setattr("sparseleaf.estimators.ldsm.COPY_ENTRIES", 3000)
    assert made.estimate_memory(X, Y).work == found.work - 2 * 8 * 5000, "larger nodes are not copied"


def test_estimate_of_the_forest():
    X, Y = sp.random(1000, 40, 0.2, "csr", np.float32, 0), sp.csr_matrix(np.eye(1000, 50))
    made = SketchForestClassifier(
        n_trees=3, arity=4, min_samples_leaf=100, advanced={"sketch_dim": 8}, leaf_labels=None, n_jobs=1
    )
    found = made.estimate_memory(X, Y)
    assert found.work == 40 * 17 + 4 * 1000 * 8 + 1000 * 13
    assert found.rows == 24 * 1000 * 2 + X.indices.nbytes + X.indptr.nbytes
    # ten leaves under three inner nodes
    nodes = 3 * 40 * 7 + 3 * 16 + 16 * 13
    assert found.trees == 3 * (nodes + 12 * 50)
    assert found.model == 3 * (nodes + 16 * 50)
    shallow = SketchForestClassifier(arity=4, max_depth=1, n_jobs=1).estimate_memory(X, Y)
    assert shallow.model == 50 * (40 * 7 + 16 + 16 * 5 + 16 * 50)
    assert made.estimate_memory(X.toarray(), Y).work == found.work + 8 * 1000 * 41


@pytest.mark.parametrize("kind", [LdSMClassifier, SketchForestClassifier])
@pytest.mark.parametrize("dense", [False, True])
def test_routed_trees_take_no_more_than_was_said(kind, dense):
    X, Y = make_xc(2000, 60, 40, labels_per_row=2, nnz_per_row=10)
    if dense:
        X = X.toarray()
    made = kind(n_trees=3, rerank=None).fit(X, Y)
    said = made.estimate_memory(X, Y)
    trees = made.model_.trees
    taken = sum(array.nbytes for array in vars(trees).values() if isinstance(array, np.ndarray))
    assert said.model / 20 < taken <= said.model + 4 * 60  # weights of features are the forest's once


@pytest.mark.parametrize("kind", [LdSMClassifier, SketchForestClassifier])
def test_routed_trees_that_cannot_fit_are_refused(kind, monkeypatch):
    X, Y = make_set(500, 5, 6)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"at least .* KiB at once .* 1000 B are available.*n_jobs, or sparse rows"
    ):
        kind(n_trees=1).fit(X, Y)


def test_who_grows_no_trees_needs_no_memory_for_growing():
    X, Y = make_set(500, 5, 6)
    size = RowsSize.of(X, sp.csr_matrix(Y))
    found = [SketchForestClassifier()._estimate(size, n_parallel, 2) for n_parallel in (0, 1, 4)]
    assert found[0].certain == 0
    assert found[1].certain < found[2].certain
    assert found[0].model == found[2].model > 0


@pytest.mark.parametrize("arity", [2, 3, 5])
@pytest.mark.parametrize("n_nodes", [0, 1, 2, 6, 7, 40])
def test_entries_of_levels(arity, n_nodes):
    levels = [[]]
    for _ in range(n_nodes):
        if len(levels[-1]) == arity ** (len(levels) - 1):
            levels.append([])
        levels[-1].append(7)
    assert memory._in_levels(n_nodes, arity, 7, 50) == sum(min(50, sum(level)) for level in levels)


def test_what_cannot_fit_is_refused_before_it_is_taken(monkeypatch):
    X, Y = make_set(500, 5, 6)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"at least .* KiB at once .* 1000 B are available.*Use fewer rows"):
        SparseGBDTClassifier(n_trees=1).fit(X, Y)


def test_where_the_system_does_not_tell_nothing_is_refused(monkeypatch):
    X, Y = make_set(100, 5, 6)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert SparseGBDTClassifier(n_trees=1).fit(X, Y).model_.n_trees == 1


def test_available_memory_is_plausible():
    found = memory.available_memory()
    assert found is None or 2**20 < found < 2**50


@pytest.mark.parametrize(("known", "wanted"), [
    ({"SC_AVPHYS_PAGES": 5, "SC_PHYS_PAGES": 9, "SC_PAGE_SIZE": 4096}, 5 * 4096 + 7),  # Linux
    ({"SC_PHYS_PAGES": 9, "SC_PAGE_SIZE": 4096}, 9 * 4096),  # macOS
    ({}, None),
])  # fmt: skip
def test_available_memory_of_other_systems(known, wanted, monkeypatch):
    def sysconf(name):
        if name not in known:
            raise ValueError("unrecognized configuration name")
        return known[name]

    monkeypatch.setattr(memory.os, "sysconf", sysconf)
    monkeypatch.setattr(memory, "_cached", lambda: 7)
    monkeypatch.setattr(memory, "remaining_memory", lambda: None)
    assert memory.available_memory() == wanted
    monkeypatch.setattr(memory, "remaining_memory", lambda: 4096)  # of a container
    assert memory.available_memory() == 4096


def test_without_proc_there_is_no_page_cache(monkeypatch):
    def refuse(*_):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    assert memory._cached() == 0


def test_without_sysconf_memory_is_unknown(monkeypatch):
    monkeypatch.delattr(memory.os, "sysconf")
    monkeypatch.setattr(memory, "remaining_memory", lambda: None)
    assert memory.available_memory() is None


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5120.0 GiB"),
])  # fmt: skip
def test_sizes_are_readable(size, text):
    assert memory._readable(size) == text


def test_bad_parameters_are_refused_by_the_estimate_too():
    with pytest.raises(ValueError, match="n_trees"):
        sparseleaf.estimate_memory(np.zeros((5, 2)), np.eye(5), n_trees=0)


TIGHT = """
import resource, sys
from pathlib import Path
from sparseleaf import LdSMClassifier
from sparseleaf.data import make_xc

X, Y = make_xc(4000, 1000, 500)
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[1]) * 2**20,) * 2)
try:
    LdSMClassifier(n_trees=8, n_jobs=2, rerank=None).fit(X, Y)
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_tight_memory_is_an_error_and_not_an_abort():
    outcomes = []
    for megabytes in range(1, 40, 3):
        command = [sys.executable, "-c", TIGHT, str(megabytes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "Critical nanobind error" in done.stderr:
            # nanobind ends the process where not even the few bytes of an array's header are left,
            # which no code of a kernel can prevent
            continue
        assert done.returncode == 0, (megabytes, done.stderr)
        outcomes.append(done.stdout.strip())
    assert "MemoryError" in outcomes
