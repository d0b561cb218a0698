"""Every estimator with every option, each off its default in some case, on sets made here."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf.data import make_xc

SHOWN = 40
"""Rows whose predictions are kept."""


@functools.cache
def dense_rows(missing=0.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 8)).astype(np.float32)
    X[:, 2] = rng.integers(0, 4, 300)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


@functools.cache
def labels():
    rng = np.random.default_rng(2)
    X = np.nan_to_num(dense_rows())
    return (X @ rng.normal(size=(8, 12)) + 0.5 * rng.normal(size=(300, 12)) > 3).astype(np.int64)


@functools.cache
def numbers():
    rng = np.random.default_rng(3)
    X = dense_rows()
    return X @ rng.normal(size=(8, 5)) + np.sin(3 * X[:, :5]) + 0.1 * rng.normal(size=(300, 5))


@functools.cache
def texts():
    return make_xc(400, 200, 60, seed=0)


@functools.cache
def queries():
    rng = np.random.default_rng(4)
    X = dense_rows()
    grade = (X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=300)).clip(0, 3).astype(int)
    return X, grade, np.repeat(np.arange(30), 10)


def sparse_boosting(**params):
    X, Y = dense_rows(params.pop("missing", 0.0)), sp.csr_matrix(labels())
    if params.pop("texts", False):
        X, Y = texts()
    model = sparseleaf.SparseGBDTClassifier.from_settings({"n_trees": 8, "min_samples_leaf": 5} | params).fit(
        X, Y
    )
    return _topk(model, X)


def regression(**params):
    X = dense_rows(params.pop("missing", 0.0))
    y = numbers()
    if params.pop("positive", False):
        y = np.exp(0.3 * y)
    if params.pop("unknown", False):
        y = y.copy()
        y[::3, 1] = np.nan
    weight = np.linspace(0.5, 2, 300) if params.pop("weighted", False) else None
    model = sparseleaf.MultiGBDTRegressor.from_settings({"n_trees": 8} | params).fit(
        X, y, sample_weight=weight
    )
    return {"predictions": model.predict(X[:SHOWN])}


def classification(**params):
    X = dense_rows()
    y = labels().argmax(axis=1) if params.pop("classes", False) else labels()
    model = sparseleaf.MultiGBDTClassifier.from_settings({"n_trees": 8} | params).fit(X, y)
    return {"predictions": np.asarray(model.predict_proba(X[:SHOWN]))}


def ranking(**params):
    X, grade, qid = queries()
    model = sparseleaf.GBDTRanker.from_settings({"n_trees": 8, "min_samples_leaf": 5} | params).fit(
        X, grade, qid=qid
    )
    return {"predictions": model.predict(X[:SHOWN])}


def ldsm(**params):
    X, Y = texts()
    return _topk(sparseleaf.LdSMClassifier.from_settings({"n_trees": 3, "epochs": 3} | params).fit(X, Y), X)


def ldsm_dense(**params):
    X, Y = dense_rows(), sp.csr_matrix(labels())
    return _topk(sparseleaf.LdSMClassifier.from_settings({"n_trees": 3, "epochs": 3} | params).fit(X, Y), X)


def forest(**params):
    X, Y = texts()
    return _topk(sparseleaf.SketchForestClassifier.from_settings({"n_trees": 4} | params).fit(X, Y), X)


def forest_dense(**params):
    X, Y = dense_rows(), sp.csr_matrix(labels())
    return _topk(
        sparseleaf.SketchForestClassifier.from_settings({"n_trees": 4, "rerank": None} | params).fit(X, Y), X
    )


def _topk(model, X):
    scores = model.decision_function(X[:SHOWN])
    return {"predictions": np.asarray(scores.todense()), "predicted": model.predict(X[:SHOWN]).toarray()}


WITH_SAMPLING = ({"subsample": 0.6}, {"colsample_bytree": 0.5}, {"colsample_bynode": 0.5})

CASES = {
    sparse_boosting: (
        {"colsample_bynode": 1.0},
        {},
        *({"colsample_bynode": 1.0} | one for one in WITH_SAMPLING[:2]),
        {"colsample_bynode": 1.0, "learning_rate": 0.4},
        {"colsample_bynode": 1.0, "leaf_labels": 3},
        {"colsample_bynode": 1.0, "leaf_labels": None},
        {"colsample_bynode": 1.0, "leaf_min_gain": 0.3},
        {"colsample_bynode": 1.0, "max_depth": 2},
        {"colsample_bynode": 1.0, "max_leaves": 5},
        {"colsample_bynode": 1.0, "growth": "best-first", "max_leaves": 6, "max_depth": None},
        {"colsample_bynode": 1.0, "l2": 5.0},
        {"colsample_bynode": 1.0, "min_gain": 2.0},
        {"colsample_bynode": 1.0, "max_bins": 4},
        {"colsample_bynode": 1.0, "loss": "squared_hinge"},
        {"colsample_bynode": 1.0, "split": "full"},
        {"colsample_bynode": 1.0, "split": "exact"},
        {"split": "exact", "exact_step": 10},
        {"colsample_bynode": 1.0, "sketch_dim": 4},
        *(
            {"colsample_bynode": 1.0, "sketch_dim": 5, "reducer": name}
            for name in ("random-projection", "top-outputs", "sampling", "none")
        ),
        {"colsample_bynode": 1.0, "missing": 0.2},
        *({"colsample_bynode": 1.0, "texts": True, "projection": name} for name in ("pca", "random", "leml")),
        {
            "colsample_bynode": 1.0,
            "texts": True,
            "projection": "leml",
            "projection_dim": 5,
            "keep_raw": False,
        },
        {"colsample_bynode": 1.0, "texts": True, "projection": None},
        {"colsample_bynode": 1.0, "texts": True, "projection": None, "rerank": "linear"},
        {"colsample_bynode": 1.0, "texts": True, "projection": "pca", "rerank": "auto"},
    ),
    regression: (
        {},
        *WITH_SAMPLING,
        *({"loss": name} for name in ("absolute", "huber:0.5", "quantile:0.8")),
        {"loss": "poisson", "positive": True},
        {"leaf_outputs": 2},
        {"leaf_outputs": 2, "split": "topk"},
        {"leaf_min_gain": 3.0},
        {"growth": "depth-wise", "max_depth": 3, "max_leaves": None},
        {"max_leaves": 6, "min_samples_leaf": 5},
        {"l2": 10.0, "min_gain": 20.0},
        {"max_bins": 8},
        *(
            {"split": "reduced", "sketch_dim": 3, "reducer": name}
            for name in ("random-projection", "sampling")
        ),
        {"split": "reduced", "sketch_dim": 3, "reducer": "count-sketch"},
        {"split": "reduced", "sketch_dim": 3, "reducer": "top-outputs"},
        {"tree_per_output": True},
        {"categorical_features": [2]},
        {"monotone_constraints": [1, -1, 0, 0, 0, 0, 0, 0]},
        {"monotone_constraints": [1, -1, 0, 0, 0, 0, 0, 0], "tree_per_output": True},
        {"missing": 0.2},
        {"unknown": True},
        {"weighted": True},
    ),
    classification: (
        {},
        {"classes": True},
        {"classes": True, "hessian": "exact"},
        {"classes": True, "leaf_outputs": 3},
        {"classes": True, "min_curvature_leaf": 2.0},
        {"classes": True, "loss": "logistic"},
    ),
    ranking: (
        {},
        {"metric": "map"},
        {"metric": "pairwise", "places": 3},
        {"normalise": False, "sigma": 2.0},
        {"loss": "gbrank", "subsample": 0.7},
        {"loss": "gbrank", "averaged": False, "margin": 0.5},
        {"loss": "smoothdcg", "start_rounds": 3},
        {"subsample": 0.5, "subsample_by": "query"},
    ),
    ldsm: (
        {},
        {"arity": 4},
        {"max_nodes": 15, "min_samples_leaf": 5},
        {"tol": 0.0, "learning_rate": 0.5, "lambda_1": 1.0, "lambda_2": 2.0},
        {"prune": 0.0, "leaf_labels": 3},
        *({"rerank": name} for name in ("centroid", "cosine", "log")),
        {"rerank": "log", "rerank_weight": 0.3, "rerank_scale": 5.0},
    ),
    ldsm_dense: ({},),
    forest: (
        {},
        {"rerank": None},
        {"rerank": None, "arity": 2, "min_samples_leaf": 5},
        {"rerank": None, "max_depth": 2, "leaf_labels": 5},
        {"rerank": None, "sketch_dim": 8, "label_weight": 0.5},
        {"rerank": None, "router_weights": 10, "max_features": 0.5},
        {"rerank": None, "bootstrap": True},
        *({"rerank": name} for name in ("linear", "boosted", "bayes")),
    ),
    forest_dense: ({},),
}


def all_cases():
    """``name, call`` of every case."""
    for function, cases in CASES.items():
        for params in cases:
            text = " ".join(f"{name}={value}" for name, value in params.items())
            yield f"{function.__name__} {text}".strip(), functools.partial(function, **params)
