"""The systems of the benchmark page behind one interface: `fit` on a split, `predict` rows, `save` to a folder.

Boosters translate the suite's settings, given under sparseleaf's parameter names, to their own; `note` describes the
other settings and `overrides` of the suite changes them. `predict` returns the five best labels per row (multilabel),
class numbers (multiclass), all outputs (regression) or scores (ranking). Libraries are imported on first use.
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

LABELS = ("multilabel",)
ALL = ("multilabel", "multiclass", "regression")
FOREST = "sparseleaf:SketchForestClassifier"
PARABEL: dict[str, Any] = {}
BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
XGBOOST = ("xgboost", "xgboost-cpu")
SKLEARN = ("scikit-learn",)

SYSTEMS = {
    "sparse-gbdt": System(
        "SparseGBDT",
        "sparseleaf",
        LABELS,
        sparse_gbdt,
        "defaults: 100 trees of depth 10, learning rate 0.1, 50 labels per leaf, LEML projection to 100 columns",
    ),
    "sparse-gbdt-tuned": System(
        "SparseGBDT (tuned)",
        "sparseleaf",
        LABELS,
        sparse_gbdt,
        "tuned on a validation split of the training set (`benchmarks.tuned --search`)",
    ),
    "multi-gbdt": System("MultiGBDT", "sparseleaf", ALL, multi_gbdt, "the suite's settings"),
    "ldsm": System(
        "LdSM",
        "sparseleaf",
        LABELS,
        ldsm,
        "tuned on a validation split of the training set (`benchmarks.ldsm_paper`)",
    ),
    "sketch-forest": System(
        "SketchForest",
        FOREST,
        LABELS,
        sketch_forest,
        'defaults: `n_trees="auto"` (10 trees for rare labels, otherwise 50), `rerank="auto"`',
    ),
    "sketch-forest-tuned": System(
        "SketchForest (tuned)",
        FOREST,
        LABELS,
        sketch_forest,
        "tuned on a validation split of the training set (`benchmarks.forest --search`)",
    ),
    "sketch-forest-bayes": System(
        "SketchForest (naive Bayes)", FOREST, LABELS, sketch_forest, '20 trees, `rerank="bayes"`'
    ),
    "sketch-forest-trees": System(
        "SketchForest (no re-ranking)", FOREST, LABELS, sketch_forest, "defaults with `rerank=None`"
    ),
    "lambdamart": System(
        "GBDTRanker (LambdaMART)", "sparseleaf", ("ranking",), ranker, "the suite's settings"
    ),
    "gbrank": System(
        "GBDTRanker (GBRank)",
        "sparseleaf",
        ("ranking",),
        ranker,
        "the suite's settings with learning rate 0.3",
    ),
    "smoothdcg": System("GBDTRanker (SmoothDCG)", "sparseleaf", ("ranking",), ranker, "the suite's settings"),
    "xgboost-vector": System(
        "XGBoost (vector leaves)",
        "xgboost",
        ALL,
        lambda task: XGBoost(task, vector=True),
        "the suite's settings; `multi_strategy=multi_output_tree`, `hist`, dense targets",
        XGBOOST,
    ),
    "xgboost": System(
        "XGBoost",
        "xgboost",
        (*ALL, "ranking"),
        lambda task: XGBoost(task, vector=False),
        "the suite's settings; one tree per output and round, `hist`; ranking: `rank:ndcg`",
        XGBOOST,
    ),
    "lightgbm": System(
        "LightGBM",
        "lightgbm",
        (*ALL, "ranking"),
        LightGBM,
        "the suite's settings; multi-label and regression: one model per output; ranking: `lambdarank`",
        ("lightgbm",),
    ),
    "catboost": System(
        "CatBoost",
        "catboost",
        (*ALL, "ranking"),
        CatBoost,
        "the suite's rounds, learning rate, depth, bins and l2; `MultiLogloss`, `MultiClass`, `MultiRMSE`, `YetiRank`",
        ("catboost",),
    ),
    "random-forest": System(
        "random forest",
        "sklearn",
        ALL,
        lambda task: Forest(task, "RandomForest"),
        "scikit-learn's defaults, 100 trees; multi-label: `max_features='sqrt'`, `min_samples_leaf=5`",
        SKLEARN,
    ),
    "extra-trees": System(
        "extra trees",
        "sklearn",
        ALL,
        lambda task: Forest(task, "ExtraTrees"),
        "as the random forest",
        SKLEARN,
    ),
    "hist-gradient-boosting": System(
        "HistGradientBoosting",
        "sklearn",
        ALL,
        HistGradientBoosting,
        "the suite's settings; multi-label and regression: one model per output, dense features",
        SKLEARN,
    ),
    "parabel": System(
        "Parabel (omikuji)",
        "omikuji",
        LABELS,
        lambda task: Omikuji(task, PARABEL),
        "omikuji's defaults",
        ("omikuji",),
    ),
    "bonsai": System(
        "Bonsai (omikuji)",
        "omikuji",
        LABELS,
        lambda task: Omikuji(task, BONSAI),
        "`cluster_balanced=False`, `cluster_k=100`, `max_depth=3`",
        ("omikuji",),
    ),
    "plt": System(
        "PLT (napkinXC)",
        "napkinxc",
        LABELS,
        lambda task: NapkinXC(task, "PLT"),
        "napkinXC's defaults",
        ("napkinxc",),
    ),
    "br": System(
        "BR (napkinXC)",
        "napkinxc",
        LABELS,
        lambda task: NapkinXC(task, "BR"),
        "binary relevance, napkinXC's defaults",
        ("napkinxc",),
    ),
    "neighbours": System(
        "k nearest neighbours",
        "sklearn",
        ALL,
        NearestNeighbours,
        f"multi-label: k = {NEIGHBOURS}, votes weighted by cosine; otherwise k = 5, standardised features (not MNIST)",
        SKLEARN,
        baseline=True,
    ),
    "centroids": System(
        "label centroids",
        "sklearn",
        ("multilabel", "multiclass"),
        LabelCentroids,
        "multi-label: cosine to the mean feature vector of a label",
        SKLEARN,
        baseline=True,
    ),
    "mpi": System(
        "SparseGBDT over MPI",
        "sparseleaf.distributed.mpi mpi4py !mpiexec",
        LABELS,
        OverMPI,
        "one thread per worker",
    ),
}
