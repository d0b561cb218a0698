"""Candidates: estimators with their search space, and the settings of a trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparseleaf.estimators.parameters import suggestion
from sparseleaf.features import TextVectorizer
from sparseleaf.features.settings import RULES
from sparseleaf.training.auto import AUTO, AUTO_VALUES, BAGGED_ROWS
from sparseleaf.tuning.dimensions import Dimension, as_dimension
from sparseleaf.tuning.problem import Problem
from sparseleaf.tuning.spaces import REGRESSION, TEXTS, TUNABLE, VECTORIZER, fractions
from sparseleaf.tuning.trials import EARLY_STOPPING, PATIENCE, Rung, make_estimator

if TYPE_CHECKING:
    from optuna.trial import Trial

    from sparseleaf.estimators.base import ModelEstimator

MANY_OUTPUTS = 32
"""Outputs up to which split search is exact by default, so that there is no sketch to tune."""

METHOD_KEY, LEARNING_RATE = "method", "learning_rate"
NOT_BAGGED = ("n_trees", "n_models", EARLY_STOPPING)
"""Parameters which, set by the user, leave no automatic number of trees to bagged models."""

SET_BY_TUNE = ("eval_metric", "n_jobs", "verbose", "warm_start")
"""Parameters that trials set."""


@dataclass(frozen=True)
class Candidate:
    """An estimator to tune.

    Attributes
    ----------
    method : str
    kind : estimator class
    space : dict of str to Range or Choice
    params : dict
        Parameters that are the same in all trials.
    limit : int or None
        Maximum number of trees that the user set.
    bagged : bool
        Whether trials are bagged models with an automatic number of trees.
    """

    method: str
    kind: type[ModelEstimator]
    space: dict[str, Dimension]
    params: dict[str, Any]
    limit: int | None = None
    bagged: bool = False

    def default(self, name: str) -> Any:
        """Default of a parameter of the space."""
        if name.startswith(VECTORIZER):
            base = self.params.get("vectorizer") or TextVectorizer()
            return base.get_params(deep=False)[name.removeprefix(VECTORIZER)]
        return self.kind.parameter_table[name].default

    def default_values(self) -> dict[str, Any]:
        """Values of the default trial, as stored in a study, without those outside of the user's space."""
        defaults = {name: self.default(name) for name in self.space}
        return {
            self.key(name): self.space[name].stored(value)
            for name, value in defaults.items()
            if value in self.space[name]
        }

    def key(self, name: str) -> str:
        """Name of a parameter in the study, in which several estimators may have parameters of that name."""
        return f"{self.method}.{name}"

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Settings of a new trial."""
        return {name: dimension.suggest(trial, self.key(name)) for name, dimension in self.space.items()}

    def suggest_only(self, trial: Trial, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a trial with fixed values; parameters without one keep their default."""
        return {
            name: dimension.suggest(trial, self.key(name))
            for name, dimension in self.space.items()
            if self.key(name) in stored
        }

    def settings_of(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a stored trial."""
        return {
            name: dimension.restored(stored[self.key(name)])
            for name, dimension in self.space.items()
            if self.key(name) in stored
        }

    def rungs(self, settings: Mapping[str, Any], n_splits: int, n_jobs: int | None) -> list[Rung]:
        """After what a trial with these settings is compared with others: a number of trees, or of splits."""
        whole = self.default_rung(settings, n_jobs)
        if self.bagged:
            return [replace(whole, n_splits=number) for number in fractions(n_splits)]
        slowness = self._slowness(settings)
        patience = math.ceil(PATIENCE * slowness) if self.stops_early else None
        numbers = TUNABLE[self.method].rungs(slowness, self.limit)
        return [replace(whole, n_trees=number, patience=patience) for number in numbers]

    def default_rung(self, settings: Mapping[str, Any], n_jobs: int | None) -> Rung:
        """A trial with the default number of trees, on all splits."""
        return Rung(self.kind, {**self.params, **settings}, None, None, n_jobs)

    def _slowness(self, settings: Mapping[str, Any]) -> float:
        """Default learning rate divided by that of a trial; 1 for trees that are not boosted."""
        if not TUNABLE[self.method].shrinkage:
            return 1.0
        default = self.kind.parameter_table[LEARNING_RATE].default
        if default == AUTO:
            default = AUTO_VALUES[LEARNING_RATE].fixed
        rate = {**self.params, **settings}.get(LEARNING_RATE, default)
        return 1.0 if rate == AUTO else float(default / rate)

    @property
    def user_stops(self) -> bool:
        """Whether the user asked for early stopping: the default trial, too, then has one number of trees."""
        return self.params.get(EARLY_STOPPING) is not None

    @property
    def stops_early(self) -> bool:
        """Whether the number of trees is chosen by early stopping."""
        return EARLY_STOPPING in self.kind.parameter_table and not self.bagged


def make_candidates(
    kinds: Mapping[str, type[ModelEstimator]],
    problem: Problem,
    params: Mapping[str, Any] | None,
    space: Mapping[str, Any] | None,
    seed: int,
    *,
    all_required: bool = True,
) -> dict[str, Candidate]:
    """Candidates by method, with the parameters and dimensions that the user set.

    Raises ValueError if they are not valid for a candidate; unless ``all_required``, only if they are for none.
    """
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"The 'params' parameter must be a dict or None. Got {params!r:.80} instead.")
    if space is not None and not isinstance(space, Mapping):
        raise ValueError(f"The 'space' parameter must be a dict or None. Got {space!r:.80} instead.")
    spaces = _by_method(space or {}, kinds)
    values = {"random_state": seed, **(params or {})}
    made, errors = {}, []
    for method, kind in kinds.items():
        try:
            made[method] = _make_candidate(method, kind, problem, spaces[method], values)
        except ValueError as error:
            errors.append(error)
    if errors and (all_required or not made):
        raise errors[0]
    return made


def _make_candidate(
    method: str,
    kind: type[ModelEstimator],
    problem: Problem,
    space: Mapping[str, Dimension],
    values: dict[str, Any],
) -> Candidate:
    _check_params(kind, values)
    bagged = (
        bool(TUNABLE[method].bagged) and problem.n_rows <= BAGGED_ROWS and not set(NOT_BAGGED) & set(values)
    )
    if problem.n_rows > BAGGED_ROWS and "n_models" in kind.parameter_table and "n_models" not in space:
        values = {"n_models": 1, **values}  # the fewer rows of a split are not bagged either
    limit = values.get("n_trees")
    dimensions = {
        name: dimension
        for name, dimension in {**_published(method, problem, bagged=bagged), **space}.items()
        if name not in values and not _is_set(name, values.get("vectorizer"))
    }
    limit = limit if isinstance(limit, int) else None
    candidate = Candidate(method, kind, dimensions, values, limit, bagged)
    _check_dimensions(candidate)
    return candidate


def _is_set(name: str, vectorizer: Any) -> bool:
    """Whether the user's vectorizer has another value than the default one."""
    if vectorizer is None or not name.startswith(VECTORIZER):
        return False
    nested = name.removeprefix(VECTORIZER)
    default = TextVectorizer().get_params(deep=False).get(nested)
    return bool(vectorizer.get_params(deep=False).get(nested) != default)


def _published(method: str, problem: Problem, *, bagged: bool) -> dict[str, Dimension]:
    """The search space of an estimator for a problem."""
    tunable = TUNABLE[method]
    space = dict(tunable.bagged if bagged else tunable.space)
    if bagged and problem.task == REGRESSION and problem.n_outputs > 1:
        space |= dict(tunable.bagged_outputs)
    elif problem.n_outputs > MANY_OUTPUTS:
        space |= dict(tunable.many_outputs)
    if problem.has_nan:
        space.pop("rerank", None)  # re-rankers do not support missing values
    return space | dict(TEXTS) if problem.texts else space


def _by_method(space: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, dict[str, Dimension]]:
    """Dimensions of the user by method: a mapping by method, or one for all."""
    named = set(space) <= set(TUNABLE) and bool(space)
    for method in space if named else ():
        if method not in kinds:
            raise ValueError(
                f"The 'space' parameter must have candidates as keys: {', '.join(kinds)}. Got {method!r} instead."
            )
    return {
        method: {
            name: as_dimension(value, name)
            for name, value in (space.get(method, {}) if named else space).items()
        }
        for method in kinds
    }


def _check_params(kind: type[ModelEstimator], values: Mapping[str, Any]) -> None:
    for name in SET_BY_TUNE:
        if name in values:
            hint = "; pass 'metric' instead" if name == "eval_metric" else ""
            raise ValueError(f"The 'params' parameter must not have {name!r}, which tune sets{hint}.")
    make_estimator(kind, values)._check_parameters()


def _check_dimensions(candidate: Candidate) -> None:
    """Raise ValueError if a dimension is not of a declared parameter, or has values that are not valid."""
    table, owner = candidate.kind.parameter_table, candidate.kind.__name__
    for name, dimension in candidate.space.items():
        nested = name.removeprefix(VECTORIZER)
        if name == "n_trees" or nested not in (table if nested == name else RULES):
            hint = "; it is the resource of successive halving" if name == "n_trees" else ""
            raise ValueError(
                f"The 'space' parameter must have parameters of {owner} as keys. Got {name!r} instead"
                f"{hint or '; ' + suggestion(name, table)}"
            )
        for value in dimension.ends:
            if nested == name:
                table[name].require(owner, value)
            elif not RULES[nested].valid(value):
                raise ValueError(
                    f"The {nested!r} parameter of TextVectorizer must be {RULES[nested].text}. Got {value!r:.80} in"
                    " 'space' instead."
                )
