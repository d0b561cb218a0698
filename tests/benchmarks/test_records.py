"""Metrics of the benchmark of records."""

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from benchmarks.records import scores

TRUE = [["a", "b"], ["c"], ["a", "d", "e"], ["f"]]
TOP = [
    ["a", "x", "b", "y", "z"],
    ["x", "y", "z", "u", "v"],
    ["e", "d", "a", "x", "y"],
    ["f", "x", "y", "z", "u"],
]
RECORDS = [
    {"lang": lang, "labels": labels} for lang, labels in zip(["de", "en", "de", "en"], TRUE, strict=True)
]


def test_f1_of_the_task_and_of_annif():
    result = scores(RECORDS, TOP)
    precision, recall = np.mean([2, 0, 3, 1]) / 5, np.mean([1, 0, 1, 1])
    assert result["all"]["F1@5 (task)"] == pytest.approx(2 * precision * recall / (precision + recall))
    binary = MultiLabelBinarizer().fit([*TRUE, *TOP])
    mean = f1_score(binary.transform(TRUE), binary.transform(TOP), average="samples")
    assert result["all"]["F1@5 (mean)"] == pytest.approx(mean)
    assert result["en"] == pytest.approx(
        {"records": 2, "P@1": 0.5, "P@5": 0.1, "R@5": 0.5, "F1@5 (task)": 1 / 6, "F1@5 (mean)": 1 / 6}
    )
