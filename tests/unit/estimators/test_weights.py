"""sample_weight and class_weight of all classifiers."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import sparseleaf
from sparseleaf import (
    LdSMClassifier,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc

X, Y = make_xc(160, 40, 12, labels_per_row=2, nnz_per_row=8)
RNG = np.random.default_rng(0)
TIMES = RNG.integers(0, 4, len(Y.indptr) - 1)
SPARSE = {"n_trees": 4, "projection": None, "min_samples_leaf": 1, "max_bins": 255}
ALL = {
    "sketch": SparseGBDTClassifier(**SPARSE, advanced={"colsample_bynode": 1.0}),
    "exact": SparseGBDTClassifier(
        **SPARSE, advanced={"split": "exact", "exact_step": 1, "colsample_bynode": 1.0}
    ),
    "reranked": SparseGBDTClassifier(**SPARSE, rerank="cosine"),
    "leml": SparseGBDTClassifier(n_trees=3, projection="leml", projection_dim=5, min_samples_leaf=1),
    "ldsm": LdSMClassifier(n_trees=2, max_nodes=15, epochs=3),
    "ldsm, linear": LdSMClassifier(n_trees=2, max_nodes=15, epochs=3, rerank="linear"),
    "forest": SketchForestClassifier(n_trees=3, rerank=None),
    "forest, bootstrap": SketchForestClassifier(n_trees=3, arity=2, bootstrap=True, rerank="bayes"),
    "forest, boosted": SketchForestClassifier(n_trees=3, rerank="boosted"),
    "dense": MultiGBDTClassifier(n_trees=3, min_samples_leaf=1),
}
SPARSE_SCORES = [name for name in ALL if name != "dense"]


def scores(clf, rows=X):
    found = clf.decision_function(rows)
    return found.toarray() if sp.issparse(found) else found


def fitted(name, *rows, **more):
    parameters = more.pop("parameters", {})
    targets = rows[1].toarray() if name == "dense" else rows[1]
    return clone(ALL[name]).set_params(**parameters).fit(rows[0], targets, **more)


@pytest.mark.parametrize("name", SPARSE_SCORES)
def test_a_weight_of_0_leaves_the_row_out(name):
    kept = np.flatnonzero(TIMES)
    found = fitted(name, X, Y, sample_weight=(TIMES > 0).astype(float))
    np.testing.assert_array_equal(scores(found), scores(fitted(name, X[kept], Y[kept])))


@pytest.mark.parametrize("name", ALL)
def test_weights_of_1_do_not_matter(name):
    np.testing.assert_array_equal(scores(fitted(name, X, Y, sample_weight=1)), scores(fitted(name, X, Y)))


@pytest.mark.parametrize("name", ["sketch", "exact"])
def test_an_integer_weight_is_the_row_that_many_times(name):
    times = np.repeat(np.arange(len(TIMES)), TIMES)
    found = fitted(name, X, Y, sample_weight=TIMES)
    np.testing.assert_array_equal(scores(found), scores(fitted(name, X[times], Y[times])))


def test_leaves_of_the_forest_have_the_frequencies_of_repeated_rows():
    root = SketchForestClassifier(n_trees=2, max_depth=0, rerank=None)
    found = clone(root).fit(X, Y, sample_weight=TIMES).decision_function(X[:1]).toarray()
    times = np.repeat(np.arange(len(TIMES)), TIMES)
    np.testing.assert_allclose(found[0], Y[times].toarray().mean(axis=0), rtol=1e-3)


@pytest.mark.parametrize("name", ["sketch", "exact"])
def test_only_the_ratio_to_the_regularisation_matters(name):
    """Tiny and huge weights are scaled for fixed-point sums."""
    wanted = scores(fitted(name, X, Y, sample_weight=TIMES))
    for power in (2.0**-40, 2.0**50):
        found = fitted(name, X, Y, sample_weight=TIMES * power, parameters={"l2": power})
        np.testing.assert_allclose(scores(found), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("class_weight", ["balanced", "numbers"])
def test_threads_do_not_matter_and_the_model_is_saved(name, class_weight, tmp_path):
    weights = RNG.uniform(0.1, 3, len(TIMES))
    numbers = np.linspace(0.5, 4, Y.shape[1])
    parameters = {"class_weight": numbers if class_weight == "numbers" else class_weight}
    for jobs in (1, 3):
        clf = fitted(name, X, Y, sample_weight=weights, parameters=parameters | {"n_jobs": jobs})
        clf.save(tmp_path / str(jobs))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()
    loaded = sparseleaf.load(tmp_path / "1")
    np.testing.assert_array_equal(scores(loaded), scores(clf))
    assert np.array_equal(loaded.class_weight, parameters["class_weight"])
    clf.fit_rerank(X, Y if name != "dense" else Y.toarray(), sample_weight=TIMES, weight=0.3)
    assert np.isfinite(scores(clf)).all()


@pytest.mark.parametrize("name", ALL)
def test_class_weights_in_all_forms(name):
    counts = np.asarray(Y.sum(axis=0)).ravel()
    balanced = counts.sum() / (len(counts) * counts)
    wanted = scores(fitted(name, X, Y, parameters={"class_weight": "balanced"}))
    for form in (balanced, dict(enumerate(balanced.tolist())), balanced.tolist()):
        np.testing.assert_allclose(
            scores(fitted(name, X, Y, parameters={"class_weight": form})), wanted, atol=1e-6
        )
    assert not np.array_equal(wanted, scores(fitted(name, X, Y)))


@pytest.mark.parametrize("name", ALL)
def test_the_weight_of_a_class_is_that_of_its_rows(name):
    y = np.array(list("abc"))[np.asarray(Y[:, :3].argmax(axis=1)).ravel()]
    weights = {"a": 2.0, "c": 0.5}
    of_rows = np.array([weights.get(label, 1.0) for label in y])
    found = clone(ALL[name]).set_params(class_weight=weights).fit(X, y)
    np.testing.assert_array_equal(scores(found), scores(clone(ALL[name]).fit(X, y, sample_weight=of_rows)))


@pytest.mark.parametrize("name", ["sketch", "exact", "leml", "forest", "forest, bootstrap", "dense"])
def test_a_heavy_label_gets_higher_scores(name):
    label = int(np.argmin(np.asarray(Y.sum(axis=0))))
    plain = scores(fitted(name, X, Y))[:, label].mean()
    heavy = scores(fitted(name, X, Y, parameters={"class_weight": {label: 20.0}}))[:, label].mean()
    assert heavy > plain


def test_a_boosted_stump_fits_the_weighted_frequency():
    """Without features to split on, scores converge to cP / (cP + W - P)."""
    weights, factors = RNG.uniform(0.5, 2, len(TIMES)), RNG.uniform(0.1, 9, Y.shape[1])
    clf = SparseGBDTClassifier(n_trees=60, learning_rate=0.5, l2=0.0, leaf_labels=None, class_weight=factors)
    found = (
        clf.fit(np.zeros((len(TIMES), 1)), Y, sample_weight=weights).decision_function([[0.0]]).toarray()[0]
    )
    positive = factors * (weights @ Y.toarray())
    np.testing.assert_allclose(found, positive / (positive + weights @ (1 - Y.toarray())), rtol=1e-3)


def test_validation_rows_are_weighed():
    """The threshold and the mix are those of the rows that count."""
    weights = np.where(np.arange(len(TIMES)) % 2, 1.0, 1e-6)
    clf = SketchForestClassifier(n_trees=3, rerank="linear").fit(X, Y, sample_weight=weights)
    assert np.isfinite(clf.threshold_)
    assert scores(clf).max() <= 1


def test_memory_of_weights():
    clf = ALL["sketch"]
    assert clf.estimate_memory(X, Y, sample_weight=TIMES).residuals > clf.estimate_memory(X, Y).residuals


def test_labels_of_rows_left_out_stay_known():
    names = [["rare"] if row == 0 else ["often", "now"][: 1 + row % 2] for row in range(len(TIMES))]
    weights = np.ones(len(TIMES))
    weights[0] = 0
    clf = SketchForestClassifier(n_trees=2, rerank=None).fit(X, names, sample_weight=weights)
    assert clf.classes_.tolist() == ["now", "often", "rare"]
    assert clf.model_.label_counts.tolist()[2] == 0


WRONG_WEIGHTS = {
    "short": (np.ones(3), r"must have shape \(160,\), one weight per row. Got \(3,\) instead"),
    "two columns": (np.ones((160, 2)), "one weight per row"),
    "negative": (np.full(160, -1.0), "must be non-negative and not all zero"),
    "zero": (np.zeros(160), "must be non-negative and not all zero"),
    "NaN": (np.full(160, np.nan), "Input sample_weight contains NaN"),
    "infinite": (np.full(160, np.inf), "Input sample_weight contains infinity"),
    "text": (["a"] * 160, "could not convert string to float"),
    "masked": (np.ma.masked_less(np.arange(160.0), 3), "masked array"),
}


@pytest.mark.parametrize("case", WRONG_WEIGHTS)
@pytest.mark.parametrize("name", ["sketch", "ldsm", "forest"])
def test_wrong_weights_are_refused(name, case):
    weights, message = WRONG_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        fitted(name, X, Y, sample_weight=weights)


WRONG_CLASS_WEIGHTS = {
    "name": (
        "even",
        r"'class_weight' parameter of \w+ must be 'balanced', None, a dict keyed by label or a sequence of",
    ),
    "number": (3, "'class_weight' parameter of"),
    "short": ([1.0, 2.0], r"must have 12 weights, one per label. Got shape \(2,\) instead"),
    "zero": ({0: 0.0}, "finite positive weights. Got 0 instead"),
    "negative": ({0: -1}, "finite positive weights"),
    "NaN": (np.full(12, np.nan), "finite positive weights"),
    "other labels": ({"a": 2}, "must have labels of y as keys. Got 'a' instead"),
    "text": ({0: "heavy"}, "must have numbers as weights"),
}


@pytest.mark.parametrize("case", WRONG_CLASS_WEIGHTS)
@pytest.mark.parametrize("name", ["sketch", "ldsm", "forest", "dense"])
def test_wrong_class_weights_are_refused(name, case):
    class_weight, message = WRONG_CLASS_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        fitted(name, X, Y, parameters={"class_weight": class_weight})


def test_a_checkpoint_knows_its_weights(tmp_path):
    clf, place = ALL["sketch"], tmp_path / "c"
    wanted = scores(clone(clf).fit(X, Y, sample_weight=TIMES))
    clone(clf).set_params(n_trees=2).fit(X, Y, sample_weight=TIMES, checkpoint=place)
    with pytest.raises(ValueError, match="sample_weight"):
        clone(clf).fit(X, Y, sample_weight=TIMES + 1.0, checkpoint=place)
    found = clone(clf).fit(X, Y, sample_weight=TIMES, checkpoint=place)
    np.testing.assert_array_equal(scores(found), wanted)


def test_a_checkpoint_of_a_weighted_forest(tmp_path):
    clf, weights = ALL["forest, boosted"], RNG.uniform(0.1, 3, len(TIMES))
    wanted = scores(clone(clf).fit(X, Y, sample_weight=weights))
    clone(clf).set_params(n_trees=2).fit(X, Y, sample_weight=weights, checkpoint=tmp_path / "c")
    found = clone(clf).fit(X, Y, sample_weight=weights, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(scores(found), wanted)
