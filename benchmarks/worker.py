"""The process of one job: read the set, train, predict, save, measure, write the answer.

    python -m benchmarks.worker SUITE CASE SYSTEM DATA ANSWER SECONDS

Started by ``python -m benchmarks``, which limits its time and memory. SECONDS are those it has in all.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import measured, peak_bytes, percentages, write_results
from benchmarks.sets import Split
from benchmarks.suites import SOFT_SHARE, SUITES, Job
from benchmarks.systems.base import Pace, Task, TooSlow, folder_bytes

PREDICT_TURNS = 5
PREDICT_SECONDS = 3.0
"""Prediction is repeated for so long or so many times; the best counts."""


def measure(job: Job, data: str, seconds: float) -> dict[str, Any]:
    """All figures of a job: means over its splits."""
    suite = job.suite
    began = time.monotonic()
    runs = []
    splits = list(suite.cases[job.case](data))
    loaded = peak_bytes()
    left = seconds - (time.monotonic() - began)
    # in a sweep a cost is asked for, and a training that was cut short has none
    pace = Pace(SOFT_SHARE * left / len(splits), may_stop=suite.axis is None)
    task = Task(suite.kind, suite.settings, job.own, job.threads, pace)
    for split in splits:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(one(job, task, split, Path(folder)))
    found = {
        key: float(np.mean([run[key] for run in runs]))
        for key in ("train_seconds", "predict_ms_per_row", "model_bytes")
    }
    names = runs[0]["metrics"]
    found["metrics"] = {name: float(np.mean([run["metrics"][name] for run in runs])) for name in names}
    if len(runs) > 1:
        found["standard_errors"] = {
            name: float(np.std([run["metrics"][name] for run in runs], ddof=1) / np.sqrt(len(runs)))
            for name in names
        }
    found |= {"splits": len(runs), "set_peak_bytes": loaded, "train_peak_bytes": runs[0]["train_peak_bytes"]}
    if pace.wanted is not None:
        found |= {"rounds": min(run["rounds"] for run in runs), "wanted_rounds": pace.wanted}
    return found


def one(job: Job, task: Task, split: Split, folder: Path) -> dict[str, Any]:
    """Train on a split and look at its test rows."""
    model = job.system.make(task)
    if hasattr(model, "prepare"):
        (folder / "work").mkdir()
        model.prepare(split, folder / "work")
    task.pace.begin()
    _, seconds = measured(lambda: model.fit(split))
    train_peak = peak_bytes()
    times: list[float] = []
    while not times or (len(times) < PREDICT_TURNS and sum(times) < PREDICT_SECONDS):
        predicted, taken = measured(lambda: model.predict(split.X_test))
        times.append(taken)
    (folder / "saved").mkdir()
    model.save(folder / "saved")
    return {
        "metrics": quality(job.suite.kind, split, predicted),
        "train_seconds": seconds,
        "train_peak_bytes": train_peak,
        "predict_ms_per_row": 1e3 * min(times) / split.X_test.shape[0],
        "model_bytes": folder_bytes(folder / "saved"),
        "rounds": task.pace.rounds,
    }


def quality(kind: str, split: Split, predicted: Any) -> dict[str, float]:
    """How good predictions are, by the measures of their kind."""
    if kind == "labels":
        from sparseleaf.metrics import propensities

        found = percentages(split.Y_test, np.asarray(predicted).astype(np.int64), propensities(split.Y))
        return {name: value for name, value in found.items() if not name.startswith("PSnDCG")}
    if kind == "ranking":
        from sparseleaf.ranking import average_precision, mean_of, ndcg

        given = {"group": split.group_test}
        return {
            "NDCG@5": mean_of(ndcg(split.Y_test, predicted, k=5, **given)),
            "NDCG@10": mean_of(ndcg(split.Y_test, predicted, k=10, **given)),
            "MAP": mean_of(average_precision(split.Y_test, predicted, **given)),
        }
    predicted = np.asarray(predicted)
    if kind == "classes":
        return {"accuracy": 100 * float(np.mean(predicted.ravel() == split.Y_test))}
    squares = np.mean((predicted - split.Y_test) ** 2, axis=0, dtype=np.float64)
    mean = np.mean((split.Y.mean(axis=0) - split.Y_test) ** 2, axis=0, dtype=np.float64)
    return {
        "RMSE": float(np.sqrt(squares.mean())),
        "aRRMSE": float(np.mean(np.sqrt(squares / np.where(mean > 0, mean, 1)))),
    }


def answer(job: Job, data: str, seconds: float) -> dict[str, Any]:
    """The figures, or why there are none."""
    try:
        return {"ended": "ok", **measure(job, data, seconds)}
    except TooSlow as error:
        return {"ended": "time limit", "said": str(error), "projected_seconds": error.seconds}
    except MemoryError as error:
        return {"ended": "memory limit", "said": str(error) or "MemoryError"}


def die_with_parent() -> None:
    """On Linux, should the one who started this be killed, so that it can end nothing itself."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    suite, case, key, data, file, seconds = arguments
    die_with_parent()
    write_results(file, answer(Job(SUITES[suite], case, key), data, float(seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
