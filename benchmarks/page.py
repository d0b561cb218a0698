"""The benchmark page, from records: `docs/benchmarks.md`, its pictures, and a block of the README.

In: `docs/results/benchmarks.json`, the records of all jobs. Out: text that depends on nothing else, so that a test can
tell whether it is up to date; a picture carries a digest of what is drawn in it, for the same reason. No number of ours
or of a peer is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import numbers
from benchmarks._common import write_results
from benchmarks.harness import Record, collect
from benchmarks.losses import losses
from benchmarks.numbers import (
    SHOWN,
    Records,
    all_jobs,
    main_metric,
    metric_text,
    of_suite,
    ranked,
    read_numbers,
    significant,
    stopped,
)
from benchmarks.pictures import figure_points, picture_name, picture_name_of, pictures
from benchmarks.suites import SOFT_SHARE, SUITES, Job, Suite
from benchmarks.systems import SYSTEMS
from benchmarks.tables.common import DOCS, table
from benchmarks.tables.scaling import many_cores

PAGE = DOCS / "benchmarks.md"
README = DOCS.parent / "README.md"
BEGIN, END = "<!-- made by python -m benchmarks -->\n", "<!-- end of what is made -->\n"


def update(out: Path) -> None:
    """Take what is in ``out`` into the numbers and write everything that is made of them."""
    records = read_numbers() | collect(out, all_jobs())
    write_results(numbers.NUMBERS, {"records": {name: records[name] for name in sorted(records)}})
    PAGE.write_text(page(records))
    README.write_text(readme(records))
    drawings = pictures(records)
    for path in (DOCS / "images").glob(picture_name_of("*")):
        if path.name not in drawings:
            path.unlink()
    for name, drawing in drawings.items():
        drawing.save(DOCS / "images" / name)


# --- cells


def why(record: Record) -> str:
    """Why there is no result, in a cell."""
    ended = record["ended"]
    if ended == "time limit":
        if "projected_seconds" in record:
            return f"would take about {duration(record['projected_seconds'])}"
        return f"not done in {record['limits']['seconds']:g} s"
    if ended == "memory limit":
        return f"more than {record['limits']['memory_gb']:g} GB"
    if ended == "failed":
        lines = record.get("said", "").strip().splitlines()
        return "failed" + (f": {lines[-1][:80]}".replace("|", "/") if lines else "")
    return f"{ended}: {record['said']}"


def duration(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def named(key: str) -> str:
    return f"**{SYSTEMS[key].name}**" if SYSTEMS[key].ours else SYSTEMS[key].name


# --- the page


def page(records: Records) -> str:
    parts = [head(records)]
    if records:
        parts += [losses(records)]
        parts += [
            section(records, suite) for suite in SUITES.values() if not suite.axis and has(records, suite)
        ]
        sweeps = [sweep(records, suite) for suite in SUITES.values() if suite.axis and has(records, suite)]
        parts += [sweep_head(), *sweeps, *filter(None, [many_cores()])] if sweeps else []
        parts += [settings(), machines(records)]
    return "\n".join(parts)


def has(records: Records, suite: Suite) -> bool:
    return any(of_suite(records, suite, case) for case in suite.cases)


def head(records: Records) -> str:
    nothing = "" if records else "\nNothing has been measured yet.\n"
    return f"""# Benchmarks

<!-- Made by python -m benchmarks; do not edit. -->

```sh
pip install ".[bench]"
python -m benchmarks --data DIR          # cut off, it goes on where it stopped
```

