"""The evidence for a label, decomposed over the features of a row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.preprocessing import normalize

import naive_explain
import naive_shap
from sparseleaf import SketchForestClassifier, _kernels
from sparseleaf.data import make_xc
from sparseleaf.model import Rows
from sparseleaf.model.attribution import Attribution, Pairs, Terms, added, nothing, stacked
from sparseleaf.rerank.centroids import weighted
from sparseleaf.rerank.evidence import COLUMNS, SOURCES, STEEPNESS
from sparseleaf.rerank.neighbours import NEIGHBOURS


@pytest.fixture(scope="module")
def trained():
    X, Y = make_xc(250, 40, 20, labels_per_row=2, nnz_per_row=8, seed=2)
    return {
        kind: SketchForestClassifier(n_trees=2, rerank=kind).fit(X, Y) for kind in ("linear", "boosted")
    }, X


def parts_of(model, X, pairs):
    stage = model.model_.rerank
    before = model.model_.scorer.apply(Rows(X))
    labels, scores = before.candidates(stage.places)
    query = stage.evidence.query(X, 1)
    return stage.evidence.explain(before, pairs, np.ones(len(pairs), bool), query), labels, scores


def test_terms_are_what_the_definitions_say(trained):
    models, X = trained
    evidence = models["linear"].model_.rerank.evidence
    pairs = Pairs.product(6, np.array([0, 3, 19]))
    parts, _, _ = parts_of(models["linear"], X[:6], pairs)
    for pair, (row, label) in enumerate(zip(pairs.rows, pairs.labels, strict=True)):
        x = X[row].toarray()[0]
        for name, terms in (
            ("cosine", naive_explain.cosine_terms(evidence, x, label)),
            ("margin", naive_explain.margin_terms(evidence, x, label)),
            (
                "votes",
                naive_explain.vote_terms(evidence, x, label, NEIGHBOURS, evidence.neighbours.query_features)[
                    0
                ],
            ),
        ):
            found = parts[name].terms.matrix[pair].toarray()[0]
            np.testing.assert_allclose(found, terms, atol=2e-6, err_msg=name)
        _, carriers = naive_explain.vote_terms(
            evidence, x, label, NEIGHBOURS, evidence.neighbours.query_features
        )
        assert sorted(parts["votes"].similar.of(pair)[0].tolist()) == sorted(carriers)
        assert parts["margin"].base[pair] == evidence.models.bias[label]


def test_terms_add_up_to_the_table(trained):
    models, X = trained
    stage = models["linear"].model_.rerank
    before = models["linear"].model_.scorer.apply(Rows(X[:10]))
    table = stage.evidence.candidates(X[:10], *before.candidates(stage.places), 1)
    row = np.repeat(np.arange(10), np.diff(table.starts))
    pairs = Pairs(row.astype(np.int64), table.labels)
    parts, _, _ = parts_of(models["linear"], X[:10], pairs)
    columns = dict(zip(COLUMNS, table.table.T, strict=True))
    for name, column in (("cosine", "cosine"), ("margin", "margin"), ("votes", "sharp votes")):
        np.testing.assert_allclose(parts[name].scores, columns[column], atol=2e-6)


def test_rows_are_normalised_as_by_scikit_learn(trained):
    models, X = trained
    evidence = models["linear"].model_.rerank.evidence
    rows = sp.vstack([X, X[:1] * 0, X[1:2] * np.float32(1e30)], "csr")
    wanted = normalize(weighted(rows.astype(np.float64), evidence.centroids.feature_weights))
    unit = evidence.unit_rows(rows)
    assert unit.data.tobytes() == wanted.data.astype(np.float32).tobytes()
    assert unit.dtype == np.float32


def test_linear_mix_by_hand(trained):
    models, X = trained
    model = models["linear"]
    stage = model.model_.rerank
    best, _ = model.predict_topk(X[:5], 3)
    pairs = Pairs.of_topk(best)
    parts, labels, scores = parts_of(model, X[:5], pairs)
    explanation = model.explain(X[:5], k=3)
    for pair, (row, label) in enumerate(zip(pairs.rows, pairs.labels, strict=True)):
        listed = label in labels[row]
        highest = scores[row].max()
        table = stage.evidence.candidates(X[:5], labels, scores, 1)
        sharpest = table.table[table.starts[row] : table.starts[row + 1], COLUMNS.index("sharp votes")].max()
        margin = parts["margin"]
        slope = (expit(STEEPNESS * margin.scores[pair]) - expit(STEEPNESS * margin.base[pair])) / margin.sums[
            pair
        ]
        factors = (listed / highest, 1.0, slope, 1 / sharpest if sharpest > 0 else 0.0)
        wanted = sum(
            weight * factor * parts[name].terms.matrix[pair].toarray()[0]
            for name, weight, factor in zip(
                ("trees", "cosine", "margin", "votes"), stage.weights, factors, strict=True
            )
        )
        np.testing.assert_allclose(explanation.contributions[pair].toarray()[0], wanted, atol=1e-5)


def test_booster_by_shapley_values_of_its_columns(trained):
    models, X = trained
    model = models["boosted"]
    stage = model.model_.rerank
    explanation = model.explain(X[:1], k=2)
    before = model.model_.scorer.apply(Rows(X[:1]))
    table = stage.evidence.candidates(X[:1], *before.candidates(stage.places), 1)
    for pair, (row, label) in enumerate(zip(explanation.rows, explanation.labels, strict=True)):
        line = table.table[table.starts[row] :][np.searchsorted(
            table.labels[table.starts[row] : table.starts[row + 1]], label
        )]  # fmt: skip
        values, expected = naive_shap.shap_values(stage.booster.trees, 1, line, stage.booster.base_score)
        one = explanation[row][pair % 2]
        total = values.sum()
        slope = (one.score - expit(expected[0])) / total
        for source in dict.fromkeys(SOURCES):
            wanted = slope * values[[name == source for name in SOURCES]].sum()
            assert one.components.get(source, 0.0) == pytest.approx(wanted, abs=1e-5)


def random_attribution(rng, n_pairs=4, n_features=5):
    dense = rng.normal(size=(n_pairs, n_features))
    matrix = sp.csr_matrix(dense * (rng.random(dense.shape) < 0.6))
    return Attribution(rng.normal(size=n_pairs), Terms.of(matrix), {"trees": rng.normal(size=n_pairs)})


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_links_keep_the_sum(seed):
    rng = np.random.default_rng(seed)
    part = random_attribution(rng)
    after = part.through(expit(part.base), expit(part.scores))
    np.testing.assert_allclose(after.scores, expit(part.scores), atol=1e-12)
    both = added([part.scaled(0.3), after.scaled(np.arange(4.0))])
    np.testing.assert_allclose(both.scores, 0.3 * part.scores + np.arange(4) * after.scores, atol=1e-12)
    where = rng.random(9) < 0.5
    where[:4], where[4:] = True, False
    placed = part.placed(where, 7.0, "prior")
    np.testing.assert_allclose(placed.scores, [*part.scores, 7, 7, 7, 7, 7], atol=1e-12)
    assert placed.components["prior"].tolist() == [0] * 4 + [7] * 5
    joined = stacked([part, nothing(2, 5, 1.0).named("base")])
    np.testing.assert_allclose(joined.scores, [*part.scores, 1, 1], atol=1e-12)


def test_contributions_that_cancel_are_not_blown_up():
    part = Attribution(np.zeros(1), Terms.of(sp.csr_matrix([[1.0, -1.0 + 1e-12]])), {})
    after = part.through(np.array([0.0]), np.array([0.5]))
    assert after.base.tolist() == [0.5]
    assert not after.terms.data.any()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("found", lambda a: a + np.int32(10_000), "no such row"),
        ("found", lambda a: a[:, :3].copy(), "found, products"),
        ("labels", lambda a: a + np.int32(1000), "no such label"),
        ("carriers", lambda a: a[:, :3].copy(), "carriers"),
        ("offsets", lambda a: a[:-1], "indptr"),
    ],
)
def test_kernel_of_votes_refuses_what_does_not_fit(trained, name, change, message):
    models, X = trained
    index = models["linear"].model_.rerank.evidence.neighbours
    rows = sp.csr_matrix(X[:2])
    nearest, cosines = index.nearest(rows, None, 1)
    values = {
        "indptr": rows.indptr.astype(np.int64),
        "indices": rows.indices,
        "data": rows.data,
        "found": nearest,
        "products": cosines,
        "lists": index.labels.kernel,
        "starts": np.arange(3),
        "labels": np.array([0, 1], np.int32),
        "offsets": rows.indptr.astype(np.int64),
        "out": np.empty(rows.nnz),
        "carriers": np.empty((2, NEIGHBOURS), np.uint8),
        "n_threads": 1,
    }
    index.kernel.votes(**values)
    values[name] = change(values[name])
    with pytest.raises(ValueError, match=message):
        index.kernel.votes(**values)


def test_kernel_of_terms_refuses_what_does_not_fit():
    from sparseleaf._vectors import PackedVectors

    packed = PackedVectors.of(sp.csr_matrix(np.eye(3, dtype=np.float32)))
    vectors = _kernels.LabelVectors(packed.kernel)
    rows = sp.csr_matrix(np.ones((1, 3), np.float32))
    parts = rows.indptr.astype(np.int64), rows.indices, rows.data
    out = np.empty(3)
    vectors.terms(*parts, np.array([0, 1]), np.array([1], np.int32), np.array([0, 3]), out, 1)
    assert out.tolist() == [0, 1, 0]
    for labels, offsets in (
        (np.array([3], np.int32), np.array([0, 3])),
        (np.array([1], np.int32), np.array([0, 2])),
    ):
        with pytest.raises(ValueError, match=r"label|offsets|indptr"):
            vectors.terms(*parts, np.array([0, 1]), labels, offsets, out, 1)
