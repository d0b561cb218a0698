"""Model files of every version that was ever released load and predict what they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import sparseleaf

FILES = sorted(Path(__file__).parent.glob("*.safetensors"))


def test_there_are_files():
    assert {file.stem for file in FILES} >= {
        *("gbdt-sparse-v1", "gbdt-sparse-v1-missing"),
        *("gbdt-sparse-v2-rerank", "ldsm-v2", "ldsm-v2-arity"),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_old_files_predict_what_they_did(path):
    assert path.stat().st_size < 20_000
    expected = json.loads(path.with_suffix(".json").read_text())
    X = np.array([[np.nan if x is None else x for x in row] for row in expected["X"]], np.float32)
    clf = sparseleaf.load(path)
    labels, scores = clf.predict_topk(X, 4)
    assert labels.tolist() == expected["labels"]
    wanted = np.array([[-np.inf if s is None else s for s in row] for row in expected["scores"]])
    np.testing.assert_allclose(scores, wanted, rtol=1e-6)
    predicted = clf.predict(X)
    assert (predicted if isinstance(predicted, list) else predicted.toarray().tolist()) == expected["predict"]
    assert clf.model_.n_trees == expected["n_trees"]
    for name, value in expected["parameters"].items():
        assert getattr(clf, name) == value
    assert len(clf.history_["valid P@1"]) == expected["n_trees"]
