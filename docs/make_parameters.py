"""Write docs/parameters.md from the one definition of the parameters: ``python docs/make_parameters.py``."""

from __future__ import annotations

import inspect
from pathlib import Path

from sparseleaf import SparseGBDTClassifier

PAGE = Path(__file__).with_name("parameters.md")

HEAD = """# Parameters of `SparseGBDTClassifier`

<!-- Made by docs/make_parameters.py; do not edit. -->

Give them by name in Python, `SparseGBDTClassifier(n_trees=200)`, or on the command line, `--set n_trees=200`
(`none` is None). The last column is the symbol of [the paper](papers/gbdt-sparse.md), where it has one.

| parameter | default | may be | meaning | paper |
|---|---|---|---|---|
"""

TAIL = """
## Which to turn first

1. **`n_trees` and `learning_rate`.** More and smaller steps are better, fewer and larger ones faster: halve the one when
   you double the other. `eval_set` in `fit`, or `--valid` on the command line, shows when more trees stop helping, and
   `early_stopping_rounds` acts on it.
2. **`leaf_labels` and `leaf_min_gain`.** A model's size, its training memory and a row's prediction time grow with the
   first; the second drops entries that hardly help, and is the gentler way to a small model.
3. **`min_samples_leaf`.** Small leaves (5 to 20) are more accurate where rows are few; large ones (100, the paper's) give
   models a tenth of the size.

Then `colsample_bynode` (0.1 to 0.5), and `projection_dim` where features are many.
"""


def page() -> str:
    """The whole text."""
    signature = inspect.signature(SparseGBDTClassifier)
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
            for name, parameter in SparseGBDTClassifier.parameter_table.items()
        )
    )
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
