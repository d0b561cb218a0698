"""The benchmark page: every system on every suite, each in a process of its own with its own limits.

    python -m benchmarks --data DIR [--out results/] [--suite NAME ...] [--only SYSTEM ...]
    python -m benchmarks --redraw          draw the page, and the tables of others, from what there is
    python -m benchmarks --quick           three minutes: has anything become slower than it was?

Records go to --out, a file for every process; started again, it goes on where it stopped. Then the page
`docs/benchmarks.md`, its pictures and the numbers they are made of, `docs/results/benchmarks.json`, are written, and
the tables that other pages of the documentation have.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import numbers, page, quick, tables
from benchmarks.harness import Limits, Record, run_all
from benchmarks.suites import MEMORY_GB, SUITES, Job, worst_seconds
from benchmarks.systems import SYSTEMS


def parse(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="folder with a folder for every set")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the records")
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES), metavar="NAME")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument(
        "--time-limit", type=float, metavar="S", help="of every process, instead of its suite's"
    )
    parser.add_argument(
        "--memory-limit", type=float, metavar="GB", default=MEMORY_GB, help="of every process"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="start no process after so many")
    parser.add_argument("--again", action="store_true", help="run also what is done")
    parser.add_argument(
        "--redraw", action="store_true", help="run nothing, draw the page and the tables of others"
    )
    parser.add_argument("--no-page", action="store_true", help="run, and leave the page as it is")
    parser.add_argument("--list", action="store_true", help="say what would be run, and run nothing")
    parser.add_argument("--quick", action="store_true", help="compare speed with the committed baseline")
    parser.add_argument(
        "--write-baseline", action="store_true", help="with --quick: what is measured is the baseline"
    )
    arguments = parser.parse_args(given)
    for name in ("time_limit", "memory_limit", "minutes"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} {value:g}: must be above 0")
    if arguments.data is not None and not Path(arguments.data).is_dir():
        parser.error(f"--data {arguments.data}: there is no such folder")
    return arguments


def wanted(arguments: argparse.Namespace, console: Console) -> list[Job]:
    """The jobs; suites whose set is missing are left out with a word."""
    jobs = []
    for name in arguments.suite:
        suite = SUITES[name]
        if suite.needs and not arguments.list:
            if arguments.data is None:
                console.print(f"{name}: left out, its set is wanted; say where with --data.", markup=False)
                continue
            if not (Path(arguments.data) / suite.needs).is_dir():
                console.print(
                    f"{name}: left out, there is no {suite.needs} in {arguments.data}.", markup=False
                )
                continue
        jobs += [job for job in suite.jobs() if job.key in arguments.only]
    return jobs


def in_words(record: Record) -> str:
    """A record in a line."""
    if record["ended"] != "ok":
        said = record.get("said", "").strip().splitlines()
        return record["ended"] + (f": {said[-1][:100]}" if said else "")
    name, value = next(iter(record["metrics"].items()))
    stopped = record.get("rounds", 0) < record.get("wanted_rounds", 0)
    return (
        f"{name} {value:.4g}, train {record['train_seconds']:.1f} s, predict {record['predict_ms_per_row']:.3g} ms,"
        f" {record['model_bytes'] / 1e6:.2f} MB, peak {record['peak_bytes'] / 1e9:.2f} GB"
        + (f", stopped after {record['rounds']} of {record['wanted_rounds']} rounds" if stopped else "")
    )


def run(arguments: argparse.Namespace, jobs: list[Job], console: Console) -> None:
    limits = Limits(arguments.memory_limit, arguments.time_limit)
    worst = sum(limits.seconds_of(job) for job in jobs) if arguments.time_limit else worst_seconds(jobs)
    console.print(
        f"{len(jobs)} processes, {worst / 60:.0f} minutes should each use all of its time; most do not."
    )
    columns = (TextColumn("{task.description:46s}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(jobs))
        for job, record, ran in run_all(
            jobs, arguments.data or "", arguments.out, limits, again=arguments.again
        ):
            if record is None:
                if arguments.minutes and time.monotonic() - began > 60 * arguments.minutes:
                    console.print(
                        f"{arguments.minutes:g} minutes are over; the same command goes on from here."
                    )
                    break
                progress.update(bar, description=job.name)
                continue
            progress.advance(bar)
            if ran:
                console.print(
                    f"{job.name}: {in_words(record)}", markup=False, highlight=False, soft_wrap=True
                )


def main() -> int:
    arguments = parse()
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a process that runs is ended, too
    if arguments.quick:
        return quick.main(console, write=arguments.write_baseline)
    code = 0
    if not arguments.redraw:
        jobs = wanted(arguments, console)
        if arguments.list:
            for job in jobs:
                console.print(f"{job.name}  {job.seconds:g} s", markup=False, highlight=False)
            console.print(f"{len(jobs)} processes, {worst_seconds(jobs) / 60:.0f} minutes at most")
            return 0
        try:
            run(arguments, jobs, console)
        except KeyboardInterrupt:
            console.print("Cut off: what is done is kept, and the same command goes on from here.")
            code = 130
    if not arguments.no_page:
        page.update(arguments.out)
        tables.write()  # they quote these numbers
        console.print(f"Written: {page.PAGE} and {numbers.NUMBERS}", soft_wrap=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
