"""``docs/results.md`` and the tables of other pages of the documentation.

All come from the results in ``docs/results/``, which are what the scripts of ``benchmarks/`` wrote; no number of ours is
typed by hand. ``python -m benchmarks.tables`` writes them, and so does ``python -m benchmarks --redraw``.
"""

from __future__ import annotations

from benchmarks.tables import distributed, gbdt_mo, gbdt_sparse, precision, ranking, routed
from benchmarks.tables.common import DOCS


def results_page() -> str:
    parts = (
        gbdt_sparse.delicious,
        gbdt_sparse.many_labels,
        gbdt_sparse.paper,
        gbdt_sparse.tuned,
        gbdt_mo.summary,
        routed.forest,
        routed.ldsm,
        ranking.ranking,
        distributed.summary,
    )
    return (
        "# Results\n\nMade by `python -m benchmarks.tables` from what the scripts of `benchmarks/` wrote.\n\n"
        + "\n".join(part() for part in parts)
    )


PAGES = {
    DOCS / "results.md": results_page,
    gbdt_mo.PAGE: gbdt_mo.page,
    distributed.PAGE: distributed.page,
    routed.FOREST_PAGE: routed.forest_page,
    routed.RERANKING_PAGE: routed.reranking_page,
    precision.PAGE: precision.page,
}
"""Who makes each page."""


def write() -> None:
    for path, make in PAGES.items():
        path.write_text(make())
