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
Where to begin: `n_trees`, `learning_rate` (fewer, larger steps are faster; more, smaller ones are better),
`leaf_labels` (a model's size and a row's prediction time grow with it), `max_depth` and `min_samples_leaf`.
`eval_set` in `fit`, or `--valid` on the command line, shows when more trees stop helping, and
`early_stopping_rounds` acts on it.
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
