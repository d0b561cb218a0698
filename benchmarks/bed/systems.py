"""The systems of the test bed, all at their defaults but for the number of threads and the seed.

``SYSTEMS[name](kind, seed, n_jobs)`` makes a system; ``fit(split)`` trains it and ``predict(X)`` returns what
`benchmarks.bed.errors` evaluates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OURS = "sparseleaf"
BEFORE = "sparseleaf 0.1"
BEFORE_SETTINGS = {"n_trees": 100}
"""The defaults of version 0.1: an explicit number of trees restores the others."""


class Sparseleaf:
    def __init__(self, kind: str, seed: int, n_jobs: int, settings: dict[str, Any]) -> None:
        from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor

        estimators = {"regression": MultiGBDTRegressor, "ranking": GBDTRanker}
        self.kind = kind
        estimator = estimators.get(kind, MultiGBDTClassifier)
        self.model = estimator.from_settings({**settings, "random_state": seed, "n_jobs": n_jobs})

    def fit(self, split: Any) -> None:
        groups = {} if split.group is None else {"group": split.group}
        self.model.fit(split.X, split.Y, **groups)

    def predict(self, X: Any) -> Any:
        if self.kind == "multilabel":
            return self.model.predict_proba(X)
        predicted = self.model.predict(X)
        return predicted[:, None] if self.kind == "regression" and predicted.ndim == 1 else predicted


class Joint:
    """A model for all outputs, with scikit-learn's API."""

    def __init__(self, kind: str, regressor: Any, classifier: Any) -> None:
        self.kind = kind
        self.model = regressor if kind == "regression" else classifier

    def fit(self, split: Any) -> None:
        Y = split.Y.ravel() if self.kind == "regression" and split.Y.shape[1] == 1 else split.Y
        self.n_outputs = 1 if Y.ndim == 1 else Y.shape[1]
        self.model.fit(split.X, Y.astype(np.int64) if self.kind == "multilabel" else Y)

    def predict(self, X: Any) -> Any:
        if self.kind == "multilabel":
            probabilities = self.model.predict_proba(X)
            if isinstance(probabilities, list):  # forests: one array per label, with a column per class seen
                columns = zip(probabilities, self.model.classes_, strict=True)
                return np.stack([_of_one(p, classes) for p, classes in columns], 1)
            return probabilities
        predicted = np.asarray(self.model.predict(X))
        return predicted.reshape(len(X), self.n_outputs) if self.kind == "regression" else predicted.ravel()


def _of_one(probabilities: Any, classes: Any) -> Any:
    at = np.flatnonzero(classes == 1)
    return probabilities[:, at[0]] if len(at) else np.zeros(len(probabilities))


class PerOutput:
    """One model per output of a regression or label; one for classes."""

    def __init__(
        self, kind: str, make_regressor: Callable[[], Any], make_classifier: Callable[[], Any]
    ) -> None:
        self.kind, self.regressor, self.classifier = kind, make_regressor, make_classifier

    def fit(self, split: Any) -> None:
        if self.kind == "multiclass":
            self.models = [self.classifier().fit(split.X, split.Y)]
            return
        make = self.regressor if self.kind == "regression" else self.classifier
        self.models = [make().fit(split.X, y) for y in split.Y.T]

    def predict(self, X: Any) -> Any:
        if self.kind == "multiclass":
            return self.models[0].predict(X)
        if self.kind == "regression":
            return np.stack([model.predict(X) for model in self.models], 1)
        return np.stack([_of_one(model.predict_proba(X), model.classes_) for model in self.models], 1)


class Ranker:
    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, split: Any) -> None:
        self.model.fit(split.X, split.Y, group=split.group)

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)


class CatBoostRanker(Ranker):
    def fit(self, split: Any) -> None:
        queries = np.repeat(np.arange(len(split.group)), split.group)
        self.model.fit(split.X, split.Y, group_id=queries)


def _forest(name: str) -> Callable[[str, int, int], Any]:
    def make(kind: str, seed: int, n_jobs: int) -> Any:
        import sklearn.ensemble

        models = (
            getattr(sklearn.ensemble, f"{name}{task}")(random_state=seed, n_jobs=n_jobs)
            for task in ("Regressor", "Classifier")
        )
        return Joint(kind, *models)

    return make


def _hist(kind: str, seed: int, n_jobs: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return PerOutput(
        kind,
        lambda: HistGradientBoostingRegressor(random_state=seed),
        lambda: HistGradientBoostingClassifier(random_state=seed),
    )


def _lightgbm(kind: str, seed: int, n_jobs: int) -> Any:
    import lightgbm

    settings = {"random_state": seed, "n_jobs": n_jobs, "verbosity": -1}
    if kind == "ranking":
        return Ranker(lightgbm.LGBMRanker(**settings))
    return PerOutput(
        kind,
        lambda: lightgbm.LGBMRegressor(**settings),
        lambda: lightgbm.LGBMClassifier(**settings),
    )


def _xgboost(strategy: str) -> Callable[[str, int, int], Any]:
    def make(kind: str, seed: int, n_jobs: int) -> Any:
        import xgboost

        settings: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
        if kind == "ranking":
            return Ranker(xgboost.XGBRanker(**settings))
        settings["multi_strategy"] = strategy
        return Joint(kind, xgboost.XGBRegressor(**settings), xgboost.XGBClassifier(**settings))

    return make


class CatBoostLabels(Joint):
    """CatBoost rejects labels that are constant in the training set."""

    def fit(self, split: Any) -> None:
        self.n_labels = split.Y.shape[1]
        self.varying = np.flatnonzero(np.ptp(split.Y, axis=0))
        self.model.fit(split.X, split.Y[:, self.varying].astype(np.int8))

    def predict(self, X: Any) -> Any:
        probabilities = np.zeros((len(X), self.n_labels))
        probabilities[:, self.varying] = self.model.predict_proba(X)
        return probabilities


def _catboost(kind: str, seed: int, n_jobs: int) -> Any:
    import catboost

    settings = {"random_seed": seed, "thread_count": n_jobs, "verbose": False, "allow_writing_files": False}
    if kind == "ranking":
        return CatBoostRanker(catboost.CatBoostRanker(**settings))
    if kind == "multilabel":
        return CatBoostLabels(
            kind, None, catboost.CatBoostClassifier(loss_function="MultiLogloss", **settings)
        )
    return Joint(
        kind,
        catboost.CatBoostRegressor(loss_function="MultiRMSE", **settings),
        catboost.CatBoostClassifier(loss_function="MultiClass", **settings),
    )


NOT_FOR_RANKING = ("random forest", "extra trees", "HistGradientBoosting", "XGBoost (vector leaves)")

SYSTEMS: dict[str, Callable[[str, int, int], Any]] = {
    OURS: lambda kind, seed, n_jobs: Sparseleaf(kind, seed, n_jobs, {}),
    BEFORE: lambda kind, seed, n_jobs: Sparseleaf(kind, seed, n_jobs, BEFORE_SETTINGS),
    "random forest": _forest("RandomForest"),
    "extra trees": _forest("ExtraTrees"),
    "HistGradientBoosting": _hist,
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost("one_output_per_tree"),
    "XGBoost (vector leaves)": _xgboost("multi_output_tree"),
    "CatBoost": _catboost,
}


def takes(system: str, kind: str) -> bool:
    return kind != "ranking" or system not in NOT_FOR_RANKING
