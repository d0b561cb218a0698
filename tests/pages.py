"""Reading the HTML of reports."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sparseleaf.report.page import decode


def payload_of(html):
    """The data that the scripts of a report show."""
    return decode(re.search(r'<script type="text/plain" id="payload">(.*?)</script>', html, re.DOTALL)[1])


class Elements(HTMLParser):
    """Elements with their attributes, and the text outside scripts and style sheets."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self._inside = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.text.append(data)
