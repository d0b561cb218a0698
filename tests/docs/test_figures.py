"""No figure in the documentation is typed by hand: it is made from results, or listed as quoted, with its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import page, plots, results
from figures import quoted_figures

ROOT = Path(__file__).parents[2]
QUOTED = json.loads((ROOT / "docs" / "results" / "quoted.json").read_text())
MADE_WHOLE = {"docs/results.md", "docs/parameters.md", "docs/benchmarks.md", "docs/search-spaces.md"}
WRITTEN = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/tables/*.py")]
)


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in MADE_WHOLE])
def test_figures_are_made_or_have_a_source(name):
    listed = QUOTED.get(name, {})
    unknown = [found for found in quoted_figures((ROOT / name).read_text()) if not listed.get(found)]
    assert not unknown, (
        f"{name}: {unknown} are typed by hand. Let a script make them from docs/results, between its markers; or, if"
        " they are not ours, say in docs/results/quoted.json where they come from."
    )


def test_pages_that_quote_are_there():
    assert set(QUOTED) <= set(WRITTEN)


def test_figures_are_found_where_they_stand():
    text = """
    It takes 12 ms a row and 3.5 GB, 1,093 s a tree; P@1 / 3 / 5 of 69.3 / 63.5 / 59.1 and 98.31, 20 % of it.
    For 1,000,000 labels, k 100, depth 10, rate 0.1, 16-bit values, 0.75 · 2^depth; `n_trees=200 s` and

    ```sh
    run --for 12 s
    ```
    <!-- made by a script -->
    99.99 in 12 s
    <!-- end of it -->
    done, 3.14.
    """.replace("\n    ", "\n")
    assert quoted_figures(text) == [
        *("12 ms", "3.5 GB", "1,093 s", "69.3 / 63.5 / 59.1", "98.31", "20 %", "0.75", "3.14"),
    ]


# --- the benchmark page


def test_the_benchmark_page_is_up_to_date():
    records = results.read_records()
    again = "run python -m benchmarks --redraw"
    assert page.PAGE.read_text() == page.page(records), again
    assert page.README.read_text() == page.readme(records), again
    for name, plot in plots.plots(records).items():
        assert f"data {plot.digest}" in (ROOT / "docs" / "images" / name).read_text(), f"{name}: {again}"


def test_no_plot_of_the_page_is_left_over():
    wanted = set(plots.plots(results.read_records()))
    assert {path.name for path in (ROOT / "docs" / "images").glob("benchmark-*.svg")} == wanted


def test_every_figure_of_the_benchmark_page_is_in_its_records():
    """By another way than the page is made: scores are looked up in the file of records."""
    records = json.loads(results.RECORDS.read_text())["records"]
    scores = {f"{v:.{d}f}" for r in records.values() for v in r.get("metrics", {}).values() for d in (2, 4)}
    errors = {
        f"{v:.{d}f}" for r in records.values() for v in r.get("standard_errors", {}).values() for d in (2, 4)
    }
    for line in page.PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) > 4 and "," not in cells[0] and " / " in cells[1] and cells[1][0].isdigit():
            for score in cells[1].split(" / ") + cells[2].split(" / "):
                assert score in scores | errors, line
