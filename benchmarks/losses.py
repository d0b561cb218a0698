"""Where we lose, worked out from the records and said in words."""

from __future__ import annotations

import math

from benchmarks.harness import Record
from benchmarks.numbers import (
    Records,
    lower_is_better,
    main_metric,
    metric_text,
    of_suite,
    ranked,
    significant,
)
from benchmarks.suites import SUITES, Suite
from benchmarks.systems import SYSTEMS

COSTS = {
    "train_seconds": "with 1/{} of the training time",
    "predict_ms_per_row": "with 1/{} of the prediction time",
    "model_bytes": "with a model of 1/{} the size",
    "peak_bytes": "with 1/{} of the memory",
}


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
