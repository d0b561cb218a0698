"""The final model: the best trial, or a blend of the best ones, refitted on all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.estimators import BlendClassifier
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.metrics import scorers
from sparseleaf.progress import phase
from sparseleaf.tuning.spaces import LABELS
from sparseleaf.tuning.trials import EARLY_STOPPING, Rows, TrialData, fit, make_estimator, rows_of_splits

if TYPE_CHECKING:
    from sparseleaf.tuning.candidates import Candidate

MOST_MEMBERS = 3


@dataclass(frozen=True)
class Chosen:
    """A complete trial.

    Attributes
    ----------
    candidate : Candidate
    settings : dict
        Parameters that differ from those of all trials, with ``n_trees`` if it is not the default.
    score : float
    """

    candidate: Candidate
    settings: Mapping[str, Any]
    score: float

    def estimator(self, n_jobs: int | None, verbose: int = 0) -> Any:
        """The estimator to refit: the number of trees replaces early stopping."""
        values = {**self.candidate.params, **self.settings, "n_jobs": n_jobs, "verbose": verbose}
        values.pop(EARLY_STOPPING, None)
        return make_estimator(self.candidate.kind, values)


def refit(data: TrialData, chosen: Chosen, n_jobs: int | None, verbose: int) -> Any:
    """Fit the estimator of a trial to all rows; it still has the validation set of the user, if there is one."""
    estimator = chosen.estimator(n_jobs, min(verbose, 1))
    problem = data.problem
    rows = Rows(problem.X, problem.y, problem.qid, problem.sample_weight)
    valid = None if problem.eval_set is None else Rows(*problem.eval_set)
    fit(estimator, rows, valid)
    estimator.verbose = 0
    return estimator


# --- blending


def check_blend(data: TrialData, candidates: Mapping[str, Candidate]) -> None:
    """Raise ValueError if the models of these candidates cannot be blended."""
    problem = data.problem
    if problem.task != LABELS or not all(
        issubclass(one.kind, RerankMixin) and not one.kind.dense_scores for one in candidates.values()
    ):
        names = ", ".join(one.kind.__name__ for one in candidates.values())
        raise ValueError(
            "The 'blend' parameter must be False unless all candidates are classifiers of labels with sparse scores."
            f" Got {names} for the task {problem.task!r}."
        )
    if problem.sample_weight is not None:
        raise ValueError("The 'blend' parameter must be False with sample_weight.")
    if problem.has_nan:
        raise ValueError("The 'blend' parameter must be False if X has missing values.")


def members(ranked: Sequence[Chosen]) -> list[Chosen]:
    """Trials to blend, the best first: the best of every method, or the best ones of a single method."""
    by_method = {one.candidate.method: one for one in reversed(ranked)}
    several = [one for one in ranked if by_method[one.candidate.method] is one]
    return (several if len(several) > 1 else list(ranked))[:MOST_MEMBERS]


def make_blend(chosen: Sequence[Chosen], n_jobs: int | None) -> BlendClassifier:
    """The blend of several trials, with the vectorizer of the best one."""
    estimators = [one.estimator(n_jobs) for one in chosen]
    vectorizer = estimators[0].vectorizer
    for one in estimators:
        one.vectorizer = None
    seed = chosen[0].candidate.params["random_state"]
    return BlendClassifier(estimators, vectorizer=vectorizer, n_jobs=n_jobs, random_state=seed)


def score_blend(data: TrialData, blend: BlendClassifier) -> float:
    """Metric of a blend, the mean over the splits; it is trained like a trial."""
    scores = []
    with phase("blending", max(1, len(data.validation.splits))) as advance:
        for number, rows in enumerate(rows_of_splits(data)):
            fitted = blend.fit(rows.train.X, rows.train.y)
            scores.append(scorers[data.metric.name](fitted, rows.valid.X, rows.valid.y))
            advance(number + 1, "")
    return float(np.mean(scores))
