"""From the trials of a study to the result: ranking, refitting, importances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from sparseleaf.progress import phase
from sparseleaf.tuning.candidates import Candidate
from sparseleaf.tuning.halving import METHOD
from sparseleaf.tuning.refit import Chosen, make_blend, members, refit, score_blend
from sparseleaf.tuning.result import TuneResult
from sparseleaf.tuning.search import N_TREES, SECONDS, START
from sparseleaf.tuning.study import ERROR

if TYPE_CHECKING:
    from sparseleaf.tuning.problem import Metric
    from sparseleaf.tuning.study import StudyFile
    from sparseleaf.tuning.trials import TrialData

FEWEST_TRIALS = 4
"""Complete trials of a method from which importances are computed."""


def best_trials(file: StudyFile, tuned: Mapping[str, Candidate], metric: Metric) -> list[Chosen]:
    """Complete trials, the best first; of equal ones, the earlier."""
    complete = [
        trial
        for trial in file.finished()
        if trial.state == TrialState.COMPLETE and trial.value is not None and trial.value == trial.value
    ]
    sign = -1 if metric.higher_is_better else 1
    complete.sort(key=lambda trial: (sign * (trial.value or 0.0), trial.number))
    return [
        Chosen(tuned[trial.user_attrs[METHOD]], _settings(trial, tuned), float(trial.value or 0.0))
        for trial in complete
    ]


def _settings(trial: FrozenTrial, tuned: Mapping[str, Candidate]) -> dict[str, Any]:
    """Parameters that a trial chose; those of the default trial are none."""
    candidate = tuned[trial.user_attrs[METHOD]]
    n_trees = trial.user_attrs.get(N_TREES)
    settings = {} if START in trial.user_attrs else candidate.settings_of(trial.params)
    return settings if n_trees is None else {"n_trees": n_trees, **settings}


def make_result(
    file: StudyFile,
    tuned: Mapping[str, Candidate],
    data: TrialData,
    interrupted: bool,
    *,
    blend: bool,
    n_jobs: int | None,
    verbose: int,
) -> TuneResult:
    """Refit the best trial, or the blend if it is better."""
    ranked = best_trials(file, tuned, data.metric)
    best, score, model, blended = ranked[0], ranked[0].score, None, False
    if blend and not interrupted and len(members(ranked)) > 1:
        combined = make_blend(members(ranked), n_jobs)
        value = score_blend(data, combined)
        if data.metric.is_better(value, score):
            with phase("refitting"):
                model, score, blended = combined.fit(data.problem.X, data.problem.y), value, True
    if model is None:
        with phase("refitting"):
            model = refit(data, best, n_jobs, verbose)
    finished = file.finished()
    default = next(trial for trial in finished if trial.user_attrs.get(START) == 0)
    return TuneResult(
        best_estimator_=model,
        best_method=best.candidate.method,
        best_params=dict(best.settings),
        best_score=score,
        default_score=float(default.value or 0.0),
        metric=data.metric.name,
        higher_is_better=data.metric.higher_is_better,
        validation=data.validation.text,
        trials=[_record(number, trial, tuned) for number, trial in enumerate(finished)],
        importances=_importances(file, best.candidate),
        study=file.study(),
        blended=blended,
        interrupted=interrupted or bool(getattr(model, "interrupted_", False)),
    )


def _record(number: int, trial: FrozenTrial, tuned: Mapping[str, Candidate]) -> dict[str, Any]:
    return {
        "number": number,
        "method": trial.user_attrs[METHOD],
        "state": trial.state.name.lower(),
        "value": trial.value,
        "n_trees": trial.user_attrs.get(N_TREES),
        "params": tuned[trial.user_attrs[METHOD]].settings_of(trial.params),
        "defaults": START in trial.user_attrs,
        "seconds": trial.user_attrs.get(SECONDS),
        "rungs": list(trial.intermediate_values.values()),
        "error": trial.user_attrs.get(ERROR),
    }


def _importances(file: StudyFile, candidate: Candidate) -> dict[str, float]:
    """Importances of the parameters of a candidate, the largest first."""
    study = file.study()
    keys = [candidate.key(name) for name in candidate.space]
    trials = [
        trial
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if all(key in trial.params for key in keys)
    ]
    if len(trials) < FEWEST_TRIALS or len({trial.value for trial in trials}) < 2:
        return {}
    by_key = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=keys)
    return {key.removeprefix(candidate.key("")): float(value) for key, value in by_key.items()}
