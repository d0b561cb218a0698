"""The committed records of the benchmark page, what is shown of them, and how a figure is written."""

from __future__ import annotations

import json
import math
from pathlib import Path

from benchmarks.harness import Record
from benchmarks.suites import SUITES, Job, Suite

NUMBERS = Path(__file__).parents[1] / "docs" / "results" / "benchmarks.json"

Records = dict[str, Record]

SHOWN = {
    "labels": (("P@1 / 3 / 5", ("P@1", "P@3", "P@5"), 2), ("PSP@1 / 3 / 5", ("PSP@1", "PSP@3", "PSP@5"), 2)),
    "classes": (("accuracy, %", ("accuracy",), 2),),
    "numbers": (("RMSE", ("RMSE",), 4), ("aRRMSE", ("aRRMSE",), 4)),
    "ranking": (("NDCG@5", ("NDCG@5",), 4), ("NDCG@10", ("NDCG@10",), 4), ("MAP", ("MAP",), 4)),
}


def all_jobs() -> list[Job]:
    return [job for suite in SUITES.values() for job in suite.jobs()]


def read_numbers(path: Path | None = None) -> Records:
    """Committed records of jobs as they are asked for today."""
    path = NUMBERS if path is None else path
    if not path.exists():
        return {}
    records = json.loads(path.read_text())["records"]
    return {
        job.name: records[job.name]
        for job in all_jobs()
        if job.name in records and records[job.name]["asked"] == job.asked
    }


def of_suite(records: Records, suite: Suite, case: str) -> dict[str, Record]:
    """Records of a case by the key of the system, in the order of the suite."""
    found = {key: records.get(Job(suite, case, key).name) for key in suite.systems}
    return {key: record for key, record in found.items() if record is not None}


def main_metric(suite: Suite) -> str:
    if suite.name == "multitarget":
        return "aRRMSE"
    return SHOWN[suite.kind][0][1][0]


def lower_is_better(metric: str) -> bool:
    return "RMSE" in metric


def stopped(record: Record) -> bool:
    return bool(record.get("rounds", 0) < record.get("wanted_rounds", 0))


def ranked(found: dict[str, Record], metric: str) -> list[str]:
    """Keys of what has a result, best first, then of what has none."""
    done = [key for key, record in found.items() if record["ended"] == "ok"]
    sign = 1 if lower_is_better(metric) else -1
    done.sort(key=lambda key: sign * found[key]["metrics"][metric])
    return done + [key for key in found if key not in done]


def significant(value: float, digits: int = 3) -> str:
    """Digits that count, without an exponent."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def metric_text(record: Record, names: tuple[str, ...], digits: int) -> str:
    text = " / ".join(f"{record['metrics'][name]:.{digits}f}" for name in names)
    if "standard_errors" in record and len(names) == 1:
        text += f" ± {record['standard_errors'][names[0]]:.{digits}f}"
    return text
