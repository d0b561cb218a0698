"""Path attribution of routed trees agrees with its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_explain
from smalldata import make_set
from sparseleaf import LdSMClassifier, SketchForestClassifier, _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf.data import make_xc
from sparseleaf.model import Rows
from sparseleaf.model.attribution import Pairs


def trained(kind, seed, arity):
    X, Y = make_xc(120, 25, 12, labels_per_row=2, nnz_per_row=6, seed=seed)
    if kind == "ldsm":
        return LdSMClassifier(n_trees=2, arity=arity, max_nodes=20, epochs=2, random_state=seed).fit(X, Y), X
    return SketchForestClassifier(n_trees=2, arity=arity, rerank=None, random_state=seed).fit(X, Y), X


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["ldsm", "forest"]), st.integers(0, 100), st.sampled_from([2, 3, 4]))
def test_are_what_the_definition_says(kind, seed, arity):
    model, X = trained(kind, seed, arity)
    scorer = model.model_.scorer
    pairs = Pairs.product(4, np.array([0, 5, 11]))
    attribution = scorer.apply(Rows(X[:4])).explain(pairs)
    dense = X[:4].toarray()
    for pair, (row, label) in enumerate(zip(pairs.rows, pairs.labels, strict=True)):
        base, contributions = naive_explain.routed(scorer, dense[row], label)
        assert attribution.base[pair] == pytest.approx(base, abs=1e-6)
        np.testing.assert_allclose(attribution.terms.matrix[pair].toarray()[0], contributions, atol=1e-6)
    wanted = model.decision_function(X[:4]).toarray()[pairs.rows, pairs.labels]
    np.testing.assert_allclose(attribution.scores, wanted, atol=1e-6)


@pytest.mark.parametrize("compact", [True, False])
def test_saved_models_with_float_weights_agree(compact, tmp_path):
    import sparseleaf

    model, X = trained("ldsm", 3, 2)
    model.save(tmp_path / "m", compact=compact)
    first, second = (one.explain(X[:9]) for one in (model, sparseleaf.load(tmp_path / "m")))
    np.testing.assert_allclose(first.contributions.toarray(), second.contributions.toarray(), atol=1e-6)


def test_trees_of_one_leaf_have_only_a_base():
    X, Y = make_set(40, 6, 4, seed=0)
    model = SketchForestClassifier(n_trees=2, max_depth=0, rerank=None)
    model = model.set_params(max_depth=1, min_samples_leaf=40).fit(X, Y)
    explanation = model.explain(X[:3])
    assert explanation.contributions.nnz == 0 or not explanation.contributions.data.any()
    np.testing.assert_allclose(explanation.base, explanation.scores, atol=1e-6)


@pytest.fixture
def arguments():
    model, X = trained("forest", 0, 4)
    predictor = model.model_.scorer.predictor
    parts = csr_parts(X[:3])
    indptr, leaves = predictor.leaves(*parts, 1)
    sizes = np.diff(parts[0])
    return predictor, {
        "index": predictor.leaf_index(),
        "indptr": parts[0],
        "indices": parts[1],
        "data": parts[2],
        "leaf_starts": indptr,
        "leaves": leaves,
        "starts": np.arange(4),
        "labels": np.array([0, 1, 2], np.int32),
        "offsets": np.concatenate(([0], np.cumsum(sizes))),
        "out": np.empty(sizes.sum()),
        "base": np.empty(3),
        "n_threads": 1,
    }


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda a: a[::-1].copy(), "indptr"),
        ("indices", lambda a: a + np.int32(99), "a feature that the model does not have"),
        ("leaf_starts", lambda a: a[:-1], "indptr"),
        ("leaves", lambda a: a + np.int32(10_000), "no such leaf"),
        ("leaves", lambda a: a - np.int32(10_000), "no such leaf"),
        ("starts", lambda a: a[:-1], "indptr"),
        ("labels", lambda a: a + np.int32(12), "no such label"),
        ("offsets", lambda a: a * 0, "indptr"),
        ("offsets", lambda a: np.array([0, a[1] + 1, a[2] + 1, a[3]]), "a term for every entry"),
        ("base", lambda a: a[:2], "one for every pair"),
    ],
)
def test_kernel_refuses_what_does_not_fit(arguments, name, change, message):
    predictor, values = arguments
    predictor.explain(**values)
    values[name] = change(values[name])
    with pytest.raises(ValueError, match=message):
        predictor.explain(**values)


def test_index_of_another_model_is_refused(arguments):
    predictor, values = arguments
    other, _ = trained("forest", 1, 2)
    values["index"] = other.model_.scorer.predictor.leaf_index()
    with pytest.raises(ValueError, match="another model"):
        predictor.explain(**values)


def test_rows_may_share_nothing_with_the_trees():
    model, X = trained("forest", 0, 4)
    assert isinstance(model.model_.scorer.predictor, _kernels.RoutedPredictor)
    attribution = model.model_.scorer.apply(Rows(X[:2] * 0)).explain(Pairs.product(2, np.array([1])))
    assert not attribution.terms.matrix.data.any()
