"""``predict_proba``, calibration, thresholds and decoding of all classifiers."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.metrics import expected_calibration_error, f1_score
from sparseleaf.model import Role

N_TRAIN, N_VALID = 300, 120
SMALL = {
    SparseGBDTClassifier: {"n_trees": 6},
    LdSMClassifier: {"n_trees": 3, "max_nodes": 40},
    SketchForestClassifier: {"n_trees": 4, "rerank": "cosine"},
    MultiGBDTClassifier: {"n_trees": 5},
}
SPARSE = [SparseGBDTClassifier, LdSMClassifier, SketchForestClassifier]


@pytest.fixture(scope="module")
def rows():
    X, Y = make_xc(N_TRAIN + 2 * N_VALID, 40, 25, labels_per_row=3, nnz_per_row=8, seed=3)
    a, b = N_TRAIN, N_TRAIN + N_VALID
    return (X[:a], Y[:a]), (X[a:b], Y[a:b]), (X[b:], Y[b:])


def make(cls, **changes):
    if cls is BlendClassifier:
        return BlendClassifier([make(SparseGBDTClassifier), make(LdSMClassifier)], **changes)
    return cls(**SMALL[cls] | {"n_jobs": 1} | changes)


@pytest.fixture(scope="module")
def fitted(rows):
    """Every classifier, with a calibrator fitted to separate rows."""
    found = {}
    for cls in (*SMALL, BlendClassifier):
        found[cls] = make(cls).fit(*rows[0])
        found[cls].fit_calibration(*rows[1])
    return found


ALL = pytest.mark.parametrize("cls", [*SMALL, BlendClassifier], ids=lambda cls: cls.__name__)


@ALL
def test_the_ranking_is_unchanged(cls, fitted, rows):
    clf, (X, _) = fitted[cls], rows[2]
    plain = cls.from_model(clf.model_.with_stage(Role.CALIBRATOR, None))
    for k in (1, 5, 25):
        labels, scores = clf.predict_topk(X, k)
        before, before_scores = plain.predict_topk(X, k)
        np.testing.assert_array_equal(labels, before)
        np.testing.assert_array_equal(scores, before_scores)
        p = clf.predict_proba(X, k)
        assert sp.issparse(p)
        assert p.dtype == np.float32
        for row in range(X.shape[0]):
            ranked = p[row].indices[np.argsort(-p[row].data, kind="stable")]
            assert ranked.tolist() == [label for label in labels[row].tolist() if label >= 0]


@ALL
def test_probabilities_are_in_0_1_and_do_not_depend_on_k(cls, fitted, rows):
    clf, (X, _) = fitted[cls], rows[2]
    every = sp.csr_matrix(clf.predict_proba(X))
    assert ((every.data > 0) & (every.data < 1)).all()
    few = clf.predict_proba(X, 3)
    assert (np.diff(few.indptr) <= 3).all()
    np.testing.assert_allclose(every[few.nonzero()], few[few.nonzero()], rtol=1e-4)


@ALL
def test_probabilities_are_better_calibrated_than_scores(cls, fitted, rows):
    clf, (X, Y) = fitted[cls], rows[2]
    labels, scores = clf.predict_topk(X, 5)
    if cls is MultiGBDTClassifier:
        scores = 1 / (1 + np.exp(-scores))
    listed = labels >= 0
    indptr = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    raw = sp.csr_matrix((np.clip(scores[listed], 0, 1), labels[listed], indptr), shape=Y.shape)
    error = expected_calibration_error(Y, clf.predict_proba(X, 5))
    assert error < 0.12
    assert error < expected_calibration_error(Y, raw) + 0.05


@ALL
def test_files_keep_calibrator_and_thresholds(cls, fitted, rows, tmp_path):
    X = rows[2][0]
    for per_label in (False, True):
        clf = cls.from_model(fitted[cls].model_).set_threshold(*rows[1], per_label=per_label)
        clf.save(tmp_path / "m.safetensors")
        loaded = sparseleaf.load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(as_array(loaded.predict_proba(X)), as_array(clf.predict_proba(X)))
        np.testing.assert_array_equal(as_array(loaded.predict(X)), as_array(clf.predict(X)))
        np.testing.assert_array_equal(loaded.threshold_, clf.threshold_)
        assert np.ndim(clf.threshold_) == per_label


def as_array(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@ALL
@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_bytes_do_not_depend_on_the_number_of_threads(cls, method, fitted, rows, tmp_path):
    written = []
    for n_jobs in (1, 3):
        clf = cls.from_model(fitted[cls].model_)
        clf.n_jobs = n_jobs
        clf.fit_calibration(*rows[1], method=method).set_threshold(*rows[1], per_label=True)
        clf.save(tmp_path / "m.safetensors")
        written.append(
            (tmp_path / "m.safetensors").read_bytes() + as_array(clf.predict_proba(rows[2][0])).tobytes()
        )
    assert written[0] == written[1]


@settings(max_examples=10, deadline=None)
@example(48958)  # has a row without features
@given(st.integers(0, 10**6))
def test_random_rows_keep_their_ranking(fitted, seed):
    clf = fitted[SparseGBDTClassifier]
    X = sp.random(4, 40, 0.2, "csr", np.float32, np.random.default_rng(seed))
    labels, _ = clf.predict_topk(X, 25)
    p = clf.predict_proba(X).toarray()
    for row, ranked, n_features in zip(p, labels, X.getnnz(axis=1), strict=True):
        ranked = ranked[ranked >= 0]
        below = np.diff(row[ranked]) < 0
        if (
            n_features == 0
        ):  # the label prior, in which labels may be equally frequent: the lower number is first
            below |= (np.diff(row[ranked]) == 0) & (np.diff(ranked) > 0)
        assert below.all()


def test_single_rows_have_the_probabilities_of_the_batch(fitted, rows):
    for clf in fitted.values():
        X = rows[2][0]
        batch = as_array(clf.predict_proba(X))
        for row in (0, 5):
            np.testing.assert_allclose(as_array(clf.predict_proba(X[row])), batch[[row]], rtol=1e-5)


# --- during fit


@pytest.mark.parametrize("cls", SPARSE)
def test_fit_calibrates_on_a_validation_set(cls, rows):
    clf = make(cls).fit(*rows[0], eval_set=rows[1])
    assert clf.model_.calibrator.kind == "platt"
    other = make(cls, calibrate=None).fit(*rows[0], eval_set=rows[1])
    assert other.model_.calibrator is None
    np.testing.assert_array_equal(clf.predict_topk(rows[2][0])[1], other.predict_topk(rows[2][0])[1])


def test_fit_calibrates_on_the_rows_held_out_for_reranking(rows):
    clf = make(SketchForestClassifier).fit(*rows[0])
    assert clf.predict_proba(rows[2][0], 3).nnz
    none = make(SketchForestClassifier, calibrate=None).fit(*rows[0])
    np.testing.assert_array_equal(clf.predict_topk(rows[2][0])[1], none.predict_topk(rows[2][0])[1])
    assert none.threshold_ == clf.threshold_


@pytest.mark.parametrize("cls", [SparseGBDTClassifier, LdSMClassifier])
@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_a_method_holds_out_rows(cls, method, rows):
    clf = make(cls, calibrate=method).fit(*rows[0])
    assert clf.model_.calibrator.kind == method
    assert clf.model_.threshold is not None
    assert clf.model_.label_counts.sum() == rows[0][1].nnz


def test_a_boosted_reranker_is_cross_fitted(rows):
    clf = make(SketchForestClassifier, rerank="boosted").fit(*rows[0])
    assert clf.model_.rerank.kind == "boosted"
    error = expected_calibration_error(rows[2][1], clf.predict_proba(rows[2][0], 5))
    assert error < 0.15


def test_multi_output_classifier_calibrates_on_its_validation_set(rows):
    clf = make(MultiGBDTClassifier, advanced={"calibrate": "platt"}).fit(*rows[0], eval_set=rows[1])
    assert clf.model_.calibrator.kind == "platt"
    assert not clf.model_.calibrator.by_frequency.log_odds
    assert isinstance(clf.predict_proba(rows[2][0]), np.ndarray)
    plain = make(MultiGBDTClassifier).fit(*rows[0], eval_set=rows[1])
    assert plain.model_.calibrator is None
    raw = plain.predict_proba(rows[2][0])
    np.testing.assert_allclose(raw, 1 / (1 + np.exp(-plain.decision_function(rows[2][0]))), rtol=1e-5)
    best = plain.predict_proba(rows[2][0], 2)
    assert (np.diff(best.indptr) == 2).all()
    np.testing.assert_allclose(best.max(axis=1).toarray()[:, 0], raw.max(axis=1))


def test_a_blend_calibrates_on_its_held_out_rows(rows):
    clf = make(BlendClassifier).fit(*rows[0])
    assert clf.model_.calibrator is not None
    fixed = make(BlendClassifier, weights=[1, 2]).fit(*rows[0])
    assert fixed.model_.calibrator is None
    assert (
        make(BlendClassifier, weights=[1, 2], calibrate="platt").fit(*rows[0]).model_.calibrator is not None
    )


def test_few_rows_warn(rows):
    X, Y = rows[0]
    with pytest.warns(UserWarning, match="too few rows"):
        clf = make(SparseGBDTClassifier, calibrate="isotonic").fit(X[:30], Y[:30])
    assert clf.model_.calibrator is None


def test_reranking_again_drops_calibrator_and_thresholds(fitted, rows):
    clf = LdSMClassifier.from_model(fitted[LdSMClassifier].model_).set_threshold(*rows[1])
    clf.fit_rerank(*rows[0], weight=0.5)
    assert clf.model_.calibrator is None
    assert clf.model_.stage(Role.DECISION) is None


@pytest.mark.parametrize("cls", SPARSE)
def test_an_update_with_new_labels_keeps_calibrator_and_thresholds(cls, fitted, rows, tmp_path):
    clf = cls.from_model(fitted[cls].model_).set_threshold(*rows[1], per_label=True)
    X, Y = rows[1]
    more = sp.hstack([Y, sp.csr_matrix(np.arange(N_VALID)[:, None] % 5 == 0)], "csr").astype(np.float32)
    clf.update(X, more)
    assert clf.model_.n_labels == 26
    assert clf.threshold_.shape == (26,)
    assert clf.model_.calibrator.group[25] == 0
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X).toarray(), clf.predict_proba(X).toarray())
    assert loaded.predict_proba(X)[:, 25].nnz


# --- rows and labels of ordinary days


@ALL
def test_rows_without_known_features_have_the_label_frequencies(cls, fitted, rows):
    clf = fitted[cls]
    empty = sp.csr_matrix((2, 40), dtype=np.float32)
    p = as_array(clf.predict_proba(empty))
    rates = np.asarray(rows[0][1].sum(axis=0)).ravel() / N_TRAIN
    known = p[0] > 0
    np.testing.assert_allclose(p[0][known], rates[known], atol=0.1)
    assert 0.5 * rates.sum() < p[0].sum() <= 1.5 * rates.sum()


@pytest.mark.parametrize("cls", SPARSE)
def test_one_label_and_label_names(cls, rows):
    X = rows[0][0]
    names = [["a"] if value else [] for value in np.asarray(X[:, 0].todense()).ravel() > 0]
    names[0] = ["a"]
    clf = make(cls).fit(X, names).fit_calibration(X, names)
    p = clf.predict_proba(X)
    assert p.shape == (N_TRAIN, 1)
    assert {len(found) for found in clf.predict(X, decode="top:1")} <= {0, 1}


def test_validation_rows_with_other_labels_and_without_any(fitted, rows):
    (X, Y), clf = rows[1], SparseGBDTClassifier.from_model(fitted[SparseGBDTClassifier].model_)
    wide = sp.csr_matrix((Y.data, Y.indices + 1, Y.indptr), shape=(Y.shape[0], Y.shape[1] + 1))
    clf.fit_calibration(X, wide)
    clf.fit_calibration(X, sp.csr_matrix(Y.shape, dtype=np.float32))
    assert (clf.predict_proba(X).data < 0.2).all()
    clf.set_threshold(X, sp.csr_matrix(Y.shape, dtype=np.float32))
    assert clf.predict(X).nnz == 0


# --- thresholds and decoders


@ALL
def test_decoders(cls, fitted, rows):
    clf, (X, Y) = fitted[cls], rows[2]
    top = clf.predict(X, decode="top:2")
    assert set(np.diff(sp.csr_matrix(top).indptr)) <= {0, 1, 2}
    p = as_array(clf.predict_proba(X))
    np.testing.assert_array_equal(as_array(clf.predict(X, decode="threshold:0.3")), p >= np.float32(0.3))
    best = clf.predict(X, decode="expected_f1")
    assert f1_score(Y, best, "samples") > f1_score(Y, clf.predict(X, decode="threshold:0.5"), "samples")
    recall = clf.predict(X, decode="macro_recall@2")
    weights = N_TRAIN / np.maximum(clf.model_.label_counts, 1)
    assert (p * weights)[as_array(recall) > 0].sum() >= (p * weights)[as_array(top) > 0].sum() - 1e-6


@ALL
def test_thresholds(cls, fitted, rows):
    clf = cls.from_model(fitted[cls].model_)
    X, Y = rows[1]
    high = clf.set_threshold(X, Y, target="precision:0.9").predict(X)
    f1 = clf.set_threshold(X, Y, target="f1").predict(X)
    assert isinstance(clf.threshold_, float)
    assert sp.csr_matrix(high).nnz <= sp.csr_matrix(f1).nnz
    assert f1_score(Y, f1) >= f1_score(Y, clf.predict(X, decode="threshold:0.5")) - 1e-12
    macro = clf.set_threshold(X, Y, target="macro-f1", per_label=True).predict(X)
    assert clf.threshold_.shape == (25,)
    assert f1_score(Y, macro, "macro") > f1_score(Y, clf.predict(X, decode="threshold:0.5"), "macro")
    refitted = clf.fit_calibration(X, Y)  # thresholds were for the other probabilities
    assert np.ndim(refitted.threshold_) == 0


def test_the_decode_parameter_is_stored(rows, tmp_path):
    clf = make(SketchForestClassifier, advanced={"decode": "top:4"}).fit(*rows[0])
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    X = rows[2][0]
    np.testing.assert_array_equal(loaded.predict(X).toarray(), clf.predict(X, decode="top:4").toarray())


@pytest.mark.parametrize("cls", [SparseGBDTClassifier, SketchForestClassifier])
def test_fit_chooses_thresholds_for_a_target(cls, rows):
    per_label = {"threshold": "macro-f1", "threshold_per_label": True}
    clf = make(cls, advanced=per_label).fit(*rows[0], eval_set=rows[1])
    assert clf.threshold_.shape == (25,)
    plain = make(cls, advanced={"threshold": "f1"}).fit(*rows[0], eval_set=rows[1])
    assert isinstance(plain.threshold_, float)
    X, Y = rows[1]
    assert f1_score(Y, clf.predict(X), "macro") > f1_score(Y, plain.predict(X), "macro")
    precise = make(cls, advanced={"threshold": "precision:0.9"}).fit(*rows[0], eval_set=rows[1])
    assert precise.predict(X).nnz < plain.predict(X).nnz


def test_fit_balances_frequency_groups_if_it_can_tell_them_apart(rows, tmp_path):
    clf = make(SparseGBDTClassifier).fit(*rows[0], eval_set=rows[1])
    group = clf.model_.calibrator.group
    assert set(group) == {0, 1}
    assert [len(set(clf.threshold_[group == number])) for number in (0, 1)] == [1, 1]
    p = clf.predict_proba(rows[2][0])
    wanted = p.toarray() >= clf.threshold_  # float32
    np.testing.assert_array_equal(clf.predict(rows[2][0]).toarray() > 0, wanted & (p.toarray() > 0))
    clf.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(sparseleaf.load(tmp_path / "m.safetensors").threshold_, clf.threshold_)
    X, Y = rows[1]
    few = make(SparseGBDTClassifier).fit(*rows[0], eval_set=(X[:40], Y[:40]))  # a single group
    plain = make(SparseGBDTClassifier, advanced={"threshold": "f1"}).fit(*rows[0], eval_set=(X[:40], Y[:40]))
    assert few.threshold_ == plain.threshold_


def test_thresholds_without_a_calibrator_are_scores(rows):
    clf = make(SparseGBDTClassifier).fit(*rows[0]).set_threshold(*rows[1])
    assert not clf.model_.stage(Role.DECISION).on_probabilities
    X = rows[2][0]
    np.testing.assert_array_equal(
        clf.predict(X).toarray() > 0, clf.decision_function(X).toarray() >= np.float32(clf.threshold_)
    )


# --- errors


def test_models_without_a_calibrator_say_what_to_do(rows):
    clf = make(SparseGBDTClassifier).fit(*rows[0])
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match=r"no calibrator.*fit_calibration\(X, y\)"):
        clf.predict_proba(rows[2][0])
    with pytest.raises(ValueError, match="no calibrator"):
        clf.predict(rows[2][0], decode="expected_f1")


def test_invalid_arguments(fitted, rows):
    clf, (X, Y) = fitted[SparseGBDTClassifier], rows[1]
    with pytest.raises(ValueError, match=r"The 'method' parameter must be one of .*Got 'beta' instead"):
        clf.fit_calibration(X, Y, method="beta")
    with pytest.raises(ValueError, match="The 'method' parameter must be"):
        clf.fit_calibration(X, Y, method=None)
    with pytest.raises(ValueError, match="The 'k' parameter must be an int >= 1 or None"):
        clf.predict_proba(X, 0)
    with pytest.raises(ValueError, match="The 'decode' parameter must be one of"):
        clf.predict(X, decode="best")
    with pytest.raises(ValueError, match="The 'target' parameter must be"):
        clf.set_threshold(X, Y, target="recall")
    with pytest.raises(ValueError, match="The 'calibrate' parameter of SparseGBDTClassifier must be one of"):
        make(SparseGBDTClassifier, calibrate="beta").fit(X, Y)
    with pytest.raises(ValueError, match="The 'decode' parameter of SparseGBDTClassifier must be one of"):
        make(SparseGBDTClassifier, advanced={"decode": "best"}).fit(X, Y)


@pytest.mark.parametrize("cls", SPARSE)
def test_one_class_per_row(cls, rows):
    X = rows[0][0]
    y = np.arange(N_TRAIN) % 3
    clf = make(cls).fit(X, y)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    with pytest.raises(ValueError, match="CalibratedClassifierCV"):
        clf.fit_calibration(X, y)
    with pytest.raises(ValueError, match="The 'decode' parameter must be None"):
        clf.predict(X, decode="top:1")
    with pytest.raises(ValueError, match="The 'calibrate' parameter must be 'auto' or None"):
        make(cls, calibrate="isotonic").fit(X, y)
