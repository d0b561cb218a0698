"""Make the pictures of the documentation: ``python docs/make_images.py`` (needs matplotlib, takes half a minute).

The set is the demo's. Each curve is a model with another number of labels a leaf; dotted lines are the demo's
simple methods.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
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
        precision = classifier.history_["valid precision@1"]
        name = f"{leaf_labels} label{'s' if leaf_labels > 1 else ''} a leaf"
        history[name] = [100 * value for value in precision]
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


def forest_node() -> None:
    """A node of the sketch forest: rows parted by their labels' sketch, and the router between the parts' means."""
    rng = np.random.default_rng(3)
    part = np.repeat([0, 1], 40)
    angle = np.where(part == 0, 0.5, 2.2) + rng.normal(scale=0.35, size=80)
    sketch = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    rows = np.where(part[:, None] == 0, (1.0, 2.4), (2.6, 1.2)) + rng.normal(scale=0.62, size=(80, 2))
    means = np.stack([rows[part == j].mean(axis=0) for j in (0, 1)])
    colours = np.array(["#2171b5", "#d95f02"])
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.scatter(*sketch.T, c=colours[part], s=16)
    left.set_title("1. labels, hashed: balanced k-means parts the rows", fontsize=10)
    left.set_aspect("equal")
    right.scatter(*rows.T, c=colours[part], s=16, alpha=0.7)
    right.scatter(*means.T, c=colours, s=130, marker="X", edgecolors="black")
    middle, across = means.mean(axis=0), means[1] - means[0]
    along = np.array([-across[1], across[0]])
    right.plot(*np.stack((middle - 1.3 * along, middle + 1.3 * along)).T, color="black", linewidth=1.4)
    right.annotate("", means[1], means[0], arrowprops={"arrowstyle": "->", "color": "#6b6b6b"})
    right.set_title("2. features: the router is the difference of the means", fontsize=10)
    for ax in (left, right):
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(FOLDER / "forest-node.png", dpi=90)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    learning_curve()
    forest_node()
