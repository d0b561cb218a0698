"""Updating against retraining, on the page about keeping a model current."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, precision, read, table, with_tables

PAGE = DOCS / "guide" / "updating.md"
METHODS = {
    "forest": "SketchForestClassifier",
    "ldsm": 'LdSMClassifier, `rerank="linear"`',
    "gbdt-sparse leaves": "SparseGBDTClassifier, refreshed leaves",
    "gbdt-sparse trees": "SparseGBDTClassifier, more trees",
}


def page() -> str:
    results = read("update")
    rows = []
    for name, run in results["runs"].items():
        dataset, _, method = name.partition(" ")
        rows.append(
            [
                f"{dataset}: {METHODS[method]}",
                *(precision(run[part]) for part in ("train", "update", "retrain")),
                f"{run['drift']['n_new_labels']:,}",
                f"{100 * run['time_ratio']:.0f} %",
            ]
        )
    heads = [
        "P@1 / 3 / 5",
        "before",
        "updated",
        "retrained",
        "new labels",
        "CPU time of the update, relative to retraining",
    ]
    return with_tables(PAGE, f"{table(heads, rows)}\n\nOn {about(results['machine'])}.\n")
