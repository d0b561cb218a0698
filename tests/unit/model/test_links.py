"""The link is in the model: written, read, derived for files that do not have it, and refused if unknown."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sparseleaf
from sparseleaf import (
    GBDTRanker,
    ModelFileError,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SparseGBDTClassifier,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)).astype(np.float32)
NUMBERS = rng.poisson(2.0, (60, 2)).astype(np.float64)
CLASSES = np.arange(60) % 3
LABELS = (NUMBERS > 1).astype(int)
SMALL = {"n_trees": 2, "min_samples_leaf": 5}


def halves(y, z):
    return z - (np.eye(3)[y] if y.ndim == 1 else y), np.ones_like(z)


CASES = {
    "mse": (MultiGBDTRegressor(**SMALL), NUMBERS, "identity"),
    "poisson": (MultiGBDTRegressor(**SMALL, loss="poisson"), NUMBERS, "log"),
    "a user's loss of numbers": (MultiGBDTRegressor(**SMALL, loss=halves), NUMBERS, "identity"),
    "classes": (MultiGBDTClassifier(**SMALL), CLASSES, "softmax"),
    "classes, each by itself": (MultiGBDTClassifier(**SMALL, loss="logistic"), CLASSES, "one-vs-rest"),
    "a user's loss of classes": (MultiGBDTClassifier(**SMALL, loss=halves), CLASSES, "softmax"),
    "labels": (MultiGBDTClassifier(**SMALL), LABELS, "logistic"),
    "a user's loss of labels": (MultiGBDTClassifier(**SMALL, loss=halves), LABELS, "logistic"),
    "sparse labels": (SparseGBDTClassifier(**SMALL), LABELS, "identity"),
}


def predictions(estimator):
    if isinstance(estimator, MultiGBDTClassifier):
        return estimator.predict_proba(X)
    labels = isinstance(estimator, SparseGBDTClassifier)
    return estimator.decision_function(X).toarray() if labels else estimator.predict(X)


def as_version_4(header):
    """That of a model of trees alone, which had no link."""
    del header["link"], header["stages"]
    header.update(format_version=4, keep_raw=0)


def edit_header(path, change, renamed=None):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["sparseleaf"])
    change(header)
    tensors = {(renamed or {}).get(name, name): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, {"sparseleaf": json.dumps(header)})


@pytest.mark.parametrize("case", CASES)
def test_the_link_is_stored_and_derived_for_files_without_it(case, tmp_path):
    estimator, y, link = CASES[case]
    estimator.fit(X, y)
    assert estimator.model_.link == link
    path = tmp_path / "m.safetensors"
    estimator.save(path)
    assert sparseleaf.load(path).model_.link == link
    edit_header(path, as_version_4, {"trees.base_score": "base_score"})
    loaded = sparseleaf.load(path)
    assert loaded.model_.link == link
    np.testing.assert_array_equal(predictions(loaded), predictions(estimator))


def test_prediction_takes_the_link_from_the_model_and_not_from_the_loss(tmp_path):
    estimator = MultiGBDTRegressor(**SMALL).fit(X, NUMBERS)
    path = tmp_path / "m.safetensors"
    estimator.save(path)
    edit_header(path, lambda header: header.update(link="log"))
    np.testing.assert_allclose(sparseleaf.load(path).predict(X), np.exp(estimator.predict(X)), rtol=1e-6)


def test_a_ranking_has_scores(tmp_path):
    ranker = GBDTRanker(n_trees=2, min_samples_leaf=5).fit(X, NUMBERS[:, 0], qid=np.arange(60) // 6)
    assert ranker.model_.link == "identity"


@pytest.mark.parametrize("link", ["probit", None, 1, ["log"]])
def test_unknown_links_are_refused(link, tmp_path):
    path = tmp_path / "m.safetensors"
    MultiGBDTRegressor(**SMALL).fit(X, NUMBERS).save(path)
    edit_header(path, lambda header: header.update(link=link))
    with pytest.raises(ModelFileError, match="metadata 'link' must be"):
        sparseleaf.load(path)
