"""The committed records of the benchmark page, the metrics shown of them, and number formatting."""

from __future__ import annotations

import json
import math
from pathlib import Path

from benchmarks.harness import Record
from benchmarks.suites import SUITES, Job, Suite

RECORDS = Path(__file__).parents[1] / "docs" / "results" / "benchmarks.json"

Records = dict[str, Record]

METRICS = {
    "multilabel": (
        ("P@1 / 3 / 5", ("P@1", "P@3", "P@5"), 2),
        ("PSP@1 / 3 / 5", ("PSP@1", "PSP@3", "PSP@5"), 2),
    ),
    "multiclass": (("accuracy, %", ("accuracy",), 2),),
    "regression": (("RMSE", ("RMSE",), 4), ("aRRMSE", ("aRRMSE",), 4)),
    "ranking": (("NDCG@5", ("NDCG@5",), 4), ("NDCG@10", ("NDCG@10",), 4), ("MAP", ("MAP",), 4)),
}
"""Columns of the tables by kind of task: title, metrics, decimal places."""


def all_jobs() -> list[Job]:
    return [job for suite in SUITES.values() for job in suite.jobs()]


def read_records(path: Path | None = None) -> Records:
    """Committed records by job name, without outdated ones."""
    path = RECORDS if path is None else path
    if not path.exists():
        return {}
    records = json.loads(path.read_text())["records"]
    return {
        job.name: records[job.name]
        for job in all_jobs()
        if job.name in records and records[job.name]["config"] == job.config
    }


def by_system(records: Records, suite: Suite, case: str) -> dict[str, Record]:
    """Records of a case by system key, in the order of the suite."""
    rows = {key: records.get(Job(suite, case, key).name) for key in suite.systems}
    return {key: record for key, record in rows.items() if record is not None}


def completed(records: Records, suite: Suite, case: str) -> dict[str, Record]:
    """The records of a case that have a result."""
    rows = by_system(records, suite, case)
    return {key: record for key, record in rows.items() if record["status"] == "ok"}


def main_metric(suite: Suite) -> str:
    if suite.name == "multitarget":
        return "aRRMSE"
    return METRICS[suite.kind][0][1][0]


def decimals(metric: str) -> int:
    return 2 if metric in ("P@1", "accuracy") else 4


def lower_is_better(metric: str) -> bool:
    return "RMSE" in metric


def stopped_early(record: Record) -> bool:
    return bool(record.get("rounds", 0) < record.get("planned_rounds", 0))


def ranked(records: dict[str, Record], metric: str) -> list[str]:
    """System keys, best first; those without a result last."""
    done = [key for key, record in records.items() if record["status"] == "ok"]
    sign = 1 if lower_is_better(metric) else -1
    done.sort(key=lambda key: sign * records[key]["metrics"][metric])
    return done + [key for key in records if key not in done]


def significant(value: float, digits: int = 3) -> str:
    """A number with this many significant digits, without an exponent."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def duration(seconds: float) -> str:
    """A length of time in its largest unit that gives at least 2."""
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def metric_text(record: Record, names: tuple[str, ...], digits: int) -> str:
    text = " / ".join(f"{record['metrics'][name]:.{digits}f}" for name in names)
    if "standard_errors" in record and len(names) == 1:
        text += f" ± {record['standard_errors'][names[0]]:.{digits}f}"
    return text
