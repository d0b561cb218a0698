"""Reports on regressors and rankers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from pages import payload_of
from sparseleaf import GBDTRanker, MultiGBDTRegressor
from sparseleaf.ranking import average_precision, evaluate, ndcg


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, np.c_[X[:, 0] + X[:, 1] ** 2, np.sin(3 * X[:, 2]), X[:, 3]]


def test_errors_agree_with_scikit_learn(rows):
    X, Y = rows
    Y = Y.copy()
    Y[200:220, 1] = np.nan
    model = MultiGBDTRegressor(n_trees=10).fit(X[:200], Y[:200])
    report = model.report(X[200:], Y[200:], latency=False)
    predicted, outputs = model.predict(X[200:]), report.data["outputs"]
    for output in range(3):
        known = ~np.isnan(Y[200:, output])
        pair = Y[200:, output][known], predicted[known, output]
        assert outputs["known"][output] == known.sum()
        assert outputs["rmse"][output] == pytest.approx(root_mean_squared_error(*pair), rel=1e-5)
        assert outputs["mae"][output] == pytest.approx(mean_absolute_error(*pair), rel=1e-5)
        assert outputs["r2"][output] == pytest.approx(r2_score(*pair), rel=1e-4)
        assert outputs["bias"][output] == pytest.approx((pair[1] - pair[0]).mean(), rel=1e-3)
        shown = report.data["residuals"][output]
        assert sum(shown["counts"]) == known.sum()
        np.testing.assert_allclose(shown["predicted"], pair[1], rtol=1e-5)
    assert report.metrics["rmse"] == pytest.approx(np.mean(outputs["rmse"]), rel=1e-5)
    strongest = [outputs["features"]["ids"][start] for start in outputs["features"]["offsets"][:-1]]
    assert [report.data["features"][place] for place in strongest[1:]] == ["feature 2", "feature 3"]


def test_an_output_without_values(rows):
    X, Y = rows
    model = MultiGBDTRegressor(n_trees=3).fit(X, Y)
    Y = np.c_[np.full(len(X), np.nan), Y[:, 1:]]
    report = model.report(X, Y, latency=False)
    assert report.data["outputs"]["rmse"][0] is None
    assert [one["name"] for one in report.data["residuals"]] == ["y1", "y2"]
    assert payload_of(report.to_html())["outputs"]["rmse"][0] is None


def test_wrong_number_of_outputs(rows):
    X, Y = rows
    model = MultiGBDTRegressor(n_trees=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"y must have shape \(300, 3\), as in training\. Got \(300, 2\)"):
        model.report(X, Y[:, :2])


def test_queries(rows):
    X, _ = rows
    grades = np.clip((X[:, 0] + 0.5 * X[:, 1] + 1).astype(int), 0, 3)
    qid = np.array([f"q{number}" for number in np.repeat(np.arange(30), 10)])[::-1]
    ranker = GBDTRanker(n_trees=5, min_samples_leaf=5).fit(X, grades, qid=qid)
    report = ranker.report(X, grades, qid, latency=False)
    scores, queries = ranker.predict(X), report.data["queries"]
    assert report.metrics == pytest.approx(evaluate(grades, scores, qid))
    assert queries["names"] == list(dict.fromkeys(qid.tolist()))
    np.testing.assert_allclose(queries["ndcg5"], ndcg(grades, scores, qid, k=5), rtol=1e-5)
    np.testing.assert_allclose(queries["ap"], average_precision(grades, scores, qid), rtol=1e-5)
    assert queries["relevant"] == [int((grades[qid == name] > 0).sum()) for name in queries["names"]]
    worst = next(row for row in report.data["examples"]["rows"] if row["kind"] == "error")
    assert qid[worst["row"]] == queries["names"][int(np.argmin(queries["ndcg10"]))]
    assert sum(grade["documents"] for grade in report.data["grades"]) == 300
    with pytest.raises(ValueError, match="Either 'qid' or 'group' must be given"):
        ranker.report(X, grades)
