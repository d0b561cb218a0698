"""Screenshots of a report: ``python docs/make_report_images.py [CHROMIUM]`` (needs playwright, Chromium and Pillow)."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from sparseleaf import SketchForestClassifier
from sparseleaf.report import Report

FOLDER = Path(__file__).with_name("images")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
COLOURS = 128

TOPICS = {
    "cooking": "bake bread flour oven butter salt soup garlic onion pepper kettle spoon",
    "sailing": "boat wind sail harbour wave anchor mast tide storm rope deck knot",
    "gardening": "seed soil garden rose compost prune salt rain worm shed spade hedge",
    "weather": "rain storm wind cloud snow frost sun fog thunder forecast front cold",
    "astronomy": "star planet orbit moon telescope comet galaxy sun eclipse dust lens light",
    "music": "piano violin choir concert rhythm melody chord drum opera song note string",
    "painting": "canvas brush oil colour portrait sketch light gallery frame easel ink museum",
    "architecture": "tower bridge vault facade brick stone window roof plan column frame museum",
    "geology": "rock stone granite fossil layer quake volcano mineral crystal dust fault core",
    "medicine": "fever vaccine surgery nurse dose heart blood lens therapy virus lung trial",
    "chess": "knight rook gambit opening endgame clock board queen pawn blunder trial plan",
    "railways": "train station track signal engine coach tunnel bridge timetable steam front coal",
}


def make_report() -> Report:
    """A forest on synthetic texts whose topics have different frequencies."""
    rng = np.random.default_rng(1)
    names = list(TOPICS)
    chances = 1 / np.arange(1, len(names) + 1) ** 0.8
    chances /= chances.sum()
    labels = [
        sorted(rng.choice(names, rng.integers(1, 4), replace=False, p=chances).tolist()) for _ in range(3_000)
    ]
    words = sorted({word for text in TOPICS.values() for word in text.split()})
    texts = [
        " ".join([*rng.choice(" ".join(map(TOPICS.get, row)).split(), 7), *rng.choice(words, 4)])
        for row in labels
    ]
    model = SketchForestClassifier(n_trees=20, rerank="linear")
    model.fit(texts[:2_000], labels[:2_000], eval_set=(texts[2_000:2_400], labels[2_000:2_400]))
    return model.report(
        texts[2_400:], labels[2_400:], titles=texts[:2_000], title="Topics of short texts", latency=False
    )


def shoot(page: Page, name: str) -> None:
    """Save what is visible, with few colours."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, Image.Quantize.MEDIANCUT).save(FOLDER / f"report-{name}.png", optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        make_report().save(path)
        browser = playwright.chromium.launch(executable_path=next(iter(sys.argv[1:]), None), args=ARGUMENTS)

        def opened(width: int, height: int, scheme: str, tab: str) -> Page:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]")
            page.click(f"#tab-{tab}")
            return page

        shoot(opened(1080, 780, "light", "overview"), "overview")
        page = opened(1080, 700, "light", "rows")
        page.locator("#rows tbody tr[data-place]").nth(1).click()
        shoot(page, "labels")
        page = opened(900, 760, "dark", "trees")
        page.locator("#trees .node").first.click()
        page.keyboard.press("ArrowRight")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        shoot(page, "trees")
        page = opened(390, 760, "light", "examples")
        page.locator("#examples summary").first.click()
        page.wait_for_selector("#examples details table")
        shoot(page, "phone")
        browser.close()


if __name__ == "__main__":
    main()
