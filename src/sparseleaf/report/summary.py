"""A summary of a fitted model for notebooks, below scikit-learn's diagram of its parameters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from sparseleaf._printable import readable_bytes
from sparseleaf.report.about import model_bytes

if TYPE_CHECKING:
    from sparseleaf.model import Model


def summary(model: Model) -> str:
    """Sizes, stages and the last values of the learning curve, as HTML."""
    outputs = "outputs" if model.target_kind.startswith("regression") else "labels"
    rows = {
        "trained on": f"{model.n_train_rows:,} rows, {model.n_features:,} features, {model.n_labels:,} {outputs}",
        "trees": f"{model.n_trees:,}",
        "stages": " → ".join(stage.kind for stage in model.stages),
        "size": readable_bytes(sum(model_bytes(model).values())),
    }
    rows |= {name: f"{values[-1]:.4g}" for name, values in model.history.items() if values}
    lines = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{escape(text)}</td></tr>'
        for name, text in rows.items()
    )
    return f'<table class="sparseleaf-summary"><tbody>{lines}</tbody></table>'
