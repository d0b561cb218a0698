"""The problem to tune for: rows, task, candidates and metric, validated before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.multiclass import type_of_target

from sparseleaf._arrays import has_nan
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, encode_targets
from sparseleaf.estimators import ESTIMATORS
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.estimators.evaluation import higher_is_better
from sparseleaf.estimators.parameters import suggestion
from sparseleaf.estimators.texts import are_texts
from sparseleaf.estimators.values import Names
from sparseleaf.metrics import scorers
from sparseleaf.training.validation import eval_sets
from sparseleaf.tuning.spaces import CLASSES, CLASSIFICATION, LABELS, RANKING, REGRESSION, TUNABLE

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.estimators.base import ModelEstimator

AUTO = "auto"
TASKS = ("auto", "classification", "regression", "ranking")
PRECISION = "precision@1"
COMMON_METRICS = {LABELS: (PRECISION,), CLASSES: ("accuracy", PRECISION), REGRESSION: ("rmse",)}
"""Default metric of candidates whose ``eval_metric`` differs by default: the first that all of them have."""


@dataclass(frozen=True)
class Problem:
    """Rows and their task.

    Attributes
    ----------
    X, y, qid, sample_weight
        Arguments of ``fit``.
    labels : csr_matrix or None
        Labels of the rows as a matrix, for multi-label targets. Trials use it in place of ``y``: lists of names would
        have other labels in every split.
    task : {"labels", "classes", "regression", "ranking"}
    texts : bool
        Whether X is texts or records.
    eval_set : tuple or None
        Validation rows of the user, as the argument of ``fit``.
    """

    X: Any
    y: Any
    qid: Any
    sample_weight: Any
    labels: sp.csr_matrix | None
    task: str
    texts: bool
    eval_set: tuple[Any, ...] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    @property
    def targets(self) -> Any:
        """Targets of the trials."""
        return self.y if self.labels is None else self.labels

    @cached_property
    def n_outputs(self) -> int:
        """Number of outputs or labels; classes are counted as outputs."""
        if self.labels is not None:
            return int(self.labels.shape[1])
        if self.task == CLASSES:
            return len(np.unique(np.asarray(self.y)))
        shape = np.shape(self.y)
        return int(shape[1]) if len(shape) == 2 else 1

    @cached_property
    def has_nan(self) -> bool:
        """Whether features are missing."""
        if self.texts:
            return False
        if hasattr(self.X, "isna"):
            return bool(self.X.isna().to_numpy().any())
        X = self.X if sp.issparse(self.X) else np.asarray(self.X)
        return X.dtype.kind == "f" and has_nan(X)

    @property
    def has_categories(self) -> bool:
        """Whether X has categorical columns."""
        return hasattr(self.X, "dtypes") and any(kind == "category" for kind in self.X.dtypes)


def make_problem(
    X: Any, y: Any, qid: Any, sample_weight: Any, task: str, vectorizer: Any, eval_set: Any
) -> Problem:
    """Validate the rows and determine the task."""
    if task not in TASKS:
        raise ValueError(
            f"The 'task' parameter must be one of {{{', '.join(map(repr, TASKS))}}}. Got {task!r} instead."
        )
    if y is None:
        raise ValueError("tune requires y to be passed, but the target y is None.")
    texts = are_texts(X, vectorizer)
    if not texts and not sp.issparse(X) and not hasattr(X, "iloc"):
        X = np.asarray(X)
    check_consistent_length(X, y, qid, sample_weight)
    kind = _kind_of(y, qid, task)
    labels = encode_targets(y).matrix if kind == LABELS else None
    problem = Problem(X, y, qid, sample_weight, labels, kind, texts)
    if problem.n_rows < 2:
        raise ValueError(f"tune requires at least 2 rows. Got {problem.n_rows} instead.")
    return problem if eval_set is None else _with_eval_set(problem, eval_set)


def _kind_of(y: Any, qid: Any, task: str) -> str:
    if task == "ranking" or (task == AUTO and qid is not None):
        if qid is None:
            raise ValueError(
                "The 'qid' parameter must be the query of each row for ranking. Got None instead."
            )
        return RANKING
    if qid is not None:
        raise ValueError(f"The 'qid' parameter must be None unless task='ranking'. Got task={task!r}.")
    if task == "regression" or (task == AUTO and _are_numbers(y)):
        return REGRESSION
    return CLASSES if encode_targets(y).kind in ONE_CLASS_PER_ROW else LABELS


def _are_numbers(y: Any) -> bool:
    """Whether targets are numbers to regress on, by scikit-learn's rules: fractions, or several columns of counts."""
    if sp.issparse(y) or (isinstance(y, list) and len(y) and isinstance(y[0], list | tuple | set | str)):
        return False
    values = np.asarray(y)
    if values.dtype.kind not in "fiu":
        return False
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if known.size < values.size:
        return True  # only regression has unknown targets here
    return type_of_target(values) in ("continuous", "continuous-multioutput", "multiclass-multioutput")


