"""Pipelines with predict_topk."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.metrics import scorers
from sparseleaf.pipeline import Pipeline, make_pipeline

TEXTS = ["a cat sleeps", "the dog barks", "cat and dog play", "a bird sings"] * 15
LABELS = [["cat"], ["dog"], ["cat", "dog"], ["bird"]] * 15


def text_pipeline(**parameters):
    return make_pipeline(TfidfVectorizer(), SketchForestClassifier(n_trees=3, rerank=None, **parameters))


def test_it_is_the_classifier_after_the_transformers():
    pipe = text_pipeline().fit(TEXTS, LABELS)
    assert isinstance(pipe, PlainPipeline)
    X = TfidfVectorizer().fit_transform(TEXTS)
    clf = SketchForestClassifier(n_trees=3, rerank=None).fit(X, LABELS)
    for found, wanted in zip(pipe.predict_topk(TEXTS, k=2), clf.predict_topk(X, k=2), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(
        pipe.predict_topk(TEXTS, 1, n_trees=1)[1], clf.predict_topk(X, 1, n_trees=1)[1]
    )
    assert (pipe.decision_function(TEXTS) != clf.decision_function(X)).nnz == 0
    assert pipe.predict(TEXTS[:4]) == clf.predict(X[:4])
    staged = list(pipe.staged_predict_topk(TEXTS, k=2))
    assert len(staged) == 3
    np.testing.assert_array_equal(staged[-1][0], pipe.predict_topk(TEXTS, k=2)[0])
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict_topk(TEXTS, k=2)[0], pipe.predict_topk(TEXTS, k=2)[0])


def test_model_selection():
    pipe = text_pipeline()
    grid = {"tfidfvectorizer__sublinear_tf": [False, True], "sketchforestclassifier__arity": [2, 4]}
    search = GridSearchCV(pipe, grid, scoring=scorers["precision@1"], cv=KFold(2)).fit(TEXTS, LABELS)
    assert search.best_score_ == 1
    assert isinstance(search.best_estimator_, Pipeline)
    assert search.best_estimator_.predict_topk(["a bird"], k=1)[0].tolist() == [["bird"]]
    assert clone(pipe).get_params()["sketchforestclassifier__arity"] == 4


def test_weights_and_output_of_transformers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    pipe = make_pipeline(StandardScaler(), SparseGBDTClassifier(n_trees=2)).set_output(transform="pandas")
    pipe.fit(X, y, sparsegbdtclassifier__sample_weight=np.arange(80))
    labels, _ = pipe.predict_topk(X, k=2)
    assert labels.shape == (80, 2)
    assert pipe[-1].feature_names_in_.tolist() == ["x0", "x1", "x2"]
    values, expected = pipe.shap_values(X[:2])
    assert (values.shape, expected.shape) == ((2, 3, 3), (3,))


def test_a_single_step_and_a_step_that_passes_through():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    alone = Pipeline([("clf", MultiGBDTClassifier(n_trees=2))]).fit(X, y)
    passed = Pipeline([("none", "passthrough"), ("clf", MultiGBDTClassifier(n_trees=2))]).fit(X, y)
    np.testing.assert_array_equal(alone.predict_topk(X, k=2)[1], passed.predict_topk(X, k=2)[1])


@pytest.mark.parametrize("last", [DecisionTreeClassifier(), MultiGBDTRegressor()])
def test_other_estimators_do_not_have_the_method(last):
    pipe = make_pipeline(StandardScaler(), last)
    assert not hasattr(pipe, "predict_topk")
    with pytest.raises(AttributeError, match="has no attribute 'predict_topk'"):
        pipe.predict_topk([[0.0]])
