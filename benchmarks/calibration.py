"""Calibrated probabilities and thresholds: calibration error, F1 of predicted label sets, decoding for the tail.

    python -m benchmarks.calibration --data <folder> [--out FILE] [--only SET ...] [--split SEED]

Models are trained on the training set of each dataset with default parameters; calibrator and thresholds are fitted
without the test rows. Label sets are also decoded by the package xcolumns, from the same probabilities. Results of
other datasets and models in --out are kept. With --split, rows are divided anew, at random, into training and test rows
of the published numbers, and nothing is written: a check of what was chosen with the published test rows in view.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._common import load_set, machine, write_results
from sparseleaf import LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.metrics import (
    brier_score,
    expected_calibration_error,
    f1_score,
    precision_at_k,
    precision_score,
    recall_score,
)
from sparseleaf.model import Role

K = 5
N_VALID = 5_000
SETS = ("bibtex", "delicious", "tibkat-gnd")
MODELS: dict[str, dict[str, Any]] = {
    "SketchForest": {"bibtex": {}, "delicious": {}, "tibkat-gnd": {"n_trees": 10}},
    "SparseGBDT": {"bibtex": {}, "delicious": {}},
    "LdSM": {"bibtex": {}, "delicious": {}},
}
"""Parameters by dataset; a model is not trained on the other datasets."""

CLASSES = {"SketchForest": SketchForestClassifier, "SparseGBDT": SparseGBDTClassifier, "LdSM": LdSMClassifier}


def raw_scores(clf: Any, X: Any) -> sp.csr_matrix:
    """Scores of the K best labels, clipped to [0, 1]."""
    labels, scores = clf.predict_topk(X, K)
    listed = labels >= 0
    indptr = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    shape = (X.shape[0], clf.model_.n_labels)
    return sp.csr_matrix((np.clip(scores[listed], 0, 1), labels[listed], indptr), shape=shape)


def sets_of(Y: Any, predicted: Any) -> dict[str, float]:
    """Metrics of label sets in percent."""
    values = {f"f1_{average}": f1_score(Y, predicted, average) for average in ("micro", "macro", "samples")}
    values |= {"precision": precision_score(Y, predicted), "recall": recall_score(Y, predicted)}
    values |= {"recall_macro": recall_score(Y, predicted, "macro")}
    return {name: 100 * value for name, value in values.items()} | {"labels": predicted.nnz / Y.shape[0]}


def same_ranking(clf: Any, X: Any) -> bool:
    """Whether labels, their order, and the order by probability are those without the calibrator."""
    labels, _ = clf.predict_topk(X, K)
    without, _ = type(clf).from_model(clf.model_.with_stage(Role.CALIBRATOR, None)).predict_topk(X, K)
    p = clf.predict_proba(X, K)
    order = np.lexsort((p.indices, -p.data, np.repeat(np.arange(X.shape[0]), np.diff(p.indptr))))
    return bool((labels == without).all() and (p.indices[order] == labels[labels >= 0]).all())


def divided(data: str, name: str, split: int | None) -> tuple[Any, Any, Any, Any]:
    """Training and test rows: the published ones, or drawn with this seed from all."""
    X, Y, X_test, Y_test = load_set(data, name)
    if split is None:
        return X, Y, X_test, Y_test
    both = [sp.csr_matrix(sp.vstack(parts)) for parts in ((X, X_test), (Y, Y_test))]
    order = np.random.default_rng(split).permutation(both[0].shape[0])
    train, test = np.sort(order[: X.shape[0]]), np.sort(order[X.shape[0] :])
    return both[0][train], both[1][train], both[0][test], both[1][test]


def measure(name: str, model: str, data: str, split: int | None = None) -> dict[str, Any]:
    X, Y, X_test, Y_test = divided(data, name, split)
    valid = np.zeros(X.shape[0], bool)  # for thresholds; calibrators are fitted during fit
    valid[np.random.default_rng(0).permutation(X.shape[0])[: min(N_VALID, X.shape[0] // 10)]] = True
    began = time.process_time()
    clf = CLASSES[model](**MODELS[model][name], random_state=0)
    eval_set = None if model == "SketchForest" else (X[valid], Y[valid])
    clf.fit(X[~valid], Y[~valid], eval_set=eval_set)
    seconds = time.process_time() - began
    raw, p = raw_scores(clf, X_test), clf.predict_proba(X_test, K)
    result: dict[str, Any] = {
        "cpu_seconds": seconds,
        "stages": [stage.kind for stage in clf.model_.stages],
        "same_ranking": same_ranking(clf, X_test),
        "precision@1": 100 * precision_at_k(Y_test, p, 1),
        "ece": {
            "scores": expected_calibration_error(Y_test, raw),
            "probabilities": expected_calibration_error(Y_test, p),
        },
        "brier": {"scores": brier_score(Y_test, raw), "probabilities": brier_score(Y_test, p)},
    }
    half = clf.decision_function(X_test)
    half.data = (half.data >= 0.5).astype(np.float32)
    half.eliminate_zeros()
    decoded = {"score >= 0.5": half}
    for decode in ("threshold:0.5", f"top:{K}", "threshold", "expected_f1", f"macro_recall@{K}", f"psp@{K}"):
        decoded[decode] = clf.predict(X_test, decode=decode)
    for target, per_label in (
        ("f1", False),
        ("balanced-f1", False),
        ("balanced-f1", True),
        ("macro-f1", False),
        ("macro-f1", True),
        ("precision:0.8", False),
    ):
        clf.set_threshold(X[valid], Y[valid], target=target, per_label=per_label)
        decoded[f"set_threshold {target}{', per label' * per_label}"] = clf.predict(X_test)
    decoded |= xcolumns_sets(clf, clf.predict_proba(X_test))
    result["sets"] = {decode: sets_of(Y_test, predicted) for decode, predicted in decoded.items()}
    return result


def xcolumns_sets(clf: Any, p: sp.csr_matrix) -> dict[str, sp.csr_matrix]:
    """The same rules by the package xcolumns, if it is installed."""
    try:
        from xcolumns.weighted_prediction import predict_optimizing_macro_recall
    except ImportError:
        return {}
    priors = (np.maximum(clf.model_.label_counts, 1) / clf.model_.n_train_rows).astype(np.float32)
    predicted = predict_optimizing_macro_recall(sp.csr_matrix(p), K, priors=priors, epsilon=0.0)
    return {f"xcolumns macro recall@{K}": sp.csr_matrix(predicted)}


def show(name: str, model: str, result: dict[str, Any]) -> None:
    ece, brier = result["ece"], result["brier"]
    print(
        f"{name}, {model}: ECE@{K} {ece['scores']:.4f} -> {ece['probabilities']:.4f},"
        f" Brier {brier['scores']:.4f} -> {brier['probabilities']:.4f},"
        f" ranking {'unchanged' if result['same_ranking'] else 'CHANGED'}"
    )
    for decode, values in result["sets"].items():
        print(f"  {decode:34}", "  ".join(f"{key} {value:6.2f}" for key, value in values.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/calibration.json"))
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    parser.add_argument("--split", type=int, metavar="SEED", help="divide rows anew, write nothing")
    arguments = parser.parse_args()
    runs: dict[str, Any] = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}
    for name in arguments.only:
        for model in arguments.models:
            if name in MODELS[model]:
                runs.setdefault(name, {})[model] = measure(name, model, arguments.data, arguments.split)
                show(name, model, runs[name][model])
                if arguments.split is None:
                    write_results(arguments.out, {"machine": machine(), "runs": runs})


if __name__ == "__main__":
    main()
