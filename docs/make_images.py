"""Make the pictures of the documentation: ``python docs/make_images.py`` (needs matplotlib, takes half a minute).

The set is the demo's. Each curve is a model with another number of labels a leaf; dotted lines are the demo's
simple methods.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from matplotlib.figure import Figure

from sparseleaf import SparseGBDTClassifier
from sparseleaf.metrics import precision_at_k
from sparseleaf.plotting import plot_learning_curve

FOLDER = Path(__file__).with_name("images")
demo = import_module("sparseleaf.cli.demo")


def learning_curve() -> None:
    """P@1 on rows that were not trained on, after every tree."""
    parts = demo.make_parts()
    history = {}
    for leaf_labels in (1, 5, 20):
        classifier = SparseGBDTClassifier(demo.TREES, demo.RATE, leaf_labels)
        classifier.fit(*parts["train"], eval_set=parts["test"])
        history[f"{leaf_labels} label{'s' if leaf_labels > 1 else ''} a leaf"] = classifier.history_[
            "valid P@1"
        ]
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = plot_learning_curve(history, ax=figure.add_subplot())
    for result in (demo.most_frequent(parts), demo.centroids(parts), demo.neighbours(parts)):
        height = 100 * precision_at_k(parts["test"][1], result.ranking, 1)
        ax.axhline(height, color="#6b6b6b", linestyle=":", linewidth=1.2)
        ax.text(demo.TREES - 1, height - 0.6, result.name, color="#6b6b6b", ha="right", va="top", fontsize=9)
    ax.set_ylabel("P@1 on test rows, %")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.42))
    figure.savefig(FOLDER / "learning-curve.png", dpi=110)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    learning_curve()
