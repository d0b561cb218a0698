"""The search space of every estimator, and which estimators are candidates for a task.

A new estimator is one entry of :data:`TUNABLE`. The tables in the documentation are made from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparseleaf.tuning.dimensions import Choice, Dimension, Range

LABELS, CLASSES, REGRESSION, RANKING = "labels", "classes", "regression", "ranking"
"""Tasks: several labels per row, one class per row, numbers, graded documents of queries."""

CLASSIFICATION = (LABELS, CLASSES)

ETA = 3
"""Reduction factor of successive halving: of the trials at a rung, one in three continues, to three times the trees or
splits."""

N_RUNGS = 3

Space = Mapping[str, Dimension]


@dataclass(frozen=True)
class Tunable:
    """How an estimator is tuned.

    Attributes
    ----------
    tasks : tuple of str
        Tasks for which the estimator is a candidate.
    n_trees : int
        Maximum number of trees of a trial; with ``shrinkage``, for the default learning rate.
    space : mapping of str to Range or Choice
        Dimensions by parameter name; the default of each parameter is inside.
    many_outputs : mapping of str to Range or Choice
        Further dimensions for more outputs than split search is exact for.
    bagged : mapping of str to Range or Choice
        Dimensions in place of the others for few rows: all trials are bagged models with an automatic number of trees,
        and successive halving is on the number of splits. Empty if the estimator has none.
    bagged_outputs : mapping of str to Range or Choice
        Further dimensions of bagged models for several outputs of numbers.
    shrinkage : bool
        Whether the number of trees is inversely proportional to the learning rate, as in boosting.
    dense, sparse : bool
        Whether it is a candidate for dense features, and for sparse features and texts.

    Examples
    --------
    >>> from sparseleaf.tuning import TUNABLE
    >>> TUNABLE["forest"].space["min_samples_leaf"]
    Range(low=1, high=20, log=True)
    >>> TUNABLE["forest"].rungs()
    [6, 17, 50]
    """

    tasks: tuple[str, ...]
    n_trees: int
    space: Space
    many_outputs: Space = field(default_factory=dict)
    bagged: Space = field(default_factory=dict)
    bagged_outputs: Space = field(default_factory=dict)
    shrinkage: bool = True
    dense: bool = True
    sparse: bool = True

    def rungs(self, slowness: float = 1.0, limit: int | None = None) -> list[int]:
        """Numbers of trees after which trials are compared; the last is the maximum.

        Parameters
        ----------
        slowness : float
            Default learning rate divided by that of the trial. A trial with half the learning rate is as far after
            twice the trees.
        limit : int or None
            Maximum number of trees that the user set.
        """
        most = self.n_trees if limit is None else min(limit, self.n_trees)
        factor = slowness if self.shrinkage else 1.0
        numbers = {math.ceil(factor * one) for one in fractions(most)}
        return sorted(numbers if limit is None else {min(limit, number) for number in numbers})


def fractions(most: int) -> list[int]:
    """Amounts of a resource at the rungs; the last is the maximum."""
    return sorted({math.ceil(most / ETA**power) for power in range(N_RUNGS)})


BOOSTED: Space = {
    "learning_rate": Range(0.02, 0.3, log=True),
    "max_leaves": Range(4, 255, log=True),
    "min_samples_leaf": Range(1, 100, log=True),
    "l2": Range(0.01, 100.0, log=True),
    "subsample": Range(0.5, 1.0),
    "colsample_bytree": Range(0.3, 1.0),
}

BAGGED: Space = {
    "learning_rate": Range(0.03, 0.3, log=True),
    "max_leaves": Range(4, 64, log=True),
    "min_samples_leaf": Range(1, 50, log=True),
    "l2": Range(0.01, 100.0, log=True),
    "subsample": Range(0.4, 1.0),
    "colsample_bynode": Range(0.2, 1.0),
}

RERANKERS = ("cosine", "log", "linear", "boosted", "bayes")

TUNABLE: dict[str, Tunable] = {
    "forest": Tunable(
        CLASSIFICATION,
        50,
        {
            "min_samples_leaf": Range(1, 20, log=True),
            "arity": Range(2, 16, log=True),
            "label_weight": Range(0.0, 1.0),
            "router_weights": Choice([100, 300, 1000]),
            "max_features": Range(0.3, 1.0),
            "bootstrap": Choice([False, True]),
            "leaf_labels": Choice([50, 100, 200]),
            "sketch_dim": Choice([32, 64, 128]),
            "rerank": Choice(["auto", None, "linear", "boosted", "bayes"]),
        },
        shrinkage=False,
        dense=False,
    ),
    "gbdt-mo": Tunable(
        (LABELS, CLASSES, REGRESSION),
        400,
        BOOSTED,
        {"sketch_dim": Choice([16, 32, 64, 128])},
        bagged=BAGGED,
        bagged_outputs={"sketch_dim": Choice(["auto", 4, 32]), "tree_per_output": Choice(["auto", True])},
        sparse=False,
    ),
    "gbdt-sparse": Tunable(
        (LABELS,),
        150,
        {
            "learning_rate": Range(0.02, 0.3, log=True),
            "leaf_labels": Choice([20, 50, 100, 200]),
            "loss": Choice(["squared", "squared_hinge"]),
            "max_depth": Range(5, 15),
            "min_samples_leaf": Range(2, 50, log=True),
            "l2": Range(0.1, 20.0, log=True),
            "subsample": Range(0.5, 1.0),
            "colsample_bynode": Range(0.1, 1.0),
            "projection_dim": Choice([50, 100, 200]),
            "sketch_dim": Choice([16, 32, 64, 128]),
            "rerank": Choice([None, *RERANKERS]),
        },
    ),
    "ldsm": Tunable(
        (LABELS,),
        30,
        {
            "arity": Range(2, 8),
            "max_nodes": Range(200, 4000, log=True),
            "epochs": Range(3, 30, log=True),
            "learning_rate": Range(0.02, 0.5, log=True),
            "lambda_1": Range(0.5, 4.0, log=True),
            "lambda_2": Range(0.25, 4.0, log=True),
            "min_samples_leaf": Range(1, 20, log=True),
            "prune": Choice([0.0, 0.01, 0.03]),
            "rerank": Choice([None, *RERANKERS]),
        },
        shrinkage=False,
        dense=False,
    ),
    "multi-forest": Tunable(
        (LABELS, CLASSES, REGRESSION),
        300,
        {
            "max_features": Choice(["sqrt", 0.33, 0.67, 1.0]),
            "min_samples_leaf": Range(1, 20, log=True),
            "splitter": Choice(["best", "random"]),
            "bootstrap": Choice(["auto", True, False]),
        },
        {"sketch_dim": Choice([16, 32, 64, 128])},
        shrinkage=False,
        sparse=False,
    ),
    "rank": Tunable((RANKING,), 400, BOOSTED, bagged=BAGGED),
}
"""Search spaces by method; the first candidate of a task is the one whose defaults are the first trial."""

VECTORIZER = "vectorizer__"
"""Prefix of the parameters of the text vectorizer, as on the command line."""

TEXTS: Space = {
    f"{VECTORIZER}ngram_range": Choice([(1, 1), (1, 2)]),
    f"{VECTORIZER}char_ngram_range": Choice([None, (3, 5)]),
    f"{VECTORIZER}sublinear_tf": Choice([True, False]),
    f"{VECTORIZER}min_df": Choice([1, 2, 5]),
}
"""Dimensions that all estimators have for texts."""
