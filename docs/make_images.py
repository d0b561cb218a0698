"""Draw the images of the documentation: ``python docs/make_images.py`` (needs matplotlib)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

FOLDER = Path(__file__).with_name("images")


def forest_node() -> None:
    """A node of SketchForest: rows clustered by label sketch, and the linear router between the cluster means."""
    rng = np.random.default_rng(3)
    cluster = np.repeat([0, 1], 40)
    angle = np.where(cluster == 0, 0.5, 2.2) + rng.normal(scale=0.35, size=80)
    sketch = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    rows = np.where(cluster[:, None] == 0, (1.0, 2.4), (2.6, 1.2)) + rng.normal(scale=0.62, size=(80, 2))
    means = np.stack([rows[cluster == j].mean(axis=0) for j in (0, 1)])
    colours = np.array(["#2171b5", "#d95f02"])
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.scatter(*sketch.T, c=colours[cluster], s=16)
    left.set_title("1. label sketch: balanced k-means clusters the rows", fontsize=10)
    left.set_aspect("equal")
    right.scatter(*rows.T, c=colours[cluster], s=16, alpha=0.7)
    right.scatter(*means.T, c=colours, s=130, marker="X", edgecolors="black")
    middle, across = means.mean(axis=0), means[1] - means[0]
    along = np.array([-across[1], across[0]])
    right.plot(*np.stack((middle - 1.3 * along, middle + 1.3 * along)).T, color="black", linewidth=1.4)
    right.annotate("", means[1], means[0], arrowprops={"arrowstyle": "->", "color": "#6b6b6b"})
    right.set_title("2. features: the router separates the cluster means", fontsize=10)
    for ax in (left, right):
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(FOLDER / "forest-node.png", dpi=90)


def command_line() -> None:
    """Thumbnail of examples without a plot."""
    figure = Figure(figsize=(4.0, 2.8), facecolor="#20262e")
    for height, line in ((0.68, "$ sparseleaf train"), (0.5, "    train.txt.gz"), (0.32, "    -m model")):
        figure.text(0.1, height, line, family="monospace", fontsize=15, color="#e6edf3")
    figure.savefig(FOLDER / "command-line.png", dpi=80)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    forest_node()
    command_line()
