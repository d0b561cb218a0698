"""Several classifiers as one: weights, the union of candidates, one file."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

X, Y = make_xc(700, 80, 40, labels_per_row=3, nnz_per_row=15, seed=5)
SEEN, HELD, REST = slice(0, 450), slice(450, 550), slice(550, None)


@pytest.fixture(scope="module")
def members():
    return [
        SparseGBDTClassifier(n_trees=8, projection=None, leaf_labels=10).fit(X[SEEN], Y[SEEN]),
        LdSMClassifier(n_trees=3, max_nodes=30, rerank="linear").fit(X[SEEN], Y[SEEN]),
        MultiGBDTClassifier(n_trees=3, max_leaves=6, loss="logistic").fit(X[SEEN], Y[SEEN]),
    ]


def by_hand(members, weights, rows):
    """Weighted mean of scores by a row's best, over the 100 best labels of each; all 40 are."""
    total = np.zeros((rows.shape[0], Y.shape[1]))
    for member, weight in zip(members, weights, strict=True):
        ids, scores = member.predict_topk(rows, 40)
        if isinstance(member, MultiGBDTClassifier):
            scores = 1 / (1 + np.exp(-scores.astype(float)))
        for i in range(rows.shape[0]):
            there = ids[i] >= 0
            best = scores[i, 0]
            total[i, ids[i][there]] += weight * np.clip(scores[i][there] / best if best > 0 else 0, 0, 1)
    return total


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 1.0], [0.0, 1.0, 0.0]])
def test_scores_are_the_weighted_mean(members, weights):
    blend = BlendClassifier(members, weights=weights, prefit=True).fit(X[HELD], Y[HELD])
    given = np.ones(3) if weights is None else np.array(weights)
    assert blend.weights_ == pytest.approx(given / given.sum())
    wanted = by_hand(members, given / given.sum(), X[REST])
    assert blend.decision_function(X[REST]).toarray() == pytest.approx(wanted, abs=1e-5)
    labels, scores = blend.predict_topk(X[REST], 4)
    assert scores == pytest.approx(-np.sort(-wanted, axis=1)[:, :4], abs=1e-5)
    assert np.take_along_axis(wanted, labels, 1) == pytest.approx(scores, abs=1e-5)


def test_chosen_weights_are_no_worse_than_any_member_on_their_rows(members):
    blend = BlendClassifier(members, prefit=True).fit(X[HELD], Y[HELD])
    assert blend.weights_.sum() == pytest.approx(1)

    def worth(model):
        found, _ = model.predict_topk(X[HELD], 5)
        return sum(precision_at_k(Y[HELD], found, k) for k in (1, 3, 5))

    assert worth(blend) >= max(worth(member) for member in members) - 1e-9


def test_members_are_trained_on_all_rows():
    clf = BlendClassifier([LdSMClassifier(n_trees=2, max_nodes=20), SparseGBDTClassifier(n_trees=3)])
    clf.fit(X, Y)
    assert [one.model_.n_train_rows for one in clf.estimators_] == [700, 700]
    alone = LdSMClassifier(n_trees=2, max_nodes=20).fit(X, Y)
    assert np.array_equal(clf.estimators_[0].predict_topk(X, 3)[0], alone.predict_topk(X, 3)[0])
    assert not hasattr(clf.estimators[0], "model_")
    again = clone(clf).fit(X, Y)
    assert np.array_equal(again.weights_, clf.weights_)
    assert clf.model_.n_trees == 5
    assert 0 < clf.score(X, Y) <= 1


@pytest.mark.parametrize("compact", [True, False])
def test_one_file_holds_it(members, compact, tmp_path):
    blend = BlendClassifier(members, prefit=True).fit(X[HELD], Y[HELD])
    blend.save(tmp_path / "m", compact=compact)
    loaded = sparseleaf.load(tmp_path / "m")
    assert isinstance(loaded, BlendClassifier)
    assert [type(one) for one in loaded.estimators_] == [type(one) for one in members]
    assert np.array_equal(loaded.weights_, blend.weights_)
    for a, b in ((loaded, blend), (pickle.loads(pickle.dumps(loaded)), blend)):
        found, scores = a.predict_topk(X[REST], 5)
        wanted, expected = b.predict_topk(X[REST], 5)
        assert np.array_equal(scores, expected)
        assert np.array_equal(found, wanted)
    loaded.save(tmp_path / "again", compact=compact)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_label_names_and_classes(tmp_path):
    names = np.array(["ash", "birch", "elm"], object)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4)).astype(np.float32)
    y = names[rows[:, :3].argmax(axis=1)]
    clf = BlendClassifier([MultiGBDTClassifier(n_trees=5), LdSMClassifier(n_trees=3, max_nodes=20)]).fit(
        rows, y
    )
    assert (clf.predict(rows) == y).mean() > 0.8
    clf.save(tmp_path / "m")
    assert sparseleaf.load(tmp_path / "m").classes_.tolist() == names.tolist()
    lists = [[name] for name in y]
    clf = BlendClassifier([SparseGBDTClassifier(n_trees=3), LdSMClassifier(n_trees=2)]).fit(rows, lists)
    assert set(clf.predict_topk(rows, 1)[0].ravel()) <= set(names)


