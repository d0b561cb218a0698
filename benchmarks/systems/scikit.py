"""scikit-learn: forests and HistGradientBoosting; and two baselines, nearest neighbours and label centroids."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.systems.base import Task, dense, top

NEIGHBOURS = 50
BLOCK_ROWS = 1_000


class Sklearn:
    """Saved with joblib."""

    task: Task
    model: Any

    def save(self, folder: Path) -> None:
        import joblib

        joblib.dump(self.model, folder / "model.joblib")


class Forest(Sklearn):
    """Grown a few trees at a time (``warm_start``) to respect the time budget.

    Multi-label: as a multi-output regressor, which has the same splits as the classifier and half the memory.
    """

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name

    def fit(self, split: Any) -> None:
        import sklearn.ensemble

        settings = {"n_estimators": 100} | self.task.overrides
        kind = "Classifier" if self.task.kind == "multiclass" else "Regressor"
        if self.task.kind == "multilabel":
            settings = {"max_features": "sqrt", "min_samples_leaf": 5} | settings
        n_trees = settings.pop("n_estimators")
        self.model = getattr(sklearn.ensemble, self.name + kind)(
            **settings, warm_start=True, n_jobs=self.task.threads, random_state=split.seed
        )
        targets = split.Y.toarray() if sp.issparse(split.Y) else split.Y
        budget, done, over = self.task.budget, 0, False
        while done < n_trees and not over:
            elapsed = time.perf_counter() - budget.started
            batch = int(done * budget.seconds / 20 / elapsed) if done else 0  # a twentieth of the budget
            done = min(n_trees, done + max(2 * self.task.threads, batch))
            self.model.set_params(n_estimators=done).fit(split.X, targets)
            over = budget.after_round(done, n_trees)

    def predict(self, X: Any) -> Any:
        predictions = self.model.predict(X)
        return top(predictions) if self.task.kind == "multilabel" else predictions


class HistGradientBoosting(Sklearn):
    """One model for multiclass, otherwise one per output."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        settings = self.task.settings
        parameters = {
            "max_iter": settings["n_trees"],
            "learning_rate": settings["learning_rate"],
            "max_depth": settings["max_depth"],
            "max_leaf_nodes": settings["max_leaves"],
            "min_samples_leaf": settings["min_samples_leaf"],
            "l2_regularization": settings.get("l2", 1.0),
            "max_bins": settings["max_bins"],
            "max_features": settings.get("colsample_bynode", 1.0),
            "early_stopping": False,
            "random_state": split.seed,
        }
        X = dense(split.X)
        if self.task.kind == "multiclass":
            self.model = HistGradientBoostingClassifier(**parameters).fit(X, split.Y)
            return
        kind = (
            HistGradientBoostingRegressor
            if self.task.kind == "regression"
            else HistGradientBoostingClassifier
        )
        columns = split.Y.tocsc() if sp.issparse(split.Y) else split.Y
        self.model = {}
        for j in range(columns.shape[1]):
            y = columns[:, [j]].toarray().ravel() if sp.issparse(columns) else columns[:, j]
            if len(np.unique(y)) > 1:
                self.model[j] = kind(**parameters).fit(X, y)
            self.task.budget.check_projection(j + 1, columns.shape[1], "outputs")
        self.n_outputs = columns.shape[1]

    def predict(self, X: Any) -> Any:
        X = dense(X)
        if self.task.kind == "multiclass":
            return self.model.predict(X)
        labels = self.task.kind == "multilabel"
        outputs = np.full((len(X), self.n_outputs), -np.inf if labels else 0.0)
        for j, model in self.model.items():
            outputs[:, j] = model.decision_function(X) if labels else model.predict(X)
        return top(outputs) if labels else outputs


class NearestNeighbours:
    """Multi-label: votes weighted by cosine; otherwise scikit-learn's estimator on standardised features."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
        from sklearn.pipeline import make_pipeline

        self.Y = split.Y
        if self.task.kind == "multilabel":
            index = NearestNeighbors(n_neighbors=NEIGHBOURS, metric="cosine", algorithm="brute")
            self.model = index.set_params(n_jobs=self.task.threads).fit(split.X)
            return
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import StandardScaler

        kind = KNeighborsClassifier if self.task.kind == "multiclass" else KNeighborsRegressor
        settings = {"n_neighbors": 5, "scale": True} | self.task.overrides
        scaler = [StandardScaler()] if settings.pop("scale") else []
        estimator = kind(**settings, n_jobs=self.task.threads)
        steps = [SimpleImputer(keep_empty_features=True), *scaler, estimator]
        self.model = make_pipeline(*steps).fit(split.X, split.Y)

    def predict(self, X: Any) -> Any:
        if self.task.kind != "multilabel":
            return self.model.predict(X)
        blocks = []
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            distances, neighbours = self.model.kneighbors(X[begin : begin + BLOCK_ROWS])
            n, k = neighbours.shape
            votes = sp.csr_matrix(
                (1 - distances.ravel(), neighbours.ravel(), np.arange(0, n * k + 1, k)),
                (n, self.Y.shape[0]),
            )
            blocks.append(top((votes @ self.Y).toarray()))
        return np.concatenate(blocks)

    def save(self, folder: Path) -> None:
        import joblib

        joblib.dump((self.model, self.Y), folder / "model.joblib")


class LabelCentroids(Sklearn):
    """Multi-label: cosine to the mean row of a label; multiclass: scikit-learn's NearestCentroid."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.neighbors import NearestCentroid
        from sklearn.preprocessing import normalize

        if self.task.kind == "multiclass":
            self.model = NearestCentroid().fit(split.X, split.Y)
        else:
            self.model = normalize(split.Y.T.tocsr() @ normalize(sp.csr_matrix(split.X))).T.tocsr()

    def predict(self, X: Any) -> Any:
        if self.task.kind == "multiclass":
            return self.model.predict(X)
        blocks = (X[a : a + BLOCK_ROWS] for a in range(0, X.shape[0], BLOCK_ROWS))
        return np.concatenate([top((sp.csr_matrix(block) @ self.model).toarray()) for block in blocks])
