"""Reliability diagrams: part of :mod:`sparseleaf.plotting`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseleaf._files import drafting
from sparseleaf._set_metrics import expected_calibration_error, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparseleaf._label_checks import MatrixLike

FORMATS = (".png", ".svg", ".pdf")


def plot_reliability(
    Y_true: MatrixLike,
    probabilities: MatrixLike,
    n_bins: int = 15,
    label: str | None = None,
    path: str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a reliability diagram: how often labels are true, against their predicted probability.

    Points on the diagonal are calibrated. Their area is proportional to the number of labels. Call it again with the
    same axes to compare models.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels)
        True labels.
    probabilities : sparse matrix or array-like of float, shape (n_rows, n_labels)
        Probabilities in [0, 1], such as those of ``predict_proba(X, k)``; stored entries of a sparse matrix.
    n_bins : int, default=15
        Number of bins of [0, 1].
    label : str, optional
        Name in the legend, which also has the expected calibration error.
    path : path-like, optional
        File to save the figure to: ``.png``, ``.svg`` or ``.pdf``.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ImportError
        If matplotlib is not installed: ``pip install "sparseleaf[plot]"``.

    Examples
    --------
    >>> from sparseleaf.plotting import plot_reliability
    >>> axes = plot_reliability([[1, 0], [1, 0]], [[0.9, 0.2], [0.7, 0.1]], n_bins=5)
    """
    predicted, frequency, counts = reliability_curve(Y_true, probabilities, n_bins)
    error = expected_calibration_error(Y_true, probabilities, n_bins)
    if path is not None and Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"The 'path' parameter must end in .png, .svg or .pdf. Got {str(path)!r} instead.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error_:
        raise ImportError(
            'plot_reliability requires matplotlib. Install it with: pip install "sparseleaf[plot]".'
        ) from error_
    if ax is None:
        size: dict[str, Any] = {"figsize": (4.8, 4.4), "layout": "constrained"}
        if path is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(**size).add_subplot()
        else:
            ax = Figure(**size).add_subplot()
    ax.plot([0, 1], [0, 1], color="#6b6b6b", linewidth=0.8, linestyle=(0, (4, 2)))
    name = f"ECE {error:.3f}" if label is None else f"{label}, ECE {error:.3f}"
    line = ax.plot(predicted, frequency, linewidth=1.2, label=name)[0]
    area = 10 + 120 * counts / max(1, counts.max(initial=0))
    ax.scatter(predicted, frequency, area, color=line.get_color(), alpha=0.7)
    ax.set(xlabel="predicted probability", ylabel="frequency of true labels", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, loc="upper left")
    if path is not None:
        target = Path(path)
        figure = ax.figure.canvas.figure  # the figure, also if ax is in a subfigure
        with drafting(target) as draft:
            figure.savefig(draft, format=target.suffix.lower().removeprefix("."), dpi=160)
    return ax