Every system on every set is a process of its own with a limit of time and of memory, on the same number of threads.
Ours are in **bold**. Seconds are those of training alone, with the binning and projecting that belong to it, without
reading. Prediction is of all test rows at once, the best of up to five turns. The peak is of the whole process, the set
included. A model's size is that of its file. [How to run it](reproduce.md), [settings](#settings) and
[machine](#machine-and-versions).
{nothing}"""


def section(records: Records, suite: Suite) -> str:
    metric = main_metric(suite)
    shown = [column for column in SHOWN[suite.kind] if suite.name != "multitarget" or column[0] != "RMSE"]
    several = len(suite.cases) > 1
    heads = ["set, system" if several else "system", *(title for title, _, _ in shown)]
    heads += ["train, s", "predict, ms a row", "model, MB", "peak, GB"]
    rows, notes = [], []
    for case in suite.cases:
        found = of_suite(records, suite, case)
        for key in ranked(found, metric):
            record = found[key]
            name = f"{case}, {named(key)}" if several else named(key)
            if record["ended"] != "ok":
                rows.append([name, why(record), *[""] * (len(heads) - 2)])
                continue
            if stopped(record):
                name += " †"
                what = f"{SYSTEMS[key].name} after {record['rounds']} of {record['wanted_rounds']}"
                notes.append(f"{what} ({case})" if several else what)
            rows.append(
                [
                    name,
                    *(metric_text(record, names, digits) for _, names, digits in shown),
                    significant(record["train_seconds"]),
                    significant(record["predict_ms_per_row"]),
                    significant(record["model_bytes"] / 1e6),
                    f"{record['peak_bytes'] / 1e9:.2f}",
                ]
            )
    note = (
        f"\n† stopped when three quarters of its time had passed: {'; '.join(notes)} rounds.\n"
        if notes
        else ""
    )
    figure = ""
    if picture_name(suite) in pictures(records):
        figure = f"\n![{metric} against prediction time, model size and training time](images/{picture_name(suite)})\n"
    return f"""## {suite.title}

{suite.about} {limits(records, suite)}

{table(heads, rows)}
{note}{figure}"""


def limits(records: Records, suite: Suite) -> str:
    """What every process of a suite had, as it was when it ran."""
    found = [record for case in suite.cases for record in of_suite(records, suite, case).values()]
    seconds = sorted({f"{record['limits']['seconds']:g}" for record in found}, key=float)
    memory = sorted({f"{record['limits']['memory_gb']:g}" for record in found}, key=float)
    threads = "one thread" if suite.threads == 1 else f"{suite.threads} threads"
    return f"Every process had {' or '.join(seconds)} s, {' or '.join(memory)} GB and {threads}."


def sweep_head() -> str:
    return """## How cost grows

Made-up sets, sparse rows of 30 features and 3 labels: 20,000 rows, 2,000 features and 1,000 outputs unless it is what
grows. Ten rounds or trees; label trees have their defaults. What did not manage a set is not tried on larger ones.
"""


def sweep(records: Records, suite: Suite) -> str:
    rows = []
    for key in suite.systems:
        cells = [sweep_cell(records.get(Job(suite, case, key).name)) for case in suite.cases]
        if any(cells):
            rows.append([named(key), *cells])
    heads = [f"training, s, by {suite.axis}", *(f"{int(case):,}" for case in suite.cases)]
    figure = ""
    if picture_name(suite) in pictures(records):
        figure = f"\n![Seconds, milliseconds and memory by {suite.axis}](images/{picture_name(suite)})\n"
    had = limits(records, suite)
    if suite.axis in ("threads", "workers"):
        had = had.rpartition(" and ")[0] + ", and 100,000 rows."
    said = f"{suite.about} {had}".strip()
    return f"### {suite.title}\n\n{said}\n\n{table(heads, rows)}\n{figure}"


def sweep_cell(record: Record | None) -> str:
    if record is None:
        return ""
    if record["ended"] == "ok":
        return significant(record["train_seconds"])
    return {"not tried": "–", "not measured": record.get("said", "")}.get(record["ended"]) or why(record)


def settings() -> str:
    def words(given: dict[str, Any]) -> str:
        return ", ".join(f"`{name}={value!r}`" for name, value in given.items())

    by_settings: dict[str, list[str]] = {}
    for suite in SUITES.values():
        by_settings.setdefault(words(suite.settings), []).append(suite.title)
    suites = "\n".join(f"- {', '.join(titles)}: {text}" for text, titles in by_settings.items())
    own = "\n".join(
        f"- {suite.title}, {SYSTEMS[key].name}: {words(given)}"
        for suite in SUITES.values()
        if not suite.axis
        for key, given in suite.own.items()
        if key in suite.systems and given
    )
    systems = table(
        ["system", "settings"], [[named(key), system.note] for key, system in SYSTEMS.items()]
    ).replace("---:", "---")
    return f"""## Settings

Nothing was turned for this page. Ours that are "turned" come from earlier searches on held-out training rows; which
test results had been seen by then is on [the results page](results.md). Peers have their defaults or the suite's
settings, which were not turned for anyone: a peer that is turned as long would do better.

{systems}

The suites' settings, for every booster, in our words:

{suites}

Besides:

{own}

Boosters and forests stop training after {100 * SOFT_SHARE:.0f} % of their process's time and are measured as they
are then (†). Where there is a model for every output and a part of them shows that all would take twice the time there
is, it is given up, and what all would take is said; so are boosters where only cost is asked for.
"""


def machines(records: Records) -> str:
    by_machine: dict[str, list[str]] = {}
    busy = set()
    for name, record in records.items():
        about = json.dumps(record["machine"], sort_keys=True)
        suite = SUITES[name.split("/")[0]].title
        if suite not in by_machine.setdefault(about, []):
            by_machine[about].append(suite)
        if record.get("load_before", 0) > 1.5 * record["machine"]["cores"]:
            busy.add(suite)
    lines = []
    for about, titles in by_machine.items():
        found = json.loads(about)
        versions = ", ".join(
            f"{name} {value}"
            for name, value in found.items()
            if name not in ("cpu", "cores", "system", "python")
        )
        suites = "" if len(by_machine) == 1 else f"{', '.join(titles)}: "
        lines.append(
            f"- {suites}{found['cpu']}, {found['cores']} cores, Python {found['python']}; {versions}"
        )
    warning = ""
    if busy:
        warning = f"\nOthers used the machine during {', '.join(sorted(busy))}: times there are too long.\n"
    minutes = sum(record.get("process_seconds", 0) for record in records.values()) / 60
    took = f"\nAll processes together took {minutes:.0f} minutes.\n"
    return "## Machine and versions\n\n" + "\n".join(lines) + f"\n{took}{warning}"


# --- the README

README_SUITE = "delicious"


def readme(records: Records) -> str:
    """The README with its block made anew: one picture, when there is one to show."""
    before, rest = README.read_text().split(BEGIN)
    _, after = rest.split(END)
    suite = SUITES[README_SUITE]
    made = ""
    if figure_points(records, suite):
        about = f"{main_metric(suite)} against prediction time, model size and training time, all systems"
        made = f"""
![{about}](docs/images/{picture_name(suite)})

*{suite.title}: all systems of [the benchmark page](docs/benchmarks.md), made by `python -m benchmarks`.*

"""
    return f"{before}{BEGIN}{made}{END}{after}"
