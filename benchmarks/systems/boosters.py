"""XGBoost, LightGBM and CatBoost: the suite's settings under their parameter names."""

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
        n_classes = int(split.Y.max()) + 1 if kind == "multiclass" else None
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or 0}  # 0 is no limit
        parameters = xgboost_parameters(settings, n_classes, vector=self.vector, threads=self.task.threads)
        parameters |= {
            "seed": split.seed,
            "colsample_bytree": self.task.settings.get("colsample_bytree", 1.0),
        }
        del parameters["eval_metric"]  # there is no validation set
        if kind == "multilabel":
            parameters |= {"objective": "binary:logistic", "min_child_weight": 1}
        elif kind == "ranking":
            parameters |= {"objective": "rank:ndcg", "min_child_weight": 1, "grow_policy": "lossguide"}
        return parameters

    def fit(self, split: Any) -> None:
        import xgboost

        budget, n_rounds = self.task.budget, self.task.n_trees

        class StopAtBudget(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return budget.after_round(epoch + 1, n_rounds)

        parameters = self.parameters(split)
        targets = split.Y.toarray() if sp.issparse(split.Y) else split.Y
        rows = xgboost.QuantileDMatrix(split.X, targets, max_bin=parameters["max_bin"], group=split.group)
        self.booster = xgboost.train(parameters, rows, n_rounds, callbacks=[StopAtBudget()])

    def predict(self, X: Any) -> Any:
        scores = self.booster.inplace_predict(X)
        if self.task.kind == "multilabel":
            return top(scores)
        return scores.argmax(axis=1) if self.task.kind == "multiclass" else scores

    def save(self, folder: Path) -> None:
        self.booster.save_model(folder / "model.ubj")


class LightGBM:
    """One model for multiclass and ranking, otherwise one per output, trained one after another."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import lightgbm

        kind = self.task.kind
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or -1}  # -1 is no limit
        single_model = kind in ("multiclass", "ranking")
        objective = {"multilabel": "binary", "regression": "regression", "multiclass": "multiclass"}
        parameters = lightgbm_parameters(settings, self.task.threads) | {
            "objective": objective.get(kind, "lambdarank"),
            "seed": split.seed,
            "feature_fraction": settings.get("colsample_bytree", 1.0),
        }
        if single_model:
            if kind == "multiclass":
                parameters["num_class"] = int(split.Y.max()) + 1
            budget, n_rounds = self.task.budget, self.task.n_trees

            def stop_at_budget(environment: Any) -> None:
                if budget.after_round(environment.iteration + 1, n_rounds):
                    raise lightgbm.callback.EarlyStopException(environment.iteration, [])

            rows = lightgbm.Dataset(split.X, split.Y, group=split.group, params=parameters)
            self.boosters = [lightgbm.train(parameters, rows, n_rounds, callbacks=[stop_at_budget])]
            return
        columns = split.Y.tocsc() if sp.issparse(split.Y) else split.Y
        self.n_outputs, self.boosters = columns.shape[1], {}
        rows = lightgbm.Dataset(split.X, params=parameters)  # binned once for all outputs
        for j in range(self.n_outputs):
            y = columns[:, [j]].toarray().ravel() if sp.issparse(columns) else columns[:, j]
            if kind == "multilabel" and not y.any():
                continue  # labels without positive rows are never predicted
            rows.set_label(y)
            model = lightgbm.train(parameters, rows, self.task.n_trees, keep_training_booster=True)
            self.boosters[j] = model.free_dataset()
            self.task.budget.check_projection(len(self.boosters), self.n_outputs, "outputs")

    def predict(self, X: Any) -> Any:
        if self.task.kind in ("multiclass", "ranking"):
            scores = self.boosters[0].predict(X, num_threads=self.task.threads)
            return scores.argmax(axis=1) if self.task.kind == "multiclass" else scores
        scores = np.full((X.shape[0], self.n_outputs), -np.inf if self.task.kind == "multilabel" else 0.0)
        for j, model in self.boosters.items():
            scores[:, j] = model.predict(X, num_threads=self.task.threads)
        return top(scores) if self.task.kind == "multilabel" else scores

    def save(self, folder: Path) -> None:
        models = self.boosters.values() if isinstance(self.boosters, dict) else self.boosters
        for j, model in enumerate(models):
            model.save_model(folder / f"{j}.txt")


class CatBoost:
    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import catboost

        settings, budget = self.task.settings, self.task.budget

        class StopAtBudget:
            def after_iteration(self, info: Any) -> bool:
                return not budget.after_round(info.iteration, settings["n_trees"])

        loss = {"multilabel": "MultiLogloss", "multiclass": "MultiClass", "regression": "MultiRMSE"}
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
        self.varying = None
        if self.task.kind == "multilabel":  # CatBoost rejects constant outputs
            self.varying = np.flatnonzero(np.ptp(targets, axis=0))
            targets = targets[:, self.varying]
        self.model = catboost.CatBoost(parameters)
        self.model.fit(catboost.Pool(split.X, targets, **more), callbacks=[StopAtBudget()])

    def predict(self, X: Any) -> Any:
        scores = self.model.predict(X, thread_count=self.task.threads)
        if self.task.kind == "multilabel":
            return np.append(self.varying, -1)[top(scores)]
        return scores.argmax(axis=1) if self.task.kind == "multiclass" else scores

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / "model.cbm"))
