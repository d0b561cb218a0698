"""Tuning with a time budget: sparseleaf.tune against LightGBM tuned by FLAML and by Optuna.

    python -m benchmarks.tuning --data <folder> [--out docs/results/tuning.json] [--budget 600] [--sets yeast wq]

The datasets are the evaluation sets of the test bed (`benchmarks/bed/sets.py`) without labels and images; all systems
see the training rows of the first split and are tested once. Targets of regression are standardised by the training
rows. LightGBM has one model per output: FLAML gets an equal share of the budget for each; Optuna samples parameters for
all of them and cross-validates with 5 folds. All use one thread. Results are added to the output file.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks._common import machine, write_results
from benchmarks.bed.sets import EVALUATION, SETS

SEED = 0
CHOSEN = [
    name
    for name, one in SETS.items()
    if one.role == EVALUATION and one.kind != "multilabel" and name != "inpainting"
]


# --- data


def load(data, name):
    """Training and test rows: X, y, and queries (None unless ranking)."""
    split = SETS[name].load(data, SEED)
    y, y_test = split.Y, split.Y_test
    if task_of(name) == "ranking":
        qid, qid_test = (np.repeat(np.arange(len(group)), group) for group in (split.group, split.group_test))
        return (split.X, y, qid), (split.X_test, y_test, qid_test)
    if task_of(name) == "classification":
        known = np.isin(y_test, y)
        return (split.X, y, None), (split.X_test[known], y_test[known], None)
    mean, scale = y.mean(axis=0), np.maximum(y.std(axis=0), 1e-12)
    return (split.X, (y - mean) / scale, None), (split.X_test, (y_test - mean) / scale, None)


def task_of(name):
    return {"multiclass": "classification"}.get(SETS[name].kind, SETS[name].kind)


def evaluate(name, test, predicted):
    """Metrics on the test rows; the first is the one that was tuned for. Classes: probabilities."""
    _, y, qid = test
    if task_of(name) == "ranking":
        from sparseleaf.ranking import evaluate as ranks

        return {"ndcg@5": float(ranks(y, predicted, qid)["ndcg@5"])}
    if task_of(name) == "classification":
        from sklearn.metrics import accuracy_score, log_loss

        labels = np.arange(predicted.shape[1])
        return {
            "loss": float(log_loss(y, np.clip(predicted, 1e-15, 1), labels=labels)),
            "accuracy": float(accuracy_score(y, predicted.argmax(axis=1))),
        }
    return {"rmse": float(np.sqrt(np.mean((y - predicted) ** 2)))}


# --- systems: (train, name, budget) → predict


METRICS = {"classification": "loss", "ranking": "ndcg@5", "regression": "rmse"}


def ours(train, name, budget):
    import sparseleaf

    X, y, qid = train
    task = task_of(name)
    result = sparseleaf.tune(
        X, y, qid=qid, task=task, metric=METRICS[task], timeout=budget, n_jobs=1, seed=SEED
    )
    model = result.best_estimator_
    return model.predict_proba if task == "classification" else in_columns(model.predict), {
        "trials": len(result.trials),
        "method": result.best_method,
        "validation": result.best_score,
        "validation_defaults": result.default_score,
        "params": result.best_params,
    }


def defaults(train, name, budget):
    """The first trial of ``tune``."""
    from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor

    X, y, qid = train
    options = {"random_state": SEED, "n_jobs": 1}
    if task_of(name) == "ranking":
        return GBDTRanker(**options).fit(X, y, qid=qid).predict, {"trials": 1}
    if task_of(name) == "classification":
        return MultiGBDTClassifier(**options).fit(X, y).predict_proba, {"trials": 1}
    return in_columns(MultiGBDTRegressor(**options).fit(X, y).predict), {"trials": 1}


def in_columns(predict):
    """Predictions with a column per output, also of a single one."""
    return lambda X: predict(X).reshape(len(X), -1)


def flaml(train, name, budget):
    from flaml import AutoML

    X, y, qid = train
    options = {"estimator_list": ["lgbm"], "verbose": 0, "seed": SEED, "n_jobs": 1}
    if task_of(name) == "ranking":
        model = AutoML()
        model.fit(X, y, task="rank", groups=qid, metric="ndcg@5", time_budget=budget, **options)
        return model.predict, {"trials": len(model.config_history)}
    if task_of(name) == "classification":
        model = AutoML()
        model.fit(X, y, task="classification", metric="log_loss", time_budget=budget, **options)
        return model.predict_proba, {"trials": len(model.config_history)}
    models = []
    for column in np.asarray(y).T:
        model = AutoML()
        model.fit(X, column, task="regression", metric="rmse", time_budget=budget / y.shape[1], **options)
        models.append(model)
    return lambda X: np.stack([model.predict(X) for model in models], axis=1), {
        "trials": sum(len(model.config_history) for model in models)
    }


def optuna_lightgbm(train, name, budget):
    import lightgbm
    import optuna
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
    from sklearn.multioutput import MultiOutputRegressor

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    X, y, qid = train
    kind = task_of(name)
    splitter = {"classification": StratifiedKFold, "ranking": GroupKFold}.get(kind, KFold)
    shuffled = {} if kind == "ranking" else {"shuffle": True, "random_state": SEED}
    splits = list(splitter(5, **shuffled).split(X, y, qid))

    def fitted(params, rows):
        options = {"n_jobs": 1, "verbose": -1, "seed": SEED, "subsample_freq": 1, **params}
        if kind == "classification":
            return lightgbm.LGBMClassifier(**options).fit(X[rows], y[rows])
        if kind == "ranking":
            _, sizes = np.unique(qid[rows], return_counts=True)
            return lightgbm.LGBMRanker(**options).fit(X[rows], y[rows], group=sizes)
        return MultiOutputRegressor(lightgbm.LGBMRegressor(**options)).fit(X[rows], y[rows])

    def predict(model, rows):
        return model.predict_proba(rows) if kind == "classification" else model.predict(rows)

    def objective(trial):
        params = {
            "n_estimators": trial.suggest_int("n_estimators", 50, 1000, log=True),
            "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
            "num_leaves": trial.suggest_int("num_leaves", 4, 255, log=True),
            "min_child_samples": trial.suggest_int("min_child_samples", 1, 100, log=True),
            "reg_lambda": trial.suggest_float("reg_lambda", 1e-3, 100, log=True),
            "subsample": trial.suggest_float("subsample", 0.5, 1.0),
            "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0),
        }
        scores = []
        for rows, held in splits:
            if trial.number and time.perf_counter() - began > 1.2 * budget:
                raise optuna.TrialPruned
            part = (X[held], y[held], None if qid is None else qid[held])
            predicted = predict(fitted(params, rows), X[held])
            if kind == "classification" and predicted.shape[1] < len(np.unique(y)):
                raise optuna.TrialPruned
            scores.append(next(iter(evaluate(name, part, predicted).values())))
        return float(np.mean(scores))

    study = optuna.create_study(
        direction="maximize" if kind == "ranking" else "minimize",
        sampler=optuna.samplers.TPESampler(seed=SEED),
    )
    study.enqueue_trial({
        "n_estimators": 100, "learning_rate": 0.1, "num_leaves": 31, "min_child_samples": 20, "reg_lambda": 1e-3,
        "subsample": 1.0, "colsample_bytree": 1.0,
    })  # fmt: skip
    began = time.perf_counter()
    study.optimize(objective, timeout=budget)
    model = fitted(study.best_params, np.arange(len(X)))
    return lambda rows: predict(model, rows), {"trials": len(study.trials), "params": study.best_params}


SYSTEMS = {
    "sparseleaf, defaults": defaults,
    "sparseleaf.tune": ours,
    "LightGBM, FLAML": flaml,
    "LightGBM, Optuna": optuna_lightgbm,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="docs/results/tuning.json")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of the search")
    parser.add_argument(
        "--sets", nargs="+", choices=SETS, default=CHOSEN, metavar="NAME", help="only these datasets"
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    arguments = parser.parse_args()
    out = Path(arguments.out)
    results = json.loads(out.read_text()) if out.is_file() else {"runs": {}}
    results["machine"] = machine()
    for name in arguments.sets:
        train, test = load(arguments.data, name)
        for system in arguments.systems:
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the other libraries
                predict, about = SYSTEMS[system](train, name, arguments.budget)
                seconds = time.perf_counter() - began
                scores = evaluate(name, test, predict(test[0]))
            run = {"test": scores, "seconds": seconds, "budget": arguments.budget, **about}
            run["load"] = os.getloadavg()[0]  # of a busy machine, results have fewer trials
            results["runs"].setdefault(name, {})[system] = run
            values = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            print(f"{name:12s} {system:22s} {values}  {seconds:6.1f} s  {about['trials']} trials", flush=True)
            write_results(arguments.out, results)


if __name__ == "__main__":
    main()
