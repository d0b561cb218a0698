"""The benchmark page, from records: `docs/benchmarks.md`, its pictures, and a block of the README.

In: `docs/results/benchmarks.json`, the records of all jobs. Out: text that depends on nothing else, so that a test can
tell whether it is up to date; a picture carries a digest of what is drawn in it, for the same reason. No number of ours
or of a peer is typed by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from benchmarks._common import write_results
from benchmarks.harness import Record, collect
from benchmarks.suites import SOFT_SHARE, SUITES, Job, Suite
from benchmarks.systems import SYSTEMS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
NUMBERS = DOCS / "results" / "benchmarks.json"
README = DOCS.parent / "README.md"
BEGIN, END = "<!-- made by python -m benchmarks -->\n", "<!-- end of what is made -->\n"

Records = dict[str, Record]

SHOWN = {
    "labels": (("P@1 / 3 / 5", ("P@1", "P@3", "P@5"), 2), ("PSP@1 / 3 / 5", ("PSP@1", "PSP@3", "PSP@5"), 2)),
    "classes": (("accuracy, %", ("accuracy",), 2),),
    "numbers": (("RMSE", ("RMSE",), 4), ("aRRMSE", ("aRRMSE",), 4)),
    "ranking": (("NDCG@5", ("NDCG@5",), 4), ("NDCG@10", ("NDCG@10",), 4), ("MAP", ("MAP",), 4)),
}
COSTS = {
    "train_seconds": "with 1/{} of the training time",
    "predict_ms_per_row": "with 1/{} of the prediction time",
    "model_bytes": "with a model of 1/{} the size",
    "peak_bytes": "with 1/{} of the memory",
}


# ---------------------------------------------------------------------------------------------------- what there is


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


def update(out: Path) -> None:
    """Take what is in ``out`` into the numbers and write everything that is made of them."""
    records = read_numbers() | collect(out, all_jobs())
    write_results(NUMBERS, {"records": {name: records[name] for name in sorted(records)}})
    PAGE.write_text(page(records))
    README.write_text(readme(records))
    drawings = pictures(records)
    for path in (DOCS / "images").glob(picture_name_of("*")):
        if path.name not in drawings:
            path.unlink()
    for name, drawing in drawings.items():
        drawing.save(DOCS / "images" / name)


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


# ---------------------------------------------------------------------------------------------------- numbers as text


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


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


# ---------------------------------------------------------------------------------------------------- the page


def page(records: Records) -> str:
    parts = [head(records)]
    if records:
        parts += [losses(records)]
        parts += [
            section(records, suite) for suite in SUITES.values() if not suite.axis and has(records, suite)
        ]
        sweeps = [sweep(records, suite) for suite in SUITES.values() if suite.axis and has(records, suite)]
        parts += [sweep_head(), *sweeps] if sweeps else []
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
python -m benchmarks --data DIR          # about an hour on two cores; cut off, it goes on where it stopped
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
    return f"### {suite.title}\n\n{had}\n\n{table(heads, rows)}\n{figure}"


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
    return "## Machine and versions\n\n" + "\n".join(lines) + f"\n{warning}"


# ---------------------------------------------------------------------------------------------------- where we lose


def losses(records: Records) -> str:
    """In words: where a peer is better than our best, and where one as good costs less."""
    lines = []
    for suite in SUITES.values():
        if suite.axis:
            continue
        for case in suite.cases:
            found = {k: r for k, r in of_suite(records, suite, case).items() if r["ended"] == "ok"}
            text = comparison(found, main_metric(suite))
            if text:
                lines.append(f"- **{suite.title if len(suite.cases) == 1 else case}.** {text}")
    for suite in SUITES.values():
        if suite.axis and suite.figure and (text := cost_comparison(records, suite)):
            lines.append(f"- **{suite.title}.** {text}")
    return "## Where we lose\n\n" + ("\n".join(lines) or "Nothing to compare yet.") + "\n"


def comparison(found: dict[str, Record], metric: str) -> str:
    """Our best against the peers' best, and peers as good as ours that are cheaper."""
    order = ranked(found, metric)
    ours = [key for key in order if SYSTEMS[key].ours]
    peers = [key for key in order if not SYSTEMS[key].ours]
    if not ours or not peers:
        return ""
    own, peer = ours[0], peers[0]
    gap = lead(found[peer], found[own], metric)
    values = f"{metric} {value_text(found[peer], metric)} against {value_text(found[own], metric)}"
    noise = noise_of(found[peer], found[own], metric)
    if gap > noise:
        text = f"Ahead of our best, {SYSTEMS[own].name}: {SYSTEMS[peer].name}, {values}."
    elif gap > -noise:
        text = f"Level with our best, {SYSTEMS[own].name}: {SYSTEMS[peer].name}, {values}, within the noise."
    else:
        text = f"No peer reaches {SYSTEMS[own].name}; next is {SYSTEMS[peer].name}, {values}."
    as_good = [key for key in peers if lead(found[key], found[own], metric) >= -tolerance(metric)]
    cheaper: dict[str, list[str]] = {}
    for cost, how in COSTS.items():
        better = [key for key in as_good if found[key][cost] * 1.1 < found[own][cost]]
        if better:
            best = min(better, key=lambda key: found[key][cost])
            times = significant(found[own][cost] / found[best][cost], 2)
            cheaper.setdefault(SYSTEMS[best].name, []).append(how.format(times))
    if cheaper:
        told = "; ".join(f"{name} {', '.join(how)}" for name, how in cheaper.items())
        text += f" As good, to {tolerance_text(metric)}, and cheaper: {told}."
    return text


