"""URIs of labels: stored with the model, validated when given and when loaded, kept by updates and blends."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    ModelFileError,
    MultiGBDTRegressor,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.model import Role

X, Y = make_xc(120, 20, 4, labels_per_row=2, nnz_per_row=5, seed=1)
NAMES = np.array(["ant", "bee", "cat", "dog"])
LISTS = [NAMES[row.indices].tolist() for row in Y]
URIS = {name: f"https://example.org/animals#{name}" for name in NAMES[:3]}


@pytest.fixture
def classifier():
    return SparseGBDTClassifier(n_trees=3, min_samples_leaf=5).fit(X, LISTS)


def test_uris_are_kept_in_the_file(classifier, tmp_path):
    assert classifier.label_uris_ is None
    before = classifier.predict_topk(X, k=3)
    classifier.set_label_uris(URIS | {"unknown": "urn:unknown"}).save(tmp_path / "m")
    loaded = sparseleaf.load(tmp_path / "m")
    assert loaded.label_uris_.tolist() == [*URIS.values(), None]
    for one, other in zip(before, loaded.predict_topk(X, k=3), strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.set_label_uris(None).label_uris_ is None
    assert loaded.model_.stage(Role.URIS) is None


def test_uris_by_position_and_by_number():
    classifier = LdSMClassifier(n_trees=2).fit(X, Y)
    listed = ["urn:a", None, "urn:ü", "urn:d"]
    assert classifier.set_label_uris(listed).label_uris_.tolist() == listed
    assert classifier.set_label_uris(np.array(listed, object)).label_uris_.tolist() == listed
    assert classifier.set_label_uris({"1": "urn:b", 2: "urn:c"}).label_uris_.tolist() == [
        None,
        "urn:b",
        "urn:c",
        None,
    ]


@pytest.mark.parametrize(("uris", "message"), [
    ({"ant": "animals/ant"}, "A URI must be absolute"),
    ({"ant": "https://example.org/an ant"}, "A URI must be absolute"),
    ({"ant": "urn:<ant>"}, "A URI must be absolute"),
    ({"ant": "urn:" + "a" * 2000}, "A URI must be absolute"),
    ({"ant": 5}, "A URI must be absolute"),
    ({"ant": "urn:a", "bee": "urn:a"}, "must be distinct. Got 'urn:a' twice"),
    ({"eel": "urn:e"}, "must have labels of the model, such as 'ant'. Got 'eel' instead"),
    ({}, "must have labels of the model"),
    (["urn:a"], "one URI for each of 4 labels"),
    ("urn:", "one URI for each of 4 labels"),
])  # fmt: skip
def test_invalid_uris_are_refused(classifier, uris, message):
    with pytest.raises(ValueError, match=message):
        classifier.set_label_uris(uris)
    assert classifier.label_uris_ is None


def test_new_labels_have_no_uri(classifier):
    classifier.set_label_uris(URIS)
    classifier.update(X[:10], [["eel", *row] for row in LISTS[:10]])
    assert classifier.label_uris_.tolist() == [*URIS.values(), None, None]


def test_a_blend_has_the_uris_of_its_members(classifier, tmp_path):
    other = SparseGBDTClassifier(n_trees=2, min_samples_leaf=9).fit(X, LISTS).set_label_uris(URIS)
    blend = BlendClassifier([classifier, other], weights=[1, 1], prefit=True).fit(X, LISTS)
    blend.save(tmp_path / "m")
    assert sparseleaf.load(tmp_path / "m").label_uris_.tolist() == [*URIS.values(), None]


def test_regressors_have_no_labels():
    assert not hasattr(MultiGBDTRegressor, "set_label_uris")


@pytest.mark.parametrize("damage", [
    lambda text, sizes: (text[:-1], sizes),
    lambda text, sizes: (text, sizes[:-1]),
    lambda text, sizes: (np.full_like(text, 0xFF), sizes),
    lambda text, sizes: (np.full_like(text, ord(" ")), sizes),
    lambda text, sizes: (np.frombuffer(b"urn:aurn:aurn:a", np.uint8), np.array([5, 5, 5, 0], np.uint8)),
    lambda text, sizes: (text.astype(np.float32), sizes),
    lambda text, sizes: (text, sizes.astype(np.int64)),
])  # fmt: skip
def test_damaged_files_are_refused(classifier, tmp_path, damage):
    classifier.set_label_uris(URIS).save(tmp_path / "m")
    tensors = load_file(tmp_path / "m")
    metadata = _metadata(tmp_path / "m")
    tensors["uris.text"], tensors["uris.sizes"] = damage(tensors["uris.text"], tensors["uris.sizes"])
    save_file(tensors, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError):
        sparseleaf.load(tmp_path / "m")


def _metadata(path):
    raw = path.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
