"""The public result of ``report``."""

from __future__ import annotations

import os
from html import escape
from typing import Any

from sparseleaf._files import as_path, replacing
from sparseleaf._printable import readable_bytes
from sparseleaf.report.page import render

LARGEST_IN_NOTEBOOK = 8_000_000
"""Bytes of a report that is embedded in a notebook; a larger one is summarised."""

HEIGHT = 720
"""Pixels of the frame in a notebook."""


class Report:
    """A report on a fitted model: one self-contained HTML file.

    The result of ``report`` of every estimator. Notebooks show it; :meth:`save` writes the file. It has the accuracy by
    number of predictions and by frequency of the labels, learning curve and reliability diagram, a searchable table of
    labels, a tree browser, explained example rows, and facts about model and data. For regressors and rankers it has
    errors per output or query instead.

    Parameters
    ----------
    data : dict
        Content of the report as JSON values.

    Attributes
    ----------
    data : dict
        Content of the report as JSON values.
    metrics : dict of str to float
        Metrics of the model on the rows of the report.

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(400, 60, 20)
    >>> clf = SparseGBDTClassifier(n_trees=5).fit(X[:300], Y[:300])
    >>> report = clf.report(X[300:], Y[300:], latency=False)
    >>> sorted(report.metrics)[:2]
    ['f1@1', 'f1@10']
    >>> report.save("report.html")
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._html: str | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the model on the rows of the report."""
        metrics: dict[str, float] = self.data["metrics"]
        return metrics

    def to_html(self) -> str:
        """The HTML file as text.

        Returns
        -------
        html : str
        """
        if self._html is None:
            self._html = render(self.data)
        return self._html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML file. The write is atomic.

        Parameters
        ----------
        path : path-like
            File to write: a local path or an fsspec URL.
        """
        with replacing(as_path(path)) as file:
            file.write(self.to_html().encode())

    def __repr__(self) -> str:
        return f"<Report {self.data['title']!r}, {readable_bytes(len(self.to_html()))}>"

    def _repr_html_(self) -> str:
        html = self.to_html()
        title = escape(self.data["title"])
        if len(html) > LARGEST_IN_NOTEBOOK:
            return (
                f"<p><b>{title}</b>: {readable_bytes(len(html))}, too large for a notebook. Write it to a file with"
                ' <code>report.save("report.html")</code>.</p>'
            )
        # a frame: the style sheet and script of the report do not affect the notebook, nor the other way round
        return (
            f'<iframe title="{title}" srcdoc="{escape(html)}" sandbox="allow-scripts" width="100%" height="{HEIGHT}"'
            ' style="border: 1px solid rgba(128, 128, 128, 0.4)"></iframe>'
        )
