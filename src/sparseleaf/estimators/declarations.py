"""Every parameter of every estimator, declared once.

Parameters that several estimators share are declared at the top; :func:`replace` gives them another default or
description. Tables are in the order of the documentation: parameters to tune first come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparseleaf import binning
from sparseleaf.estimators.parameters import Parameter, declare
from sparseleaf.estimators.text_values import Vectorizer
from sparseleaf.estimators.values import (
    NONE,
    Bool,
    ByFeature,
    ByLabel,
    Decoding,
    Float,
    FractionOrCount,
    Function,
    Int,
    Names,
    Numbers,
    Seed,
    Sequences,
)
from sparseleaf.model.registry import kinds_of
from sparseleaf.model.stage import Role
from sparseleaf.objectives import (
    DenseObjective,
    Number,
    Objective,
    RankingObjective,
    SparseObjective,
    describe,
    objectives_of,
)
from sparseleaf.objectives.ranking import CHANGES
from sparseleaf.projection import PROJECTIONS
from sparseleaf.training.auto import (
    AUTO_VALUES,
    BAGGED_ROWS,
    MAX_SEPARATE,
    N_FOLDS,
    RANKER_VALUES,
    AutoValue,
)
from sparseleaf.training.sharing import STANDARD_ERRORS
from sparseleaf.training.sketches import SKETCHES

FRACTION = Float(0, 1, low_open=True)
AUTO = Names(("auto",))
MOST_CHILDREN = 16
FORMER_METRICS = {
    f"{former}@{k}": f"{name}@{k}"
    for former, name in (("P", "precision"), ("nDCG", "ndcg"))
    for k in (1, 3, 5, 10)
}

# --- all estimators

N_TREES = Parameter("n_trees", Int(1), 100, "Number of trees.", symbol="T")
MIN_SAMPLES_LEAF = Parameter("min_samples_leaf", Int(1), 20, "Minimum number of rows in a leaf.")
LEAF_LABELS = Parameter(
    "leaf_labels",
    Int(1) | NONE,
    100,
    "Maximum number of labels stored in a leaf, chosen by frequency. None stores all labels.",
    symbol="k",
)
N_JOBS = Parameter(
    "n_jobs",
    Int() | NONE,
    None,
    "Number of threads; None, 0 or -1 for all cores, -2 for all but one. Does not affect the model.",
)
RANDOM_STATE = Parameter("random_state", Seed() | NONE, 0, "Seed of the random number generator.")
VERBOSE = Parameter(
    "verbose",
    Int(0),
    0,
    "0: silent; 1: progress bar on a terminal; 2: one line per phase and tree.",
)
VECTORIZER = Parameter(
    "vectorizer",
    Vectorizer() | NONE,
    None,
    "Converts texts and records to features, as part of the model. None: a TextVectorizer with default parameters if X"
    " is a list of texts. With fields, X may be a DataFrame or a list of dicts. If X is features, it must be the"
    " fitted vectorizer that made them.",
)
EXECUTION = (VECTORIZER, N_JOBS, RANDOM_STATE, VERBOSE)

# --- re-ranking

RERANK = Parameter(
    "rerank",
    Names((*kinds_of(Role.RERANKER), "auto")) | NONE,
    None,
    "Re-ranker of the candidate labels that the trees return. Similarity to label centroids: Euclidean"
    ' ("centroid"), cosine ("cosine") or log-cosine ("log"). Centroids, per-label linear models and nearest neighbours'
    ' combined: by a weighted mean ("linear") or by boosted trees ("boosted"). Naive Bayes on discriminative features:'
    ' "bayes". "auto" selects the best one on a validation set. X must not contain NaN.',
)
RERANK_WEIGHT = Parameter(
    "rerank_weight",
    AUTO | Float(0, 1),
    "auto",
    'Weight of the tree score in the re-ranked score. "auto" selects it on the validation set, or, without one, on a'
    " tenth of the training rows (at most 4,000; SketchForest with 3,750 to 10,000 rows: up to 1,000; with label_info:"
    " at most 8,000) held out for it.",
    symbol="β",
    advanced=True,
)
RERANK_SCALE = Parameter(
    "rerank_scale",
    Float(0) | NONE,
    None,
    'Decay of the similarity with the distance to a label centroid. None: 10; for rerank="centroid", 10 divided by'
    " the"
    " mean squared norm of the rows.",
    symbol="γ",
    advanced=True,
)

# --- probabilities

CALIBRATE = Parameter(
    "calibrate",
    Names(("auto", *kinds_of(Role.CALIBRATOR))) | NONE,
    "auto",
    "Calibration of scores to probabilities for predict_proba, which does not change the ranking: isotonic regression"
    ' ("isotonic") or logistic regression ("platt") per group of labels of similar frequency, on the validation set'
    " or on the rows held out for re-ranking; without either, a tenth of the training rows (at most 4,000) is held out."
    ' "auto" is "isotonic", or "platt" with few rows, and holds out no rows for it. Multi-label targets only.',
)

THRESHOLD = Parameter(
    "threshold",
    Names(("balanced-f1", "f1", "macro-f1", "precision"), {"precision": Number(0.8, 0, 1)}),
    "balanced-f1",
    "Target of the thresholds that fit chooses on its validation rows, if scores are calibrated: highest geometric mean"
    " of micro- and macro-averaged F1, highest micro- or macro-averaged F1, or a precision of at least x (0.8 without a"
    ' number). If there are too few validation rows for frequency groups, "balanced-f1" is "f1". See set_threshold.'
    " Multi-label targets only.",
    advanced=True,
)
THRESHOLD_PER_LABEL = Parameter(
    "threshold_per_label", Bool(), False, "Whether every label has a threshold.", advanced=True
)
DECODE = Parameter(
    "decode",
    Decoding(),
    "threshold",
    "Labels that predict returns, for multi-label targets: those with a score of at least the fitted threshold"
    ' ("threshold") or a probability of at least x ("threshold:x"), the k best ("top:k"), as many of the best as'
    ' maximise the expected F1 of the row ("expected_f1"), or k labels that maximise the expected macro-averaged recall'
    ' ("macro_recall@k") or propensity-scored precision ("psp@k").',
    advanced=True,
)

# --- weights

CLASS_WEIGHT = Parameter(
    "class_weight",
    Names(("balanced",)) | NONE | ByLabel() | Numbers(),
    None,
    'Weights of the labels: "balanced" for weights inversely proportional to their frequencies, a dict from labels to'
    " weights (1 for labels that are not in it), or an array in the order of the sorted labels. With one class per row,"
    " the weight of a row is multiplied by that of its class. With several labels per row, rows with a label count as"
    " its weight, rows without it as 1.",
)

# --- boosted trees

LEARNING_RATE = Parameter(
    "learning_rate", FRACTION, 0.1, "Shrinkage applied to the leaf values of every tree."
)
LEAF_MIN_GAIN = Parameter(
    "leaf_min_gain",
    Float(0),
    0.0,
    "Minimum decrease of the loss, G²/(H + l2), for an output to be stored in a leaf.",
    advanced=True,
)
MAX_DEPTH = Parameter(
    "max_depth", Int(1) | NONE, None, "Maximum depth of a tree. None for no limit.", symbol="h_max"
)
MAX_LEAVES = Parameter(
    "max_leaves", Int(2) | NONE, 31, "Maximum number of leaves of a tree. None for no limit.", symbol="M"
)
GROWTH = Parameter(
    "growth",
    Names(("depth-wise", "best-first")),
    "best-first",
    'Order in which nodes are split: "depth-wise" (level by level) or "best-first" (highest gain first).',
    advanced=True,
)
MIN_HESSIAN_LEAF = Parameter(
    "min_hessian_leaf",
    Float(0),
    0.0,
    "Minimum sum of hessians, over rows and outputs, in a leaf.",
    advanced=True,
    former_name="min_curvature_leaf",
)
L2 = Parameter("l2", Float(0), 1.0, "L2 regularisation: a leaf value is -G/(H + l2).", symbol="λ")
MIN_GAIN = Parameter(
    "min_gain",
    Float(0),
    0.0,
    "Minimum increase of Σ G²/(H + l2), over all outputs, for a node to be split.",
    symbol="γ",
    advanced=True,
)
MAX_BINS = Parameter(
    "max_bins", Int(2, binning.MAX_BINS), 255, "Maximum number of histogram bins per feature.", symbol="b"
)
SUBSAMPLE = Parameter("subsample", FRACTION, 1.0, "Fraction of the rows sampled for every tree.")
COLSAMPLE_BYTREE = Parameter(
    "colsample_bytree", FRACTION, 1.0, "Fraction of the features sampled for every tree."
)
COLSAMPLE_BYNODE = Parameter(
    "colsample_bynode",
    FRACTION,
    1.0,
    "Fraction of the tree's features sampled for every node.",
    advanced=True,
)
SKETCH = Parameter(
    "sketch",
    Names(tuple(SKETCHES)),
    "count-sketch",
    'Method that reduces the gradients of all outputs to sketch_dim columns, for split="sketch".',
    advanced=True,
    former_name="reducer",
)
SKETCH_DIM = Parameter(
    "sketch_dim", Int(1, 4096), 32, "Number of columns of the sketched gradients.", advanced=True
)
EARLY_STOPPING = Parameter(
    "early_stopping_rounds",
    Int(1) | NONE,
    None,
    "Stop training when eval_metric on the last eval_set has not improved for this number of trees; the model keeps the"
    " trees up to the best score.",
)
DEVICE = Parameter(
    "device",
    Names(("cpu", "cuda")),
    "cpu",
    'Where trees are grown and, if scores are dense, large batches predicted: "cpu" or "cuda", an NVIDIA GPU (requires'
    " the extra cuda). Does not affect the model or its scores.",
    advanced=True,
)
HISTOGRAM_MB = Parameter(
    "histogram_mb",
    Int(1),
    512,
    "Memory limit for cached histograms, in MiB; beyond it, histograms are recomputed.",
    advanced=True,
)

SPARSE = declare(
    N_TREES,
    LEARNING_RATE,
    replace(
        LEAF_LABELS,
        default=50,
        description="Maximum number of labels stored in a leaf, chosen by largest |Σ residual|. None stores all labels"
        " (the paper's vanilla GBDT).",
    ),
    Parameter(
        "loss",
        Names(tuple(objectives_of("sparse"))),
        "squared",
        f"Loss to minimise: {describe(objectives_of('sparse'))}.",
        symbol="ℓ",
    ),
    replace(MAX_DEPTH, default=10),
    replace(MAX_LEAVES, default=None),
    replace(MIN_SAMPLES_LEAF, default=10, symbol="n_leaf"),
    replace(L2, description="L2 regularisation: a leaf value is Σ residual / (rows + l2)."),
    replace(MAX_BINS, default=64, symbol="1/S̄"),
    SUBSAMPLE,
    COLSAMPLE_BYTREE,
    Parameter(
        "projection",
        Names(("auto", *PROJECTIONS)) | NONE,
        "auto",
        'Linear projection of sparse features to projection_dim dense features. "auto" uses LEML if X is sparse, has'
        " more than projection_dim features and no missing values, and no projection otherwise.",
    ),
    Parameter("projection_dim", Int(1), 100, "Number of features after the projection.", symbol="d̄"),
    RERANK,
    CALIBRATE,
    CLASS_WEIGHT,
    EARLY_STOPPING,
    Parameter(
        "eval_metric",
        Names(tuple(FORMER_METRICS.values())),
        SparseObjective.default_metric,
        "Metric computed on eval_set after every tree.",
        former_values=FORMER_METRICS,
    ),
    *EXECUTION,
    LEAF_MIN_GAIN,
    replace(GROWTH, default="depth-wise"),
    replace(MIN_GAIN, description="Minimum decrease of the loss for a node to be split.", symbol=""),
    replace(COLSAMPLE_BYNODE, default=0.3),
    Parameter(
        "split",
        Names(("sketch", "full", "exact")),
        "sketch",
        'Split search: on sketched residuals ("sketch"), on the residuals of all labels ("full", needs memory for'
        " rows ×"
        ' labels) or on sorted feature values ("exact", Algorithm 1 of the paper).',
        advanced=True,
        former_values={"reduced": "sketch"},
    ),
    Parameter(
        "exact_step",
        FractionOrCount(0, low_open=True),
        0.05,
        'For split="exact": number of rows between two candidate splits, or that number as a fraction of the rows of'
        " the"
        " node.",
        symbol="S̄",
        advanced=True,
    ),
    SKETCH,
    SKETCH_DIM,
    Parameter(
        "keep_raw",
        Bool() | AUTO,
        "auto",
        'Whether trees may split on the raw features in addition to the projected ones. "auto": if there are at most'
        " 2,048 raw features.",
        advanced=True,
    ),
    HISTOGRAM_MB,
    DEVICE,
    RERANK_WEIGHT,
    RERANK_SCALE,
    THRESHOLD,
    THRESHOLD_PER_LABEL,
    DECODE,
)

# --- boosted trees with dense losses

DENSE_N_TREES = Parameter(
    "n_trees",
    Int(1) | AUTO,
    "auto",
    'Number of boosting rounds. "auto": the number with the best loss (ranking: NDCG) on rows that are held out in'
    " turn, see n_models; 100 with fewer than 5 such rows or queries, for custom losses, and with init_model or"
    " warm_start.",
)
N_MODELS = Parameter(
    "n_models",
    Int(1, 64) | AUTO,
    "auto",
    "Number of boosted models whose average is the model (bagging); they are stored as one. Each leaves out a"
    f' different one of max({N_FOLDS}, n_models) folds of the rows. "auto": {N_FOLDS} with n_trees="auto" and up to'
    f" {BAGGED_ROWS:,} rows, otherwise 1; one model with a fixed number of trees leaves out no rows. A forest is added"
    ' to several models with n_trees="auto" if it improves the predictions of held-out rows.',
)


def _automatic(parameter: Parameter, values: Mapping[str, AutoValue] = AUTO_VALUES) -> Parameter:
    """A parameter whose default depends on whether the number of trees is automatic."""
    return replace(
        parameter,
        values=parameter.values | AUTO,
        default="auto",
        description=f"{parameter.description} {values[parameter.name].text}",
    )


CATEGORICAL = Parameter(
    "categorical_features",
    AUTO | Sequences() | NONE,
    "auto",
    'Categorical features: column names, column numbers or a boolean mask. "auto": the categorical and text columns'
    " of a"
    " DataFrame, which are also added to a list of names or numbers. At most 255 categories per feature; categories not"
    " seen in training are treated as missing.",
)
MONOTONE = Parameter(
    "monotone_constraints",
    Sequences() | ByFeature() | NONE,
    None,
    "Monotonic constraints, one per feature or one per feature and output: 1 increasing, -1 decreasing, 0 none. A dict"
    " maps feature names or numbers to constraints.",
)
WARM_START = Parameter(
    "warm_start", Bool(), False, "Keep the trees of the previous fit and add trees until there are n_trees."
)
AUTO_REGRESSION = "mse"
"""The loss of a regressor with ``loss="auto"``."""


def _multi(
    losses: dict[str, type[Objective]],
    auto: str,
    metrics: tuple[str, ...],
    former: dict[str, str],
    *more: Parameter,
) -> dict[str, Parameter]:
    return declare(
        replace(DENSE_N_TREES, symbol="t"),
        _automatic(LEARNING_RATE),
        Parameter(
            "loss",
            Names(
                ("auto", *losses),
                {name: loss.number for name, loss in losses.items() if loss.number is not None},
            )
            | Function(),
            "auto",
            f'Loss to minimise. "auto": {auto}; {describe(losses)}; or a callable loss(targets, scores) that returns'
            " the"
            " gradient and the hessian.",
            symbol="l",
        ),
        replace(
            LEAF_LABELS,
            default=None,
            description="Maximum number of outputs stored in a leaf, chosen by largest G²/(H + l2). None stores all"
            " outputs.",
            former_name="leaf_outputs",
        ),
        replace(MAX_DEPTH, symbol="h"),
        _automatic(replace(MAX_LEAVES, symbol="")),
        _automatic(MIN_SAMPLES_LEAF),
        L2,
        MAX_BINS,
        _automatic(SUBSAMPLE),
        COLSAMPLE_BYTREE,
        N_MODELS,
        CATEGORICAL,
        MONOTONE,
        *more,
        EARLY_STOPPING,
        Parameter(
            "eval_metric",
            Names(metrics) | Function(),
            DenseObjective.default_metric,
            "Metric computed on eval_set after every tree: a name, or a callable metric(targets, predictions) that"
            " returns (name, value, higher_is_better).",
            former_values=former,
        ),
        WARM_START,
        *EXECUTION,
        LEAF_MIN_GAIN,
        GROWTH,
        MIN_HESSIAN_LEAF,
        MIN_GAIN,
        _automatic(COLSAMPLE_BYNODE),
        Parameter(
            "split",
            Names(("auto", "full", "topk", "topk-shared", "sketch")),
            "auto",
            'Outputs used in the split search: all ("full", Algorithm 2 of the paper), the leaf_labels best of each'
            " child"
            ' ("topk", Algorithm 3), the leaf_labels best shared by both children ("topk-shared", Algorithm 4), or'
            ' sketched gradients ("sketch"). "auto": "sketch" for more than 32 outputs and, if the hessian of the loss'
            ' is constant, for bagged models; else "topk-shared" if leaf_labels is set, else "full".',
            advanced=True,
            former_values={"reduced": "sketch"},
        ),
        replace(
            SKETCH,
            values=Names(tuple(name for name in SKETCHES if name != "none")),
            default="random-projection",
        ),
        _automatic(SKETCH_DIM),
        _automatic(
            Parameter(
                "standardise",
                Bool(),
                False,
                'Whether the split search weights outputs by the inverse variance of their targets, for loss="mse".',
                advanced=True,
            )
        ),
        Parameter(
            "hessian",
            Names(("diagonal", "exact")),
            "diagonal",
            'Hessian of the loss: "diagonal" (eq. 15 of the paper), or "exact", the full matrix (eq. 13; softmax with'
            " at"
            " most 32 classes).",
            advanced=True,
        ),
        Parameter(
            "tree_per_output",
            Bool() | AUTO,
            "auto",
            "Whether to grow one tree per output in every boosting round (GBDT-SO)."
            f' "auto": for bagged models with n_trees="auto", a loss with constant hessian and 2 to {MAX_SEPARATE}'
            " outputs if this lowers the loss of the rows of one fold significantly, by more than"
            f" {STANDARD_ERRORS:g} standard errors, with up to 100,000 targets; otherwise False.",
            advanced=True,
        ),
        HISTOGRAM_MB,
        DEVICE,
    )


REGRESSION_METRICS = ("loss", "rmse", "mae", "r2")
CLASSIFICATION_METRICS = (
    "loss",
    "accuracy",
    *(name for name in FORMER_METRICS.values() if not name.endswith("@10")),
)

REGRESSOR = _multi(objectives_of("regression"), f'"{AUTO_REGRESSION}"', REGRESSION_METRICS, {})
CLASSIFIER = _multi(
    objectives_of("classification"),
    '"softmax" for one class per row, "logistic" for several labels',
    CLASSIFICATION_METRICS,
    {former: name for former, name in FORMER_METRICS.items() if name in CLASSIFICATION_METRICS},
    CLASS_WEIGHT,
) | declare(
    replace(
        CALIBRATE,
        default=None,
        description="Calibration of the probabilities of labels on the last eval_set, which does not change the"
        ' ranking: "isotonic" or "platt", see SparseGBDTClassifier. None: the link function of the loss. Multi-label'
        " targets only.",
        advanced=True,
    ),
    DECODE,
)

# --- forests with dense outputs


def _multi_forest(
    min_samples_leaf: int, max_features: str | float, metric: str, metrics: tuple[str, ...], *more: Parameter
) -> dict[str, Parameter]:
    return declare(
        replace(N_TREES, symbol=""),
        Parameter(
            "max_features",
            Names(("sqrt", "log2")) | FRACTION,
            max_features,
            "Features sampled for every node: a fraction, or the square root or the logarithm of their number. Sampling"
            " continues until a feature that can split the node is found.",
        ),
        replace(MIN_SAMPLES_LEAF, default=min_samples_leaf),
        replace(MAX_DEPTH, symbol=""),
        replace(MAX_LEAVES, default=None, symbol=""),
        Parameter(
            "splitter",
            Names(("best", "random")),
            "best",
            'Candidate splits of a feature: all ("best", random forest), or one random threshold per node ("random",'
            " extremely randomised trees).",
        ),
        Parameter(
            "bootstrap",
            Bool() | AUTO,
            "auto",
            'Whether to grow every tree on a bootstrap sample of the rows. "auto": with splitter="best" only.',
        ),
        replace(
            SUBSAMPLE,
            description="Rows sampled for every tree, with replacement if bootstrap, as a fraction of all rows.",
        ),
        Parameter(
            "oob_score",
            Bool(),
            False,
            "Whether to predict every training row with the trees that were grown without it, and to score these"
            " out-of-bag predictions.",
        ),
        MAX_BINS,
        CATEGORICAL,
        *more,
        Parameter(
            "eval_metric",
            Names(metrics) | Function(),
            metric,
            "Metric computed on eval_set after every tree: a name, or a callable metric(targets, predictions) that"
            " returns (name, value, higher_is_better).",
        ),
        *EXECUTION,
        replace(
            SKETCH,
            values=Names(tuple(name for name in SKETCHES if name != "none")),
            default="random-projection",
            description="Method that reduces the targets of more than 32 outputs to sketch_dim columns for the split"
            " search. Leaf values are always means of all outputs.",
            former_name="",
        ),
        SKETCH_DIM,
    )


FOREST_REGRESSOR = _multi_forest(
    1, 0.33, "rmse", tuple(name for name in REGRESSION_METRICS if name != "loss")
)
FOREST_CLASSIFIER = _multi_forest(
    1,
    "sqrt",
    "accuracy",
    tuple(name for name in CLASSIFICATION_METRICS if name != "loss"),
    CLASS_WEIGHT,
) | declare(CLASSIFIER["calibrate"], DECODE)

RANKING_METRICS = (*(f"ndcg@{k}" for k in (1, 3, 5, 10)), "map", "mrr", "pairwise")

RANKER = declare(
    DENSE_N_TREES,
    _automatic(LEARNING_RATE, RANKER_VALUES),
    Parameter(
        "loss",
        Names(tuple(objectives_of("ranking"))),
        "lambdamart",
        "; ".join(loss.description for loss in objectives_of("ranking").values()) + ".",
    ),
    Parameter(
        "metric", Names(CHANGES), "ndcg", "LambdaMART: metric whose change weights each document pair."
    ),
    replace(MAX_DEPTH, symbol=""),
    _automatic(replace(MAX_LEAVES, symbol=""), RANKER_VALUES),
    _automatic(MIN_SAMPLES_LEAF),
    L2,
    MAX_BINS,
    _automatic(SUBSAMPLE),
    COLSAMPLE_BYTREE,
    N_MODELS,
    CATEGORICAL,
    MONOTONE,
    EARLY_STOPPING,
    Parameter(
        "eval_metric",
        Names(RANKING_METRICS),
        RankingObjective.default_metric,
        "Metric computed on eval_set after every tree.",
    ),
    WARM_START,
    *EXECUTION,
    Parameter(
        "places",
        Int(1),
        30,
        "LambdaMART: truncation level; only pairs with a document among the first `places` of the current ranking"
        " contribute.",
        advanced=True,
    ),
    Parameter(
        "normalise",
        Bool(),
        True,
        "LambdaMART: whether to normalise lambdas by the score difference of the pair and by their sum per query.",
        advanced=True,
    ),
    Parameter(
        "margin",
        Float(0, 1e6),
        1.0,
        "GBRank: target difference between the scores of two documents; with l2=0 it only rescales the scores.",
        symbol="τ",
        advanced=True,
    ),
    Parameter(
        "averaged",
        Bool(),
        True,
        "GBRank: whether every tree fits the target scores and the model averages the trees (the paper's update). False"
        " boosts on the gradient of the squared hinge loss, which is better for many small trees.",
        advanced=True,
    ),
    Parameter(
        "sigma",
        Float(0, 1e6, low_open=True) | NONE,
        None,
        "LambdaMART: steepness of the sigmoid (None: 1). SmoothDCG: width of the smoothing (None: 0.3).",
        symbol="σ",
        advanced=True,
    ),
    Parameter(
        "start_rounds",
        Int(1),
        30,
        "SmoothDCG: number of initial rounds that fit the gains by least squares, since its gradient is 0 while all"
        " scores are equal.",
        advanced=True,
    ),
    Parameter(
        "subsample_by",
        Names(("row", "query")),
        "row",
        "Unit of subsample: single rows or whole queries.",
        advanced=True,
    ),
    GROWTH,
    replace(MIN_HESSIAN_LEAF, default=1e-3),
    MIN_GAIN,
    _automatic(COLSAMPLE_BYNODE),
    HISTOGRAM_MB,
    DEVICE,
)

# --- routed trees

ARITY = Parameter("arity", Int(2, MOST_CHILDREN), 2, "Number of children per node.", symbol="M")
RERANKED = replace(RERANK, description=RERANK.description.removesuffix(" X must not contain NaN."))

LDSM = declare(
    replace(N_TREES, default=10, symbol=""),
    ARITY,
    Parameter(
        "max_nodes", Int(1), 1000, "Maximum number of nodes of a tree, leaves included.", symbol="T_max"
    ),
    Parameter("epochs", Int(1), 20, "Maximum number of passes over the rows of a node.", symbol="E"),
    Parameter(
        "tol",
        Float(0),
        0.002,
        "Training of a node stops when an epoch changes the objective J by less than this; 0 runs all epochs.",
    ),
    Parameter("learning_rate", Float(0, low_open=True), 0.1, "Step size of the router updates."),
    Parameter("lambda_1", Float(0), 2.0, "Weight of class integrity in the objective J.", symbol="λ1"),
    Parameter("lambda_2", Float(0), 1.0, "Weight of the multi-way penalty in the objective J.", symbol="λ2"),
    replace(MIN_SAMPLES_LEAF, default=1),
    Parameter(
        "prune",
        Float(0),
        0.01,
        "Pruning threshold: a router drops features that change its margin by less than this and by less than a quarter"
        " of its strongest feature.",
    ),
    replace(LEAF_LABELS, symbol=""),
    RERANKED,
    CALIBRATE,
    CLASS_WEIGHT,
    *EXECUTION,
    RERANK_WEIGHT,
    RERANK_SCALE,
    THRESHOLD,
    THRESHOLD_PER_LABEL,
    DECODE,
)

FOREST = declare(
    replace(
        N_TREES,
        values=Int(1) | Names(("auto",)),
        default="auto",
        description='Number of trees. "auto" grows 10 if labels have fewer than 20 rows on average and a re-ranker adds'
        " candidates to those of the trees, 50 otherwise.",
        symbol="",
    ),
    replace(ARITY, default=4),
    replace(MIN_SAMPLES_LEAF, default=2),
    replace(MAX_DEPTH, values=Int(0) | NONE, symbol=""),
    Parameter(
        "label_weight",
        Float(0, 4),
        0.0,
        "Exponent of the label weights, frequency ** -label_weight: 0 weights all labels equally, 1 by inverse"
        " frequency.",
    ),
    Parameter(
        "router_weights",
        Int(1),
        300,
        "Maximum number of features per router; also limited to four per row of the node.",
    ),
    Parameter(
        "max_features", FRACTION, 1.0, "Fraction of the features sampled for the router of every node."
    ),
    Parameter(
        "bootstrap",
        Bool(),
        False,
        "Whether to grow every tree on a bootstrap sample of the rows; enables out-of-bag scores.",
    ),
    replace(LEAF_LABELS, symbol=""),
    replace(
        RERANKED,
        default="auto",
        description=RERANKED.description.replace(
            '"auto" selects the best one on a validation set.',
            '"auto" selects "boosted" unless "linear", "bayes" or no re-ranking is clearly better on a validation set.',
        ),
    ),
    CALIBRATE,
    CLASS_WEIGHT,
    *EXECUTION,
    replace(SKETCH_DIM, default=64, description="Number of hash columns of the label sketch of a node."),
    RERANK_WEIGHT,
    RERANK_SCALE,
    THRESHOLD,
    THRESHOLD_PER_LABEL,
    DECODE,
)

BLEND = declare(
    Parameter(
        "weights",
        AUTO | Sequences() | NONE,
        "auto",
        'Weight of each classifier. "auto" selects the weights with the highest mean of precision@1, @3 and @5 on'
        " held-out rows; None weights all classifiers equally.",
    ),
    Parameter(
        "prefit",
        Bool(),
        False,
        "Whether the classifiers are already fitted. If True, fit only selects weights, on rows not used to train them."
        " If False, fit trains clones: without a tenth of the rows (at most 4,000) to select weights, then on all"
        " rows.",
    ),
    replace(
        CALIBRATE,
        description='Calibration of the scores for predict_proba: "isotonic" or "platt", on the rows that the weights'
        ' are selected on. "auto" is "isotonic", or "platt" with few rows. Without such rows, use fit_calibration.'
        " Multi-label targets only.",
    ),
    replace(
        VECTORIZER,
        description="Converts texts and records to features, for all classifiers. None: a TextVectorizer with default"
        " parameters if X is a list of texts. With prefit=True: that of the classifiers, which must be equal.",
    ),
    replace(N_JOBS, description="Number of threads used for prediction; None for all cores."),
    replace(RANDOM_STATE, description="Seed of the split into training and held-out rows."),
    replace(DECODE, advanced=False),
)
