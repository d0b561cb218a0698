"""The numbers of a report are those of the metrics, of scikit-learn and of naive loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

import sparseleaf
from sparseleaf import metrics
from sparseleaf.report.classification import frequency_groups


def entries(matrix, row, values):
    return list(zip(matrix["ids"], matrix[values], strict=True))[
        matrix["offsets"][row] : matrix["offsets"][row + 1]
    ]


def test_metrics(problem):
    ids, _ = problem.clf.predict_topk(problem.X, 10)
    model = problem.clf.model_
    propensity = metrics.propensities_from_counts(model.label_counts, model.n_train_rows)
    expected = dict(metrics.evaluate(problem.Y, ids, propensity, (1, 3, 5, 10)))
    for k in (1, 3, 5, 10):
        expected[f"recall@{k}"] = metrics.recall_at_k(problem.Y, ids, k)
        expected[f"f1@{k}"] = metrics.f1_at_k(problem.Y, ids, k)
    chosen = problem.clf.predict(problem.X)
    for average in ("micro", "macro"):
        for name in ("precision", "recall", "f1"):
            expected[f"{name}_{average}"] = getattr(metrics, f"{name}_score")(problem.Y, chosen, average)
    best = problem.clf.predict_proba(problem.X, 5)
    expected["ece"] = metrics.expected_calibration_error(problem.Y, best)
    expected["brier"] = metrics.brier_score(problem.Y, best)
    assert problem.report.metrics == expected
    assert problem.data["curve"]["precision"][4] == expected["precision@5"]
    curve = metrics.reliability_curve(problem.Y, best)
    assert problem.data["reliability"]["frequency"] == curve[1].tolist()


@pytest.mark.parametrize("decode", [None, "top:3"])
def test_labels_agree_with_scikit_learn(problem, decode):
    report = problem.clf.report(
        problem.X, problem.Y, decode=decode, n_examples=0, n_importances=0, latency=False
    )
    labels = {name: np.array(report.data["labels"][name]) for name in ("true", "predicted", "hits", "train")}
    chosen = problem.clf.predict(problem.X, decode=decode)
    precision, recall, f1, support = precision_recall_fscore_support(problem.Y, chosen, zero_division=0)
    np.testing.assert_allclose(labels["hits"] / np.maximum(labels["predicted"], 1), precision)
    np.testing.assert_allclose(labels["hits"] / np.maximum(labels["true"], 1), recall)
    np.testing.assert_allclose(2 * labels["hits"] / np.maximum(labels["predicted"] + labels["true"], 1), f1)
    np.testing.assert_array_equal(labels["true"], support)
    np.testing.assert_array_equal(labels["train"], problem.clf.model_.label_counts)


def test_confusions_agree_with_a_loop(problem):
    truth, chosen = problem.Y.toarray() > 0, problem.clf.predict(problem.X).toarray() > 0
    counts = Counter()
    for row in range(len(truth)):
        for a in np.flatnonzero(truth[row] & ~chosen[row]):
            for b in np.flatnonzero(chosen[row] & ~truth[row]):
                counts[int(a), int(b)] += 1
    assert counts
    for name, pair in (("missed", lambda a, b: (a, b)), ("mistaken", lambda a, b: (b, a))):
        for label in range(25):
            listed = entries(problem.data["labels"][name], label, "counts")
            everything = sorted((counts[pair(label, other)] for other in range(25)), reverse=True)
            assert [count for _, count in listed] == [count for count in everything if count][:5]
            assert all(counts[pair(label, other)] == count for other, count in listed)


def test_discriminative_features_are_the_label_importances(problem):
    data = problem.data
    importances = problem.clf.label_importances(max_features=6)
    for label in range(25):
        row = importances[[label]].toarray()[0]
        for place, weight in entries(data["labels"]["features"], label, "weights"):
            feature = int(data["features"][place].removeprefix("feature "))
            assert weight == pytest.approx(1000 * row[feature], abs=0.5)


def test_features_of_the_most_frequent_labels_only(problem):
    data = problem.clf.report(
        problem.X, problem.Y, n_importances=3, n_examples=0, n_trees=0, latency=False
    ).data
    sizes = np.diff(data["labels"]["features"]["offsets"])
    most = np.argsort(-np.array(data["labels"]["true"]), kind="stable")[:3]
    assert np.flatnonzero(sizes).tolist() == sorted(most.tolist())
    assert "3 labels" in data["labels"]["note"]


def test_groups_have_a_third_of_the_occurrences_each(problem):
    groups, counts = problem.data["groups"], np.array(problem.data["labels"]["train"])
    assert [group["name"] for group in groups] == ["head", "torso", "tail"]
    assert sum(group["labels"] for group in groups) == 25
    for k in (1, 3, 5):
        total = sum(group[f"precision@{k}"] for group in groups)
        assert total == pytest.approx(problem.report.metrics[f"precision@{k}"])
    group = np.array(problem.data["labels"]["group"])
    shares = np.bincount(group, counts) / counts.sum()
    assert np.abs(shares - 1 / 3).max() < counts.max() / counts.sum()
    assert counts[group == 0].min() >= counts[group == 1].max() >= counts[group == 2].max()


def test_psp_of_a_group_is_that_of_its_labels(problem):
    group = np.array(problem.data["labels"]["group"])
    ids, _ = problem.clf.predict_topk(problem.X, 5)
    model = problem.clf.model_
    propensity = metrics.propensities_from_counts(model.label_counts, model.n_train_rows)
    for number, one in enumerate(problem.data["groups"]):
        truth = sp.csr_matrix(problem.Y.multiply(group == number))
        truth.eliminate_zeros()
        assert one["psp@5"] == pytest.approx(metrics.psp_at_k(truth, ids, propensity, 5))
        assert one["true"] == truth.nnz


def test_groups_of_rare_and_unseen_labels():
    assert frequency_groups(np.array([0, 9, 0, 9, 9])).tolist() == [2, 0, 2, 1, 2]
    assert frequency_groups(np.zeros(3, np.int64)).tolist() == [2, 2, 2]


def test_labels_that_training_had_not_seen():
    X = np.arange(40.0)[:, None] % 4
    names = [["north"], ["south"], ["east", "north"], ["south"]] * 10
    clf = sparseleaf.SketchForestClassifier(n_trees=3, rerank=None).fit(sp.csr_matrix(X), names)
    report = clf.report(sp.csr_matrix(X), [["north", "west"], *names[1:]], latency=False)
    labels = report.data["labels"]
    assert labels["names"] == ["east", "north", "south", "west"]
    assert labels["train"][3] == 0
    assert labels["true"][3] == 1
    assert report.metrics["recall@1"] < 1


def test_one_class_per_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] > 0.5, "red", np.where(X[:, 1] > 0, "green", "blue"))
    for estimator in (sparseleaf.MultiGBDTClassifier(n_trees=8), sparseleaf.SparseGBDTClassifier(n_trees=8)):
        clf = estimator.fit(X[:200], y[:200])
        report = clf.report(X[200:], y[200:], latency=False)
        predicted = clf.predict(X[200:])
        assert report.metrics["precision_micro"] == pytest.approx(accuracy_score(y[200:], predicted))
        assert report.data["labels"]["names"] == ["blue", "green", "red"]
        precision, *_ = precision_recall_fscore_support(y[200:], predicted, zero_division=0)
        hits, chosen = (np.array(report.data["labels"][name]) for name in ("hits", "predicted"))
        np.testing.assert_allclose(hits / np.maximum(chosen, 1), precision)


def test_examples(problem):
    rows = problem.data["examples"]["rows"]
    labels, scores = problem.clf.predict_topk(problem.X, 5)
    assert len(rows) == 8
    assert [row["kind"] for row in rows] == ["sample"] * 4 + ["error"] * 4
    for row in rows:
        true = problem.Y[row["row"]].indices.tolist()
        assert row["true"] == true
        assert [one["label"] for one in row["predicted"]] == labels[row["row"]].tolist()
        assert [one["hit"] for one in row["predicted"]] == [one["label"] in true for one in row["predicted"]]
        for one in row["predicted"]:
            reasons = one["reasons"]
            total = reasons["base"] + sum(reasons["contributions"]) + reasons["others"]
            assert total == pytest.approx(one["score"], abs=2e-3)
        assert row["kind"] == "sample" or not row["predicted"][0]["hit"]
    wrong = problem.Y[np.arange(200), labels[:, 0]].A1 == 0
    confident = scores[wrong, 0].max()
    assert rows[4]["predicted"][0]["score"] == pytest.approx(confident)
