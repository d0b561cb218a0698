"""Check every internal link of the built site, anchors included: ``python docs/check_links.py docs/_build/html``.

Addresses of other sites are not asked for; ``sphinx-build -b linkcheck docs docs/_build/linkcheck`` does that.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Links that lead nowhere, each with the page it is on."""
    paths = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path) for path in paths}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            lost = target in pages and anchor and anchor not in pages[target].anchors
            if lost or not target.exists():
                broken.append(f"{path.relative_to(site)}: {link}")
    assert pages, f"no pages in {site}"
    return broken


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]).resolve())
    print("\n".join(broken) if broken else "no broken link")
    sys.exit(bool(broken))
