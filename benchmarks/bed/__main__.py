"""The test bed of the default settings.

    python -m benchmarks.bed --data DIR [--role evaluation] [--only SYSTEM ...] [--sets NAME ...] [--splits 5]
        [--n-jobs 1] [--time-limit 120] [--out results/bed] [--write]

Fits every system, at its defaults, to repeated splits of every dataset. Fits are recorded one by one in ``--out`` and
not repeated, so an interrupted run resumes. Prints wins, ties and losses and average ranks; ``--write`` writes them to
`docs/results/bed.json`, the tables of `docs/defaults.md` and `docs/images/critical-difference.svg`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._common import write_results
from benchmarks.bed import diagram, tables
from benchmarks.bed.run import Options, fit_all, run
from benchmarks.bed.sets import DEVELOPMENT, EVALUATION, SETS, SPLITS
from benchmarks.bed.systems import SYSTEMS

DOCS = Path(__file__).parents[2] / "docs"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of the datasets")
    parser.add_argument("--out", default="results/bed", help="folder of the records")
    parser.add_argument("--role", choices=(DEVELOPMENT, EVALUATION), help="only these datasets")
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="NAME", help="only these datasets")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, metavar="SYSTEM", help="only these systems")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--n-jobs", type=int, default=1, help="threads of every system")
    parser.add_argument("--time-limit", type=int, default=120, help="processor seconds per fit")
    parser.add_argument("--write", action="store_true", help="write the results to docs/")
    parser.add_argument("--fit", nargs="+", help=argparse.SUPPRESS)  # in a child: a system and datasets
    return parser.parse_args()


def main() -> None:
    options = arguments()
    settings = Options(options.data, Path(options.out), options.splits, options.n_jobs, options.time_limit)
    if options.fit:
        system, *names = options.fit
        for name in names:
            fit_all(name, system, settings)
        return
    chosen = [
        name
        for name, one in SETS.items()
        if options.role in (None, one.role) and (options.sets is None or name in options.sets)
    ]
    for name, system, status in run(chosen, options.only or SYSTEMS, settings):
        print(f"{name}, {system}: {status}", flush=True)
    results = tables.collect(settings.out, settings.n_splits, settings.n_jobs)
    print(tables.text(results))
    if options.write:
        write_results(DOCS / "results" / "bed.json", results)
        tables.write_page(results, DOCS / "defaults.md")
        diagram.draw(tables.ranks(results, EVALUATION), DOCS / "images" / "critical-difference.svg")


if __name__ == "__main__":
    main()
