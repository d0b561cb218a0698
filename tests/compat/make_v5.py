"""Makes the files of version 5, the first with stages: one for every kind of stage.

python tests/compat/make_v5.py
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)

HERE = Path(__file__).parent
NAMES = np.array(["ash", "birch", "chestnut", "dogwood", "elm", "fir", "ginkgo", "h\u00e2sel"], object)


def make(name, estimator, other):
    path = HERE / f"{name}.safetensors"
    estimator.save(path)
    loaded = sparseleaf.load(path)
    model = loaded.model_
    X = other if isinstance(other, list) else other.tolist()
    expected = {"X": X, "stages": [stage.kind for stage in model.stages], "link": model.link}
    if model.calibrator is not None:
        predicted = loaded.predict(other)
        expected["predict"] = predicted.toarray().tolist() if sp.issparse(predicted) else predicted
        expected["probabilities"] = loaded.predict_proba(other).toarray().tolist()
    if getattr(loaded, "label_uris_", None) is not None:
        expected["uris"] = list(loaded.label_uris_)
    if hasattr(loaded, "predict_topk"):
        labels, scores = loaded.predict_topk(other, 4)
        expected |= {
            "labels": labels.tolist(),
            "scores": [[None if np.isneginf(s) else float(s) for s in row] for row in scores],
        }
    else:
        expected["predict"] = loaded.predict(other).tolist()
    path.with_suffix(".json").write_text(json.dumps(expected) + "\n")


def make_text():
    """Records with texts, numbers and categories."""
    titles = ["Bäume im Wald", "Dach & Fach", "森の木", "Holz"]
    records = [
        {
            "title": titles[i % 4],
            "abstract": f"Text {i % 7} über {NAMES[i % 8]}",
            "year": 1990 + i,
            "lang": "ab"[i % 2],
        }
        for i in range(64)
    ]
    names = [[NAMES[i % 8], NAMES[i % 4]] for i in range(64)]
    words = TextVectorizer(
        fields={"title": 2.0, "abstract": 1.0}, numeric="year", categorical="lang", char_ngram_range=(3, 3)
    )
    forest = SketchForestClassifier(n_trees=2, random_state=0, rerank=None, vectorizer=words)
    other = [
        {"title": "Wald", "abstract": "ash", "year": 2000, "lang": "a"},
        {"title": "森", "abstract": None},
    ]
    make("v5-text", forest.fit(records, names), other)


def main():
    make_text()
    rng = np.random.default_rng(51)
    X = (np.round(rng.normal(size=(200, 6)), 2) * (rng.random((200, 6)) < 0.2)).astype(np.float32)
    Y = X @ rng.normal(size=(6, len(NAMES))) > 0.5
    other = (np.round(rng.normal(size=(12, 6)), 2) * (rng.random((12, 6)) < 0.4)).astype(np.float32)
    other[0] = 0  # gets the prior
    rows, matrix = sp.csr_matrix(X), sp.csr_matrix(Y)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    small = {"n_trees": 2, "random_state": 0}
    ldsm = LdSMClassifier(**small, max_nodes=10)
    sparse = SparseGBDTClassifier(**small, max_depth=2, projection="random", projection_dim=3)
    for kind in ("centroid", "cosine"):
        make(f"v5-{kind}", ldsm.set_params(rerank=kind).fit(rows, names), other)
    for kind in ("log", "linear", "boosted"):
        make(f"v5-{kind}", sparse.set_params(rerank=kind).fit(rows, matrix), other)
    make("v5-bayes", SketchForestClassifier(**small, rerank="bayes").fit(rows, names), other)
    members = [ldsm.set_params(rerank=None), sparse.set_params(rerank="linear")]
    make("v5-blend", BlendClassifier(members, weights=[1, 3]).fit(rows, names), other)
    dense = {**small, "max_depth": 2}
    make("v5-logistic", MultiGBDTClassifier(**dense).fit(rows, matrix), other)
    make("v5-softmax", MultiGBDTClassifier(**dense).fit(X, NAMES[Y.argmax(axis=1)].astype(str)), other)
    calibrated = ldsm.set_params(rerank=None).fit(rows, names)
    for kind in ("isotonic", "platt"):
        calibrated.fit_calibration(rows, names, method=kind).set_threshold(rows, names, per_label=True)
        make(f"v5-{kind}", calibrated, other)
    plain = ldsm.set_params(rerank=None).fit(rows, names)
    make("v5-uris", plain.set_label_uris({name: f"https://example.org/{name}" for name in NAMES[:5]}), other)
    make("v5-log-link", MultiGBDTRegressor(**dense, loss="poisson").fit(X, np.round(np.abs(X[:, :2]))), other)


if __name__ == "__main__":
    main()
