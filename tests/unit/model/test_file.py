"""The model file: what goes in comes out, and a file from a stranger is refused with a sentence."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sparseleaf
from smalldata import make_set
from sparseleaf import ModelFileError, SparseGBDTClassifier, load
from sparseleaf.model import file as file_module
from sparseleaf.model import load_model

NAMES = ["ä b", "", "x" * 300, "日本", "a", "None"]


def fit(kind="csr", **parameters):
    X, Y = make_set(80, 4, 6, seed=1, missing=0 if "projection" in parameters else 0.1)
    if kind == "names":
        Y = [[NAMES[q] for q in np.flatnonzero(row)] for row in Y]
    elif kind == "ints":
        Y = [[int(q) * 1000 - 7 for q in np.flatnonzero(row)] for row in Y]
    elif kind == "classes":
        Y = np.array(["no", "yes"])[Y[:, 0]]
    elif kind == "floats":
        Y = np.array([1.0, 2.0, 3.0])[Y[:, 0] + Y[:, 1]]
    elif kind == "booleans":
        Y = Y[:, 0].astype(bool)
    parameters = {"n_trees": 3, "min_samples_leaf": 2, "max_depth": 3, "leaf_labels": 3, **parameters}
    return SparseGBDTClassifier(**parameters).fit(X, Y), X


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A sound file with names and a projection."""
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    clf, X = fit("names", projection="random", projection_dim=3)
    clf.save(path)
    return path, X.astype(np.float32)


@pytest.fixture
def edited(good, tmp_path):
    """Write the sound file with other tensors or another header, and load that."""
    tensors = {name: array.copy() for name, array in load_file(good[0]).items()}
    header = read_header(good[0])

    def write(change=None, change_header=None, metadata=None):
        if change is not None:
            change(tensors)
        if change_header is not None:
            change_header(header)
        path = tmp_path / "edited.safetensors"
        save_file(tensors, path, {"sparseleaf": json.dumps(header)} if metadata is None else metadata)
        return load(path)

    return write


def read_header(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["sparseleaf"])


# --- round trips


