"""Fits of the test bed: a process per system, a record per dataset and split, a time limit per fit.

A record is a file ``OUT/<set>/<system>/<seed>.json``; fits with a record are not repeated. A fit that exceeds the limit
ends its process, by the default action of SIGPROF, which also interrupts compiled code; it is recorded as such, and so
are the remaining splits of its dataset; a new process fits the datasets after it. The limit is on processor time, which
a loaded machine changes little.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._common import write_results
from benchmarks.bed.errors import error
from benchmarks.bed.sets import SETS
from benchmarks.bed.systems import SYSTEMS, takes

Record = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """``seconds`` limits the processor time of a fit and its prediction."""

    data: str
    out: Path
    n_splits: int
    n_jobs: int
    seconds: int


def record_path(out: Path, name: str, system: str, seed: int) -> Path:
    return out / name / re.sub(r"[^\w.]+", "-", system).strip("-") / f"{seed}.json"


def read(out: Path, name: str, system: str, n_splits: int) -> dict[int, Record]:
    """Records of a dataset and a system, by seed."""
    paths = {seed: record_path(out, name, system, seed) for seed in range(n_splits)}
    return {seed: json.loads(path.read_text()) for seed, path in paths.items() if path.is_file()}


def fit_all(name: str, system: str, options: Options) -> None:
    """Fit the splits without a record, in this process."""
    bed_set = SETS[name]
    for seed in range(options.n_splits):
        path = record_path(options.out, name, system, seed)
        if path.is_file():
            continue
        split = bed_set.load(options.data, seed)
        model = SYSTEMS[system](bed_set.kind, seed, options.n_jobs)
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        began, processor = time.perf_counter(), time.process_time()
        model.fit(split)
        record = {
            "status": "ok",
            "n_rows": len(split.X),
            "seconds": time.perf_counter() - began,
            "processor_seconds": time.process_time() - processor,
        }
        predicted = model.predict(split.X_test)
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_results(path, record | {"error": error(bed_set.kind, split, predicted)})


def run(names: list[str], systems: Iterable[str], options: Options) -> Iterator[tuple[str, str, str]]:
    """Fit the systems to the datasets that lack records; yields (dataset, system, status)."""
    for system in systems:
        left = [name for name in names if takes(system, SETS[name].kind) and not _done(name, system, options)]
        while left:
            status, message = _fit_in_child(left, system, options)
            done = [name for name in left if _done(name, system, options)]
            for name in done:
                yield name, system, "ok"
            left = [name for name in left if name not in done]
            if left and status != "ok":
                name = left.pop(0)
                for seed in range(options.n_splits):
                    path = record_path(options.out, name, system, seed)
                    if not path.is_file():
                        write_results(path, {"status": status, "limit": options.seconds, "message": message})
                yield name, system, status


def _done(name: str, system: str, options: Options) -> bool:
    return len(read(options.out, name, system, options.n_splits)) == options.n_splits


def _fit_in_child(names: list[str], system: str, options: Options) -> tuple[str, str]:
    """Status and last messages of a process that fits a system to datasets, in order."""
    threads = {f"{name}_NUM_THREADS": str(options.n_jobs) for name in ("OMP", "OPENBLAS", "MKL")}
    command = [sys.executable, "-m", "benchmarks.bed", "--fit", system, *names, "--data", options.data]
    for option, value in (
        ("--out", options.out),
        ("--splits", options.n_splits),
        ("--n-jobs", options.n_jobs),
        ("--time-limit", options.seconds),
    ):
        command += [option, str(value)]
    ended = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=False)
    return {0: "ok", -signal.SIGPROF: "time limit"}.get(ended.returncode, "failed"), ended.stderr[-500:]
