"""The model file: what goes in comes out, and a file from a stranger is refused with a sentence."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sparseleaf
from smalldata import make_set
from sparseleaf import ModelFileError, SparseGBDTClassifier, load
from sparseleaf.model import header as headers
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
    elif kind == "hashes":
        Y = np.array([3, 2**63 + 5], np.uint64)[Y[:, 0]]
    elif kind == "floats":
        Y = np.array([1.0, 2.0, 3.0])[Y[:, 0] + Y[:, 1]]
    elif kind == "booleans":
        Y = Y[:, 0].astype(bool)
    parameters = {"n_trees": 3, "min_samples_leaf": 2, "max_depth": 3, "leaf_labels": 3, **parameters}
    return SparseGBDTClassifier.from_settings(parameters).fit(X, Y), X


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A sound file with names and a projection."""
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    clf, X = fit("names", projection="random", projection_dim=3, keep_raw=False)
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


@pytest.mark.parametrize("kind", ["csr", "names", "ints", "classes", "hashes", "floats", "booleans"])
@pytest.mark.parametrize("projection", [None, "pca"])
def test_round_trip(kind, projection, tmp_path):
    clf, X = fit(kind, projection=projection, projection_dim=2)
    clf.save(tmp_path / "a.safetensors", compact=False)
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
    loaded.save(tmp_path / "b.safetensors", compact=False)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_history_and_seed_are_kept(tmp_path):
    X, Y = make_set(80, 4, 6)
    clf = SparseGBDTClassifier(n_trees=3, random_state=np.random.RandomState(3)).fit(X, Y, eval_set=(X, Y))
    clf.save(tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    assert loaded.history_ == clf.history_
    assert len(loaded.history_["valid precision@1"]) == 3
    again = SparseGBDTClassifier(**loaded.get_params()).fit(X, Y)
    np.testing.assert_array_equal(again.model_.trees.leaf_values, clf.model_.trees.leaf_values)


def test_a_compact_file_is_smaller_and_says_the_same(tmp_path):
    clf, X = fit("names", n_trees=20, learning_rate=0.5)
    wanted = clf.decision_function(X)
    sizes = []
    for name, compact in (("whole", False), ("compact", True)):
        clf.save(tmp_path / name, compact=compact)
        sizes.append((tmp_path / name).stat().st_size)
        loaded = load(tmp_path / name)
        assert (loaded.decision_function(X) != wanted).nnz == 0
        loaded.save(tmp_path / "again")  # nothing is rounded on the way
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes()
    assert sizes[1] < sizes[0]


def test_what_is_large_is_a_view_of_the_file_and_cannot_be_written(good):
    model = load_model(good[0])
    for array in (model.trees.leaf_labels, model.trees.leaf_values, model.projection.components):
        assert not array.flags.writeable
        assert not array.flags.owndata


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
        monkeypatch.setattr("sparseleaf._tensors.save_file", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
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
        with pytest.raises(ModelFileError, match="not a valid model file"):
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
    lambda t: t.update(dtype="BOOL"),
    lambda t: t.update(dtype="Q7"),
    lambda t: t.update(dtype="F32"),
    lambda t: t.pop("dtype"),
    lambda t: t.pop("shape"),
])  # fmt: skip
@pytest.mark.parametrize(
    "tensor", ["trees.feature", "trees.leaf_values", "label_names.bytes", "label_counts"]
)
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
    ("{}", "'format_version' must be int, is None"),
    ("[" * 100_000, "its metadata is not JSON"),
    ('{"a":' * 100_000, "its metadata is not JSON"),
    ('{"format_version": ' + "9" * 5000 + "}", "its metadata is not JSON"),
])  # fmt: skip
def test_metadata_that_is_no_header(edited, text, message):
    with pytest.raises(ModelFileError, match=message):
        edited(metadata={"sparseleaf": text})


