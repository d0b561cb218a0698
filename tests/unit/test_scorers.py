"""Scorers by name, in scikit-learn's model selection."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sparseleaf import LdSMClassifier, MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import RankingScorer, evaluate, propensities, scorers

X, Y = make_xc(300, 40, 20, labels_per_row=3, nnz_per_row=10, seed=1)
LISTS = Y.tolil().rows  # an object array with a list of label ids per row
CLF = SparseGBDTClassifier(n_trees=3, min_samples_leaf=3)


@pytest.mark.parametrize("name", ["precision@1", "precision@5", "ndcg@3", "psp@1", "psp@10", "psndcg@5"])
def test_scores_are_those_of_the_metrics(name):
    clf = CLF.fit(X[:200], Y[:200])
    k = int(name.partition("@")[2])
    labels, _ = clf.predict_topk(X[200:], k=k)
    wanted = evaluate(Y[200:], labels, propensities(Y[:200]), ks=[k])[name]
    assert scorers[name](clf, X[200:], Y[200:]) == pytest.approx(wanted)
    assert wanted > 0


def test_every_name_is_there():
    assert set(scorers) == {
        f"{m}@{k}" for m in ("precision", "recall", "f1", "ndcg", "psp", "psndcg") for k in (1, 3, 5, 10)
    }
    assert all(str(scorer) == name for name, scorer in scorers.items())
    assert pickle.loads(pickle.dumps(scorers["precision@3"])) == scorers["precision@3"]


def test_former_names_are_understood():
    with pytest.warns(FutureWarning, match="The metric 'nDCG@5' was renamed to 'ndcg@5'"):
        assert scorers["nDCG@5"] is scorers["ndcg@5"]
    with pytest.warns(FutureWarning, match="The metric 'PSP' was renamed to 'psp'"):
        assert RankingScorer("PSP", 3) == scorers["psp@3"]
    with pytest.raises(KeyError):
        scorers["P@2"]


def test_a_depth_beyond_the_labels():
    clf = CLF.fit(X, Y[:, :4])
    assert RankingScorer("precision", 8)(clf, X, Y[:, :4]) == pytest.approx(Y[:, :4].sum() / (8 * 300))


def test_labels_that_training_never_saw_are_misses():
    names = [[f"label {label}" for label in row] for row in LISTS]
    others = [[*row, "never seen"] for row in names[200:]]
    clf = CLF.fit(X[:200], names[:200])
    assert scorers["precision@5"](clf, X[200:], others) == scorers["precision@5"](clf, X[200:], names[200:])
    assert scorers["psp@5"](clf, X[200:], others) < scorers["psp@5"](clf, X[200:], names[200:])


@pytest.mark.parametrize(
    ("targets", "cv"), [(Y, 3), (Y, KFold(3)), (LISTS, KFold(3)), (LISTS.tolist(), KFold(3))]
)
def test_a_search(targets, cv):
    scoring = {name: scorers[name] for name in ("precision@1", "psp@5")}
    search = GridSearchCV(
        CLF, {"n_trees": [1, 6]}, scoring=scoring, refit="precision@1", cv=cv, error_score="raise"
    )
    found = search.fit(X, targets).cv_results_
    assert (found["mean_test_precision@1"] > 0.1).all()
    assert (found["mean_test_psp@5"] > 0.05).all()
    assert search.best_params_ == {"n_trees": [1, 6][int(np.argmax(found["mean_test_precision@1"]))]}


@pytest.mark.parametrize("clf", [
    CLF, LdSMClassifier(n_trees=2, max_nodes=20), MultiGBDTClassifier(n_trees=2), make_pipeline(MaxAbsScaler(), CLF),
    Pipeline([("only", CLF)]),
], ids=["gbdt-sparse", "ldsm", "gbdt-mo", "pipeline", "pipeline of one"])  # fmt: skip
def test_cross_validation_of_lists_of_labels(clf):
    found = cross_val_score(clf, X, LISTS, cv=KFold(3), scoring=scorers["ndcg@3"], error_score="raise")
    assert (found > 0.1).all()
    # the folds of a dense matrix are the same rows
    dense = cross_validate(clf, X, Y.toarray(), cv=3, scoring=scorers["ndcg@3"], error_score="raise")
    np.testing.assert_allclose(found, dense["test_score"])


def test_one_class_per_row():
    y = np.array(["a", "b", "c"])[np.asarray(X[:, :3].argmax(axis=1)).ravel()]
    found = cross_val_score(CLF, X, y, cv=3, scoring=scorers["precision@1"], error_score="raise")
    np.testing.assert_allclose(found, cross_val_score(CLF, X, y, cv=3))


def test_estimators_without_labels_are_refused():
    est = MultiGBDTRegressor(n_trees=1).fit(X, Y.toarray().astype(float))
    with pytest.raises(
        ValueError, match=r"precision@1 requires a classifier with predict_topk.*Got MultiGBDTRegressor"
    ):
        scorers["precision@1"](est, X, Y)
