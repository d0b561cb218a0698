"""Size and opening time of reports with 50,000 and 100,000 labels, in Chromium.

A forest is trained on a synthetic dataset and reported on; Chromium then opens the file several times, searches and
sorts the table of labels, and walks down a tree. Needs playwright and a Chromium executable:

    python -m benchmarks.report --chromium /usr/bin/chromium [--out report.json]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._common import machine, measured, write_results

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
ROWS, TEST_ROWS = 40_000, 10_000
READY = "html[data-ready]"


def make_report(n_labels: int, n_trees: int, path: Path) -> dict[str, float]:
    """Train, report and write; returns seconds."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf.data import make_xc

    X, Y = make_xc(ROWS + TEST_ROWS, 20_000, n_labels, labels_per_row=5, nnz_per_row=40)
    names = {label: f"subject heading {label} of the vocabulary" for label in range(n_labels)}
    clf = SketchForestClassifier(n_trees=n_trees, rerank=None).fit(X[:ROWS], Y[:ROWS])
    report, seconds = measured(lambda: clf.report(X[ROWS:], Y[ROWS:], label_names=names))
    _, writing = measured(lambda: report.save(path))
    return {"report_seconds": seconds, "write_seconds": writing}


def open_report(browser: Any, path: Path) -> dict[str, Any]:
    """Milliseconds of opening, the first table, search, sort and walking down a tree."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))

    def milliseconds(action: Any) -> float:
        start = time.perf_counter()
        action()
        return 1000 * (time.perf_counter() - start)

    def walk() -> None:
        page.click("#tab-trees")
        page.focus("[role=treeitem]")
        while page.locator("[role=treeitem][aria-selected=true]").get_attribute("aria-expanded") is not None:
            page.keyboard.press("ArrowRight")
        page.wait_for_selector("#trees .details :text('Leaf with')")

    def opening() -> None:
        page.goto(path.as_uri())
        page.wait_for_selector(READY)

    def table() -> None:
        page.click("#tab-rows")
        page.wait_for_selector("#rows tbody tr[data-place]")

    def search() -> None:
        page.fill("#rows input", "heading 4242 of")
        page.wait_for_selector("#rows output:text('1 of')")

    def sort() -> None:
        page.fill("#rows input", "")
        page.click("#rows thead button:text-is('F1')")
        page.wait_for_selector("#rows th[aria-sort=descending] button:text-is('F1')")

    times = {step.__name__: milliseconds(step) for step in (opening, table, search, sort, walk)}
    page.close()
    if problems:
        raise SystemExit(f"Messages in the console: {problems}")
    return times


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chromium", help="path of Chromium; by default that of playwright")
    parser.add_argument("--labels", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder of the reports; those in it are not made again")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = arguments.folder or Path(temporary)
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=ARGUMENTS)
        for n_labels in arguments.labels:
            path = folder / f"{n_labels}.html"
            result: dict[str, Any] = (
                {} if path.exists() else make_report(n_labels, arguments.trees, path)
            ) | {"bytes": path.stat().st_size}
            runs = [open_report(browser, path) for _ in range(arguments.repeat)]
            result |= {f"{step}_ms": median(run[step] for run in runs) for step in runs[0]}
            results[str(n_labels)] = result
            print(f"{n_labels:,} labels: {result['bytes'] / 1e6:.1f} MB", end="")
            print("".join(f", {name} {value:.3g}" for name, value in result.items() if name != "bytes"))
        version = browser.version
        browser.close()
    if arguments.out:
        write_results(arguments.out, {"machine": machine(), "chromium": version, "reports": results})


if __name__ == "__main__":
    main()
