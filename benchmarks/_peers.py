"""Trains sparseleaf, XGBoost, LightGBM or CatBoost and evaluates it on several sets after every round.

`train_curves` takes settings under sparseleaf's parameter names (`max_depth`, `max_leaves`, …) and translates them for
each library. Libraries are imported on first use.
"""

from __future__ import annotations

import itertools

import numpy as np

THREADS = 2


def threads(X):
    """One thread for small datasets, where a second one costs more time than it saves."""
    return 1 if len(X) < 5_000 else THREADS


class Curves:
    """Loss and error on every evaluation set after every round; for regression both are the squared error."""

    def __init__(self, n_parts):
        self.loss = [[] for _ in range(n_parts)]
        self.error = [[] for _ in range(n_parts)]

    def add(self, part, loss, error):
        self.loss[part].append(float(loss))
        self.error[part].append(float(error))

    def __len__(self):
        return len(self.loss[-1])


def best_round(values, patience):
    """Number of rounds at which early stopping with this patience finds its best value."""
    best = 0
    for i, value in enumerate(values):
        if value < values[best]:
            best = i
        elif i - best >= patience:
            break
    return best + 1


def stops(values, patience):
    """Whether early stopping on these values has ended training."""
    return len(values) - best_round(values, patience) >= patience


def train_curves(method, n_classes, settings, X, y, parts, max_rounds, done):
    """Train until ``done(curves)`` or ``max_rounds``; returns one `Curves` per jointly trained group of outputs.

    With ``n_classes``, y holds class numbers, otherwise a matrix of outputs. ``parts``: evaluation sets (X, y).
    """
    if method.startswith("sparseleaf"):
        return [_ours(method, n_classes, settings, X, y, parts, max_rounds, done)]
    if method.startswith("XGBoost"):
        return [_xgboost(method, n_classes, settings, X, y, parts, max_rounds, done)]
    if method == "CatBoost":
        return [_catboost(n_classes, settings, X, y, parts, max_rounds, done)]
    if n_classes:
        return [_lightgbm(settings, X, y, parts, max_rounds, done, n_classes)]
    return [  # one model per output
        _lightgbm(settings, X, y[:, j], [(a, b[:, j]) for a, b in parts], max_rounds, done)
        for j in range(y.shape[1])
    ]


def _ours(method, n_classes, settings, X, y, parts, max_rounds, done):
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    curves = Curves(len(parts))
    ends = np.cumsum([0, *(len(b) for _, b in parts)])
    truth = np.concatenate([b for _, b in parts])
    targets = truth
    if n_classes:  # a class without training rows has probability 0
        seen = np.unique(y)
        targets = np.where(np.isin(truth, seen), truth, seen[0])
        column = np.searchsorted(seen, targets)
    called = []

    def measure(_, predicted):
        if not called:  # called once before training for the name of the metric
            called.append(True)
            return "curves", 0.0, False
        if n_classes:
            likelihood = np.where(targets == truth, predicted[np.arange(len(truth)), column], 0)
            loss, error = -np.log(np.maximum(likelihood, 1e-15)), seen[predicted.argmax(axis=1)] != truth
        else:
            loss = error = ((truth - predicted) ** 2).mean(axis=1)
        for part, (a, b) in enumerate(itertools.pairwise(ends)):
            curves.add(part, loss[a:b].mean(), error[a:b].mean())
        return "curves", curves.loss[0][-1], False

    kind = MultiGBDTClassifier if n_classes else MultiGBDTRegressor
    estimator = kind.from_settings(
        {
            **settings,
            "n_trees": max_rounds,
            "eval_metric": measure,
            "n_jobs": threads(X),
            "tree_per_output": method != "sparseleaf",
        }
    )
    rows = np.concatenate([a for a, _ in parts])
    estimator.fit(X, y, eval_set=(rows, targets), callbacks=[lambda _: done(curves) if len(curves) else None])
    return curves


