"""Decoders: which labels are returned, against naive code and the package xcolumns."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf.metrics import propensities_from_counts
from sparseleaf.model.decoding import Labels, make_decoder, select


def make_probabilities(n_rows=40, n_labels=15, *, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.4, 2.0, (n_rows, n_labels)).astype(np.float32)
    return sp.csr_matrix(np.where(rng.random(p.shape) < 0.7, p, 0).astype(np.float32))


def make_labels(n_labels=15, thresholds=(0.3,), **changes):
    counts = np.geomspace(1, 500, n_labels).astype(np.int64)
    given = {"on_probabilities": True, "has_probabilities": True} | changes
    return Labels(
        np.array(thresholds, np.float32),
        given["on_probabilities"],
        given["has_probabilities"],
        counts,
        1000,
        propensities_from_counts,
    )


def chosen(name, p, labels=None):
    labels = make_labels(p.shape[1]) if labels is None else labels
    return select(p, make_decoder(name).kept(p, labels, 1))


def test_threshold_of_the_model_and_a_fixed_one():
    p = make_probabilities()
    np.testing.assert_array_equal(chosen("threshold", p).toarray() > 0, p.toarray() >= 0.3)
    np.testing.assert_array_equal(chosen("threshold:0.1", p).toarray() > 0, p.toarray() >= np.float32(0.1))
    per_label = np.linspace(0.05, 0.6, 15).astype(np.float32)
    found = chosen("threshold", p, make_labels(thresholds=per_label)).toarray() > 0
    np.testing.assert_array_equal(found, p.toarray() >= per_label)


def test_top_k():
    p = make_probabilities()
    found = chosen("top:3", p)
    for row in range(p.shape[0]):
        best = np.argsort(-p[row].toarray()[0], kind="stable")[:3]
        assert set(found[row].indices) == set(best)


def test_expected_f1_keeps_the_best_labels_and_at_least_one():
    p = make_probabilities()
    found = chosen("expected_f1", p)
    sizes = np.diff(found.indptr)
    assert (sizes >= 1).all()
    for row, size in enumerate(sizes):
        assert set(found[row].indices) == set(np.argsort(-p[row].toarray()[0], kind="stable")[:size])


def test_rows_without_scored_labels_get_none():
    p = sp.csr_matrix((3, 15), dtype=np.float32)
    for name in ("threshold", "threshold:0.5", "top:2", "expected_f1", "macro_recall@2", "psp@2"):
        assert chosen(name, p).nnz == 0


@pytest.mark.parametrize("k", [1, 3, 5])
def test_weighted_decoders_agree_with_xcolumns(k):
    xcolumns = pytest.importorskip("xcolumns.weighted_prediction")
    p, labels = make_probabilities(), make_labels()
    priors = (labels.counts / labels.n_rows).astype(np.float32)
    theirs = xcolumns.predict_optimizing_macro_recall(p.toarray(), k, priors=priors, epsilon=0.0)
    ours = chosen(f"macro_recall@{k}", p, labels).toarray() > 0
    full = (p.getnnz(axis=1) >= k)[:, None]  # xcolumns also selects labels of probability 0
    np.testing.assert_array_equal(ours, (theirs > 0) & full | ours & ~full)
    inverse = (1 / propensities_from_counts(labels.counts, labels.n_rows)).astype(np.float32)
    theirs = xcolumns.predict_weighted_per_instance(p.toarray(), k, a=inverse)
    ours = chosen(f"psp@{k}", p, labels).toarray() > 0
    np.testing.assert_array_equal(ours, (theirs > 0) & full | ours & ~full)
    theirs = xcolumns.predict_top_k(p.toarray(), k)
    ours = chosen(f"top:{k}", p, labels).toarray() > 0
    np.testing.assert_array_equal(ours, (theirs > 0) & full | ours & ~full)


def test_macro_recall_weights_maximise_expected_macro_recall():
    p, labels = make_probabilities(n_rows=200), make_labels()
    priors = labels.counts / labels.n_rows

    def expected_recall(found):
        return (p.multiply(found > 0).sum(axis=0) / priors).sum()

    ours = expected_recall(chosen("macro_recall@3", p, labels))
    assert ours > expected_recall(chosen("top:3", p, labels))
    assert ours > expected_recall(chosen("psp@3", p, labels))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "best",
            "threshold:",
            "threshold:x",
            "threshold:nan",
            "top",
            "top:0",
            "top:1.5",
            "top@5",
            "top:5:5",
        ),
        *("expected_f1:3", "macro_recall", "macro_recall:5", "macro_recall@0", "psp@-1", None, 5, ["top:5"]),
    ],
)
def test_invalid_names(name):
    with pytest.raises(ValueError, match="The 'decode' parameter must be one of"):
        make_decoder(name)


def test_which_decoders_need_probabilities():
    labels = make_labels(on_probabilities=False, has_probabilities=False)
    needed = {
        name: make_decoder(name).on_probabilities(labels)
        for name in ("threshold", "threshold:0.5", "top:5", "expected_f1", "macro_recall@5", "psp@5")
    }
    assert [name for name, needs in needed.items() if needs] == ["expected_f1", "macro_recall@5", "psp@5"]
    assert make_decoder("threshold:0.5").on_probabilities(make_labels())
