"""Lists of the datasets where peers are ahead of sparseleaf, level and behind, from the records."""

from __future__ import annotations

import math

from benchmarks.harness import Record
from benchmarks.results import (
    Records,
    completed,
    decimals,
    lower_is_better,
    main_metric,
    metric_text,
    ranked,
    significant,
)
from benchmarks.suites import SUITES, Suite
from benchmarks.systems import SYSTEMS

COSTS = {
    "train_seconds": "{} times shorter training",
    "predict_ms_per_row": "{} times faster prediction",
    "model_bytes": "a {} times smaller model",
    "peak_bytes": "{} times less peak memory",
}
TOLERANCE = {"P@1": 0.5, "accuracy": 0.5, "NDCG@5": 0.005, "RMSE": 0.002, "aRRMSE": 0.01}
"""Differences up to this count as the same accuracy."""

TOLERANCE_TEXT = "0.5 points of P@1 or accuracy, 0.002 of RMSE, 0.01 of aRRMSE or 0.005 of NDCG"


CHEAPER = 1.1
"""Smallest ratio of costs that is reported."""


def comparison(records: Records) -> str:
    """The most accurate system of sparseleaf against the most accurate peer on every dataset."""
    ahead: list[str] = []
    level: list[str] = []
    behind: list[str] = []
    cheaper: list[str] = []
    for suite in SUITES.values():
        if suite.axis:
            continue
        metric = main_metric(suite)
        for case in suite.cases:
            results = completed(records, suite, case)
            ours, peer = best(results, metric, ours=True), best(results, metric, ours=False)
            if ours is None or peer is None:
                continue
            title = suite.title if len(suite.cases) == 1 else case
            gap, noise = lead(results[peer], results[ours], metric), noise_of(results, ours, peer, metric)
            our_text, peer_text = (named_score(results, key, metric) for key in (ours, peer))
            if gap > noise:
                ahead.append(f"- **{title}** ({metric}): {peer_text}; sparseleaf's best, {our_text}.")
            else:
                lines = level if gap >= -noise else behind
                lines.append(f"- **{title}** ({metric}): {our_text}; best peer, {peer_text}.")
            if text := same_accuracy_cheaper(results, ours, metric):
                cheaper.append(f"- **{title}**: {text}.")
    for suite in SUITES.values():
        if suite.axis and suite.figure and (text := faster_training(records, suite)):
            cheaper.append(f"- **{suite.title}** (synthetic data): {text}.")
    return f"""## Where other systems are ahead

Each dataset compares the most accurate system of sparseleaf with the most accurate peer. They are level if they differ
by at most one standard error or, on datasets with a single split, by at most {TOLERANCE_TEXT}.

### More accurate

{bullets(ahead)}

### Cheaper at the same accuracy

Peers within the same tolerance of sparseleaf's best system, and what they need less of.

{bullets(cheaper)}

## Level

{bullets(level)}

## Where sparseleaf is ahead

{bullets(behind)}
"""


def listed(items: list[str]) -> str:
    """The items as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


def bullets(lines: list[str]) -> str:
    return "\n".join(lines) or "None."


def best(results: dict[str, Record], metric: str, *, ours: bool) -> str | None:
    return next((key for key in ranked(results, metric) if SYSTEMS[key].ours == ours), None)


def named_score(results: dict[str, Record], key: str, metric: str) -> str:
    return f"{SYSTEMS[key].name} {metric_text(results[key], (metric,), decimals(metric))}"


def lead(a: Record, b: Record, metric: str) -> float:
    """By how much a is better than b."""
    difference = float(a["metrics"][metric] - b["metrics"][metric])
    return -difference if lower_is_better(metric) else difference


def noise_of(results: dict[str, Record], a: str, b: str, metric: str) -> float:
    """One standard error of the difference; the tolerance where there is a single split."""
    if "standard_errors" not in results[a]:
        return TOLERANCE[metric]
    return math.hypot(*(results[key]["standard_errors"][metric] for key in (a, b)))


def same_accuracy_cheaper(results: dict[str, Record], ours: str, metric: str) -> str:
    """Peers as accurate as our best system at a lower cost."""
    peers = [
        key
        for key, record in results.items()
        if not SYSTEMS[key].ours and lead(record, results[ours], metric) >= -TOLERANCE[metric]
    ]
    gains: dict[str, list[str]] = {}
    for cost, words in COSTS.items():
        cheaper = [key for key in peers if results[key][cost] * CHEAPER < results[ours][cost]]
        if cheaper:
            key = min(cheaper, key=lambda key: results[key][cost])
            ratio = significant(results[ours][cost] / results[key][cost], 2)
            gains.setdefault(SYSTEMS[key].name, []).append(words.format(ratio))
    texts = [f"{name} has {listed(words)}" for name, words in gains.items()]
    return f"{'; '.join(texts)} than {SYSTEMS[ours].name}" if texts else ""


def faster_training(records: Records, suite: Suite) -> str:
    """Peers that train faster than our fastest system, by size."""
    texts = []
    for case in suite.cases:
        results = completed(records, suite, case)
        ours = [key for key in results if SYSTEMS[key].ours]
        if not ours:
            continue
        fastest = min(ours, key=lambda key: results[key]["train_seconds"])
        limit = results[fastest]["train_seconds"] / CHEAPER
        faster = [
            SYSTEMS[key].name
            for key in results
            if not SYSTEMS[key].ours and results[key]["train_seconds"] < limit
        ]
        if faster:
            texts.append(f"{int(case):,} {suite.axis}: {listed(faster)}")
    return f"shorter training than our fastest system with {'; '.join(texts)}" if texts else ""
