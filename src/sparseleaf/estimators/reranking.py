"""Parameters of the re-ranking stage, which every classifier may end with."""

from __future__ import annotations

from sparseleaf.estimators.parameters import Parameter
from sparseleaf.rerank import MIXES

RERANK_PARAMETERS: dict[str, Parameter] = {
    "rerank": Parameter(
        "name",
        "Score the trees' candidates anew by how close a row is to the labels' mean rows: the authors' way, by angle,"
        " or by angle in a mix of logarithms.",
        choices=MIXES,
        none=True,
    ),
    "rerank_weight": Parameter(
        "float",
        'Share of the trees in the mix; "auto" is chosen on a tenth of the training rows, at most 4,000, which the'
        " trees then do not see.",
        low=0,
        high=1,
        choices=("auto",),
        symbol="β",
    ),
    "rerank_scale": Parameter(
        "float",
        "How sharply closeness falls; None: 10, by the mean squared length of rows where distances count.",
        low=0,
        none=True,
        symbol="γ",
    ),
}
