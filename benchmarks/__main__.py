"""Run the benchmarks of the documentation: every system on every dataset, each in its own process with limits.

    python -m benchmarks --data DIR [--out results/] [--suite NAME ...] [--only SYSTEM ...]
    python -m benchmarks --redraw          regenerate the page, plots and tables from the committed records
    python -m benchmarks --quick           check for performance regressions, three minutes

Every process writes a record to --out; an interrupted run resumes where it stopped. The records are then merged into
`docs/results/benchmarks.json`, and `docs/benchmarks.md`, its plots, the README's table and the tables of the other
documentation pages are regenerated.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import page, quick, results, tables
from benchmarks.harness import Limits, Record, run_all
from benchmarks.suites import MEMORY_GB, SUITES, Job, total_time_limit
from benchmarks.systems import SYSTEMS


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="folder with one subfolder per dataset")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the records")
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES), metavar="NAME")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument(
        "--time-limit", type=float, metavar="S", help="time limit per process, instead of its suite's"
    )
    parser.add_argument(
        "--memory-limit", type=float, metavar="GB", default=MEMORY_GB, help="memory limit per process"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="start no process after this time")
    parser.add_argument("--again", action="store_true", help="also repeat jobs that are done")
    parser.add_argument(
        "--redraw", action="store_true", help="run nothing, regenerate page, plots and tables"
    )
    parser.add_argument("--no-page", action="store_true", help="run, but do not regenerate the page")
    parser.add_argument("--list", action="store_true", help="list the jobs and run nothing")
    parser.add_argument("--quick", action="store_true", help="compare speed with the committed baseline")
    parser.add_argument(
        "--write-baseline", action="store_true", help="with --quick: replace the committed baseline"
    )
    arguments = parser.parse_args(argv)
    for name in ("time_limit", "memory_limit", "minutes"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0. Got {value:g} instead.")
    if arguments.data is not None and not Path(arguments.data).is_dir():
        parser.error(f"--data {arguments.data} is not a folder.")
    return arguments


def selected_jobs(arguments: argparse.Namespace, console: Console) -> list[Job]:
    """The jobs of the selected suites; suites without their dataset are skipped with a message."""
    jobs = []
    for name in arguments.suite:
        suite = SUITES[name]
        if suite.folder and not arguments.list:
            if arguments.data is None:
                console.print(f"{name}: skipped, it needs --data.", markup=False)
                continue
            if not (Path(arguments.data) / suite.folder).is_dir():
                console.print(
                    f"{name}: skipped, there is no folder {suite.folder} in {arguments.data}.", markup=False
                )
                continue
        jobs += [job for job in suite.jobs() if job.key in arguments.only]
    return jobs


def summary(record: Record) -> str:
    """A record in one line."""
    if record["status"] != "ok":
        lines = record.get("message", "").strip().splitlines()
        return record["status"] + (f": {lines[-1][:100]}" if lines else "")
    name, value = next(iter(record["metrics"].items()))
    stopped = record.get("rounds", 0) < record.get("planned_rounds", 0)
    return (
        f"{name} {value:.4g}, train {record['train_seconds']:.1f} s, predict {record['predict_ms_per_row']:.3g} ms,"
        f" {record['model_bytes'] / 1e6:.2f} MB, peak {record['peak_bytes'] / 1e9:.2f} GB"
        + (f", stopped after {record['rounds']} of {record['planned_rounds']} rounds" if stopped else "")
    )


def run(arguments: argparse.Namespace, jobs: list[Job], console: Console) -> None:
    limits = Limits(arguments.memory_limit, arguments.time_limit)
    longest = sum(limits.seconds_of(job) for job in jobs) if arguments.time_limit else total_time_limit(jobs)
    console.print(f"{len(jobs)} processes, at most {longest / 60:.0f} minutes.")
    columns = (TextColumn("{task.description:46s}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(jobs))
        for job, record, ran in run_all(
            jobs, arguments.data or "", arguments.out, limits, again=arguments.again
        ):
            if record is None:
                if arguments.minutes and time.monotonic() - started > 60 * arguments.minutes:
                    console.print(
                        f"Stopped after {arguments.minutes:g} minutes; run the same command to resume."
                    )
                    break
                progress.update(bar, description=job.name)
                continue
            progress.advance(bar)
            if ran:
                console.print(f"{job.name}: {summary(record)}", markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    arguments = parse()
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that the running job is terminated
    if arguments.quick:
        return quick.main(console, write=arguments.write_baseline)
    code = 0
    if not arguments.redraw:
        jobs = selected_jobs(arguments, console)
        if arguments.list:
            for job in jobs:
                console.print(f"{job.name}  {job.seconds:g} s", markup=False, highlight=False)
            console.print(f"{len(jobs)} processes, at most {total_time_limit(jobs) / 60:.0f} minutes")
            return 0
        try:
            run(arguments, jobs, console)
        except KeyboardInterrupt:
            console.print("Interrupted; run the same command to resume.")
            code = 130
    if not arguments.no_page:
        page.update(arguments.out)
        tables.write()  # some quote these records

        console.print(f"Written: {page.PAGE} and {results.RECORDS}", soft_wrap=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
