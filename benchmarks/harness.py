"""Runs jobs, each in a process with limits, and keeps their records.

A record is a file ``OUT/suite/case/system.json``, written atomically, so an interrupted run resumes where it stopped.
Jobs that hit a limit are repeated only with a higher one, failed jobs only on request.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._common import commit, machine, write_results
from benchmarks.runner import run_limited
from benchmarks.suites import GB, Job

Record = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Limits of every process; ``seconds`` replaces the limit of its suite."""

    memory_gb: float
    seconds: float | None = None

    def seconds_of(self, job: Job) -> float:
        return job.seconds if self.seconds is None else self.seconds


def record_path(out: Path, job: Job) -> Path:
    return out / f"{job.name}.json"


def read_record(path: Path) -> Record | None:
    """None if the file is missing or not a record."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "status" in record else None


def is_done(record: Record | None, job: Job, limits: Limits) -> bool:
    """Whether the job has a record that running it again would not change."""
    if record is None or record["config"] != job.config:
        return False
    if record["status"] == "time limit":
        return bool(record["limits"]["seconds"] >= limits.seconds_of(job))
    if record["status"] == "memory limit":
        return bool(record["limits"]["memory_gb"] >= limits.memory_gb)
    return record["status"] in ("ok", "failed")


def worker_command(job: Job, data: str, output: Path, seconds: float) -> list[str]:
    return [
        sys.executable,
        "-m",
        "benchmarks.worker",
        job.suite.name,
        job.case,
        job.key,
        data,
        str(output),
        str(seconds),
    ]


def run_job(
    job: Job, data: str, limits: Limits, command: Callable[..., list[str]] = worker_command
) -> Record:
    """Run a job in its process and return its record."""
    seconds = limits.seconds_of(job)
    common = {
        "config": job.config,
        "commit": commit(),
        "limits": {"seconds": seconds, "memory_gb": limits.memory_gb},
        "machine": machine(),
        "load_before": os.getloadavg()[0],
    }
    missing = job.system.missing()
    if missing:
        return {"status": "not installed", "message": missing, **common}
    threads = {f"{name}_NUM_THREADS": str(job.threads) for name in ("OMP", "OPENBLAS", "MKL")}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        outcome = run_limited(
            command(job, data, output, seconds),
            seconds=seconds,
            memory_bytes=limits.memory_gb * GB,
            environment=os.environ | threads,
        )
        result = read_record(output) if outcome.status == "ok" else None
    if result is None:
        status = "failed" if outcome.status == "ok" else outcome.status
        result = {"status": status, "exit_code": outcome.exit_code, "message": outcome.message}
    peak = max(outcome.peak_bytes, result.get("train_peak_bytes", 0))
    return {**result, "process_seconds": outcome.seconds, "peak_bytes": peak, **common}


def run_all(
    jobs: Iterable[Job],
    data: str,
    out: Path,
    limits: Limits,
    *,
    again: bool = False,
    command: Callable[..., list[str]] = worker_command,
) -> Iterator[tuple[Job, Record | None, bool]]:
    """Run the jobs that are not done; yield (job, None, False) before and (job, record, whether it ran) after each.

    In a sweep, a system that failed on one case is skipped on the larger ones.
    """
    failed: dict[tuple[str, str], str] = {}
    for job in jobs:
        path = record_path(out, job)
        record = read_record(path)
        system = (job.suite.name, job.key)
        if job.suite.axis and system in failed:
            record = {
                "status": "skipped",
                "message": failed[system],
                "config": job.config,
                "commit": commit(),
                "limits": {"seconds": limits.seconds_of(job), "memory_gb": limits.memory_gb},
                "machine": machine(),
            }
            write_results(path, record)
            yield job, record, False
            continue
        ran = again or not is_done(record, job, limits)
        if ran:
            yield job, None, False
            record = run_job(job, data, limits, command)
            write_results(path, record)
        assert record is not None
        if record["status"] in ("time limit", "memory limit", "failed"):
            failed[system] = f"{record['status']} with {int(job.case):,}" if job.suite.axis else ""
        yield job, record, ran


def collect(out: Path, jobs: Iterable[Job]) -> dict[str, Record]:
    """Records of these jobs by name, without outdated ones."""
    records = {}
    for job in jobs:
        record = read_record(record_path(out, job))
        if record is not None and record["config"] == job.config:
            records[job.name] = record
    return records