def _with_eval_set(problem: Problem, eval_set: Any) -> Problem:
    form = "(X, y, qid)" if problem.task == RANKING else "(X, y)"
    sets = eval_sets(eval_set, form)
    if len(sets) != 1:
        raise ValueError(f"The 'eval_set' parameter must be one tuple {form}. Got {len(sets)} instead.")
    return replace(problem, eval_set=sets[0])


def candidates(
    method: str | Sequence[str], problem: Problem, metric: str | None = None
) -> dict[str, type[ModelEstimator]]:
    """Estimators to tune, by method; ValueError if a method does not fit the task.

    "auto": those for the task and the form of X that have the metric of the user, if there are any.
    """
    of_task = {
        name: ESTIMATORS[name]["classification" if problem.task in CLASSIFICATION else "regression"]
        for name, tunable in TUNABLE.items()
        if problem.task in tunable.tasks
    }
    if method != AUTO:
        names = [method] if isinstance(method, str) else list(method)
        for name in names:
            if name not in TUNABLE:
                raise ValueError(
                    f"The 'method' parameter must be 'auto' or among {{{', '.join(map(repr, TUNABLE))}}}. Got {name!r}"
                    f" instead; {suggestion(str(name), TUNABLE)}"
                )
            kind = _classifier(name) if problem.task == CLASSES else of_task.get(name)
            if kind is None:
                raise ValueError(
                    f"The 'method' parameter must be among {{{', '.join(map(repr, of_task))}}} for targets of this kind"
                    f" ({problem.task}). Got {name!r} instead."
                )
            of_task[name] = kind
        if not names:
            raise ValueError("The 'method' parameter must not be an empty list.")
        return {name: of_task[name] for name in dict.fromkeys(names)}
    sparse = problem.texts or sp.issparse(problem.X)
    fitting = {
        name: kind
        for name, kind in of_task.items()
        if (TUNABLE[name].sparse if sparse else TUNABLE[name].dense) and _accepts(kind, problem)
    }
    fitting = fitting or of_task
    measured = {name: kind for name, kind in fitting.items() if metric in metrics_of(kind)}
    return measured or fitting


def _classifier(name: str) -> type[ModelEstimator] | None:
    """Every classifier of labels accepts one class per row, too, though only some are candidates by default."""
    return ESTIMATORS[name].get("classification") if LABELS in TUNABLE[name].tasks else None


def _accepts(kind: type[ModelEstimator], problem: Problem) -> bool:
    tags = get_tags(kind()).input_tags
    return (tags.allow_nan or not problem.has_nan) and (tags.categorical or not problem.has_categories)


@dataclass(frozen=True)
class Metric:
    """Metric that trials are compared by.

    Attributes
    ----------
    name : str
    higher_is_better : bool
    """

    name: str

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value is better."""
        return higher_is_better(self.name)

    def best(self, values: Sequence[float]) -> int:
        """Position of the best value, the first of equal ones."""
        array: Array = np.asarray(values, float)
        return int(np.nanargmax(array) if self.higher_is_better else np.nanargmin(array))

    def is_better(self, value: float, other: float) -> bool:
        """Whether a value is better than another."""
        return value > other if self.higher_is_better else value < other


def choose_metric(metric: str | None, kinds: Mapping[str, type[ModelEstimator]], task: str) -> Metric:
    """The metric of a name, or the default metric of the candidates; ValueError if a candidate does not have it."""
    known = [metrics_of(kind) for kind in kinds.values()]
    if metric is None:
        defaults = {_default_metric(kind) for kind in kinds.values()}
        if len(defaults) > 1:
            defaults = {next(name for name in COMMON_METRICS[task] if all(name in names for names in known))}
        return Metric(defaults.pop())
    if not isinstance(metric, str) or not all(metric in names for names in known):
        common = [name for name in known[0] if all(name in names for names in known)]
        raise ValueError(
            f"The 'metric' parameter must be one of {{{', '.join(map(repr, common))}}} for"
            f" {', '.join(kind.__name__ for kind in kinds.values())}. Got {metric!r:.80} instead."
        )
    return Metric(metric)


def metrics_of(kind: type[ModelEstimator]) -> list[str]:
    """Names of the metrics that trials of an estimator can be compared by."""
    ranked = list(scorers) if hasattr(kind, "predict_topk") else []
    return list(dict.fromkeys([*history_metrics(kind), *ranked]))


def history_metrics(kind: type[ModelEstimator]) -> tuple[str, ...]:
    """Metrics whose value for the complete model is in ``history_``; none if the model may have a re-ranker."""
    return eval_metrics(kind) if issubclass(kind, DenseGBDT) else ()


def eval_metrics(kind: type[ModelEstimator]) -> tuple[str, ...]:
    """Values of ``eval_metric``; none if the estimator does not have the parameter."""
    parameter = kind.parameter_table.get("eval_metric")
    if parameter is None:
        return ()
    parts = getattr(parameter.values, "parts", (parameter.values,))
    return tuple(name for part in parts if isinstance(part, Names) for name in part.choices)


def _default_metric(kind: type[ModelEstimator]) -> str:
    parameter = kind.parameter_table.get("eval_metric")
    return PRECISION if parameter is None else str(parameter.default)
