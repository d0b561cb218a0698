"""XGBoost, LightGBM and CatBoost: the suite's settings in their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._peers import lightgbm_parameters, xgboost_parameters
from benchmarks.systems.base import Task, top


class XGBoost:
    def __init__(self, task: Task, *, vector: bool) -> None:
        self.task, self.vector = task, vector

    def parameters(self, split: Any) -> dict[str, Any]:
        kind = self.task.kind
        n_classes = int(split.Y.max()) + 1 if kind == "classes" else None
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or 0}  # 0 is no limit
        found = xgboost_parameters(settings, n_classes, vector=self.vector, threads=self.task.threads)
        found |= {"seed": split.seed, "colsample_bytree": self.task.settings.get("colsample_bytree", 1.0)}
        del found["eval_metric"]  # nothing is watched
        if kind == "labels":
            found |= {"objective": "binary:logistic", "min_child_weight": 1}
        elif kind == "ranking":
            found |= {"objective": "rank:ndcg", "min_child_weight": 1, "grow_policy": "lossguide"}
        return found

    def fit(self, split: Any) -> None:
        import xgboost

        pace, wanted = self.task.pace, self.task.n_trees

        class Watch(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return pace.after(epoch + 1, wanted)

        parameters = self.parameters(split)
        targets = split.Y.toarray() if sp.issparse(split.Y) else split.Y
        rows = xgboost.QuantileDMatrix(split.X, targets, max_bin=parameters["max_bin"], group=split.group)
        self.booster = xgboost.train(parameters, rows, wanted, callbacks=[Watch()])

    def predict(self, X: Any) -> Any:
        found = self.booster.inplace_predict(X)
        if self.task.kind == "labels":
            return top(found)
        return found.argmax(axis=1) if self.task.kind == "classes" else found

    def save(self, folder: Path) -> None:
        self.booster.save_model(folder / "model.ubj")


class LightGBM:
    """One model for classes and grades; else one for every output, in turn: its threads do not bear ours."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import lightgbm

        kind = self.task.kind
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or -1}  # -1 is no limit
        together = kind in ("classes", "ranking")
        objective = {"labels": "binary", "numbers": "regression", "classes": "multiclass"}
        parameters = lightgbm_parameters(settings, self.task.threads) | {
            "objective": objective.get(kind, "lambdarank"),
            "seed": split.seed,
            "feature_fraction": settings.get("colsample_bytree", 1.0),
        }
        if together:
            if kind == "classes":
                parameters["num_class"] = int(split.Y.max()) + 1
            pace, wanted = self.task.pace, self.task.n_trees

            def watch(environment: Any) -> None:
                if pace.after(environment.iteration + 1, wanted):
                    raise lightgbm.callback.EarlyStopException(environment.iteration, [])

            rows = lightgbm.Dataset(split.X, split.Y, group=split.group, params=parameters)
            self.boosters = [lightgbm.train(parameters, rows, wanted, callbacks=[watch])]
            return
        columns = split.Y.tocsc() if sp.issparse(split.Y) else split.Y
        self.n_outputs, self.boosters = columns.shape[1], {}
        rows = lightgbm.Dataset(split.X, params=parameters)  # binned once
        for j in range(self.n_outputs):
            y = columns[:, [j]].toarray().ravel() if sp.issparse(columns) else columns[:, j]
            if kind == "labels" and not y.any():
                continue  # a label without rows is never predicted
            rows.set_label(y)
            model = lightgbm.train(parameters, rows, self.task.n_trees, keep_training_booster=True)
            self.boosters[j] = model.free_dataset()
            self.task.pace.check(len(self.boosters), self.n_outputs, "outputs")

    def predict(self, X: Any) -> Any:
        if self.task.kind in ("classes", "ranking"):
            found = self.boosters[0].predict(X, num_threads=self.task.threads)
            return found.argmax(axis=1) if self.task.kind == "classes" else found
        found = np.full((X.shape[0], self.n_outputs), -np.inf if self.task.kind == "labels" else 0.0)
        for j, model in self.boosters.items():
            found[:, j] = model.predict(X, num_threads=self.task.threads)
        return top(found) if self.task.kind == "labels" else found

    def save(self, folder: Path) -> None:
        models = self.boosters.values() if isinstance(self.boosters, dict) else self.boosters
        for j, model in enumerate(models):
            model.save_model(folder / f"{j}.txt")


class CatBoost:
    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import catboost

        settings, pace = self.task.settings, self.task.pace

        class Watch:
            def after_iteration(self, info: Any) -> bool:
                return not pace.after(info.iteration, settings["n_trees"])

        loss = {"labels": "MultiLogloss", "classes": "MultiClass", "numbers": "MultiRMSE"}
        parameters = {
            "iterations": settings["n_trees"],
            "learning_rate": settings["learning_rate"],
            "depth": settings.get("max_depth") or 6,
            "border_count": min(settings.get("max_bins", 254), 254),
            "l2_leaf_reg": settings.get("l2", 1.0),
            "rsm": settings.get("colsample_bytree", 1.0) * settings.get("colsample_bynode", 1.0),
            "loss_function": loss.get(self.task.kind, "YetiRank"),
            "thread_count": self.task.threads,
            "random_seed": split.seed,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        subsample = settings.get("subsample", 1.0)
        if subsample < 1:
            parameters |= {"bootstrap_type": "Bernoulli", "subsample": subsample}
        else:
            parameters |= {"bootstrap_type": "No"}
        more = {}
        if split.group is not None:
            more["group_id"] = np.repeat(np.arange(len(split.group)), split.group)
        targets = split.Y.toarray().astype(np.int8) if sp.issparse(split.Y) else split.Y
        self.pruned = None
        if self.task.kind == "labels":  # it refuses outputs that never change
            self.pruned = np.flatnonzero(np.ptp(targets, axis=0))
            targets = targets[:, self.pruned]
        self.model = catboost.CatBoost(parameters)
        self.model.fit(catboost.Pool(split.X, targets, **more), callbacks=[Watch()])

    def predict(self, X: Any) -> Any:
        found = self.model.predict(X, thread_count=self.task.threads)
        if self.task.kind == "labels":
            return np.append(self.pruned, -1)[top(found)]
        return found.argmax(axis=1) if self.task.kind == "classes" else found

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / "model.cbm"))
