"""The critical-difference diagram: systems by average rank; a bar connects those that do not differ significantly."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bed.compare import Ranks
from benchmarks.bed.systems import OURS

COLOUR, GREY = "#1558b0", "#333333"


def groups(ranks: Ranks) -> list[tuple[float, float]]:
    """Maximal ranges of average ranks no wider than the critical difference, with at least two systems."""
    values = sorted(ranks.average.values())
    ranges: list[tuple[float, float]] = []
    for i, low in enumerate(values):
        high = max(value for value in values[i:] if value - low <= ranks.critical)
        if high > low and not (ranges and ranges[-1][1] >= high):
            ranges.append((low, high))
    return ranges


def draw(ranks: Ranks, path: Path) -> None:
    """Write the diagram as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    best_first = sorted(ranks.average.items(), key=lambda item: item[1])
    half = (len(best_first) + 1) // 2
    low, high = 1, len(best_first)
    bars = groups(ranks)
    depth = 0.22 * len(bars) + 0.25
    with matplotlib.rc_context({"svg.hashsalt": "sparseleaf", "svg.fonttype": "none", "font.size": 10.5}):
        figure = Figure(figsize=(8.4, 1.3 + 0.3 * (half + len(bars))), facecolor="white")
        ax = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        ax.set_xlim(low - 3.2, high + 3.2)
        ax.set_ylim(-depth - 0.42 * half - 0.1, 1.25)
        ax.axis("off")
        ax.plot((low, high), (0, 0), color=GREY, lw=1)
        for rank in range(low, high + 1):
            ax.plot((rank, rank), (0, 0.1), color=GREY, lw=1)
            ax.text(rank, 0.17, str(rank), ha="center", va="bottom", color=GREY)
        ax.plot((low, low + ranks.critical), (0.85, 0.85), color=GREY, lw=2)
        ax.text(low, 0.95, f"critical difference {ranks.critical:.2f}", va="bottom", color=GREY)
        for place, (name, rank) in enumerate(best_first):
            left = place < half
            y = -depth - 0.42 * (place if left else len(best_first) - 1 - place)
            end = low - 0.3 if left else high + 0.3
            colour = COLOUR if name.startswith(OURS) else GREY
            ax.plot((rank, rank, end), (0, y, y), color=colour, lw=1)
            text = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
            weight = "bold" if name == OURS else "normal"
            x = end - 0.08 if left else end + 0.08
            ax.text(x, y, text, ha="right" if left else "left", va="center", color=colour, weight=weight)
        for number, (first, last) in enumerate(bars):
            y = -0.18 - 0.22 * number
            ax.plot((first - 0.05, last + 0.05), (y, y), color=GREY, lw=3.5, solid_capstyle="butt")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
