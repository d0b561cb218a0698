"""Trainings that several processes do together: what each of them runs, and what one process alone must equal.

Run as ``mpiexec -n P python jobs.py LAYOUT NAME...`` it prints, for each name, a digest of the model file.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sparseleaf import (
    GBDTRanker,
    LdSMClassifier,
    MultiForestClassifier,
    MultiForestRegressor,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)

N_ROWS = 420
QUERY = 10


def make_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 7)).astype(np.float32)
    X[:, 5] = np.round(X[:, 5])
    scores = X @ rng.normal(size=(7, 12)) + rng.normal(size=(N_ROWS, 12))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, scores, rng.random(N_ROWS).astype(np.float32)


def make_jobs():
    """By name: the estimator, and what ``fit`` takes besides where it runs, one entry a row."""
    X, scores, weights = make_rows()
    few = {"n_trees": 3, "min_samples_leaf": 3, "max_depth": 5}
    labels = sp.csr_matrix(scores > 2.5)
    names = [[f"label {j}" for j in labels[i].indices] for i in range(N_ROWS)]
    numbers = scores[:, :4].astype(np.float32)
    partly = numbers.copy()
    partly[:90, 1] = np.nan  # only some parts have unknown targets
    frequent = np.argmax(scores[:, :4] + [2, 0, 0, -3], axis=1)  # some parts may not have the last class
    grades = np.clip(np.round(np.abs(scores[:, 0])), 0, 4)
    known = np.nan_to_num(X)
    text = sp.csr_matrix(np.where(np.abs(known) > 0.8, known, 0))
    return {
        "sparse": (SparseGBDTClassifier(**few), {"X": X, "y": labels}),
        "sampled": (
            SparseGBDTClassifier(
                n_trees=3, min_samples_leaf=3, subsample=0.6, colsample_bytree=0.6, max_leaves=12, leaf_labels=3,
                advanced={"colsample_bynode": 0.7, "growth": "best-first", "sketch": "sampling", "sketch_dim": 5},
            ),
            {"X": X, "y": labels},
        ),
        "names": (SparseGBDTClassifier(loss="squared_hinge", max_bins=16, **few), {"X": X, "y": names}),
        "leml": (
            SparseGBDTClassifier(projection="leml", projection_dim=3, advanced={"keep_raw": True}, **few),
            {"X": text, "y": labels},
        ),
        "reranked": (SparseGBDTClassifier(rerank="cosine", projection=None, **few), {"X": text, "y": labels}),
        "exact": (SparseGBDTClassifier(advanced={"split": "exact"}, subsample=0.7, **few), {"X": X, "y": labels}),
        "weights": (
            SparseGBDTClassifier(class_weight="balanced", **few), {"X": X, "y": labels, "sample_weight": weights},
        ),
        "weights, exact": (
            SparseGBDTClassifier(advanced={"split": "exact"}, **few), {"X": X, "y": labels, "sample_weight": weights},
        ),
        "weights, forest": (
            SketchForestClassifier(n_trees=3, class_weight="balanced"),
            {"X": text, "y": names, "sample_weight": weights},
        ),
        "forest": (SketchForestClassifier(n_trees=5), {"X": text, "y": labels}),
        "ldsm": (LdSMClassifier(n_trees=5, epochs=2), {"X": text, "y": names}),
        "forest of outputs": (
            MultiForestRegressor(n_trees=5, max_features=0.5, categorical_features=[5]), {"X": X, "y": partly},
        ),
        "random forest of classes": (
            MultiForestClassifier(n_trees=5, splitter="random", class_weight="balanced"),
            {"X": X, "y": np.array(list("dacb"))[frequent], "sample_weight": weights},
        ),
        "multi": (MultiGBDTRegressor(**few), {"X": X, "y": numbers}),
        "unknown": (MultiGBDTRegressor(subsample=0.7, **few), {"X": X, "y": partly}),
        "absolute": (
            MultiGBDTRegressor(loss="absolute", **few), {"X": X, "y": numbers, "sample_weight": weights},
        ),
        "log-cosh": (MultiGBDTRegressor(loss="log-cosh", **few), {"X": X, "y": partly}),
        "monotone": (MultiGBDTRegressor(monotone_constraints=[1, -1, 0, 1, 0, 1, 0], **few), {"X": X, "y": numbers}),
        "per output": (MultiGBDTRegressor(advanced={"tree_per_output": True}, **few), {"X": X, "y": numbers}),
        "sketch": (
            MultiGBDTRegressor(advanced={"split": "sketch", "sketch_dim": 2, "sketch": "top-outputs"}, **few),
            {"X": X, "y": scores, "sample_weight": weights},
        ),
        "balanced": (
            MultiGBDTClassifier(class_weight="balanced", **few), {"X": X, "y": labels, "sample_weight": weights},
        ),
        "bagged": (
            MultiGBDTRegressor(learning_rate=0.6, n_models=2), {"X": X, "y": partly, "sample_weight": weights},
        ),
        "separate": (  # unrelated outputs, which get trees of their own
            MultiGBDTRegressor(learning_rate=0.6, n_models=2), {"X": X, "y": np.sin(3 * known[:, :4])},
        ),
        "bagged classes": (
            MultiGBDTClassifier(learning_rate=0.6, n_models=2),
            {"X": X, "y": np.array(list("dacb"))[frequent]},
        ),
        "bagged rank": (
            GBDTRanker(n_trees=3, n_models=2, subsample=0.7),
            {"X": X, "y": grades, "qid": np.repeat(np.arange(N_ROWS // QUERY), QUERY)},
        ),
        "classes": (MultiGBDTClassifier(**few), {"X": X, "y": np.array(list("dacb"))[frequent]}),
        "categories": (
            MultiGBDTRegressor(categorical_features=[5], **few), {"X": X, "y": numbers[:, 0]},
        ),
        "rank": (
            GBDTRanker(subsample=0.8, advanced={"subsample_by": "query"}, **few),
            {"X": X, "y": grades, "qid": np.repeat(np.arange(N_ROWS // QUERY), QUERY)[::-1].copy()},
        ),
    }  # fmt: skip


ALL = ("sparse", "sampled", "names", "leml", "reranked", "exact", "ldsm", "forest", "multi",
       "unknown", "absolute", "log-cosh", "monotone", "per output", "sketch", "bagged", "separate",
       "bagged classes", "bagged rank", "classes", "categories", "rank",
       "forest of outputs", "random forest of classes")  # fmt: skip
WHOLE = ("ldsm", "forest", "forest of outputs", "random forest of classes")
"""Jobs of which every worker gets all rows: there is no layout."""
BY_RANKS = {
    1: ("sparse", "multi"),
    2: ALL,
    3: ("sparse", "sampled", "names", "multi", "absolute", "classes", "rank"),
    4: ("sparse", "multi", "rank"),
}
"""Jobs for so many workers: all of them once, and for more workers, which share the cores, fewer."""


def borders(size):
    """Where parts of uneven size end, at borders of queries."""
    shares = np.cumsum([0, *range(2, size + 2)])
    found = (N_ROWS // QUERY * shares / shares[-1]).astype(int) * QUERY
    return found.tolist()


def digest(estimator):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        estimator.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    from mpi4py import MPI

    comm, layout = MPI.COMM_WORLD, sys.argv[1]
    ends = borders(comm.size)
    own = slice(ends[comm.rank], ends[comm.rank + 1])
    jobs = make_jobs()
    for name in sys.argv[2:]:
        estimator, rows = jobs[name]
        estimator.set_params(n_jobs=1)
        where = {"engine": comm} if name in WHOLE else {"engine": comm, "layout": layout}
        estimator.fit(**{key: values[own] for key, values in rows.items()}, **where)
        found = comm.gather(digest(estimator))
        if comm.rank == 0:
            print(f"{name}\t{found[0] if len(set(found)) == 1 else 'ranks differ'}", flush=True)


if __name__ == "__main__":
    main()
