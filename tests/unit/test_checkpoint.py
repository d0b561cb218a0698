from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import sparseleaf
from full_disk import run_with_small_disk
from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf._files import remove_drafts
from sparseleaf.callbacks import EarlyStopping, TrainingState
from sparseleaf.checkpoint import METADATA_KEY, CheckpointError, _digest
from sparseleaf.data import make_xc

N = 300
X, Y = make_xc(N + 60, 60, 25, labels_per_row=3, nnz_per_row=8, seed=2)
XC = X[:N], Y[:N]
XC_VALID = X[N:], Y[N:]
RNG = np.random.default_rng(0)
D = RNG.normal(size=(N, 5)).astype(np.float32)
D[:, 4] = RNG.integers(0, 6, N)
D[RNG.random(D.shape) < 0.05] = np.nan
D[:, 4] = np.nan_to_num(D[:, 4])
T = np.nan_to_num(np.c_[2 * D[:, 0], np.sin(D[:, 1]), D[:, 2] > 0])
CLASSES = RNG.integers(0, 4, N) + 10 * (np.nan_to_num(D[:, 0]) > 0)
QID, GRADES = np.repeat(np.arange(30), 10), RNG.integers(0, 3, N)


def squares(y, scores):
    return scores - y, np.ones_like(scores)


