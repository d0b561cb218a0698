"""The systems of the benchmark page behind one face: `fit` on a split, `predict` rows, `save` to a folder.

A booster takes the suite's settings, which are in our words, and says them in its own; what else a system has is in its
`note`, which the page shows, and in `own` of the suite. `predict` answers the five best labels of a row (labels), a
class number (classes), all outputs (numbers) or a score (ranking). Nothing is imported before it is asked for.
"""

from __future__ import annotations

from typing import Any

from benchmarks.systems.base import System
from benchmarks.systems.boosters import CatBoost, LightGBM, XGBoost
from benchmarks.systems.label_trees import NapkinXC, Omikuji
from benchmarks.systems.ours import OverMPI, ldsm, multi_gbdt, ranker, sketch_forest, sparse_gbdt
from benchmarks.systems.scikit import (
    NEIGHBOURS,
    Forest,
    HistGradientBoosting,
    LabelCentroids,
    NearestNeighbours,
)

ALL = ("labels", "classes", "numbers")
FOREST = "sparseleaf:SketchForestClassifier"
PARABEL: dict[str, Any] = {}
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

SYSTEMS = {
    "sparse-gbdt": System(
        "SparseGBDT",
        "sparseleaf",
        ("labels",),
        sparse_gbdt,
        "its defaults: 100 trees of depth 10, rate 0.1, 50 labels a leaf, LEML to 100 columns",
        True,
    ),
    "sparse-gbdt-turned": System(
        "SparseGBDT (turned)",
        "sparseleaf",
        ("labels",),
        sparse_gbdt,
        "as found by `benchmarks.tuned --search` on a part of the training rows",
        True,
    ),
    "multi-gbdt": System("MultiGBDT", "sparseleaf", ALL, multi_gbdt, "the suite's settings", True),
    "ldsm": System(
        "LdSM", "sparseleaf", ("labels",), ldsm, "turned on held-out training rows (`ldsm_paper`)", True
    ),
    "sketch-forest": System(
        "SketchForest",
        FOREST,
        ("labels",),
        sketch_forest,
        "its defaults; re-ranked by linear models of the labels",
        True,
    ),
    "sketch-forest-turned": System(
        "SketchForest (turned)",
        FOREST,
        ("labels",),
        sketch_forest,
        "as found by `benchmarks.forest --search` on a part of the training rows",
        True,
    ),
    "sketch-forest-bayes": System(
        "SketchForest (naive Bayes)",
        FOREST,
        ("labels",),
        sketch_forest,
        "few trees, re-ranked by naive Bayes",
        True,
    ),
    "sketch-forest-trees": System(
        "SketchForest (trees alone)",
        FOREST,
        ("labels",),
        sketch_forest,
        "its defaults, without re-ranking",
        True,
    ),
    "lambdamart": System(
        "GBDTRanker (LambdaMART)", "sparseleaf", ("ranking",), ranker, "the suite's settings", True
    ),
    "gbrank": System("GBDTRanker (GBRank)", "sparseleaf", ("ranking",), ranker, "rate 0.3", True),
    "smoothdcg": System(
        "GBDTRanker (SmoothDCG)", "sparseleaf", ("ranking",), ranker, "the suite's settings", True
    ),
    "xgboost-vector": System(
        "XGBoost (vector leaves)",
        "xgboost",
        ALL,
        lambda task: XGBoost(task, vector=True),
        "the suite's settings; `multi_output_tree`, hist, dense targets",
    ),
    "xgboost": System(
        "XGBoost (one per output)",
        "xgboost",
        (*ALL, "ranking"),
        lambda task: XGBoost(task, vector=False),
        "the suite's settings; `one_output_per_tree`, hist; ranking: `rank:ndcg`",
    ),
    "lightgbm": System(
        "LightGBM",
        "lightgbm",
        (*ALL, "ranking"),
        LightGBM,
        "the suite's settings; labels and numbers: a model an output; ranking: `lambdarank`",
    ),
    "catboost": System(
        "CatBoost",
        "catboost",
        (*ALL, "ranking"),
        CatBoost,
        "the suite's rounds, rate, depth, bins and l2; `MultiLogloss`, `MultiClass`, `MultiRMSE`, `YetiRank`",
    ),
    "random-forest": System(
        "random forest",
        "sklearn",
        ALL,
        lambda task: Forest(task, "RandomForest"),
        "scikit-learn's defaults, 100 trees; labels: √features a cut, leaves of at least 5 rows",
    ),
    "extra-trees": System(
        "extra trees",
        "sklearn",
        ALL,
        lambda task: Forest(task, "ExtraTrees"),
        "as the random forest",
    ),
    "hist-gradient-boosting": System(
        "HistGradientBoosting",
        "sklearn",
        ALL,
        HistGradientBoosting,
        "the suite's settings; labels and numbers: a model an output, dense features",
    ),
    "parabel": System(
        "Parabel (omikuji)", "omikuji", ("labels",), lambda task: Omikuji(task, PARABEL), "omikuji's defaults"
    ),
    "bonsai": System(
        "Bonsai (omikuji)",
        "omikuji",
        ("labels",),
        lambda task: Omikuji(task, BONSAI),
        "clusters of any size, 100 a node, depth 3",
    ),
    "plt": System(
        "PLT (napkinXC)", "napkinxc", ("labels",), lambda task: NapkinXC(task, "PLT"), "napkinXC's defaults"
    ),
    "br": System(
        "BR (napkinXC)",
        "napkinxc",
        ("labels",),
        lambda task: NapkinXC(task, "BR"),
        "binary relevance, napkinXC's defaults",
    ),
    "neighbours": System(
        "nearest neighbours",
        "sklearn",
        ALL,
        NearestNeighbours,
        f"labels: {NEIGHBOURS}, votes by cosine; else 5, features standardised (not MNIST's)",
    ),
    "centroids": System(
        "label centroids",
        "sklearn",
        ("labels", "classes"),
        LabelCentroids,
        "labels: by cosine to the mean row",
    ),
    "mpi": System(
        "SparseGBDT over MPI",
        "sparseleaf.distributed.mpi mpi4py !mpiexec",
        ("labels",),
        OverMPI,
        "a thread a worker",
        True,
    ),
}