@pytest.mark.parametrize(("key", "value", "message"), [
    ("format_version", 6, "format version 6 is newer than 5; update sparseleaf"),
    ("format_version", 0, "format version must be 1 to 5, is 0"),
    ("format_version", "1", "'format_version' must be int, is '1'"),
    ("format_version", True, "format_version"),
    ("format_version", 1.0, "format_version"),
    ("method", "gbdt-dense", "unknown method 'gbdt-dense'; update sparseleaf"),
    ("method", 3, "'method' must be str, is 3"),
    ("method", None, "method"),
    ("n_features", 5, "projection: components must have shape"),
    ("n_features", -4, "n_features"),
    ("n_features", 4.0, "n_features"),
    ("n_labels", 7, "label_counts must have one entry for each of 7 labels, has 6"),
    ("n_labels", 10**12, "label_counts must have one entry"),
    ("n_labels", 2**64, "n_labels"),
    ("n_labels", -6, "n_labels"),
    ("n_train_rows", -1, "n_train_rows"),
    ("n_train_rows", [80], "n_train_rows"),
    ("target_kind", "rows", "target_kind"),
    ("target_kind", 1, "target_kind"),
    ("label_name_kind", "none", "requires label names"),
    ("label_name_kind", "int", "label names are invalid"),
    ("label_name_kind", "tuple", "label_name_kind"),
    ("history", [1], "'history' must be"),
    ("history", {"m": 3}, "history"),
    ("history", {"m": ["x"]}, "history"),
    ("history", {"m": [None]}, "history"),
    ("link", "probit", "'link' must be one of"),
    ("link", 3, "'link' must be str, is 3"),
    ("stages", {}, "'stages' must be list, is {}"),
    ("stages", [], r"exactly one scorer .* are \[\]"),
    ("stages", ["trees"], "'stages' must have objects with a 'kind', has 'trees'"),
    ("stages", [{"kind": 3}], "must have objects with a 'kind'"),
    ("stages", [{"kind": "forest"}], "forest: unknown kind of stage; update sparseleaf"),
    ("stages", [{"kind": "trees"}], "feature_gain must have 4 entries, has 3"),
    ("stages", [{"kind": "projection"}], r"exactly one scorer .* are \['projection'\]"),
    ("stages", [{"kind": "projection"}] * 2, "'projection.components' is missing"),
    ("stages", [{"kind": "trees"}, {"kind": "projection"}], "must have 4 entries"),
    ("parameters", [], "'parameters' must be"),
    ("parameters", {"n_tree": 3}, "'n_tree' is unknown to SparseGBDTClassifier; update"),
    ("parameters", {"n_trees": 0}, "must be an int >= 1. Got 0 instead"),
    ("parameters", {"n_trees": 10**400}, "Got 1000"),
    ("parameters", {"n_trees": True}, "Got True"),
    ("parameters", {"loss": "logistic"}, "loss"),
    ("parameters", {"loss": ["squared"]}, "loss"),
    ("parameters", {"l2": "x" * 10_000}, "l2"),
    ("parameters", {"l2": {"a": 1}}, "l2"),
    ("parameters", {"l2": float("nan")}, "'l2' parameter of .* must be a number >= 0. Got nan"),
    ("parameters", {"n_jobs": 100_000}, "'n_jobs'"),
    ("parameters", {"verbose": 2}, "'verbose'"),
    ("parameters", {"self": 1}, "'self' is unknown"),
])  # fmt: skip
def test_headers_that_lie(edited, key, value, message):
    with pytest.raises(ModelFileError, match=message) as error:
        edited(change_header=lambda header: header.update({key: value}))
    assert len(str(error.value)) < 1500, "a sentence, not the file"


@pytest.mark.parametrize("key", [*headers.TYPES, "format_version"])
def test_every_key_is_needed(edited, key):
    with pytest.raises(ModelFileError, match=key):
        edited(change_header=lambda header: header.pop(key))


def test_keys_of_a_later_version_may_be_added(edited):
    assert edited(change_header=lambda header: header.update(comment="hello")).n_trees > 0


# --- tensors that lie


def put(name, index, value):
    def change(tensors):
        tensors[name][index] = value

    return change


def replace(name, make):
    def change(tensors):
        tensors[name] = make(tensors[name])

    return change


I64 = np.iinfo(np.int64)


def wider(name, dtype, index, value):
    """A number that the tensor's own type may not hold."""

    def change(tensors):
        tensors[f"trees.{name}"] = tensors[f"trees.{name}"].astype(dtype)
        tensors[f"trees.{name}"][index] = value

    return change


