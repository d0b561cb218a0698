"""Write docs/parameters.md from the one definition of the parameters: ``python docs/make_parameters.py``."""

from __future__ import annotations

import inspect
from pathlib import Path

from sparseleaf import LdSMClassifier, SparseGBDTClassifier

PAGE = Path(__file__).with_name("parameters.md")

HEAD = """# Parameters

<!-- Made by docs/make_parameters.py; do not edit. -->

Give them by name in Python, `SparseGBDTClassifier(n_trees=200)`, or on the command line, `--set n_trees=200`
(`none` is None). The last column is the symbol of the paper, where it has one.
"""

TABLE = """
## `{name}`

{about}

| parameter | default | may be | meaning | paper |
|---|---|---|---|---|
"""

SPARSE_TAIL = """
### Which to turn first

1. **`n_trees` and `learning_rate`.** More and smaller steps are better, fewer and larger ones faster: halve the one when
   you double the other. `eval_set` in `fit`, or `--valid` on the command line, shows when more trees stop helping, and
   `early_stopping_rounds` acts on it.
2. **`leaf_labels` and `leaf_min_gain`.** A model's size, its training memory and a row's prediction time grow with the
   first; the second drops entries that hardly help, and is the gentler way to a small model.
3. **`min_samples_leaf`.** Small leaves (5 to 20) are more accurate where rows are few; large ones (100, the paper's) give
   models a tenth of the size.

Then `colsample_bynode` (0.1 to 0.5), and `projection_dim` where features are many.
"""

LDSM_TAIL = """
### Which to turn first

1. **`rerank="log"`** where labels have few rows each.
2. **`max_nodes` and `n_trees`.** Larger trees and more of them are better, at their cost; gains fade behind 20 to 50
   trees.
3. **`lambda_2`.** 2 was better than the authors' 1 in our trials. It should not be far below `lambda_1 * (arity - 1)`:
   every row then goes everywhere, and no split is accepted.
4. **`epochs`.** 3 to 5 are a good deal faster than 20, and hardly worse in an ensemble. **`prune`** makes routers small
   where features are many.
"""

PARTS = (
    (
        SparseGBDTClassifier,
        "`--method gbdt-sparse`. The paper is [GBDT-SPARSE](papers/gbdt-sparse.md).",
        SPARSE_TAIL,
    ),
    (LdSMClassifier, "`--method ldsm`. The paper is [LdSM](papers/ldsm.md).", LDSM_TAIL),
)


def page() -> str:
    """The whole text."""
    return HEAD + "".join(part(*arguments) for arguments in PARTS)


def part(estimator: type, about: str, tail: str) -> str:
    signature = inspect.signature(estimator)
    rows = (
        "| " + " | ".join(cells) + " |\n"
        for cells in (
            (
                f"`{name}`",
                f"`{signature.parameters[name].default!r}`",
                parameter.wanted,
                parameter.doc.replace("|", "\\|"),
                parameter.symbol,
            )
            for name, parameter in estimator.parameter_table.items()
        )
    )
    return TABLE.format(name=estimator.__name__, about=about) + "".join(rows) + tail


if __name__ == "__main__":
    PAGE.write_text(page())
