"""Calibration error and F1 of predicted label sets, on the page about probabilities."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "probabilities.md"
SETS = {
    "score >= 0.5": "score ≥ 0.5",
    "threshold:0.5": "probability ≥ 0.5",
    "top:5": "five best labels",
    "threshold": "default thresholds",
    "set_threshold f1": '`target="f1"`',
    "set_threshold balanced-f1, per label": '`"balanced-f1"`, per label',
    "expected_f1": '`decode="expected_f1"`',
    "set_threshold macro-f1": '`target="macro-f1"`',
    "set_threshold macro-f1, per label": '`"macro-f1"`, per label',
}
"""Label sets in the table, and their headings."""


def page() -> str:
    results = read("calibration")
    errors, sets = [], []
    for dataset, runs in results["runs"].items():
        for model, run in runs.items():
            ece, brier = run["ece"], run["brier"]
            errors.append(
                [
                    f"{dataset}: {model}",
                    f"{ece['scores']:.3f}",
                    f"{ece['probabilities']:.3f}",
                    f"{brier['scores']:.3f}",
                    f"{brier['probabilities']:.3f}",
                ]
            )
            f1 = [
                f"{run['sets'][name]['f1_micro']:.1f} / {run['sets'][name]['f1_macro']:.1f}" for name in SETS
            ]
            sets.append([f"{dataset}: {model}", *f1])
    heads = ["", "ECE of scores", "of probabilities", "Brier score of scores", "of probabilities"]
    return with_tables(
        PAGE,
        f"""Test rows; the five best labels of every row, default parameters. Scores are clipped to [0, 1]:

{table(heads, errors)}

Micro- and macro-averaged F1 in percent of predicted label sets. Thresholds were chosen on held-out training rows:

{table(["", *SETS.values()], sets)}

On {about(results["machine"])}.
""",
    )
