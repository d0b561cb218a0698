"""Tables of the page on text features, from the results of ``benchmarks.text`` and ``benchmarks.text_options``."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, RESULTS, about, precision, read, table, with_tables

PAGE = DOCS / "text.md"


def page() -> str:
    return with_tables(PAGE, f"{options()}\n{speed()}")


def options() -> str:
    results = read("text_options")
    rows = [
        [name if name == "defaults" else f"`{name}`", precision(run), f"{run['columns']:,}"]
        for name, run in results["runs"].items()
    ]
    weight = results["runs"]["defaults"]["fields"]["title"]
    return f"""## Choosing options

Precision in percent with different options, on {results["valid_rows"]:,} records of tibkat-gnd (German and English library records,
fields `title` and `abstract`) after training `SketchForestClassifier(n_trees={results["n_trees"]}, rerank="linear")` on
{results["rows"]:,} others. The defaults choose the weight {weight:g} for titles. `python -m benchmarks.text_options --data DIR`

{table(["options", "P@1 / 3 / 5", "columns"], rows)}
"""


def speed() -> str:
    """Empty without results."""
    if not (RESULTS / "text.json").exists():
        return ""
    results = read("text")
    rows = []
    for name, case in results["cases"].items():
        for system, run in case["systems"].items():
            cells = [f"{run[what]['seconds']:.2f}" for what in ("fit_transform", "transform")]
            memory = f"{run['added_memory_bytes'] / 1e6:,.0f}"
            rows.append([f"{name}: {system}", *cells, f"{run['single_row_ms']:.3f}", memory])
    ratios = [
        ratio
        for case in results["cases"].values()
        for name, ratio in case["times_faster"].items()
        if " seconds" in name
    ]
    return f"""## Speed

{results["rows"]:,} records of tibkat-gnd, {results["jobs"]} threads: {min(ratios):.1f} to {max(ratios):.1f} times as fast as scikit-learn's
`TfidfVectorizer` (`FeatureUnion` of two for words and characters), with identical results. `python -m benchmarks.text --data DIR`

{table(["", "fit_transform, s", "transform, s", "one text, ms of CPU", "additional memory, MB"], rows)}

{about(results["machine"])}.
"""
