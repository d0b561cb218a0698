"""``sparseleaf.tune``: choose an estimator and its parameters on validation rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf.estimators.declarations import N_JOBS, VERBOSE
from sparseleaf.progress import reporting, say
from sparseleaf.tuning.candidates import Candidate, make_candidates
from sparseleaf.tuning.identity import identity_of
from sparseleaf.tuning.problem import AUTO, Problem, candidates, choose_metric, make_problem
from sparseleaf.tuning.result import TuneResult
from sparseleaf.tuning.trials import TrialData, make_estimator
from sparseleaf.tuning.validation import make_validation

N_TRIALS = 50
"""Number of trials without ``n_trials`` and ``timeout``."""


def tune(
    X: Any,
    y: Any,
    *,
    method: str | Sequence[str] = "auto",
    task: str = "auto",
    n_trials: int | None = None,
    timeout: float | None = None,
    metric: str | None = None,
    cv: Any = None,
    eval_set: Any = None,
    qid: Any = None,
    sample_weight: Any = None,
    params: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    client: Any = None,
    blend: bool = False,
    verbose: int = 0,
) -> TuneResult:
    """Choose an estimator and its parameters on validation rows, and fit it to all rows.

    Optuna samples parameters from the published search space of each candidate. Trials are pruned by successive
    halving on the number of trees or of splits, and those that continue resume from there. The first trial has the
    default parameters, so that the result is never worse on the validation rows. Ctrl-C ends the search; the best trial
    so far is refitted. Requires the extra "tune".

    Parameters
    ----------
    X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
        Features, or a list of texts or records.
    y : array-like, sparse matrix, or lists of label names
        Targets, in any form that ``fit`` of the candidates accepts.
    method : str or list of str, default="auto"
        Candidates: "forest", "gbdt-sparse", "ldsm", "gbdt-mo", "multi-forest" or "rank". "auto": by the task and the
        form of X; of these, those that have the metric and the parameters in ``params`` and ``space``.
    task : {"auto", "classification", "regression", "ranking"}, default="auto"
        "auto": ranking with ``qid``, regression for fractions or several columns of numbers, else classification.
    n_trials : int, optional
        Number of trials of the study, with those of earlier runs. By default 50, or any number within ``timeout``.
    timeout : float, optional
        Time for the search in seconds. Refitting the best trial comes on top. The first trial is not stopped.
    metric : str, optional
        Metric to compare trials by: a value of ``eval_metric``, or precision@k, recall@k, f1@k, ndcg@k, psp@k or
        psndcg@k for classifiers. By default ``eval_metric`` of the candidates; if they differ, rmse for numbers,
        accuracy for classes and precision@1 for labels.
    cv : int, splitter of scikit-learn or list of (train, valid) row numbers, optional
        Cross-validation. By default by the number of rows: 5 folds, repeated twice below 500, and a single split
        with a fifth of the rows from 5,000. A query counts as 10 rows and is not divided.
    eval_set : tuple (X, y) or (X, y, qid), optional
        Validation set in place of ``cv``.
    qid : array-like of shape (n_rows,), optional
        Query of each row, for ranking.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the training rows.
    params : mapping, optional
        Parameters of all trials, advanced ones included. ``n_trees`` is the maximum number of trees.
    space : mapping, optional
        Dimensions to replace or to add, by parameter name, or by method and parameter name:
        :class:`~sparseleaf.tuning.Range`, :class:`~sparseleaf.tuning.Choice` or a list of values.
    study : path-like, optional
        SQLite file with the trials. If it exists, the study continues; one of other data or another search is refused.
        It is used by one process at a time.
    seed : int, default=0
        Seed of the sampler, the splits and the estimators. With the same seed and number of trials, the result is the
        same, except with ``timeout`` or ``client``.
    n_jobs : int, optional
        Number of threads of a trial; None for all cores, or those of a Dask worker. Does not affect the result.
    client : distributed.Client or str, optional
        Dask client or address of a scheduler: trials run in parallel, one per worker. They are sampled while others
        are running, so that results depend on timing.
    blend : bool, default=False
        Whether to blend the best trials, for multi-label targets, if that is better on the validation rows.
    verbose : int, default=0
        0: silent; 1: progress bar on a terminal; 2: one line per trial.

    Returns
    -------
    result : TuneResult
        Fitted estimator, best parameters and trials.

    Examples
    --------
    >>> import sparseleaf
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(300, 60, 10)
    >>> result = sparseleaf.tune(X, Y, method="gbdt-sparse", n_trials=3, cv=2, params={"n_trees": 6})
    >>> result.best_score >= result.default_score
    True
    >>> labels, scores = result.best_estimator_.predict_topk(X, k=3)
    """
    require_optuna()
    _check_arguments(n_trials, timeout, seed, n_jobs, verbose, blend)
    vectorizer = params.get("vectorizer") if isinstance(params, Mapping) else None
    problem = make_problem(X, y, qid, sample_weight, task, vectorizer, eval_set)
    kinds = candidates(method, problem, metric)
    tuned = make_candidates(kinds, problem, params, space, seed, all_required=method != AUTO)
    kinds = {name: kinds[name] for name in tuned}
    data = TrialData(problem, make_validation(problem, cv, seed), choose_metric(metric, kinds, problem.task))
    if blend:
        from sparseleaf.tuning.refit import check_blend

        check_blend(data, tuned)
    if n_trials is None and timeout is None:
        n_trials = N_TRIALS

    from sparseleaf.tuning.report import best_trials, make_result
    from sparseleaf.tuning.search import Search
    from sparseleaf.tuning.study import StudyFile, quiet_optuna
    from sparseleaf.tuning.workers import open_workers

    with quiet_optuna(), reporting(verbose), _trials_folder(study) as folder:
        file = StudyFile(study, identity_of(data, tuned, seed), data.metric.higher_is_better, seed)
        try:
            say(_summary(data, tuned), verbose)
            with open_workers(client, data, folder) as workers:
                search = Search(
                    file,
                    tuned,
                    workers,
                    data.metric,
                    n_splits=max(1, len(data.validation.splits)),
                    n_jobs=n_jobs,
                    n_trials=n_trials,
                    timeout=timeout,
                    verbose=verbose,
                )
                interrupted = search.run()
            if not best_trials(file, tuned, data.metric):
                raise KeyboardInterrupt
            return make_result(file, tuned, data, interrupted, blend=blend, n_jobs=n_jobs, verbose=verbose)
        finally:
            file.close()


# --- inside


def require_optuna() -> None:
    """Raise ImportError with the name of the extra if Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ImportError('tune requires Optuna. Install it with: pip install "sparseleaf[tune]".') from None


