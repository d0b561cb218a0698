"""SparseGBDTClassifier as its users meet it."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sparseleaf
from smalldata import make_set, saved_bytes
from sparseleaf import SparseGBDTClassifier
from sparseleaf.callbacks import TrainingState
from sparseleaf.metrics import precision_at_k

NAMES = np.array([f"label {q:02d}" for q in range(12)], object)


@pytest.fixture(scope="module")
def data():
    X, Y = make_set(300, 5, 12, seed=1)
    return X, Y[:, Y.any(axis=0)]


def small(**parameters):
    return SparseGBDTClassifier.from_settings(
        {"n_trees": 5, "min_samples_leaf": 3, "learning_rate": 0.5, **parameters}
    )


def to_lists(Y, names=NAMES):
    return [names[np.flatnonzero(row)].tolist() for row in np.asarray(Y)]


# --- forms of targets


def test_forms_of_targets_give_the_same_trees(data):
    X, Y = data
    wanted = small().fit(X, sp.csr_matrix(Y)).model_.trees
    forms = [
        Y, Y.astype(bool), Y.astype(np.float32),
        sp.csc_matrix(Y), sp.csr_array(Y), sp.coo_matrix(Y, dtype=np.int8),
        to_lists(Y), [set(row) for row in to_lists(Y)], pd.DataFrame(Y, columns=NAMES[: Y.shape[1]]),
    ]  # fmt: skip
    for form in forms:
        trees = small().fit(X, form).model_.trees
        for name, array in vars(wanted).items():
            np.testing.assert_array_equal(getattr(trees, name), array, f"{type(form)} {name}")


def test_predict_answers_in_the_form_of_the_targets(data):
    X, Y = data
    scores = small().fit(X, Y).decision_function(X).toarray()
    wanted = scores >= 0.5
    assert 0 < wanted.sum() < wanted.size

    sparse = small().fit(X, sp.csr_matrix(Y)).predict(X)
    assert sparse.format == "csr"
    np.testing.assert_array_equal(sparse.toarray(), wanted)

    dense = small().fit(X, Y).predict(X)
    assert type(dense) is np.ndarray
    np.testing.assert_array_equal(dense, wanted)

    lists = small().fit(X, to_lists(Y)).predict(X)
    assert type(lists) is list
    for row, row_scores, names in zip(wanted, scores, lists, strict=True):
        order = sorted(np.flatnonzero(row), key=lambda q: (-row_scores[q], q))
        assert names == NAMES[order].tolist(), "best first"


def test_names_are_kept_to_the_end(data, tmp_path):
    X, Y = data
    clf = small().fit(X, to_lists(Y))
    ids, _ = small().fit(X, Y).predict_topk(X, 3)
    labels, scores = clf.predict_topk(X, 3)
    assert labels.dtype == object
    assert labels.tolist() == [[None if q < 0 else NAMES[q] for q in row] for row in ids.tolist()]
    assert scores.dtype == np.float32
    assert clf.classes_.tolist() == NAMES[: Y.shape[1]].tolist()
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert loaded.predict_topk(X, 3)[0].tolist() == labels.tolist()
    assert loaded.predict(X) == clf.predict(X)


def test_integer_names_are_names(data):
    X, Y = data
    numbers = np.arange(12) * 100 + 7
    clf = small().fit(X, to_lists(Y, numbers))
    labels, _ = clf.predict_topk(X, 1)
    assert set(labels.ravel().tolist()) <= set(numbers.tolist())
    assert clf.score(X, to_lists(Y, numbers)) == small().fit(X, Y).score(X, Y)


@pytest.mark.parametrize(
    "classes", [["no", "yes"], ["a", "b", "c"], [3, 7], [1.0, 2.0, 3.0], [False, True], ["one"]]
)
def test_one_class_a_row(data, classes, tmp_path):
    X, _ = data
    classes = np.array(classes)
    y = classes[np.digitize(X[:, 0], [-0.5, 0.5]) % len(classes)]
    clf = small().fit(X, y)
    predicted = clf.predict(X)
    assert predicted.dtype == classes.dtype
    assert clf.classes_.tolist() == classes.tolist()
    assert (predicted == y).mean() > 0.9
    assert clf.score(X, y) == (predicted == y).mean()
    scores = clf.decision_function(X)
    if len(classes) == 2:
        assert scores.shape == (300,)
        np.testing.assert_array_equal(predicted, classes[(scores > 0).astype(int)])
    else:
        assert scores.shape == (300, len(classes))
        np.testing.assert_array_equal(predicted, classes[scores.argmax(axis=1)])
    clf.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(sparseleaf.load(tmp_path / "m.safetensors").predict(X), predicted)


def test_a_class_without_a_positive_score_is_still_predicted():
    # one tree that names one class a leaf: rows far from it have no candidate at all
    X = np.arange(60.0)[:, None]
    y = np.repeat([0, 1, 2], 20)
    clf = small(leaf_labels=1, n_trees=1, leaf_min_gain=1e9).fit(X, y)
    assert (clf.predict_topk(X, 1)[0] == None).all()  # noqa: E711
    assert clf.predict(X).tolist() == [0] * 60


# --- features


@pytest.mark.parametrize("convert", [
    lambda X: X.astype(np.float64),
    lambda X: np.asfortranarray(X),
    lambda X: X.tolist(),
    lambda X: np.repeat(X, 2, axis=0)[::2],
    lambda X: pd.DataFrame(X),
    lambda X: sp.csr_matrix(X),
    lambda X: sp.csc_array(X),
    lambda X: sp.coo_matrix(X, dtype=np.float64),
])  # fmt: skip
def test_types_of_features_do_not_matter(data, convert):
    X, Y = data
    X = np.round(X)  # zeros and ties
    wanted = small().fit(X, Y)
    clf = small().fit(convert(X), Y)
    for name, array in vars(wanted.model_.trees).items():
        np.testing.assert_array_equal(getattr(clf.model_.trees, name), array, name)
    np.testing.assert_array_equal(clf.predict_topk(convert(X))[1], wanted.predict_topk(X)[1])


def test_integer_features(data):
    X, Y = data
    X = np.round(X * 2)
    wanted = small().fit(X, Y).predict_topk(X)[1]
    for dtype in (np.int8, np.int64, np.float16):
        np.testing.assert_array_equal(
            small().fit(X.astype(dtype), Y).predict_topk(X.astype(dtype))[1], wanted
        )
    flags = (X > 0).astype(bool)
    assert small().fit(flags, Y).predict_topk(flags)[0].shape == (300, 5)


def test_feature_names_are_checked(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    clf = small().fit(frame, Y)
    assert clf.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(clf.predict_topk(frame)[1], small().fit(X, Y).predict_topk(X)[1])
    with pytest.raises(ValueError, match="feature names"):
        clf.predict_topk(frame[list("edcba")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        clf.predict_topk(X)


def test_the_callers_arrays_are_left_alone(data):
    X, Y = data
    duplicated = sp.csr_matrix((np.ones(4), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3))
    before = duplicated.data.copy(), duplicated.indices.copy()
    small().fit(duplicated, np.eye(2))
    np.testing.assert_array_equal(duplicated.data, before[0])
    np.testing.assert_array_equal(duplicated.indices, before[1])
    X, Y = X.copy(), sp.csr_matrix(Y)
    X.flags.writeable = False
    Y.data.flags.writeable = Y.indices.flags.writeable = False
    small().fit(X, Y).predict(X)


def test_duplicates_in_a_sparse_matrix_are_added_up():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (50, 4)).astype(np.float32)
    rows, columns = np.nonzero(dense)
    halves = sp.csr_matrix(dense / 2)
    doubled = sp.csr_matrix(
        (np.repeat(halves.data, 2), np.repeat(halves.indices, 2), halves.indptr * 2), shape=dense.shape
    )
    assert len(rows) == len(columns)
    assert not doubled.has_canonical_format
    Y = (dense > 1).astype(int)
    wanted = small().fit(dense, Y).predict_topk(dense)[1]
    np.testing.assert_array_equal(small().fit(doubled, Y).predict_topk(doubled)[1], wanted)
    # in the targets a repeated entry is one label
    repeated = sp.csr_matrix((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 3))
    counts = small().fit(np.eye(2), repeated).model_.label_counts
    assert counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize("indptr", [[0, 9, 4], [0, -1, 4]])
def test_broken_sparse_matrices_are_refused(indptr):
    X = sp.csr_matrix((np.ones(4), np.array([0, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    clf = small().fit(X, np.eye(2))
    X.indptr[:] = indptr
    with pytest.raises(ValueError):
        clf.predict_topk(X)
    X.indptr[:] = [0, 2, 4]
    X.indices[1] = 7
    with pytest.raises(ValueError):
        clf.predict_topk(X)
    with pytest.raises(ValueError):
        small().fit(X, np.eye(2))


@pytest.mark.parametrize("sparse", [False, True])
def test_missingness_can_be_the_signal(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    Y = rng.random((400, 2)) < 0.5
    Y[:, 1] = ~Y[:, 0]
    X[Y[:, 0], 1] = np.nan
    X = sp.csr_matrix(X) if sparse else X
    for split in ("sketch", "full", "exact"):
        clf = small(split=split, colsample_bynode=1.0).fit(X, Y)
        assert clf.score(X, Y) == 1.0
        assert clf.feature_importances_[1] > 0.99


def test_missing_rows_join_the_side_they_are_like():
    x = np.repeat([0.0, 1.0, np.nan], 50)
    for like_zero in (True, False):
        y = np.repeat([0, 1, 0 if like_zero else 1], 50)
        clf = small().fit(x[:, None], y)
        assert clf.score(x[:, None], y) == 1.0
        assert clf.predict([[np.nan]]).tolist() == [0 if like_zero else 1]


def test_a_missing_value_never_seen_goes_the_way_of_most_rows():
    x, y = np.repeat([0.0, 1.0], [80, 20]), np.repeat([0, 1], [80, 20])
    assert small().fit(x[:, None], y).predict([[np.nan]]).tolist() == [0]
    assert small().fit(-x[:, None], y).predict([[np.nan]]).tolist() == [0]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_infinite_features_are_refused(data, value):
    X, Y = data
    bad = X.astype(np.float64)
    bad[3, 2] = value
    with pytest.raises(ValueError, match="infinity"):
        small().fit(bad, Y)
    clf = small().fit(X, Y)
    for rows in (bad, bad.astype(np.float32), sp.csr_matrix(bad)):
        with pytest.raises(ValueError, match="infinity"):
            clf.predict_topk(rows)


# --- odd shapes


def test_one_row_one_feature_one_label():
    clf = small().fit([[1.0]], sp.csr_matrix([[1]]))
    assert clf.predict_topk([[1.0]], 2)[0].tolist() == [[0, -1]]
    assert clf.model_.trees.feature.tolist() == [-1] * 5


def test_constant_features_make_trees_of_one_leaf(data):
    _, Y = data
    clf = small().fit(np.ones((300, 4)), Y)
    assert clf.model_.trees.feature.tolist() == [-1] * 5
    shares = Y.mean(axis=0)
    assert clf.predict_topk(np.ones((1, 4)), 1)[0][0, 0] == shares.argmax()


def test_all_missing_feature(data):
    X, Y = data
    X = np.column_stack([X, np.full(len(X), np.nan)])
    clf = small().fit(X, Y)
    assert clf.feature_importances_[5] == 0


@pytest.mark.parametrize("sketch", ["count-sketch", "random-projection", "top-outputs", "sampling", "none"])
@pytest.mark.parametrize("split", ["sketch", "exact"])
def test_no_labels_at_all(sketch, split, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    for Y in (sp.csr_matrix((40, 5)), np.zeros((40, 5)), [[] for _ in range(40)]):
        eval_set = None if isinstance(Y, list) else (X, Y)  # lists have no columns to measure on
        clf = small(sketch=sketch, split=split).fit(X, Y, eval_set=eval_set)
        assert clf.predict_topk(X, 2)[1].max() == -np.inf
        clf.save(tmp_path / "m.safetensors")
        assert sparseleaf.load(tmp_path / "m.safetensors").decision_function(X).nnz == 0


def test_labels_and_rows_that_are_empty(data):
    X, Y = data
    wide = np.zeros((300, 40), int)
    wide[:, 5 : 5 + 2 * Y.shape[1] : 2] = Y
    wide[100:150] = 0
    clf = small().fit(X, wide)
    labels, _ = clf.predict_topk(X, 40)
    assert set(np.unique(labels)) <= {-1, *np.flatnonzero(wide.any(axis=0))}
    assert clf.decision_function(X).shape == (300, 40)
    assert clf.model_.label_counts.tolist() == wide.sum(axis=0).tolist()
    empty = sp.csr_matrix((20, 5), dtype=np.float32)
    assert clf.predict_topk(empty)[0].shape == (20, 5)


@pytest.mark.parametrize(("X", "Y", "message"), [
    (np.zeros((5, 2)), np.zeros((4, 3)), "Y must have 5 rows, as X. Got 4"),
    (np.zeros((5, 2)), sp.csr_matrix((6, 3)), "Y must have 5 rows, as X. Got 6"),
    (np.zeros((5, 2)), [["a"]] * 3, "Y must have 5 rows, as X. Got 3"),
    (np.zeros((5, 2)), np.full((5, 3), 2), "Y must have values 0 and 1 .* Got 2"),
    (np.zeros((5, 2)), np.full((5, 3), np.nan), "NaN"),
    (np.zeros((5, 2)), None, "requires y to be passed"),
    (np.zeros((5, 2)), np.linspace(0, 1, 5), "Unknown label type"),
    (np.zeros(5), np.eye(5), "Expected 2D array"),
    (np.zeros((5, 2, 2)), np.eye(5), "dim 3"),
    (np.zeros((0, 2)), np.zeros((0, 2)), "0 sample"),
    (np.zeros((5, 0)), np.eye(5), "0 feature"),
    (np.array([["a", "b"]] * 5), np.eye(5), "could not convert"),
    (np.zeros((5, 2), complex), np.eye(5), "Complex"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(X, Y, message):
    with pytest.raises(ValueError, match=message):
        small().fit(X, Y)


def test_rows_to_predict_must_have_the_features_of_training(data):
    X, Y = data
    clf = small().fit(X, Y)
    for rows in (X[:, :4], np.hstack([X, X]), X[0], np.zeros((0, 5)), np.zeros((0, 5), np.float32)):
        with pytest.raises(ValueError, match=r"features|2D array|sample"):
            clf.predict_topk(rows)


@pytest.mark.parametrize("method", ["predict", "predict_topk", "decision_function"])
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(SparseGBDTClassifier(), method)(np.zeros((1, 2)))
    with pytest.raises(NotFittedError):
        SparseGBDTClassifier().save("nowhere")
    assert not hasattr(SparseGBDTClassifier(), "feature_importances_")


# --- validation, early stopping, callbacks, interrupts


def test_history_is_what_evaluation_gives(data):
    X, Y = data
    valid_X, valid_Y = make_set(100, 5, 12, seed=9)
    valid_Y = valid_Y[:, : Y.shape[1]]
    for metric, k in (("precision@1", 1), ("precision@3", 3)):
        clf = small(eval_metric=metric).fit(X, Y, eval_set=(valid_X, sp.csr_matrix(valid_Y)))
        wanted = [precision_at_k(valid_Y, labels, k) for labels, _ in clf.staged_predict_topk(valid_X, k)]
        assert clf.history_ == {f"valid {metric}": pytest.approx(wanted)}


def test_validation_rows_may_have_other_labels(data):
    X, Y = data
    lists = to_lists(Y)
    strange = [[*row, "never seen"] for row in lists]
    clf = small().fit(X, lists, eval_set=(X, strange))
    same = small().fit(X, lists, eval_set=(X, lists))
    strict = np.mean([bool(row) for row in lists])
    assert strict < 1, "the set has rows without labels"
    assert clf.history_["valid precision@1"][-1] == pytest.approx(same.history_["valid precision@1"][-1])
    assert clf.score(X, strange) == pytest.approx(clf.score(X, lists))


def test_numbers_that_name_columns_are_those_columns(data):
    """Trained on a matrix, a label is known by its column; lists of integers then mean columns."""
    X, Y = data
    clf = small().fit(X, sp.csr_matrix(Y))
    lists = [np.flatnonzero(row).tolist() for row in Y]
    only = [[q for q in row if q != 0] for row in lists]  # label 0 does not occur: columns must not shift
    wanted = Y.copy()
    wanted[:, 0] = 0
    assert clf.score(X, lists) == clf.score(X, Y)
    assert clf.score(X, only) == clf.score(X, wanted)
    with pytest.raises(ValueError, match="Y"):
        clf.score(X, [[99]] * len(X))
    with pytest.raises(ValueError, match="Y"):
        clf.score(X, [["a"]] * len(X))


@pytest.mark.parametrize("eval_set", [(np.zeros((3, 5)),), 3, (1, 2, 3)])
def test_eval_set_must_be_a_pair(data, eval_set):
    with pytest.raises(ValueError, match="eval_set"):
        small().fit(*data, eval_set=eval_set)


def test_labels_never_seen_in_training_are_misses(data):
    X, Y = data
    wide = sp.csr_matrix((np.ones(300), np.full(300, 29), np.arange(301)), shape=(300, 30))
    clf = small().fit(X, sp.csr_matrix(Y), eval_set=(X, wide))
    assert clf.history_["valid precision@1"][-1] == 0.0
    assert clf.score(X, wide) == 0.0


def test_eval_set_of_other_features_is_refused_by_name(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"eval_set: .*features"):
        small().fit(X, Y, eval_set=(X[:, :3], Y))


def test_targets_that_would_be_matched_wrongly_are_refused(data):
    X, Y = data
    lists = [[f"label {j}" for j in np.flatnonzero(row)] for row in Y]
    numbers = [np.flatnonzero(row).tolist() for row in Y]
    clf = small().fit(X, lists)
    assert clf.score(X, lists) > 0
    with pytest.raises(ValueError, match="must have labels such as 'label 0'"):
        clf.score(X, numbers)
    with pytest.raises(ValueError, match="must have label names, as in training"):
        clf.score(X, sp.csr_matrix(Y))


def test_early_stopping_keeps_the_best_trees(data):
    X, Y = data
    rng = np.random.default_rng(5)
    noise = rng.permutation(len(X))
    eval_set = (X, Y[noise])  # labels that cannot be learned: the metric soon falls
    clf = small(n_trees=60, early_stopping_rounds=4, eval_metric="precision@3").fit(X, Y, eval_set=eval_set)
    values = clf.history_["valid precision@3"]
    assert len(values) < 60
    best = 1 + int(np.argmax(values))
    assert clf.best_iteration_ == clf.model_.n_trees == best
    assert len(values) == best + 4
    whole = small(n_trees=best).fit(X, Y)
    np.testing.assert_array_equal(clf.predict_topk(X)[1], whole.predict_topk(X)[1])
    with pytest.raises(ValueError, match="early_stopping_rounds=3 requires a validation set, eval_set"):
        small(early_stopping_rounds=3).fit(X, Y)


def test_callbacks_see_every_tree_and_may_stop(data):
    X, Y = data
    seen = []

    def watch(state):
        assert isinstance(state, TrainingState)
        seen.append((state.tree, state.n_trees, len(state.history["valid precision@1"])))
        assert state.n_leaves >= 1
        assert state.n_entries > 0
        assert state.seconds >= 0
        return state.tree == 3

    clf = small(n_trees=50).fit(X, Y, eval_set=(X, Y), callbacks=[watch, lambda state: None])
    assert seen == [(1, 50, 1), (2, 50, 2), (3, 50, 3)]
    assert clf.model_.n_trees == 3
    np.testing.assert_array_equal(clf.predict_topk(X)[1], small(n_trees=3).fit(X, Y).predict_topk(X)[1])


def interrupt_after(n):
    def callback(state):
        if state.tree == n:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("early", [None, 10])
def test_an_interrupt_keeps_the_trees_that_are_complete(data, early):
    X, Y = data
    clf = small(n_trees=50, early_stopping_rounds=early)
    with pytest.warns(UserWarning, match="interrupted; the model has the 4 trees grown so far") as caught:
        clf.fit(X, Y, eval_set=(X, Y), callbacks=[interrupt_after(4)])
    assert caught[0].filename == __file__
    assert clf.interrupted_ is True
    assert len(clf.history_["valid precision@1"]) == 4
    assert clf.model_.n_trees == (
        4 if early is None else 1 + int(np.argmax(clf.history_["valid precision@1"]))
    )
    if early is None:
        np.testing.assert_array_equal(clf.predict_topk(X)[1], small(n_trees=4).fit(X, Y).predict_topk(X)[1])


def test_an_interrupt_within_a_tree_keeps_those_before_it(data, monkeypatch):
    X, Y = data
    from sparseleaf.training.boosting_round import BoostingRound

    grown = []
    plain = BoostingRound.grow

    def grow(self, *args):
        if len(grown) == 2:
            raise KeyboardInterrupt
        grown.append(1)
        return plain(self, *args)

    monkeypatch.setattr(BoostingRound, "grow", grow)
    with pytest.warns(UserWarning, match="the 2 trees"):
        clf = small().fit(X, Y, eval_set=(X, Y))
    assert clf.model_.n_trees == len(clf.history_["valid precision@1"]) == 2


def test_an_interrupt_before_the_first_tree_is_raised(data, monkeypatch):
    from sparseleaf.training.boosting_round import BoostingRound

    def interrupt(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(BoostingRound, "grow", interrupt)
    clf = small()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*data)
    assert not hasattr(clf, "model_")


def test_errors_of_callbacks_are_the_callers(data):
    def fail(state):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        small().fit(*data, callbacks=[fail])


# --- scikit-learn


def test_clone_get_params_and_refit(data):
    X, Y = data
    clf = small(max_leaves=9).fit(X, Y)
    again = clone(clf)
    assert again.get_params() == clf.get_params()
    assert not hasattr(again, "model_")
    first = clf.predict_topk(X)[1]
    np.testing.assert_array_equal(clf.set_params(n_jobs=1).fit(X, Y).predict_topk(X)[1], first)
    wider = np.hstack([X, X])
    assert clf.fit(wider, Y).n_features_in_ == 10


def test_grid_search_and_pipeline(data):
    X, Y = data
    search = GridSearchCV(small(n_trees=2), {"max_depth": [1, 3], "leaf_labels": [2, None]}, cv=2, n_jobs=1)
    search.fit(X, Y)
    assert search.best_params_.keys() == {"max_depth", "leaf_labels"}
    assert 0 < search.best_score_ <= 1
    pipe = make_pipeline(StandardScaler(), small(n_trees=2)).fit(X, Y)
    assert pipe.predict(X).shape == Y.shape
    assert pipe.score(X, Y) > 0.3


def test_score_refuses_weights_of_rows_with_many_labels(data):
    X, Y = data
    clf = small().fit(X, Y)
    with pytest.raises(ValueError, match="sample_weight"):
        clf.score(X, Y, sample_weight=np.ones(len(X)))


# --- the same bytes


SETTINGS = {
    "defaults": {},
    "pca": {"projection": "pca", "projection_dim": 4},
    "random": {"projection": "random", "projection_dim": 4},
    "sampled": {"subsample": 0.6, "colsample_bytree": 0.6, "colsample_bynode": 0.6},
    "best-first": {"growth": "best-first", "max_leaves": 12},
    "hinge": {"loss": "squared_hinge"},
    "exact": {"split": "exact"},
    "full": {"split": "full"},
    "random-projection": {"sketch": "random-projection"},
    "top-outputs": {"sketch": "top-outputs", "sketch_dim": 4},
    "sampling": {"sketch": "sampling", "sketch_dim": 4},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_threads_does_not_change_a_byte(settings, sparse, tmp_path):
    n = 6000 if settings == "defaults" else 1500
    X, Y = make_set(n, 6, 14, seed=8, missing=0 if "projection" in SETTINGS[settings] else 0.1)
    if sparse:
        X = sp.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    files = []
    for n_jobs in (1, 2, 4):
        clf = SparseGBDTClassifier.from_settings({"n_trees": 3, "n_jobs": n_jobs, **SETTINGS[settings]})
        files.append(saved_bytes(clf.fit(X, Y, eval_set=(X[:500], Y[:500])), tmp_path))
    assert files[0] == files[1] == files[2]


def test_the_seed_changes_the_model_and_nothing_else_does(data, tmp_path):
    X, Y = data
    one = saved_bytes(small(random_state=1).fit(X, Y), tmp_path)
    assert one == saved_bytes(small(random_state=1, verbose=0, n_jobs=2).fit(X, Y), tmp_path)
    assert one != saved_bytes(small(random_state=2).fit(X, Y), tmp_path)


def test_fit_is_silent_by_default(data, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(*data)
    assert capfd.readouterr() == ("", "")
    small(verbose=2).fit(*data)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("tree ") == 5


@pytest.mark.parametrize("parameters", [{}, {"split": "exact"}, {"split": "full"}, {"loss": "squared_hinge"}])
def test_it_learns(parameters):
    X, Y = make_set(1500, 5, 12, seed=10)
    keep = Y.any(axis=1)
    X, Y = X[keep], Y[keep]
    half = len(X) // 2
    clf = SparseGBDTClassifier.from_settings({"n_trees": 40, "learning_rate": 0.2, **parameters}).fit(
        X[:half], Y[:half]
    )
    chance = Y[:half].mean(axis=0).argmax()
    assert clf.score(X[half:], Y[half:]) > Y[half:, chance].mean() + 0.25