CASES = {
    "sparse": (
        SparseGBDTClassifier,
        {"projection_dim": 8, "subsample": 0.7, "colsample_bynode": 0.5, "colsample_bytree": 0.9},
        XC,
        {"eval_set": XC_VALID},
    ),
    "sparse-exact-rerank": (SparseGBDTClassifier, {"split": "exact", "rerank": "log"}, XC, {}),
    "sparse-nan-names": (
        SparseGBDTClassifier,
        {"sketch": "top-outputs", "sketch_dim": 8, "projection": None, "loss": "squared_hinge"},
        (D, [["a", "b"], ["c"], ["b"]] * (N // 3)),
        {},
    ),
    "multi": (
        MultiGBDTRegressor,
        {"subsample": 0.7, "categorical_features": [4], "monotone_constraints": {0: 1}},
        (D, T),
        {"eval_set": (D[:50], T[:50]), "sample_weight": np.linspace(0.5, 2, N)},
    ),
    "multi-each-output": (
        MultiGBDTRegressor,
        {"tree_per_output": True, "loss": "huber"},
        (D, T),
        {"eval_set": (D[:50], T[:50])},
    ),
    "multi-own-loss": (
        MultiGBDTRegressor,
        {"loss": squares, "sketch": "sampling", "sketch_dim": 2},
        (D, T),
        {},
    ),
    "multi-classes": (
        MultiGBDTClassifier,
        {"hessian": "exact", "split": "full"},
        (D, CLASSES),
        {"eval_set": (D, CLASSES)},
    ),
    "rank": (
        GBDTRanker,
        {"subsample": 0.7, "subsample_by": "query"},
        (D, GRADES),
        {"qid": QID, "eval_set": (D, GRADES, QID)},
    ),
    "rank-averaged": (GBDTRanker, {"loss": "gbrank"}, (D, GRADES), {"qid": QID}),
    "forest": (SketchForestClassifier, {"rerank": "cosine", "bootstrap": True}, XC, {}),
    "ldsm": (LdSMClassifier, {"max_nodes": 40, "epochs": 3, "rerank": "log"}, XC, {}),
    "ldsm-valid": (LdSMClassifier, {"max_nodes": 40, "arity": 3, "epochs": 2}, XC, {"eval_set": XC_VALID}),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


class PowerCut(Exception):
    pass


def cut_at(tree):
    def callback(state: TrainingState) -> None:
        if state.tree == tree:
            raise PowerCut

    return callback


def fit(case, n_trees, settings=None, **more):
    kind, own, data, arguments = CASES[case]
    return kind.from_settings({"n_trees": n_trees, **own, **(settings or {})}).fit(
        *data, **{**arguments, **more}
    )


def content(estimator, tmp_path):
    """The model file, with all bits of its values."""
    estimator.save(tmp_path / "m", compact=False)
    return (tmp_path / "m").read_bytes()


def trees_in(path):
    with safe_open(path, "np") as file:
        names = [name for name in ("trees.tree_nodes", "trees.inner_of_tree") if name in file.keys()]  # noqa: SIM118
        return len(file.get_tensor(names[0])) if names else 0


@EVERY_CASE
def test_a_training_that_was_cut_ends_in_the_same_bytes(case, tmp_path):
    path = tmp_path / "run.ckpt"
    for n_jobs, tree in enumerate((1, 4, 7, 7), start=1):
        with pytest.raises(PowerCut):
            fit(case, 9, {"n_jobs": n_jobs}, checkpoint=path, checkpoint_every=2, callbacks=[cut_at(tree)])
    resumed = fit(case, 9, checkpoint=path, checkpoint_every=2)
    whole = fit(case, 9)
    assert content(resumed, tmp_path) == content(whole, tmp_path)
    assert resumed.history_ == whole.history_
    assert [file.name for file in tmp_path.iterdir() if file.name != "m"] == ["run.ckpt"]
    if case.startswith("ldsm"):
        assert resumed.split_records_ == whole.split_records_


@EVERY_CASE
def test_training_again_is_nothing_and_more_or_fewer_trees_are_had(case, tmp_path):
    path = tmp_path / "run.ckpt"
    first = content(fit(case, 5, checkpoint=path), tmp_path)
    before = path.read_bytes()
    seen = []
    again = fit(case, 5, checkpoint=path, callbacks=[seen.append])
    assert content(again, tmp_path) == first
    assert not seen
    fewer = fit(case, 3, checkpoint=path, callbacks=[seen.append])
    assert content(fewer, tmp_path) == content(fit(case, 3), tmp_path)
    assert not seen
    assert path.read_bytes() == before, "the longer training stays"
    more = fit(case, 7, checkpoint=path, callbacks=[seen.append])
    assert [state.tree for state in seen] == [6, 7]
    assert content(more, tmp_path) == content(fit(case, 7), tmp_path)


@pytest.mark.parametrize("case", ["sparse", "multi", "multi-each-output", "rank"])
def test_early_stopping_remembers(case, tmp_path):
    path = tmp_path / "run.ckpt"
    settings = {"early_stopping_rounds": 3, "learning_rate": 1.0}
    whole = fit(case, 60, settings)
    n_rounds = len(next(iter(whole.history_.values())))
    assert n_rounds < 60, "it must have stopped, or nothing is tested"
    with pytest.raises(PowerCut):
        fit(case, 60, settings, checkpoint=path, checkpoint_every=1, callbacks=[cut_at(n_rounds - 1)])
    seen = []
    resumed = fit(case, 60, settings, checkpoint=path, checkpoint_every=1, callbacks=[seen.append])
    assert content(resumed, tmp_path) == content(whole, tmp_path)
    assert resumed.history_ == whole.history_
    assert len(seen) == 2
    # it has stopped: asked again, it does not go on
    again = fit(case, 60, settings, checkpoint=path, callbacks=[seen.append])
    assert content(again, tmp_path) == content(whole, tmp_path)
    assert len(seen) == 2
    for patience in (1, 5):
        other = {**settings, "early_stopping_rounds": patience}
        copy = tmp_path / "copy.ckpt"
        shutil.copy(path, copy)
        found = fit(case, 60, other, checkpoint=copy)
        assert content(found, tmp_path) == content(fit(case, 60, other), tmp_path)


@pytest.mark.parametrize("higher", [True, False])
def test_where_early_stopping_stopped_is_where_it_would_have(higher):
    rng = np.random.default_rng(1)
    for values in rng.integers(0, 6, (200, 12)).tolist():
        for rounds in (1, 2, 3, 12):
            stop = EarlyStopping("m", rounds, higher_is_better=higher)
            asked = (n for n in range(1, 13) if stop(TrainingState(n, 12, 1, 1, 0.0, {"m": values[:n]})))
            assert stop.stops_at(values) == next(asked, None)


def test_a_callback_that_ends_a_training_does_not_end_the_next(tmp_path):
    path = tmp_path / "run.ckpt"
    for done in (2, 4, 5):
        found = fit("multi", 5, checkpoint=path, callbacks=[lambda state: state.tree % 2 == 0])
        assert found.best_iteration_ == trees_in(path) == done
    assert content(found, tmp_path) == content(fit("multi", 5), tmp_path)


@pytest.mark.parametrize("case", ["sparse", "multi-each-output", "ldsm-valid"])
def test_ctrl_c_writes_the_checkpoint(case, tmp_path):
    path = tmp_path / "run.ckpt"

    def interrupt(state):
        if state.tree == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        found = fit(case, 6, checkpoint=path, checkpoint_every=100, callbacks=[interrupt])
    assert found.best_iteration_ == 3
    assert trees_in(path) == (9 if case == "multi-each-output" else 3)
    assert content(fit(case, 6, checkpoint=path), tmp_path) == content(fit(case, 6), tmp_path)


def test_a_training_that_ends_before_its_first_tree_is_resumed(tmp_path):
    path, settings = tmp_path / "run.ckpt", {"n_trees": 2, "projection": None}

    def fail(state):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        SparseGBDTClassifier(**settings).fit(*XC, checkpoint=path, callbacks=[fail])
    model = SparseGBDTClassifier(**settings).fit(*XC, checkpoint=path)
    model.save(tmp_path / "resumed")
    SparseGBDTClassifier(**settings).fit(*XC).save(tmp_path / "whole")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_projection_is_fitted_once(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    with pytest.raises(PowerCut):
        fit("sparse", 5, checkpoint=path, callbacks=[cut_at(1)])
    whole = content(fit("sparse", 5), tmp_path)
    monkeypatch.delattr("sparseleaf.training.partition.fit_projection")
    assert content(fit("sparse", 5, checkpoint=path), tmp_path) == whole


@pytest.mark.parametrize("random_state", [None, "object"])
def test_a_seed_that_was_drawn_is_kept(random_state, tmp_path):
    path = tmp_path / "run.ckpt"
    settings = {"random_state": np.random.RandomState(3) if random_state else None}
    with pytest.raises(PowerCut):
        fit("multi", 5, settings, checkpoint=path, checkpoint_every=1, callbacks=[cut_at(3)])
    resumed = fit("multi", 5, settings, checkpoint=path)
    seed = resumed.model_.parameters["random_state"]
    assert content(resumed, tmp_path) == content(fit("multi", 5, {"random_state": seed}), tmp_path)


@pytest.mark.parametrize("how", ["init_model", "warm_start"])
def test_on_from_another_model(how, tmp_path):
    path = tmp_path / "run.ckpt"

    def train(**more):
        if how == "init_model":
            return fit("multi", 4, init_model=fit("multi", 3), **more)
        kind, own, data, arguments = CASES["multi"]
        estimator = kind.from_settings({"n_trees": 3, "warm_start": True, **own}).fit(*data, **arguments)
        return estimator.set_params(n_trees=7).fit(*data, **arguments, **more)

    with pytest.raises(PowerCut):
        train(checkpoint=path, checkpoint_every=1, callbacks=[cut_at(5)])
    assert trees_in(path) == 1
    assert content(train(checkpoint=path), tmp_path) == content(train(), tmp_path)
    with pytest.raises(CheckpointError, match=r"expected init_model None, got fingerprint \w+"):
        fit("multi", 7, {"warm_start": how == "warm_start"}, checkpoint=path)


# --- checkpoints of other trainings


def test_what_only_says_how_far_and_how_fast_may_change(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("multi", 3, checkpoint=path)
    settings = {"n_jobs": 3, "histogram_mb": 1, "verbose": 0, "early_stopping_rounds": 50}
    assert content(fit("multi", 4, settings, checkpoint=path), tmp_path) == content(
        fit("multi", 4, settings), tmp_path
    )


@pytest.mark.parametrize(
    ("case", "settings", "said"),
    [
        ("sparse", {"learning_rate": 0.2}, "expected learning_rate 0.2, got 0.1"),
        ("sparse", {"random_state": 1}, "expected random_state 1, got 0"),
        ("sparse", {"eval_metric": "precision@3"}, "expected eval_metric 'precision@3', got 'precision@1'"),
        ("multi", {"monotone_constraints": {0: -1}}, "expected monotone_constraints {'0': -1}, got {'0': 1}"),
        ("multi-own-loss", {"loss": "mse"}, "expected loss 'mse'"),
        ("ldsm", {"epochs": 2, "arity": 3}, "expected arity 3, got 2; expected epochs 2, got 3"),
    ],
)
def test_other_settings_are_named(case, settings, said, tmp_path):
    path = tmp_path / "run.ckpt"
    fit(case, 2, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=re.escape(said)) as refused:
        fit(case, 2, settings, checkpoint=path)
    assert str(path) in str(refused.value)
    assert "remove this one" in str(refused.value)
    assert path.read_bytes() == before


def changed(array):
    array = array.copy()
    if hasattr(array, "indptr"):
        array.data[0] += 1
    else:
        array[-1] = array[0] + 1
    return array


OTHER_DATA = {
    "X": ("multi", lambda X, y, more: (changed(X), y, more)),
    "y": ("multi", lambda X, y, more: (X, changed(y), more)),
    "sample_weight": (
        "multi",
        lambda X, y, more: (X, y, more | {"sample_weight": changed(more["sample_weight"])}),
    ),
    "eval_set X": (
        "multi",
        lambda X, y, more: (X, y, more | {"eval_set": (changed(D[:50]), T[:50])}),
    ),
    "eval_set y": (
        "sparse",
        lambda X, y, more: (X, y, more | {"eval_set": (XC_VALID[0], XC_VALID[1][::-1])}),
    ),
    "qid": ("rank", lambda X, y, more: (X, y, more | {"qid": np.repeat(np.arange(15), 20)})),
    "eval_set qid": (
        "rank",
        lambda X, y, more: (X, y, more | {"eval_set": (D, GRADES, np.repeat(np.arange(15), 20))}),
    ),
    "label names": (
        "sparse-nan-names",
        lambda X, y, more: (X, [["z" if name == "c" else name for name in row] for row in y], more),
    ),
}


@pytest.mark.parametrize("name", OTHER_DATA)
def test_other_data_is_named(name, tmp_path):
    case, change = OTHER_DATA[name]
    kind, own, data, arguments = CASES[case]
    path = tmp_path / "run.ckpt"
    fit(case, 2, checkpoint=path)
    X, y, more = change(*data, arguments)
    with pytest.raises(
        CheckpointError, match=rf"another training: expected {name} .*fingerprint \w+\), got"
    ) as e:
        kind.from_settings({"n_trees": 2, **own}).fit(X, y, **more, checkpoint=path)
    assert "Also" not in str(e.value), "only what differs is named"


def test_rows_in_another_order_are_other_data(tmp_path):
    path = tmp_path / "run.ckpt"
    SparseGBDTClassifier(n_trees=2).fit(*XC, checkpoint=path)
    with pytest.raises(CheckpointError, match="got 300 × 60"):
        SparseGBDTClassifier(n_trees=2).fit(XC[0][::-1], XC[1][::-1], checkpoint=path)


def test_an_eval_set_that_comes_or_goes_is_named(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("sparse", 2, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"expected eval_set X None, got 60 × 60 \(fingerprint \w+\)"):
        fit("sparse", 2, eval_set=None, checkpoint=path)


def test_another_estimator_is_named(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("multi", 2, checkpoint=path)
    with pytest.raises(
        CheckpointError, match="expected a checkpoint of LdSMClassifier, got 'MultiGBDTRegressor'"
    ):
        fit("ldsm", 2, checkpoint=path)


# --- files that are no checkpoints


def test_a_checkpoint_that_is_cut_short_is_refused_and_stays(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("multi", 2, checkpoint=path)
    whole = path.read_bytes()
    for end in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError, match=r"run\.ckpt': the file is corrupt or not a checkpoint"):
            fit("multi", 2, checkpoint=path)
        assert path.read_bytes() == whole[:end]


@pytest.mark.parametrize("case", ["multi", "ldsm"])
def test_a_byte_that_was_changed_is_noticed(case, tmp_path):
    path = tmp_path / "run.ckpt"
    fit(case, 2, checkpoint=path)
    whole = path.read_bytes()
    for at in np.linspace(0, len(whole) - 1, 60).astype(int).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match=r"is corrupt|not a checkpoint|format version"):
            fit(case, 2, checkpoint=path)


def test_other_files_are_never_overwritten(tmp_path):
    path = tmp_path / "m.safetensors"
    fit("multi", 2).save(path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="the file is not a checkpoint"):
        fit("multi", 2, checkpoint=path)
    assert path.read_bytes() == before
    fit("multi", 2, checkpoint=tmp_path / "c")
    with pytest.raises(sparseleaf.ModelFileError):
        sparseleaf.load(tmp_path / "c")
    with pytest.raises(CheckpointError, match="the path is not a file"):
        fit("multi", 2, checkpoint=tmp_path)


def rewritten(path, change):
    """The same checkpoint with other content, and its digest made right again: a stranger can do that."""
    tensors = load_file(path)
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()[METADATA_KEY])
    del header["digest"]
    change(tensors, header)
    header["digest"] = _digest(header, tensors)
    save_file(
        {k: np.ascontiguousarray(v) for k, v in tensors.items()}, path, {METADATA_KEY: json.dumps(header)}
    )


def hostile(name, value, where=0):
    def change(tensors, header):
        tensors[f"trees.{name}"].flat[where] = value

    return change


@pytest.mark.parametrize("n_trees", [2, 3])
@pytest.mark.parametrize(
    "change",
    [
        hostile("feature", -1),
        hostile("feature", 0, -1),
        lambda tensors, header: tensors["trees.feature"][: tensors["trees.tree_nodes"][0]].sort(),
        hostile("feature", 99),
        hostile("feature", -7),
        hostile("set_of", 1000),
        hostile("set_of", -2),
        hostile("tree_nodes", 2),
        hostile("tree_nodes", -1),
        hostile("tree_nodes", 2**62),
        hostile("tree_sets", 2**62),
        hostile("leaf_sizes", -3),
        hostile("leaf_sizes", 2**62),
        hostile("labels", 2**32 - 1),
        hostile("values", np.nan),
        hostile("gain", np.inf),
        lambda tensors, header: tensors.pop("trees.labels"),
        lambda tensors, header: tensors.update({"trees.bin": tensors["trees.bin"][:-1]}),
        lambda tensors, header: tensors.update({"trees.values": tensors["trees.values"].astype(np.float64)}),
        lambda tensors, header: tensors.update({"trees.sets": tensors["trees.sets"][:, :3]}),
        lambda tensors, header: header["history"].clear() or header["history"].update({"valid loss": [1.0]}),
        lambda tensors, header: header.update(history=[]),
        lambda tensors, header: header.update(seed="0"),
        lambda tensors, header: header.update(settings=3),
    ],
)
def test_a_hostile_checkpoint_is_refused(change, n_trees, tmp_path):
    path = tmp_path / "run.ckpt"
    fit("multi", 2, checkpoint=path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=r"is corrupt: (trees\.|invalid |its history)"):
        fit("multi", n_trees, checkpoint=path)


@pytest.mark.parametrize(
    ("case", "settings"),
    [("multi", {}), ("multi-classes", {"hessian": "diagonal"}), ("sparse", {}), ("rank", {})],
)
def test_leaf_values_whose_sum_is_infinite_are_refused(case, settings, tmp_path):
    """Gradients at infinite scores are NaN, which no kernel can make an integer of."""
    path = tmp_path / "run.ckpt"
    fit(case, 4, settings, checkpoint=path)
    rewritten(path, lambda tensors, header: tensors.update({"trees.values": huge(tensors["trees.values"])}))
    with pytest.raises(CheckpointError, match="leaf values exceeds the range of float32"):
        fit(case, 5, settings, checkpoint=path)


def huge(values):
    signs = np.where(np.arange(len(values)) < len(values) // 2, 1, -1)
    return np.full(len(values), 3e38, np.float32) * signs.astype(np.float32)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", 10**6),
        ("features", -1),
        ("leaf_labels", 25),
        ("leaf_counts", np.inf),
        ("weights", np.nan),
        ("sizes", 10**9),
        ("leaf_sizes", -1),
        ("inner", False),
        ("inner_of_tree", 3),
        ("split_passes", 10**9),
    ],
)
def test_a_hostile_checkpoint_of_routed_trees_is_refused(name, value, tmp_path):
    path = tmp_path / "run.ckpt"
    fit("ldsm", 2, checkpoint=path)
    rewritten(path, hostile(name, value))
    with pytest.raises(CheckpointError, match="is corrupt: trees"):
        fit("ldsm", 3, checkpoint=path)


@pytest.mark.parametrize(
    "components",
    [np.zeros((60, 8), np.float32), np.zeros((3, 8), np.float16), np.full((60, 8), np.inf, "f2")],
)
def test_a_hostile_projection_is_refused(components, tmp_path):
    path = tmp_path / "run.ckpt"
    fit("sparse", 2, checkpoint=path)
    rewritten(path, lambda tensors, header: tensors.update({"projection.components": components}))
    with pytest.raises(CheckpointError, match=r"projection\.components"):
        fit("sparse", 3, checkpoint=path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("multi", 2, checkpoint=path)
    rewritten(path, lambda tensors, header: header.update(version=2))
    with pytest.raises(CheckpointError, match="expected format version 1, got 2"):
        fit("multi", 2, checkpoint=path)


# --- arguments, and places that fail


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "3"])
def test_checkpoint_every_is_checked(every, tmp_path):
    with pytest.raises(ValueError, match=r"'checkpoint_every' parameter must be an int >= 1. Got"):
        fit("multi", 2, checkpoint=tmp_path / "c", checkpoint_every=every)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_known_before_the_work(tmp_path, monkeypatch):
    monkeypatch.delattr("sparseleaf.training.partition.fit_projection")
    with pytest.raises(ValueError, match=r"checkpoint: .* does not exist"):
        fit("sparse", 2, checkpoint=tmp_path / "nowhere" / "c")

    def fail(*args):
        raise OSError("read-only")

    monkeypatch.setattr("sparseleaf._tensors.save_file", fail)
    with pytest.raises(OSError, match="read-only"):
        fit("sparse", 2, checkpoint=tmp_path / "c")


FULL = """
import sys
import warnings
from pathlib import Path
import test_checkpoint

def fill(state):
    if state.tree != 2:
        return
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass

folder = Path(sys.argv[1])
for case in sys.argv[2:]:
    path = folder / "run.ckpt"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = test_checkpoint.fit(case, 5, checkpoint=path, checkpoint_every=1, callbacks=[fill])
    assert found.best_iteration_ == 5, found.best_iteration_
    assert test_checkpoint.trees_in(path) == 1  # the disk is full before the second is written
    assert sorted(file.name for file in folder.iterdir()) == ["filler", "run.ckpt"]
    try:
        found.save(folder / "m.safetensors")
    except OSError as error:
        print("saving:", error)
    (folder / "filler").unlink()
    found.save(folder / "m.safetensors")  # there is room again, and the model is still there
    for warning in caught:
        print("warning:", warning.message)
    again = test_checkpoint.fit(case, 5, checkpoint=path)
    assert test_checkpoint.content(again, folder) == test_checkpoint.content(found, folder)
    for file in folder.iterdir():
        file.unlink()
"""


def with_this_file():
    """An environment in which other processes can import it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}


def with_small_disk(folder, kilobytes, script, *arguments):
    return run_with_small_disk(folder, kilobytes, "-c", script, folder, *arguments, env=with_this_file())


@pytest.mark.slow
def test_a_full_disk_costs_checkpoints_and_not_the_training(tmp_path):
    done = with_small_disk(tmp_path, 512, FULL, "multi", "sparse", "forest")
    assert done.returncode == 0, done.stderr
    full = f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}: "
    lines = done.stdout.splitlines()
    assert lines.count(f"saving: {full}'{tmp_path / 'm.safetensors'}'") == 3
    kept = f"warning: The checkpoint could not be written ({full}'{tmp_path / 'run.ckpt'}'); the previous one is kept."
    assert set(lines) == {f"saving: {full}'{tmp_path / 'm.safetensors'}'", kept}
    assert lines.count(kept) >= 3


FULL_FROM_THE_START = """
import sys
from pathlib import Path
import test_checkpoint

folder = Path(sys.argv[1])
(folder / "filler").open("wb", buffering=0).write(bytes(4096))
test_checkpoint.fit("multi", 2, checkpoint=folder / "run.ckpt", callbacks=[print])
"""


@pytest.mark.slow
def test_a_disk_that_is_full_from_the_start_is_known_before_the_work(tmp_path):
    done = with_small_disk(tmp_path, 4, FULL_FROM_THE_START)
    assert done.returncode == 1
    assert not done.stdout
    assert done.stderr.splitlines()[-1].startswith(f"OSError: [Errno {errno.ENOSPC}]")


def test_a_training_that_starts_does_not_disturb_one_that_writes(tmp_path, monkeypatch):
    """It removes the drafts of killed processes, and must not end the other one by that."""
    from sparseleaf import _tensors

    def with_another_start(tensors, file, metadata):
        save_file(tensors, file, metadata)
        if not started:
            started.append(file)
            remove_drafts(tmp_path / "run.ckpt")

    started = []
    monkeypatch.setattr(_tensors, "save_file", with_another_start)
    fit("multi", 2, checkpoint=tmp_path / "run.ckpt")
    assert started
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    assert trees_in(tmp_path / "run.ckpt") == 2


KILLED = """
import os, signal, sys
from pathlib import Path
import test_checkpoint
from sparseleaf import _tensors

save_file, replace, writes = _tensors.save_file, Path.replace, [0]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def saving(tensors, file, metadata):
    writes[0] += 1
    fatal = writes[0] == 4
    if fatal and moment == "before":
        die()
    save_file(tensors, file, metadata)
    if fatal and moment == "half":
        os.truncate(file, os.path.getsize(file) // 2)
        die()
    if fatal and moment == "written":
        die()

def renaming(self, target):
    replace(self, target)
    if writes[0] == 4 and moment == "renamed":
        die()

_tensors.save_file, Path.replace = saving, renaming
for folder in sys.argv[1:]:
    moment, case = Path(folder).name.split(",")
    child = os.fork()  # every one of them is killed
    if not child:
        test_checkpoint.fit(case, 9, {"n_jobs": 1}, checkpoint=Path(folder) / "run.ckpt", checkpoint_every=2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""
KILLED_CASES = ("sparse", "multi", "ldsm")
MOMENTS = ("before", "half", "written", "renamed")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folders with what trainings left that were killed at some moment of their fourth writing."""
    top = tmp_path_factory.mktemp("killed")
    folders = {(case, moment): top / f"{moment},{case}" for case in KILLED_CASES for moment in MOMENTS}
    for folder in folders.values():
        folder.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, *folders.values()], check=True, env=with_this_file())
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("case", KILLED_CASES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_it_writes(case, moment, killed, tmp_path):
    path = killed[case, moment] / "run.ckpt"
    # the first writing has no trees, nor has the second where there is a projection
    trees = {"sparse": (2, 4), "multi": (4, 6), "ldsm": (4, 6)}[case]
    assert trees_in(path) == trees[moment == "renamed"]
    assert content(fit(case, 9, checkpoint=path), tmp_path) == content(fit(case, 9), tmp_path)
    assert [file.name for file in path.parent.iterdir()] == ["run.ckpt"], "drafts are removed"
