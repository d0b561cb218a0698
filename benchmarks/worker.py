"""The process of one job: reads the dataset, trains, predicts, saves and writes the measurements.

    python -m benchmarks.worker SUITE CASE SYSTEM DATA OUTPUT SECONDS

Started by ``python -m benchmarks``, which enforces the limits. SECONDS is the time limit of the whole process.
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
from benchmarks.suites import SUITES, TRAINING_SHARE, Job
from benchmarks.systems.base import Task, TimeBudget, TooSlow, folder_bytes

PREDICT_REPEATS = 5
PREDICT_SECONDS = 3.0
"""Prediction is repeated up to this number of times and seconds; the fastest repeat counts."""


def measure(job: Job, data: str, seconds: float) -> dict[str, Any]:
    """Means over the splits of a job."""
    suite = job.suite
    started = time.monotonic()
    runs = []
    splits = list(suite.cases[job.case](data))
    dataset_peak = peak_bytes()
    left = seconds - (time.monotonic() - started)
    # sweeps compare training times, so a training that stopped early has no result there
    budget = TimeBudget(TRAINING_SHARE * left / len(splits), may_stop=suite.axis is None)
    task = Task(suite.kind, suite.settings, job.overrides, job.threads, budget)
    for split in splits:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run_split(job, task, split, Path(folder)))
    result: dict[str, Any] = {
        key: float(np.mean([run[key] for run in runs]))
        for key in ("train_seconds", "predict_ms_per_row", "model_bytes")
    }
    names = runs[0]["metrics"]
    result["metrics"] = {name: float(np.mean([run["metrics"][name] for run in runs])) for name in names}
    if len(runs) > 1:
        result["standard_errors"] = {
            name: float(np.std([run["metrics"][name] for run in runs], ddof=1) / np.sqrt(len(runs)))
            for name in names
        }
    result |= {
        "splits": len(runs),
        "set_peak_bytes": dataset_peak,
        "train_peak_bytes": runs[0]["train_peak_bytes"],
    }
    if budget.planned_rounds is not None:
        result |= {"rounds": min(run["rounds"] for run in runs), "planned_rounds": budget.planned_rounds}
    return result


def run_split(job: Job, task: Task, split: Split, folder: Path) -> dict[str, Any]:
    """Train on a split, predict its test rows and save the model."""
    model = job.system.make(task)
    if hasattr(model, "prepare"):
        (folder / "work").mkdir()
        model.prepare(split, folder / "work")
    task.budget.start()
    _, seconds = measured(lambda: model.fit(split))
    train_peak = peak_bytes()
    times: list[float] = []
    while not times or (len(times) < PREDICT_REPEATS and sum(times) < PREDICT_SECONDS):
        predicted, elapsed = measured(lambda: model.predict(split.X_test))
        times.append(elapsed)
    (folder / "saved").mkdir()
    model.save(folder / "saved")
    return {
        "metrics": evaluate(job.suite.kind, split, predicted),
        "train_seconds": seconds,
        "train_peak_bytes": train_peak,
        "predict_ms_per_row": 1e3 * min(times) / split.X_test.shape[0],
        "model_bytes": folder_bytes(folder / "saved"),
        "rounds": task.budget.rounds,
    }


def evaluate(kind: str, split: Split, predicted: Any) -> dict[str, float]:
    """The metrics of a kind of task."""
    if kind == "multilabel":
        from sparseleaf.metrics import propensities

        values = percentages(split.Y_test, np.asarray(predicted).astype(np.int64), propensities(split.Y))
        return {name: value for name, value in values.items() if not name.startswith("PSnDCG")}
    if kind == "ranking":
        from sparseleaf.ranking import average_precision, mean_of, ndcg

        group = split.group_test
        return {
            "NDCG@5": mean_of(ndcg(split.Y_test, predicted, k=5, group=group)),
            "NDCG@10": mean_of(ndcg(split.Y_test, predicted, k=10, group=group)),
            "MAP": mean_of(average_precision(split.Y_test, predicted, group=group)),
        }
    predicted = np.asarray(predicted)
    if kind == "multiclass":
        return {"accuracy": 100 * float(np.mean(predicted.ravel() == split.Y_test))}
    squares = np.mean((predicted - split.Y_test) ** 2, axis=0, dtype=np.float64)
    mean = np.mean((split.Y.mean(axis=0) - split.Y_test) ** 2, axis=0, dtype=np.float64)
    return {
        "RMSE": float(np.sqrt(squares.mean())),
        "aRRMSE": float(np.mean(np.sqrt(squares / np.where(mean > 0, mean, 1)))),
    }


def run(job: Job, data: str, seconds: float) -> dict[str, Any]:
    """The measurements of a job, or why there are none."""
    try:
        return {"status": "ok", **measure(job, data, seconds)}
    except TooSlow as error:
        return {"status": "time limit", "message": str(error), "projected_seconds": error.seconds}
    except MemoryError as error:
        return {"status": "memory limit", "message": str(error) or "MemoryError"}


def die_with_parent() -> None:
    """On Linux: be killed when the parent process is, which then cannot terminate this one."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    suite, case, key, data, file, seconds = arguments
    die_with_parent()
    write_results(file, run(Job(SUITES[suite], case, key), data, float(seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