def _xgboost(method, n_classes, settings, X, y, parts, max_rounds, done):
    import xgboost

    curves = Curves(len(parts))

    class Record(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            for part in range(len(parts)):
                log = evals_log[str(part)]
                if n_classes:
                    curves.add(part, log["mlogloss"][-1], log["merror"][-1])
                else:
                    curves.add(part, log["rmse"][-1] ** 2, log["rmse"][-1] ** 2)
            return done(curves)

    parameters = xgboost_parameters(settings, n_classes, vector="vector" in method, threads=threads(X))
    train = xgboost.QuantileDMatrix(X, y, max_bin=parameters["max_bin"])
    evals = [
        (xgboost.QuantileDMatrix(a, b, ref=train, max_bin=parameters["max_bin"]), str(part))
        for part, (a, b) in enumerate(parts)
    ]
    xgboost.train(parameters, train, max_rounds, evals=evals, verbose_eval=False, callbacks=[Record()])
    return curves


def xgboost_parameters(settings, n_classes, *, vector, threads=THREADS):
    """Settings under XGBoost's parameter names."""
    objective = (
        {
            "objective": "multi:softprob",
            "num_class": n_classes,
            "eval_metric": ["mlogloss", "merror"],
        }
        if n_classes
        else {"objective": "reg:squarederror", "eval_metric": "rmse"}
    )
    return objective | {
        "tree_method": "hist",
        "multi_strategy": "multi_output_tree" if vector else "one_output_per_tree",
        "eta": settings["learning_rate"],
        "max_depth": settings["max_depth"],
        "max_leaves": settings["max_leaves"],
        "max_bin": settings["max_bins"],
        "lambda": settings.get("l2", 1.0),
        # the hessian sum of a leaf is its number of rows for squared error; for softmax XGBoost's default
        "min_child_weight": 1 if n_classes else settings["min_samples_leaf"],
        "subsample": settings.get("subsample", 1.0),
        "colsample_bynode": settings.get("colsample_bynode", 1.0),
        "nthread": threads,
    }


def lightgbm_parameters(settings, threads=THREADS):
    """Settings under LightGBM's parameter names."""
    return {
        "learning_rate": settings["learning_rate"],
        "max_depth": settings["max_depth"],
        "num_leaves": settings["max_leaves"],
        "max_bin": settings["max_bins"],
        "min_data_in_bin": 1,
        "min_data_in_leaf": settings["min_samples_leaf"],
        "lambda_l2": settings.get("l2", 1.0),
        "bagging_fraction": settings.get("subsample", 1.0),
        "bagging_freq": 1 if settings.get("subsample", 1.0) < 1 else 0,
        "feature_fraction_bynode": settings.get("colsample_bynode", 1.0),
        "num_threads": threads,
        "verbosity": -1,
    }


def _lightgbm(settings, X, y, parts, max_rounds, done, n_classes=None):
    import lightgbm

    curves = Curves(len(parts))
    metrics = ("multi_logloss", "multi_error") if n_classes else ("l2", "l2")

    def after(environment):
        values = {(part, metric): value for part, metric, value, _ in environment.evaluation_result_list}
        for part in range(len(parts)):
            curves.add(part, *(values[str(part), metric] for metric in metrics))
        if done(curves):
            raise lightgbm.callback.EarlyStopException(
                environment.iteration, environment.evaluation_result_list
            )

    objective = (
        {"objective": "multiclass", "num_class": n_classes} if n_classes else {"objective": "regression"}
    )
    parameters = objective | {"metric": sorted(set(metrics))} | lightgbm_parameters(settings, threads(X))
    train = lightgbm.Dataset(X, y, params=parameters)
    lightgbm.train(
        parameters,
        train,
        max_rounds,
        valid_sets=[lightgbm.Dataset(a, b, reference=train) for a, b in parts],
        valid_names=[str(part) for part in range(len(parts))],
        callbacks=[after],
    )
    return curves


def _catboost(n_classes, settings, X, y, parts, max_rounds, done):
    import catboost

    curves = Curves(len(parts))

    class Record:
        def after_iteration(self, info):
            for part in range(len(parts)):
                log = info.metrics["validation" if len(parts) == 1 else f"validation_{part}"]
                if n_classes:
                    curves.add(part, log["MultiClass"][-1], 1 - log["Accuracy"][-1])
                else:  # MultiRMSE sums the squared errors of a row's outputs
                    square = log["MultiRMSE"][-1] ** 2 / y.shape[1]
                    curves.add(part, square, square)
            return not done(curves)

    subsample = settings.get("subsample", 1.0)
    sampling = {"bootstrap_type": "Bernoulli", "subsample": subsample} if subsample < 1 else {}
    shared = {
        "iterations": max_rounds,
        "learning_rate": settings["learning_rate"],
        "depth": settings["max_depth"],
        "border_count": settings["max_bins"],
        "l2_leaf_reg": settings.get("l2", 1.0),
        "rsm": settings.get("colsample_bynode", 1.0),
        "thread_count": threads(X),
        "random_seed": 0,
        "allow_writing_files": False,
        "verbose": False,
    } | (sampling or {"bootstrap_type": "No"})
    model = (
        catboost.CatBoostClassifier(
            loss_function="MultiClass", custom_metric=["Accuracy"], classes_count=n_classes, **shared
        )
        if n_classes
        else catboost.CatBoostRegressor(loss_function="MultiRMSE", **shared)
    )
    model.fit(X, y, eval_set=list(parts), use_best_model=False, callbacks=[Record()])
    return curves
