"""Calibration during ``fit``: on the validation rows that tune the re-ranker, or on rows held out for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._warnings import warn
from sparseleaf.calibration.fit import AUTO, RankedLabels, fit_calibrator
from sparseleaf.calibration.thresholds import BALANCED, choose_thresholds
from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.model.candidates import PLACES
from sparseleaf.progress import phase

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf._settings import Settings
    from sparseleaf.model import Model
    from sparseleaf.model.stage import Stage
    from sparseleaf.rerank.fit import Reranking


def check_calibrate(method: str | None, target_kind: str) -> None:
    """Raise ValueError if calibration is asked for, but not supported for the targets."""
    if method not in (None, AUTO) and target_kind in ONE_CLASS_PER_ROW:
        raise ValueError(
            "The 'calibrate' parameter must be 'auto' or None for targets with one class per row; use"
            f" sklearn.calibration.CalibratedClassifierCV. Got {method!r} instead."
        )


def warn_if_uncalibrated(method: str | None) -> None:
    """Warn that there are no validation rows, if a calibrator was asked for."""
    if method not in (None, AUTO):
        warn(
            f"The model has no calibrator: there are too few rows to hold some out for calibrate={method!r}."
        )


def calibrate(
    params: Settings,
    reranking: Reranking,
    model: Model,
    label_counts: Array,
    held_out: sp.csr_matrix | None,
    prior_scale: float,
    n_jobs: int,
) -> list[Stage]:
    """Fit the calibrator and the thresholds of a model with a tuned re-ranker, before it is refitted to all rows.

    Parameters
    ----------
    params : Settings
        ``calibrate``, ``threshold`` and ``threshold_per_label``.
    reranking : Reranking
        Has the validation rows.
    model : Model
        Not trained on the validation rows.
    label_counts : int array, shape (n_labels,)
        Training rows with each label.
    held_out : csr_matrix or None
        True labels of the training rows that ``model`` was not trained on.
    prior_scale : float
        See :class:`~sparseleaf.model.calibrator.Calibrator`.
    n_jobs : int

    Returns
    -------
    stages : list of Stage
        Calibrator and thresholds; none without validation rows or after Ctrl-C. The threshold of highest micro-F1 is in
        the header of the model instead.
    """
    method = params.calibrate
    if method is None or model.target_kind in ONE_CLASS_PER_ROW:
        return []
    if not reranking.has_validation:
        warn_if_uncalibrated(method)
        return []
    try:
        with phase("calibration"):
            labels, scores, Y = reranking.ranked(model, PLACES, n_jobs)
            ranked = RankedLabels.of(labels, scores, Y, n_jobs)
            seen = label_counts
            if held_out is not None:
                seen = seen - np.bincount(held_out.indices, minlength=len(seen))
            calibrator = fit_calibrator(
                method, ranked, seen, label_counts, prior_scale=prior_scale, n_jobs=n_jobs
            )
            if calibrator is None:
                return []
            target, per_label = params.threshold, params.threshold_per_label
            too_few = target == BALANCED and calibrator.n_groups == 1  # to tell rare from frequent labels
            if (target == "f1" or too_few) and not per_label:
                return [calibrator]
            probabilities = ranked.probabilities(calibrator, n_jobs)
            thresholds = choose_thresholds(
                probabilities,
                Y,
                target,
                per_label=per_label,
                on_probabilities=True,
                group=calibrator.group,
                n_jobs=n_jobs,
            )
            return [calibrator, thresholds]
    except KeyboardInterrupt:
        reranking.interrupted = True
        warn("Calibration was interrupted; use fit_calibration to add a calibrator.")
        return []