@pytest.mark.parametrize("kind", ["csr", "names", "ints", "classes", "floats", "booleans"])
@pytest.mark.parametrize("projection", [None, "pca"])
def test_round_trip(kind, projection, tmp_path):
    clf, X = fit(kind, projection=projection, projection_dim=2)
    clf.save(tmp_path / "a.safetensors")
    loaded = load(tmp_path / "a.safetensors")
    for found, wanted in zip(loaded.predict_topk(X, 4), clf.predict_topk(X, 4), strict=True):
        np.testing.assert_array_equal(found, wanted)
    found, wanted = loaded.predict(X), clf.predict(X)
    assert type(found) is type(wanted)
    assert (found != wanted).nnz == 0 if hasattr(found, "nnz") else np.array_equal(found, wanted)
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    assert loaded.n_features_in_ == 4
    assert loaded.best_iteration_ == 3
    ours, theirs = loaded.get_params(), clf.get_params()
    assert {**ours, "n_jobs": None, "verbose": 0} == {**theirs, "n_jobs": None, "verbose": 0}
    np.testing.assert_array_equal(loaded.model_.label_counts, clf.model_.label_counts)
    assert loaded.model_.n_train_rows == 80
    loaded.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_history_and_seed_are_kept(tmp_path):
    X, Y = make_set(80, 4, 6)
    clf = SparseGBDTClassifier(n_trees=3, random_state=np.random.RandomState(3)).fit(X, Y, eval_set=(X, Y))
    clf.save(tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    assert loaded.history_ == clf.history_
    assert len(loaded.history_["valid P@1"]) == 3
    again = SparseGBDTClassifier(**loaded.get_params()).fit(X, Y)
    np.testing.assert_array_equal(again.model_.trees.leaf_values, clf.model_.trees.leaf_values)


@pytest.mark.parametrize(("most", "dtype"), [(255, np.uint8), (256, np.uint16), (70_000, np.uint32)])
def test_counts_take_as_few_bytes_as_they_need(most, dtype):
    assert file_module._narrow(np.array([0, most])).dtype == dtype
    assert file_module._narrow(np.array([2**40])).dtype == np.int64


def test_arrays_are_views_of_the_file_and_cannot_be_written(good):
    model = load_model(good[0])
    for name, array in vars(model.trees).items():
        assert not array.flags.writeable, name
        assert not array.flags.owndata, name
    assert not model.projection.components.flags.writeable


def test_saving_over_the_file_that_is_mapped_leaves_the_loaded_model_sound(good, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(good[0].read_bytes())
    loaded = load(path)
    wanted = loaded.predict_topk(good[1])[1].copy()
    fit()[0].save(path)
    np.testing.assert_array_equal(loaded.predict_topk(good[1])[1], wanted)


@pytest.mark.parametrize("where", ["save_file", "replace"])
def test_a_write_that_fails_leaves_the_old_file(where, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    clf, _ = fit()
    clf.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("no space left")

    if where == "save_file":
        monkeypatch.setattr(file_module, "save_file", fail)
    else:
        monkeypatch.setattr(file_module.Path, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        fit("names")[0].save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"], "nothing half-written stays"


def test_files_have_the_mode_of_other_files(tmp_path):
    fit()[0].save(tmp_path / "m.safetensors")
    (tmp_path / "plain").touch()
    assert (tmp_path / "m.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


# --- files that are none


def test_no_file(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(FileNotFoundError, match="no model file at"):
            load(path)


def test_truncated_anywhere(good, tmp_path):
    data = good[0].read_bytes()
    path = tmp_path / "short.safetensors"
    for size in [*range(0, len(data), 64), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(ModelFileError, match="not a sound model file"):
            load(path)


@pytest.mark.parametrize("data", [
    b"", b"\0", b"\0" * 8, b"\xff" * 8, b"\xff" * 100, b"hello, world", b"\x02\0\0\0\0\0\0\0{}",
    struct.pack("<Q", 2**40) + b"{}", struct.pack("<Q", 100_000_000) + b"{" * 50,
    struct.pack("<Q", 3000) + b"[" * 3000, struct.pack("<Q", 5) + b"\xff\xfe{}}",
])  # fmt: skip
def test_bytes_that_are_no_model(data, tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        load(path)


def test_more_bytes_than_the_header_says(good, tmp_path):
    path = tmp_path / "long.safetensors"
    path.write_bytes(good[0].read_bytes() + b"x")
    with pytest.raises(ModelFileError):
        load(path)


def edit_layout(good, tmp_path, change):
    """Change the outer header, which says where tensors are."""
    data = good[0].read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    layout = json.loads(data[8 : 8 + length])
    change(layout)
    text = json.dumps(layout).encode()
    path = tmp_path / "layout.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    with pytest.raises(ModelFileError) as error:
        load(path)
    return str(error.value)


@pytest.mark.parametrize("change", [
    lambda t: t.update(shape=[2**62]),
    lambda t: t.update(shape=[2**32, 2**32]),
    lambda t: t.update(shape=[-1]),
    lambda t: t.update(shape=[1.5]),
    lambda t: t.update(shape=[]),
    lambda t: t.update(shape="x"),
    lambda t: t.update(data_offsets=[0, 2**62]),
    lambda t: t.update(data_offsets=[-8, 8]),
    lambda t: t.update(data_offsets=[8, 0]),
    lambda t: t.update(data_offsets=[0]),
    lambda t: t.update(dtype="F16"),
    lambda t: t.update(dtype="Q7"),
    lambda t: t.update(dtype="F32"),
    lambda t: t.pop("dtype"),
    lambda t: t.pop("shape"),
])  # fmt: skip
@pytest.mark.parametrize("tensor", ["trees.child", "trees.tree_offsets", "label_names.bytes", "label_counts"])
def test_layouts_that_lie(good, tmp_path, tensor, change):
    edit_layout(good, tmp_path, lambda layout: change(layout[tensor]))


def test_no_metadata(good, tmp_path):
    message = edit_layout(good, tmp_path, lambda layout: layout.pop("__metadata__"))
    assert "its metadata has no 'sparseleaf'" in message
    edit_layout(good, tmp_path, lambda layout: layout.update(__metadata__={"sparseleaf": 1}))
    edit_layout(good, tmp_path, lambda layout: layout.update(__metadata__={"sparseleaf": {"a": [1]}}))


# --- headers that lie


@pytest.mark.parametrize(("text", "message"), [
    ("{", "its metadata is not JSON"),
    ("", "its metadata is not JSON"),
    ("[]", "its metadata is not a JSON object"),
    ("3", "its metadata is not a JSON object"),
    ("{}", "'format_version' is None; wanted int"),
    ("[" * 100_000, "its metadata is not JSON"),
    ('{"a":' * 100_000, "its metadata is not JSON"),
    ('{"format_version": ' + "9" * 5000 + "}", "its metadata is not JSON"),
])  # fmt: skip
def test_metadata_that_is_no_header(edited, text, message):
    with pytest.raises(ModelFileError, match=message):
        edited(metadata={"sparseleaf": text})


@pytest.mark.parametrize(("key", "value", "message"), [
    ("format_version", 2, "format version 2 is newer than 1; update sparseleaf"),
    ("format_version", 0, "format version 0 does not exist"),
    ("format_version", "1", "'format_version' is '1'; wanted int"),
    ("format_version", True, "format_version"),
    ("format_version", 1.0, "format_version"),
    ("method", "gbdt-dense", "unknown method 'gbdt-dense'; update sparseleaf"),
    ("method", 3, "'method' is 3; wanted str"),
    ("method", None, "method"),
    ("n_features", 5, "projection.components has shape"),
    ("n_features", -4, "n_features"),
    ("n_features", 4.0, "n_features"),
    ("n_labels", 7, "label_counts has 6 entries; wanted one for each of 7 labels"),
    ("n_labels", 10**12, "label_counts has 6 entries"),
    ("n_labels", 2**64, "n_labels"),
    ("n_labels", -6, "n_labels"),
    ("n_train_rows", -1, "n_train_rows"),
    ("n_train_rows", [80], "n_train_rows"),
    ("target_kind", "rows", "target_kind"),
    ("target_kind", 1, "target_kind"),
    ("label_name_kind", "none", "needs label names"),
    ("label_name_kind", "int", "label names cannot be read"),
    ("label_name_kind", "tuple", "label_name_kind"),
    ("history", [1], "'history' is"),
    ("history", {"m": 3}, "history"),
    ("history", {"m": ["x"]}, "history"),
    ("history", {"m": [None]}, "history"),
    ("parameters", [], "'parameters' is"),
    ("parameters", {"n_tree": 3}, "'n_tree' is unknown to SparseGBDTClassifier; update"),
    ("parameters", {"n_trees": 0}, "n_trees=0 is not allowed"),
    ("parameters", {"n_trees": 10**400}, "n_trees=1000"),
    ("parameters", {"n_trees": True}, "n_trees=True"),
    ("parameters", {"loss": "logistic"}, "loss"),
    ("parameters", {"loss": ["squared"]}, "loss"),
    ("parameters", {"l2": "x" * 10_000}, "l2"),
    ("parameters", {"l2": {"a": 1}}, "l2"),
    ("parameters", {"l2": float("nan")}, "l2=nan is not allowed"),
    ("parameters", {"n_jobs": 100_000}, "'n_jobs'"),
    ("parameters", {"verbose": 2}, "'verbose'"),
    ("parameters", {"self": 1}, "'self' is unknown"),
])  # fmt: skip
def test_headers_that_lie(edited, key, value, message):
    with pytest.raises(ModelFileError, match=message) as error:
        edited(change_header=lambda header: header.update({key: value}))
    assert len(str(error.value)) < 1500, "a sentence, not the file"


@pytest.mark.parametrize("key", file_module.HEADER_TYPES)
def test_every_key_is_needed(edited, key):
    with pytest.raises(ModelFileError, match=key):
        edited(change_header=lambda header: header.pop(key))


def test_keys_of_a_later_version_may_be_added(edited):
    edited(change_header=lambda header: header.update(comment="hello"))


# --- tensors that lie


def put(name, index, value):
    def change(tensors):
        tensors[name][index] = value

    return change


def replace(name, make):
    def change(tensors):
        tensors[name] = make(tensors[name])

    return change


I32, I64 = np.iinfo(np.int32), np.iinfo(np.int64)


def first_leaf(tensors):
    return int(np.flatnonzero(tensors["trees.feature"] < 0)[0])


def set_leaf_child(value):
    def change(tensors):
        tensors["trees.child"][first_leaf(tensors)] = value

    return change


def swap_leaves(tensors):
    leaves = np.flatnonzero(tensors["trees.feature"] < 0)[:2]
    tensors["trees.child"][leaves] = tensors["trees.child"][leaves[::-1]]


BAD_TENSORS = {
    "a child before its parent": (put("trees.child", 0, 0), "child: must come after its parent"),
    "a child of itself": (put("trees.child", 0, -1), "child"),
    "a child beyond the tree": (lambda t: t["trees.child"].__setitem__(0, len(t["trees.child"])), "child"),
    "a child at the end of int32": (put("trees.child", 0, I32.max), "child"),
    "a child at the other end": (put("trees.child", 0, I32.min), "child"),
    "a leaf beyond the leaves": (set_leaf_child(10**6), "child"),
    "a leaf at the end of int32": (set_leaf_child(I32.max), "child"),
    "a leaf below zero": (set_leaf_child(-1), "child"),
    "a leaf used twice": (set_leaf_child(1), "child"),
    "leaves in another order": (swap_leaves, "child"),
    "a feature beyond the columns": (put("trees.feature", 0, 3), "feature: a column that does not exist"),
    "a feature at the end of int32": (put("trees.feature", 0, I32.max), "feature"),
    "a feature of -2": (put("trees.feature", 0, -2), "child"),
    "a threshold that is no number": (put("trees.threshold", 0, np.nan), "threshold must be a number"),
    "a label beyond the labels": (put("trees.leaf_labels", 0, 6), "leaf_labels: no such label"),
    "a label below zero": (put("trees.leaf_labels", 0, -1), "leaf_labels"),
    "a label at the end of int32": (put("trees.leaf_labels", 0, I32.max), "leaf_labels"),
    "a leaf value that is no number": (put("trees.leaf_values", 0, np.nan), "leaf_values must be finite"),
    "an infinite leaf value": (put("trees.leaf_values", 0, np.inf), "leaf_values must be finite"),
    "leaves that decrease": (put("trees.leaf_indptr", 1, 10**9), "leaf_indptr must not decrease"),
    "leaves from below": (put("trees.leaf_indptr", 1, -5), "leaf_indptr"),
    "leaves at the end of int64": (put("trees.leaf_indptr", 1, I64.min), "leaf_indptr"),
    "leaves that do not start at 0": (put("trees.leaf_indptr", 0, 1), "leaf_indptr"),
    "leaves that end elsewhere": (put("trees.leaf_indptr", -1, 0), "leaf_indptr"),
    "no leaves": (replace("trees.leaf_indptr", lambda a: a[:0]), "leaf_indptr"),
    "a leaf that no node has": (replace("trees.leaf_indptr", lambda a: np.append(a, a[-1:])), "leaf_indptr"),
    "trees without a node": (put("trees.tree_offsets", 1, 0), "tree_offsets"),
    "trees that decrease": (put("trees.tree_offsets", 1, 10**9), "tree_offsets"),
    "trees at the end of int64": (put("trees.tree_offsets", 1, I64.max), "tree_offsets"),
    "trees at the other end": (put("trees.tree_offsets", 2, I64.min), "tree_offsets"),
    "trees that do not start at 0": (put("trees.tree_offsets", 0, 1), "tree_offsets"),
    "trees that end elsewhere": (put("trees.tree_offsets", -1, 1), "tree_offsets"),
    "no tree offsets": (replace("trees.tree_offsets", lambda a: a[:0]), "tree_offsets"),
    "a threshold too few": (replace("trees.threshold", lambda a: a[:-1]), "one number a node"),
    "a missing_left too many": (replace("trees.missing_left", lambda a: np.append(a, a[:1])), "a node"),
    "a leaf value too few": (replace("trees.leaf_values", lambda a: a[:-1]), "leaf_indptr"),
    "a gain too few": (replace("trees.feature_gain", lambda a: a[:-1]), "has 2 numbers; wanted 3"),
    "a gain that is no number": (put("trees.feature_gain", 0, np.nan), "feature_gain holds a number"),
    "a negative count": (replace("label_counts", lambda a: -a.astype(np.int64) - 1), "a negative count"),
    "a count too many": (replace("label_counts", lambda a: np.append(a, a[:1])), "has 7 entries"),
    "names that overlap": (put("label_names.offsets", 1, 10**6), "label_names.offsets must rise"),
    "names that start late": (put("label_names.offsets", 0, 1), "label_names.offsets must rise"),
    "names from below": (put("label_names.offsets", 1, I64.min), "label_names.offsets must rise"),
    "no name offsets": (replace("label_names.offsets", lambda a: a[:0]), "label_names.offsets must rise"),
    "a name too few": (replace("label_names.offsets", lambda a: np.delete(a, 1)), "has 5 entries"),
    "names that are no text": (lambda t: t["label_names.bytes"].fill(0xFF), "label names cannot be read"),
    "the same name twice": (lambda t: t["label_names.bytes"].fill(ord("a")), "twice"),
    "a projection that is no number": (put("projection.components", (0, 0), np.inf), "is not finite"),
    "a projection without columns": (
        replace("projection.components", lambda a: a[:, :0]), r"shape \(4, 0\); wanted \(4, at least 1\)"),
    "a projection of one dimension": (replace("projection.components", np.ravel), "1 dimensions"),
    "a projection of other rows": (replace("projection.components", lambda a: a[1:]), r"shape \(3, 3\)"),
    "a projection of float64": (replace("projection.components", lambda a: a.astype(np.float64)), "F64"),
    "wider children": (replace("trees.child", lambda a: a.astype(np.int64)), "'trees.child' is I64"),
    "a table of children": (replace("trees.child", lambda a: a[None]), "2 dimensions"),
    "no thresholds": (lambda t: t.pop("trees.threshold"), "tensor 'trees.threshold' is missing"),
    "no counts": (lambda t: t.pop("label_counts"), "tensor 'label_counts' is missing"),
    "no names": (lambda t: t.pop("label_names.bytes"), "tensor 'label_names.bytes' is missing"),
    "something more": (lambda t: t.update(other=np.zeros(3, np.float32)), "unknown tensor 'other'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_tensors_that_lie(edited, case):
    change, message = BAD_TENSORS[case]
    with pytest.raises(ModelFileError, match=message):
        edited(change)


def test_lists_of_names_need_names(edited):
    def without_names(tensors):
        del tensors["label_names.bytes"], tensors["label_names.offsets"]

    with pytest.raises(ModelFileError, match="target_kind"):
        edited(without_names, lambda header: header.update(label_name_kind="none"))


def test_the_sound_file_passes_through_the_same_editor(edited, good):
    assert edited().predict_topk(good[1])[0].shape == (80, 5)


def test_every_tensor_of_the_schema_is_in_a_file(good):
    names = {f"trees.{name}" for name in file_module.TREE_DTYPES}
    assert set(load_file(good[0])) == names | {
        "label_counts", "label_names.bytes", "label_names.offsets", "projection.components"
    }  # fmt: skip
    assert sparseleaf.ModelFileError is ModelFileError
    assert issubclass(ModelFileError, ValueError)