def lead(a: Record, b: Record, metric: str) -> float:
    """How much better a is than b."""
    apart = float(a["metrics"][metric] - b["metrics"][metric])
    return -apart if lower_is_better(metric) else apart


def noise_of(a: Record, b: Record, metric: str) -> float:
    """One standard error of the difference, where there are several splits or seeds."""
    errors = [record.get("standard_errors", {}).get(metric, 0.0) for record in (a, b)]
    return math.hypot(*errors)


def tolerance(metric: str) -> float:
    return {"P@1": 0.5, "accuracy": 0.5, "NDCG@5": 0.005, "RMSE": 0.002, "aRRMSE": 0.01}[metric]


def tolerance_text(metric: str) -> str:
    return f"{tolerance(metric):g}" + (" points" if metric in ("P@1", "accuracy") else "")


def value_text(record: Record, metric: str) -> str:
    digits = 2 if metric in ("P@1", "accuracy") else 4
    return metric_text(record, (metric,), digits)


def cost_comparison(records: Records, suite: Suite) -> str:
    """Who trains faster than the fastest of ours, by size."""
    texts = []
    for case in suite.cases:
        found = {k: r for k, r in of_suite(records, suite, case).items() if r["ended"] == "ok"}
        ours = [key for key in found if SYSTEMS[key].ours]
        peers = [key for key in found if not SYSTEMS[key].ours]
        if not ours or not peers:
            continue
        own = min(ours, key=lambda key: found[key]["train_seconds"])
        faster = [k for k in peers if found[k]["train_seconds"] * 1.1 < found[own]["train_seconds"]]
        if faster:
            names = " and ".join(SYSTEMS[key].name for key in faster)
            texts.append(f"{int(case):,} {suite.axis} by {names} (ours: {SYSTEMS[own].name})")
    return f"Trained faster than by our fastest: {'; '.join(texts)}." if texts else ""


# ---------------------------------------------------------------------------------------------------- pictures

COLOURS = {
    "sparse-gbdt": "#0072B2",
    "sparse-gbdt-turned": "#56B4E9",
    "multi-gbdt": "#000000",
    "ldsm": "#009E73",
    "sketch-forest": "#D55E00",
    "sketch-forest-reranked": "#E69F00",
}
PEER_COLOURS = ("#7f7f7f", "#8c564b", "#9467bd", "#bcbd22", "#17becf", "#e377c2", "#c49c94")
PEER_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
PANELS = (
    ("predict_ms_per_row", "prediction, ms a row", 1.0),
    ("model_bytes", "model, MB", 1e6),
    ("train_seconds", "training, s", 1.0),
)
SWEEP_PANELS = (
    ("train_seconds", "training, s", 1.0),
    ("predict_ms_per_row", "prediction, ms a row", 1.0),
    ("peak_bytes", "peak memory, GB", 1e9),
)


