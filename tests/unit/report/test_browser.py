"""Reports in a browser: tables, trees and examples work by mouse and keyboard, without messages in the console."""

from __future__ import annotations

import shutil

import pytest

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.report import Report

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LABELS = 100_000
HOSTILE = '</script><img src=x onerror="window.hacked = 1">'


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report():
    X, Y = make_xc(600, 80, 40, labels_per_row=3, nnz_per_row=12)
    clf = SketchForestClassifier(n_trees=3).fit(X[:400], Y[:400])
    return clf.report(X[400:], Y[400:], label_names={7: HOSTILE}, title="Forty labels", latency=False)


@pytest.fixture
def opened(browser, report, tmp_path):
    """A function that opens a report; afterwards, the console must be empty."""
    messages, pages = [], []

    def open_page(shown=report, **options):
        path = tmp_path / "report.html"
        shown.save(path)
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "request",
            lambda request: messages.append(request.url) if "report.html" not in request.url else None,
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        pages.append(page)
        return page

    yield open_page
    assert not messages
    for page in pages:
        page.close()


def cells(page, column):
    return page.locator(f"#rows tbody tr[data-place] > :nth-child({column})").all_inner_texts()


def test_search_and_sort(opened, report):
    page = opened()
    page.click("#tab-rows")
    true = report.data["labels"]["true"]
    assert cells(page, 3)[:5] == [str(count) for count in sorted(true, reverse=True)[:5]]
    page.click("#rows thead button:text-is('Data')")
    assert cells(page, 3)[0] == str(min(true))
    page.fill("#rows input", "39")
    assert cells(page, 1) == ["39"]
    assert page.inner_text("#rows output") == "1 of 40"
    page.fill("#rows input", "")
    page.select_option("#rows select", label="tail")
    assert page.inner_text("#rows output") == f"{report.data['labels']['group'].count(2)} of 40"


def test_numbers_in_the_table(opened, report):
    page = opened()
    page.click("#tab-rows")
    labels = report.data["labels"]
    page.fill("#rows input", "12")
    hits, predicted, true = (labels[name][12] for name in ("hits", "predicted", "true"))
    page.locator("#rows tbody tr[data-place]").first.click()
    details = page.inner_text("#rows .details")
    assert f"precision\n{100 * hits / predicted:.1f}%" in details
    assert f"recall\n{100 * hits / true:.1f}%" in details
    assert report.data["features"][labels["features"]["ids"][labels["features"]["offsets"][12]]] in details


def test_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-rows", "aria-selected") == "true"
    page.focus("#rows [role=grid]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#rows .details h3") == cells(page, 1)[1]
    page.focus("#rows thead button:text-is('F1')")
    page.keyboard.press("Enter")
    assert page.get_attribute("#rows th:has(button:text-is('F1'))", "aria-sort") == "descending"
    page.focus("#tab-rows")
    page.keyboard.press("ArrowRight")
    page.focus("#trees [role=treeitem]")
    for _ in range(20):
        if page.locator("#trees [aria-selected=true]").get_attribute("aria-expanded") is None:
            break
        page.keyboard.press("ArrowRight")
    assert "Leaf with" in page.inner_text("#trees .details")
    page.keyboard.press("ArrowLeft")
    assert "Child 1" in page.inner_text("#trees .details")


def test_examples_lead_to_their_labels(opened):
    page = opened()
    page.click("#tab-examples")
    page.locator("#examples summary").first.click()
    page.wait_for_selector("#examples details table")
    assert "base" in page.locator("#examples details").first.inner_text()
    chip = page.locator("#examples .chip").first
    name = chip.inner_text()
    chip.click()
    assert page.inner_text("#rows .details h3") == name


def test_hostile_names_are_shown_as_text(opened):
    page = opened()
    page.click("#tab-rows")
    page.fill("#rows input", "script")
    assert cells(page, 1) == [f"{HOSTILE} (7)"]
    page.locator("#rows tbody tr[data-place]").first.click()
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None


def test_many_labels(opened, report):
    labels = dict(report.data["labels"])
    for name in ("train", "true", "predicted", "hits", "group"):
        labels[name] = labels[name] * (LABELS // 40)
    labels["names"] = [f"label {number}" for number in range(LABELS)]
    for name in ("features", "missed", "mistaken"):
        rest = [labels[name]["offsets"][-1]] * (LABELS - 40)
        labels[name] = labels[name] | {"offsets": labels[name]["offsets"] + rest}
    page = opened(Report(report.data | {"labels": labels}))
    page.click("#tab-rows")
    assert page.locator("#rows tbody tr").count() < 60
    page.click("#rows thead button:text-is('Label')")
    page.focus("#rows [role=grid]")
    page.keyboard.press("End")
    assert cells(page, 1)[-1] == "label 99999"
    page.fill("#rows input", "label 77777")
    assert cells(page, 1) == ["label 77777"]


@pytest.mark.parametrize("width", [390, 1280])
def test_every_width(opened, width):
    page = opened(viewport={"width": width, "height": 800})
    for tab in ("overview", "rows", "trees", "examples", "about"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_frame_of_a_notebook(browser, report):
    page = browser.new_page()
    page.set_content(f"<!doctype html><p>cell</p>{report._repr_html_()}")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    frame.locator("#tab-rows").click()
    frame.locator("#rows tbody tr[data-place]").first.wait_for()
    page.close()


def test_dark_mode(opened):
    colours = [
        opened(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]
