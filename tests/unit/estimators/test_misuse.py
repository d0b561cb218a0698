"""Mistakes that would otherwise pass in silence."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.export import to_onnx, to_treelite

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
y = X[:, 0] + X[:, 1]
Y = sp.csr_matrix(RNG.random((80, 8)) < 0.3)


def test_targets_are_matched_by_name():
    table = pd.DataFrame({"p": y, "q": 100 + 10 * y})
    turned = table[["q", "p"]]
    est = MultiGBDTRegressor(n_trees=40, min_samples_leaf=3).fit(X, table, eval_set=(X, turned))
    assert est.score(X, turned) == est.score(X, table) > 0.9
    assert est.history_["valid loss"][-1] < est.history_["valid loss"][0]
    with pytest.raises(ValueError, match="y must have the columns"):
        est.score(X, table.rename(columns={"p": "r"}))


@pytest.mark.parametrize(("first", "then"), [
    ({"loss": "mse"}, {"loss": "poisson"}), ({"loss": "huber:1"}, {"loss": "huber:2"}),
])  # fmt: skip
def test_training_does_not_go_on_under_another_loss(first, then):
    est = MultiGBDTRegressor.from_settings({"n_trees": 2, "warm_start": True, **first}).fit(X, np.exp(y))
    with pytest.raises(ValueError, match=r"requires loss=.* Got loss="):
        est.set_params(n_trees=4, **then).fit(X, np.exp(y))


def test_training_does_not_go_on_from_another_kind_of_model():
    ranker = GBDTRanker(n_trees=2).fit(X, (y > 0).astype(int), qid=np.arange(80) // 10)
    with pytest.raises(ValueError, match="requires loss='lambdamart' of 'rank', as in the model"):
        MultiGBDTRegressor().fit(X, y, init_model=ranker)
    with pytest.raises(
        ValueError, match=r"'init_model' parameter must be a fitted estimator .* Got 'm\.safetensors' instead"
    ):
        MultiGBDTRegressor().fit(X, y, init_model="m.safetensors")


@pytest.mark.parametrize("clf", [
    SparseGBDTClassifier(n_trees=2, rerank="log", advanced={"rerank_weight": 0.3}), LdSMClassifier(n_trees=2),
], ids=["re-ranked", "routed"])  # fmt: skip
def test_what_cannot_be_held_or_explained_is_refused(clf):
    clf.fit(X, Y)
    for use in (to_onnx, to_treelite):
        with pytest.raises(ValueError, match="cannot be exported"):
            use(clf)
    with pytest.raises(ValueError, match="Shapley values"):
        clf._explain(X, None, 100, "labels")


EVERY = [
    SparseGBDTClassifier(n_trees=2), SketchForestClassifier(n_trees=2), LdSMClassifier(n_trees=2),
    MultiGBDTClassifier(n_trees=2), MultiGBDTRegressor(n_trees=2),
]  # fmt: skip
every = pytest.mark.parametrize("est", EVERY, ids=lambda est: type(est).__name__)


@every
def test_dates_are_refused_by_column(est):
    # beside text, which has trees with categories look at the columns before scikit-learn does
    table = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2020-01-01", periods=80), "t": ["u", "v"] * 40})
    with pytest.raises(ValueError, match="column 'day' of X contains dates or times"):
        est.fit(table, y > 0)
    with pytest.raises(ValueError, match="X contains dates or times"):
        est.fit(table[["day"]].to_numpy(), y > 0)
    est.fit(X[:, :1], y > 0)
    with pytest.raises(ValueError, match="X contains dates or times"):
        est.predict(table[["day"]].to_numpy())


@every
def test_masks_are_refused(est):
    masked = np.ma.masked_array(X, mask=X > 1)
    with pytest.raises(ValueError, match="X is a masked array"):
        est.fit(masked, y > 0)
    with pytest.raises(ValueError, match=r"[yY] is a masked array"):
        est.fit(X, np.ma.masked_array((y > 0).astype(int), mask=y > 1))
    est.fit(X, y > 0)
    with pytest.raises(ValueError, match="X is a masked array"):
        est.predict(masked)


def test_masks_and_dates_in_grades_and_weights_are_refused():
    masked = np.ma.masked_array(np.ones(80), mask=y > 1)
    with pytest.raises(ValueError, match="y is a masked array"):
        GBDTRanker().fit(X, masked, qid=np.arange(80) // 8)
    with pytest.raises(ValueError, match="y contains dates or times"):
        GBDTRanker().fit(X, np.zeros(80, "datetime64[D]"), qid=np.arange(80) // 8)
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        MultiGBDTRegressor().fit(X, y, sample_weight=masked)


@every
def test_models_of_features_take_no_texts(est):
    documents = np.array(["a few words", "some more"] * 40)
    with pytest.raises(ValueError, match=r"X must be numeric, but contains text.*TextVectorizer"):
        est.fit(documents[:, None], y > 0)
    est.fit(X, y > 0)
    with pytest.raises(ValueError, match=r"X must be numeric, but contains text.*TextVectorizer"):
        est.predict(documents[:, None])
    for texts in (documents, documents.tolist(), pd.Series(documents)):
        with pytest.raises(ValueError, match=r"X must be features, as in training. Got texts instead"):
            est.predict(texts)


def test_free_text_is_no_category():
    table = pd.DataFrame({"title": [f"title {i}" for i in range(300)]})
    with pytest.raises(ValueError, match=r"'title' must have at most 255 categories. Got 300.*vectorizer"):
        MultiGBDTRegressor().fit(table, np.arange(300))


@pytest.mark.parametrize("format_", ["csr", "coo"])
@pytest.mark.parametrize("which", ["X", "y"])
@every
def test_broken_sparse_matrices_are_refused(est, format_, which):
    dense = (np.random.default_rng(0).random((80, 3)) < 0.5).astype(float)
    broken = sp.csr_matrix(dense).asformat(format_)
    (broken.row if format_ == "coo" else broken.indices)[5] = 10**8
    with pytest.raises(ValueError, match=r"^[XyY] is not a valid sparse matrix"):
        est.fit(*((broken, dense) if which == "X" else (X, broken)))


def test_targets_that_are_none_or_text_are_named():
    with pytest.raises(ValueError, match="y must have at least one label"):
        MultiGBDTClassifier().fit(X, [[]] * 80)
    with pytest.raises(ValueError, match="y: could not convert"):
        MultiGBDTRegressor().fit(X, ["a"] * 80)
