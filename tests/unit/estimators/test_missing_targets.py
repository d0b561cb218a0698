"""Targets that are NaN are ignored wherever rows are measured, as they are in training."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_score

from multi_models import clf, make, reg


def with_gaps(Y, seed=0, share=0.3):
    return np.where(np.random.default_rng(seed).random(Y.shape) < share, np.nan, Y)


def test_score_of_a_regressor_is_that_of_the_known_targets():
    X, Y = make(200)
    gaps = with_gaps(Y)
    weights = np.random.default_rng(1).random(200)
    est = reg(n_trees=10).fit(X, gaps)
    predicted, known = est.predict(X), ~np.isnan(gaps)
    for given in (None, weights):
        wanted = [
            r2_score(
                Y[k, j], predicted[k, j], sample_weight=None if given is None else given[k]
            )
            for j, k in enumerate(known.T)
        ]  # fmt: skip
        assert est.score(X, gaps, given) == pytest.approx(np.mean(wanted))
    # targets that are all known give scikit-learn's number
    assert est.score(X, Y, weights) == pytest.approx(r2_score(Y, predicted, sample_weight=weights))


def test_score_leaves_out_outputs_that_no_row_has():
    X, Y = make(200)
    est = reg(n_trees=5).fit(X, Y)
    gaps = Y.copy()
    gaps[:, 0] = np.nan
    gaps[1:, 1] = np.nan  # R² of one row says nothing
    assert est.score(X, gaps) == pytest.approx(r2_score(Y[:, 2], est.predict(X)[:, 2]))
    with pytest.raises(ValueError, match="at least two values that are not NaN"):
        est.score(X, np.full(Y.shape, np.nan))


def test_score_of_one_output():
    X, Y = make(200)
    y = with_gaps(Y[:, 0])
    est = reg(n_trees=5).fit(X, y)
    known = ~np.isnan(y)
    assert est.score(X, y) == pytest.approx(r2_score(y[known], est.predict(X)[known]))


def test_score_of_labels_ranks_those_that_are_known():
    X, Y = make(200)
    labels = (Y > 0).astype(float)
    gaps = with_gaps(labels)
    gaps[:10] = np.nan  # nothing is known: no row to measure on
    est = clf(n_trees=5, eval_metric="precision@1").fit(X, gaps, eval_set=(X, gaps))
    scores, known = est.decision_function(X), ~np.isnan(gaps)
    best = np.where(known, scores, -np.inf).argmax(axis=1)
    rows = known.any(axis=1)
    wanted = labels[np.arange(200), best][rows].mean()
    assert est.score(X, gaps) == pytest.approx(wanted)
    assert est.history_["valid precision@1"][-1] == pytest.approx(wanted)
    with pytest.raises(ValueError, match="at least one value that is not NaN"):
        est.score(X, np.full(gaps.shape, np.nan))
    with pytest.raises(ValueError, match="y has 2 labels, but 3 were seen in fit"):
        est.score(X, gaps[:, :2])


def test_unknown_labels_are_no_hits_where_more_are_ranked_than_known():
    X, Y = make(100)
    gaps = np.full(Y.shape, np.nan)
    gaps[:, 0] = 1
    est = clf(n_trees=2, eval_metric="precision@3").fit(X, (Y > 0).astype(int), eval_set=(X, gaps))
    assert est.history_["valid precision@3"] == pytest.approx([1 / 3] * 2)


def test_partly_known_labels_are_matched_by_name():
    X, Y = make(200)
    gaps = pd.DataFrame(with_gaps((Y > 0).astype(float)), columns=["a", "b", "c"])
    est = clf(n_trees=5).fit(X, gaps, eval_set=(X, gaps[["c", "a", "b"]]))
    other = clf(n_trees=5).fit(X, gaps, eval_set=(X, gaps))
    assert est.history_ == other.history_
    assert est.score(X, gaps[["c", "a", "b"]]) == est.score(X, gaps)


@pytest.mark.parametrize("make_estimator", [reg, clf])
def test_cross_validation_with_missing_targets(make_estimator):
    X, Y = make(200)
    gaps = with_gaps(Y if make_estimator is reg else (Y > 0).astype(float))
    # a splitter: for a classifier and a number, scikit-learn looks at the classes first
    assert np.isfinite(cross_val_score(make_estimator(n_trees=3), X, gaps, cv=KFold(3))).all()
