"""One way to train ours, XGBoost, LightGBM and CatBoost and to watch them on held-out rows after every round.

`watch` takes settings in our words (`max_depth`, `max_leaves`, …) and gives each library the same in its own. A peer is
imported only when it is asked for.
"""

from __future__ import annotations

import itertools

import numpy as np

THREADS = 2


def threads(X):
    """For a handful of rows a second thread costs more than it brings, most of all the libraries on OpenMP."""
    return 1 if len(X) < 5_000 else THREADS


class Curves:
    """Loss and error of every part (rows to watch) after every round; regression has one of the two, its squares."""

    def __init__(self, n_parts):
        self.loss = [[] for _ in range(n_parts)]
        self.error = [[] for _ in range(n_parts)]

    def add(self, part, loss, error):
        self.loss[part].append(float(loss))
        self.error[part].append(float(error))

    def __len__(self):
        return len(self.loss[-1])


def best_round(values, patience):
    """Rounds, from 1, of the first best value that no better one follows within ``patience`` rounds."""
    best = 0
    for i, value in enumerate(values):
        if value < values[best]:
            best = i
        elif i - best >= patience:
            break
    return best + 1


def exhausted(values, patience):
    """Whether training that watches these values would have stopped by now."""
    return len(values) - best_round(values, patience) >= patience


def watch(method, n_classes, settings, X, y, parts, max_rounds, done):
    """Train until ``done(curves)`` or ``max_rounds``; a list of `Curves`, one for outputs that are trained together.

    With ``n_classes`` y are class numbers, else a matrix of outputs. ``parts``: pairs (X, y) to measure on.
    """
    if method.startswith("ours"):
        return [_ours(method, n_classes, settings, X, y, parts, max_rounds, done)]
    if method.startswith("XGBoost"):
        return [_xgboost(method, n_classes, settings, X, y, parts, max_rounds, done)]
    if method == "CatBoost":
        return [_catboost(n_classes, settings, X, y, parts, max_rounds, done)]
    if n_classes:
        return [_lightgbm(settings, X, y, parts, max_rounds, done, n_classes)]
    return [  # it has no trees for several outputs: a model each
        _lightgbm(settings, X, y[:, j], [(a, b[:, j]) for a, b in parts], max_rounds, done)
        for j in range(y.shape[1])
    ]


def _ours(method, n_classes, settings, X, y, parts, max_rounds, done):
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    curves = Curves(len(parts))
    ends = np.cumsum([0, *(len(b) for _, b in parts)])
    truth = np.concatenate([b for _, b in parts])
    given = truth
    if n_classes:  # a class without training rows gets no probability
        seen = np.unique(y)
        given = np.where(np.isin(truth, seen), truth, seen[0])
        column = np.searchsorted(seen, given)
    asked = []

    def measure(_, predicted):
        if not asked:  # before training, to learn the metric's name
            asked.append(True)
            return "watched", 0.0, False
        if n_classes:
            likely = np.where(given == truth, predicted[np.arange(len(truth)), column], 0)
            loss, error = -np.log(np.maximum(likely, 1e-15)), seen[predicted.argmax(axis=1)] != truth
        else:
            loss = error = ((truth - predicted) ** 2).mean(axis=1)
        for part, (a, b) in enumerate(itertools.pairwise(ends)):
            curves.add(part, loss[a:b].mean(), error[a:b].mean())
        return "watched", curves.loss[0][-1], False

    estimator = (MultiGBDTClassifier if n_classes else MultiGBDTRegressor)(
        **settings,
        n_trees=max_rounds,
        eval_metric=measure,
        n_jobs=threads(X),
        tree_per_output=method != "ours",
    )
    rows = np.concatenate([a for a, _ in parts])
    estimator.fit(X, y, eval_set=(rows, given), callbacks=[lambda _: done(curves) if len(curves) else None])
    return curves


def _xgboost(method, n_classes, settings, X, y, parts, max_rounds, done):
    import xgboost

    curves = Curves(len(parts))

    class Watch(xgboost.callback.TrainingCallback):
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
    watched = [
        (xgboost.QuantileDMatrix(a, b, ref=train, max_bin=parameters["max_bin"]), str(part))
        for part, (a, b) in enumerate(parts)
    ]
    xgboost.train(parameters, train, max_rounds, evals=watched, verbose_eval=False, callbacks=[Watch()])
    return curves


def xgboost_parameters(settings, n_classes, *, vector, threads=THREADS):
    """Our settings in XGBoost's words."""
    goal = (
        {
            "objective": "multi:softprob",
            "num_class": n_classes,
            "eval_metric": ["mlogloss", "merror"],
        }
        if n_classes
        else {"objective": "reg:squarederror", "eval_metric": "rmse"}
    )
    return goal | {
        "tree_method": "hist",
        "multi_strategy": "multi_output_tree" if vector else "one_output_per_tree",
        "eta": settings["learning_rate"],
        "max_depth": settings["max_depth"],
        "max_leaves": settings["max_leaves"],
        "max_bin": settings["max_bins"],
        "lambda": settings.get("l2", 1.0),
        # a leaf's rows: the sum of curvatures for squares; for classes there is no such limit, and 1 is usual
        "min_child_weight": 1 if n_classes else settings["min_samples_leaf"],
        "subsample": settings.get("subsample", 1.0),
        "colsample_bynode": settings.get("colsample_bynode", 1.0),
        "nthread": threads,
    }


def lightgbm_parameters(settings, threads=THREADS):
    """Our settings in LightGBM's words."""
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
        found = {(part, metric): value for part, metric, value, _ in environment.evaluation_result_list}
        for part in range(len(parts)):
            curves.add(part, *(found[str(part), metric] for metric in metrics))
        if done(curves):
            raise lightgbm.callback.EarlyStopException(
                environment.iteration, environment.evaluation_result_list
            )

    goal = {"objective": "multiclass", "num_class": n_classes} if n_classes else {"objective": "regression"}
    parameters = goal | {"metric": sorted(set(metrics))} | lightgbm_parameters(settings, threads(X))
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

    class Watch:
        def after_iteration(self, info):
            for part in range(len(parts)):
                log = info.metrics["validation" if len(parts) == 1 else f"validation_{part}"]
                if n_classes:
                    curves.add(part, log["MultiClass"][-1], 1 - log["Accuracy"][-1])
                else:  # its MultiRMSE adds up the squares of a row's outputs
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
    model.fit(X, y, eval_set=list(parts), use_best_model=False, callbacks=[Watch()])
    return curves