def make_root_a_leaf(tensors):
    tensors["trees.feature"][0] = 0


def put_leaves_first(tensors):
    """As many inner nodes as before, but none of them can be reached from its parent."""
    first = tensors["trees.feature"][: tensors["trees.n_nodes"][0]]
    first[:] = np.sort(first)


BAD_TENSORS = {
    "a leaf in place of the root": (make_root_a_leaf, "feature: a tree must have one more leaf"),
    "children before their parents": (put_leaves_first, "child: must come after its parent"),
    "a feature beyond the columns": (put("trees.feature", 0, 4), "feature: a column that does not exist"),
    "a feature beyond int32": (wider("feature", np.uint32, 0, 2**32 - 1), "feature: index out of range"),
    "a feature at the end of int32": (wider("feature", np.uint32, 0, 2**31), "feature: a column that does not exist"),
    "a node too few": (replace("trees.feature", lambda a: a[:-1]), "n_nodes must be odd"),
    "no nodes": (replace("trees.feature", lambda a: a[:0]), "n_nodes must be odd"),
    "a tree without a node": (replace("trees.n_nodes", lambda a: np.append(a, a[:1] * 0)), "n_nodes must be odd"),
    "a tree of even size": (put("trees.n_nodes", 0, 2), "n_nodes must be odd"),
    "trees that are too large": (wider("n_nodes", np.uint32, 0, 2**32 - 1), "n_nodes must be odd"),
    "no trees": (replace("trees.n_nodes", lambda a: a[:0]), "n_nodes must be odd"),
    "a threshold that is no number": (lambda t: t["trees.thresholds"].fill(np.nan), "threshold must be a number"),
    "a threshold that does not exist": (wider("threshold_index", np.uint32, 0, 2**32 - 1), "threshold_index"),
    "no thresholds": (replace("trees.thresholds", lambda a: a[:0]), "threshold_index"),
    "a threshold_index too few": (replace("trees.threshold_index", lambda a: a[:-1]), "inner nodes"),
    "a missing_left too many": (replace("trees.missing_left", lambda a: np.append(a, a[:1])), "inner nodes"),
    "a label beyond the labels": (put("trees.leaf_labels", 0, 6), "leaf_labels: no such label"),
    "a label at the end of uint32": (wider("leaf_labels", np.uint32, 0, 2**32 - 1), "leaf_labels: no such label"),
    "leaf labels of one byte": (replace("trees.leaf_labels", lambda a: a.astype(np.uint8)), "is U8"),
    "a leaf size too few": (replace("trees.leaf_sizes", lambda a: a[:-1]), "leaf_sizes must have"),
    "a leaf that is too large": (wider("leaf_sizes", np.uint32, 0, 2**32 - 1), "leaf_indptr must start at 0"),
    "a leaf value too few": (replace("trees.leaf_values", lambda a: a[:-1]), "leaf_indptr"),
    "a leaf value that is no number": (wider("leaf_values", np.float32, 0, np.nan), "finite|value_scale"),
    "a scale that is no number": (put("trees.value_scale", 0, np.nan), "value_scale must be finite"),
    "an infinite scale": (put("trees.value_scale", 0, np.inf), "value_scale must be finite"),
    "a scale too few": (replace("trees.value_scale", lambda a: a[:-1]), "value_scale must have one entry per tree"),
    "no scales": (lambda t: t.pop("trees.value_scale"), "tensor 'trees.value_scale' is missing"),
    "a gain too few": (replace("trees.feature_gain", lambda a: a[:-1]), "must have 3 entries, has 2"),
    "a gain that is no number": (put("trees.feature_gain", 0, np.nan), "feature_gain has values that are not finite"),
    "negative counts": (replace("label_counts", lambda a: -a.astype(np.int64) - 1), "'label_counts' must be .* is I64"),
    "a count too many": (replace("label_counts", lambda a: np.append(a, a[:1])), "for each of 6 labels, has 7"),
    "names that overlap": (put("label_names.offsets", 1, 10**6), "label_names.offsets must increase"),
    "names that start late": (put("label_names.offsets", 0, 1), "label_names.offsets must increase"),
    "names from below": (put("label_names.offsets", 1, I64.min), "label_names.offsets must increase"),
    "no name offsets": (replace("label_names.offsets", lambda a: a[:0]), "label_names.offsets must increase"),
    "a name too few": (replace("label_names.offsets", lambda a: np.delete(a, 1)), "for each of 6 labels, has 5"),
    "names that are no text": (lambda t: t["label_names.bytes"].fill(0xFF), "label names are invalid"),
    "the same name twice": (lambda t: t["label_names.bytes"].fill(ord("a")), "not distinct"),
    "a projection that is no number": (put("projection.components", (0, 0), np.inf), "not finite"),
    "a projection without columns": (
        replace("projection.components", lambda a: a[:, :0]), r"shape \(4, r >= 1\). Got \(4, 0\)"),
    "a projection of one dimension": (replace("projection.components", np.ravel), "2 dimensions, is F16 with 1"),
    "a projection of other rows": (replace("projection.components", lambda a: a[1:]), r"Got \(3, 3\)"),
    "a flag that is none": (put("projection.keep_raw", 0, 2), "keep_raw must be a single 0 or 1"),
    "a flag that lies": (put("projection.keep_raw", 0, 1), "feature_gain must have 7 entries, has 3"),
    "a projection of float64": (replace("projection.components", lambda a: a.astype(np.float64)), "F64"),
    "signed features": (replace("trees.feature", lambda a: a.astype(np.int64)), "'trees.feature' must be .* is I64"),
    "a table of features": (replace("trees.feature", lambda a: a[None]), "1 dimensions, is U8 with 2"),
    "no threshold_index": (lambda t: t.pop("trees.threshold_index"), "'trees.threshold_index' is missing"),
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


@pytest.mark.parametrize(("kind", "names", "message"), [
    ("int", ["1", "01", "2", "3", "4", "5"], "not distinct"),
    ("float", ["1.0", "1.00", "2", "3", "4", "5"], "not distinct"),
    ("float", ["nan", "1", "2", "3", "4", "5"], "not finite"),
    ("bool", ["True", "False", "no", "3", "4", "5"], "not distinct"),
])  # fmt: skip
def test_names_that_are_one_after_conversion(edited, kind, names, message):
    def rename(tensors):
        encoded = [name.encode() for name in names]
        tensors["label_names.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        tensors["label_names.offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    with pytest.raises(ModelFileError, match=message):
        edited(rename, lambda header: header.update(label_name_kind=kind))


def test_a_model_is_loaded_with_its_number_of_threads(good):
    assert load(good[0]).n_jobs is None
    for n_jobs in (1, 0, -2):
        clf = load(good[0], n_jobs=n_jobs)
        assert clf.get_params()["n_jobs"] == n_jobs
        np.testing.assert_array_equal(clf.predict_topk(good[1])[1], load(good[0]).predict_topk(good[1])[1])
    with pytest.raises(
        ValueError, match=r"The 'n_jobs' parameter of load must be an int or None. Got '2' instead"
    ):
        load(good[0], n_jobs="2")


def test_the_sound_file_passes_through_the_same_editor(edited, good):
    assert edited().predict_topk(good[1])[0].shape == (80, 5)


def test_a_file_with_values_of_32_bits_has_no_scales(edited):
    def widen(tensors):
        del tensors["trees.value_scale"]
        tensors["trees.leaf_values"] = tensors["trees.leaf_values"].astype(np.float32)

    edited(widen)
    with pytest.raises(ModelFileError, match=r"unknown tensor 'trees\.value_scale'"):
        edited(lambda tensors: tensors.update({"trees.value_scale": np.ones(3, np.float32)}))


def test_every_tensor_of_the_format_is_in_a_file(good):
    names = (
        "n_nodes feature threshold_index thresholds missing_left leaf_sizes leaf_labels leaf_values value_scale"
        " feature_gain cover"
    )
    assert set(load_file(good[0])) == {f"trees.{name}" for name in names.split()} | {
        "label_counts", "label_names.bytes", "label_names.offsets", "projection.components",
        "projection.keep_raw",
    }  # fmt: skip
    assert sparseleaf.ModelFileError is ModelFileError
    assert issubclass(ModelFileError, ValueError)