def _check_arguments(
    n_trials: Any, timeout: Any, seed: Any, n_jobs: int | None, verbose: int, blend: Any
) -> None:
    for name, value, valid, text in (
        (
            "n_trials",
            n_trials,
            n_trials is None or (_is_int(n_trials) and n_trials >= 1),
            "an int >= 1 or None",
        ),
        (
            "timeout",
            timeout,
            timeout is None
            or (isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0),
            "a number > 0 or None",
        ),
        ("seed", seed, _is_int(seed) and 0 <= seed < 2**32, "an int from 0 to 2**32 - 1"),
        ("blend", blend, isinstance(blend, bool), "a bool"),
    ):
        if not valid:
            raise ValueError(f"The {name!r} parameter must be {text}. Got {value!r:.80} instead.")
    N_JOBS.require("tune", n_jobs)
    VERBOSE.require("tune", verbose)
    effective_n_jobs(n_jobs)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@contextmanager
def _trials_folder(study: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Folder of the checkpoints of running trials: beside the study, so that a later run resumes from them."""
    if study is None:
        with tempfile.TemporaryDirectory(prefix="sparseleaf-tune-") as temporary:
            yield Path(temporary)
        return
    folder = Path(f"{os.fspath(study)}.trials")
    try:
        yield folder
    finally:
        with suppress(OSError):  # not empty: an interrupted trial
            folder.rmdir()


def _summary(data: TrialData, tuned: Mapping[str, Candidate]) -> str:
    problem = data.problem
    text = (
        f"{problem.n_rows:,} rows, {problem.n_outputs:,} outputs ({problem.task}); candidates: {', '.join(tuned)};"
        f" validation by {data.metric.name} on {data.validation.text}"
    )
    estimate = _largest_estimate(problem, tuned)
    return text if estimate is None else f"{text}; {estimate}"


def _largest_estimate(problem: Problem, tuned: Mapping[str, Candidate]) -> memory.Estimate | None:
    """Memory of the default trial that needs most; None for texts, whose features are not known yet."""
    if problem.texts:
        return None
    estimates: list[memory.Estimate] = [
        make_estimator(one.kind, one.params).estimate_memory(problem.X, problem.targets)
        for one in tuned.values()
    ]
    return max(estimates, key=lambda one: one.total)