@pytest.mark.parametrize(("change", "match"), [
    ({"estimators": []}, "'estimators' parameter must be a non-empty list"),
    ({"estimators": "forest"}, "'estimators' parameter must be a non-empty list"),
    ({"estimators": [MultiGBDTRegressor()]}, "Got MultiGBDTRegressor as item 1 of 1"),
    ({"estimators": [LdSMClassifier(), BlendClassifier()]}, "Got BlendClassifier as item 2 of 2"),
    ({"weights": [1.0]}, r"'weights' parameter must be 2 numbers >= 0. Got \[1.0\]"),
    ({"weights": [1.0, -1.0]}, r"Got \[1.0, -1.0\] instead"),
    ({"weights": [0.0, 0.0]}, "must have at least one value above 0"),
    ({"weights": "even"}, "must be 'auto', a sequence or None. Got 'even'"),
])  # fmt: skip
def test_bad_parameters_are_named(change, match):
    given = {"estimators": [LdSMClassifier(n_trees=1), LdSMClassifier(n_trees=1)]} | change
    with pytest.raises(ValueError, match=match):
        BlendClassifier(**given).fit(X, Y)


def test_members_that_do_not_fit_together_are_refused(members):
    narrow = LdSMClassifier(n_trees=1).fit(X[SEEN][:, :70], Y[SEEN])
    fewer = LdSMClassifier(n_trees=1).fit(X[SEEN], Y[SEEN][:, :30])
    named = LdSMClassifier(n_trees=1).fit(X[SEEN], [["a"], ["b"], ["c"]] * 150)
    other = LdSMClassifier(n_trees=1).fit(X[SEEN], [["a"], ["b"], ["d"]] * 150)
    for pair, match in (
        ((members[0], narrow), "n_features must be 80, as in member 1, is 70"),
        ((members[0], fewer), "n_labels must be 40, as in member 1, is 30"),
        ((members[0], named), "n_labels must be 40, as in member 1, is 3"),
        ((named, other), "its labels are not those of member 1"),
    ):
        with pytest.raises(ValueError, match=f"'estimators' parameter is not valid: member 2: {match}"):
            BlendClassifier(pair, weights=None, prefit=True).fit(X, Y)
    with pytest.raises(NotFittedError):
        BlendClassifier([LdSMClassifier()], prefit=True).fit(X, Y)
    with pytest.raises(ValueError, match="requires y"):
        BlendClassifier(members, prefit=True).fit(X, None)


def test_what_a_blend_does_not_have(members):
    blend = BlendClassifier(members, weights=None, prefit=True).fit(X, Y)
    assert not hasattr(blend, "feature_importances_")
    with pytest.raises(ValueError, match="Shapley"):
        blend.shap_values(X[:2])
    with pytest.raises(ValueError, match="n_trees"):
        blend.predict_topk(X[:2], n_trees=10**6)
    nan = X[:2].toarray()
    nan[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        blend.predict_topk(nan)


def test_rows_without_candidates():
    empty = sp.csr_matrix((60, 4), dtype=np.float32)
    clf = BlendClassifier([LdSMClassifier(n_trees=1), SparseGBDTClassifier(n_trees=1, projection=None)])
    clf.fit(empty, sp.csr_matrix((60, 3), dtype=np.float32))
    labels, scores = clf.predict_topk(empty, 2)
    assert (labels == -1).all()
    assert np.isneginf(scores).all()


def test_a_blend_is_loaded_with_its_number_of_threads(tmp_path):
    BlendClassifier([LdSMClassifier(n_trees=1), LdSMClassifier(n_trees=1)], weights=None).fit(X, Y).save(
        tmp_path / "m"
    )
    blend = sparseleaf.load(tmp_path / "m", n_jobs=1)
    assert [one.n_jobs for one in (blend, *blend.estimators_)] == [1, 1, 1]


def test_targets_of_other_rows_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BlendClassifier([LdSMClassifier(n_trees=1)]).fit(X, Y[:-1])