class Drawing:
    """Points to draw; ``save`` needs matplotlib, `digest` does not."""

    def __init__(self, points: list[dict[str, Any]], suite: Suite) -> None:
        self.points, self.suite = points, suite

    @property
    def digest(self) -> str:
        told = json.dumps([self.suite.name, self.points], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def save(self, path: Path) -> None:
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "sparseleaf", "svg.fonttype": "none", "font.size": 9}):
            figure = Figure(figsize=(10, 3.6), layout="constrained")
            axes = figure.subplots(1, 3, sharey=self.suite.axis is None)
            (self._sweep if self.suite.axis else self._scatter)(axes)
            for ax in axes:
                ax.grid(alpha=0.25)
                ax.spines[["top", "right"]].set_visible(False)
            handles, names = axes[0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8)
            path.parent.mkdir(exist_ok=True)
            about = {"Date": None, "Creator": None, "Description": f"data {self.digest}"}
            figure.savefig(path, metadata=about)

    def _scatter(self, axes: Any) -> None:
        metric = main_metric(self.suite)
        for point in self.points:
            style = style_of(point["key"])
            for ax, (cost, _, unit) in zip(axes, PANELS, strict=True):
                ax.plot(
                    point[cost] / unit, point[metric], linestyle="", label=SYSTEMS[point["key"]].name, **style
                )
        for ax, (_, title, _) in zip(axes, PANELS, strict=True):
            ax.set_xscale("log")
            ax.set_xlabel(title)
        axes[0].set_ylabel(f"{metric} on {self.suite.title}, %")

    def _sweep(self, axes: Any) -> None:
        for key in self.suite.systems:
            own = [point for point in self.points if point["key"] == key]
            if not own:
                continue
            for ax, (cost, _, unit) in zip(axes, SWEEP_PANELS, strict=True):
                x, y = [point["case"] for point in own], [point[cost] / unit for point in own]
                ax.plot(x, y, linewidth=1.2, label=SYSTEMS[key].name, **style_of(key))
        for ax, (_, title, _) in zip(axes, SWEEP_PANELS, strict=True):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(self.suite.axis)
            ax.set_title(title, fontsize=9)


def style_of(key: str) -> dict[str, Any]:
    if SYSTEMS[key].ours:
        return {"color": COLOURS.get(key, "#000000"), "marker": "o", "markersize": 7}
    place = [k for k, system in SYSTEMS.items() if not system.ours].index(key)
    return {
        "color": PEER_COLOURS[place % len(PEER_COLOURS)],
        "marker": PEER_MARKERS[place % len(PEER_MARKERS)],
        "markersize": 5,
    }


def picture_name(suite: Suite) -> str:
    return picture_name_of(suite.name)


def picture_name_of(name: str) -> str:
    return f"benchmark-{name}.svg"


def figure_points(records: Records, suite: Suite) -> list[dict[str, Any]]:
    """What is drawn of a suite."""
    metric = main_metric(suite)
    costs = SWEEP_PANELS if suite.axis else PANELS
    return [
        {"key": key, "case": int(case) if suite.axis else case, metric: record["metrics"][metric]}
        | {cost: record[cost] for cost, _, _ in costs}
        for case in suite.cases
        for key, record in of_suite(records, suite, case).items()
        if record["ended"] == "ok"
    ]


def pictures(records: Records) -> dict[str, Drawing]:
    """All pictures of the page by file name."""
    return {
        picture_name(suite): Drawing(points, suite)
        for suite in SUITES.values()
        if suite.figure and (points := figure_points(records, suite))
    }


# ---------------------------------------------------------------------------------------------------- the README

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
