"""Every parameter of every estimator, declared once.

What several estimators have is declared at the top, and has another default or description where :func:`replace` says
so. The tables are in the order in which parameters are documented: those that are tuned first come first.
"""

from __future__ import annotations

from dataclasses import replace

from sparseleaf import binning
from sparseleaf.estimators.parameters import Parameter, declare
from sparseleaf.estimators.values import (
    NONE,
    Bool,
    ByFeature,
    Float,
    Function,
    Int,
    Names,
    Seed,
    Sequences,
    ShareOrCount,
)
from sparseleaf.model.registry import kinds_of
from sparseleaf.model.stage import Role
from sparseleaf.objectives import (
    DenseObjective,
    Objective,
    RankingObjective,
    SparseObjective,
    describe,
    objectives_of,
)
from sparseleaf.objectives.ranking import CHANGES
from sparseleaf.projection import PROJECTIONS
from sparseleaf.training.sketches import REDUCERS

SHARE = Float(0, 1, low_open=True)
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
    "Maximum number of labels stored in a leaf, the most frequent ones. None stores all labels.",
    symbol="k",
)
N_JOBS = Parameter(
    "n_jobs",
    Int() | NONE,
    None,
    "Number of threads; None, 0 or -1 for all cores, -2 for all but one. The model does not depend on it.",
)
RANDOM_STATE = Parameter("random_state", Seed() | NONE, 0, "Seed of all random draws.")
VERBOSE = Parameter(
    "verbose",
    Int(0),
    0,
    "0 is silent, 1 shows a progress bar on a terminal, 2 prints a line per phase and tree.",
)
EXECUTION = (N_JOBS, RANDOM_STATE, VERBOSE)

# --- re-ranking

RERANK = Parameter(
    "rerank",
    Names((*kinds_of(Role.RERANKER), "auto")) | NONE,
    None,
    'Re-ranking of the candidates of the trees: by the distance ("centroid"), angle ("cosine") or log-angle ("log") to'
    ' the label centroids; by these, linear label models and nearest neighbours, as a weighted mean ("linear") or in'
    ' boosted trees ("boosted"); or by naive Bayes over discriminative features ("bayes"). "auto" takes the best on a'
    " validation set. NaN in X is then refused.",
)
RERANK_WEIGHT = Parameter(
    "rerank_weight",
    AUTO | Float(0, 1),
    "auto",
    'Weight of the trees in the re-ranked score; "auto" chooses it on the validation set, or else on a tenth of the'
    " training rows, at most 4,000.",
    symbol="β",
    advanced=True,
)
RERANK_SCALE = Parameter(
    "rerank_scale",
    Float(0) | NONE,
    None,
    "How fast similarity falls with the distance to a label centroid; None is 10, divided by the mean squared norm of"
    ' the rows for "centroid".',
    symbol="γ",
    advanced=True,
)

# --- boosted trees

LEARNING_RATE = Parameter("learning_rate", SHARE, 0.1, "Shrinkage applied to the leaf values of every tree.")
LEAF_MIN_GAIN = Parameter(
    "leaf_min_gain",
    Float(0),
    0.0,
    "Minimum decrease of the loss, G²/(H + l2), for an output to be stored in a leaf.",
    advanced=True,
)
MAX_DEPTH = Parameter(
    "max_depth", Int(1) | NONE, None, "Maximum depth of a tree. None is no limit.", symbol="h_max"
)
MAX_LEAVES = Parameter(
    "max_leaves", Int(2) | NONE, 31, "Maximum number of leaves of a tree. None is no limit.", symbol="M"
)
GROWTH = Parameter(
    "growth",
    Names(("depth-wise", "best-first")),
    "best-first",
    "Order in which nodes are split: level by level, or highest gain first.",
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
    "max_bins", Int(2, binning.MAX_BINS), 255, "Maximum number of bins of a feature.", symbol="b"
)
SUBSAMPLE = Parameter("subsample", SHARE, 1.0, "Fraction of the rows sampled for every tree.")
COLSAMPLE_BYTREE = Parameter(
    "colsample_bytree", SHARE, 1.0, "Fraction of the features sampled for every tree."
)
COLSAMPLE_BYNODE = Parameter(
    "colsample_bynode",
    SHARE,
    1.0,
    "Fraction of the tree's features sampled for every node.",
    advanced=True,
)
SKETCH = Parameter(
    "sketch",
    Names(tuple(REDUCERS)),
    "count-sketch",
    'How split="sketch" reduces the gradients of all outputs to sketch_dim columns.',
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
    "Stop when eval_metric has not improved on the last eval_set for this number of trees, and keep the best ones.",
)
HISTOGRAM_MB = Parameter(
    "histogram_mb",
    Int(1),
    512,
    "Memory limit for histograms, in MiB; past it they are rebuilt.",
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
        'Linear projection of sparse features to projection_dim dense ones; "auto" is LEML where X is sparse, has more'
        " than projection_dim features and no missing values.",
    ),
    Parameter("projection_dim", Int(1), 100, "Number of features after the projection.", symbol="d̄"),
    RERANK,
    EARLY_STOPPING,
    Parameter(
        "eval_metric",
        Names(tuple(FORMER_METRICS.values())),
        SparseObjective.default_metric,
        "Metric on eval_set after every tree.",
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
        "Search splits on sketched residuals, on all labels (rows × labels of memory), or by the paper's Algorithm 1 on"
        " sorted values.",
        advanced=True,
        former_values={"reduced": "sketch"},
    ),
    Parameter(
        "exact_step",
        ShareOrCount(0, low_open=True),
        0.05,
        'With split="exact": rows between two candidate splits, or their fraction of the rows of the node.',
        symbol="S̄",
        advanced=True,
    ),
    SKETCH,
    SKETCH_DIM,
    Parameter(
        "keep_raw",
        Bool() | AUTO,
        "auto",
        'Whether trees split on the raw features beside the projected ones; "auto": up to 2,048 of them.',
        advanced=True,
    ),
    HISTOGRAM_MB,
    RERANK_WEIGHT,
    RERANK_SCALE,
)

# --- boosted trees with dense losses

CATEGORICAL = Parameter(
    "categorical_features",
    AUTO | Sequences() | NONE,
    "auto",
    'Categorical columns: names, numbers or a boolean mask; "auto": the categorical and text columns of a DataFrame, to'
    " which names and numbers add. At most 255 categories each; unknown ones are treated as missing.",
)
MONOTONE = Parameter(
    "monotone_constraints",
    Sequences() | ByFeature() | NONE,
    None,
    "Monotonic constraint of each feature (and output): 1 increasing, -1 decreasing, 0 none; or a dict by feature name"
    " or number.",
)
WARM_START = Parameter(
    "warm_start", Bool(), False, "Continue from the trees of the last fit, up to n_trees of them."
)
AUTO_REGRESSION = "mse"
"""What ``loss="auto"`` is for numbers."""


def _multi(
    losses: dict[str, type[Objective]], auto: str, metrics: tuple[str, ...], former: dict[str, str]
) -> dict[str, Parameter]:
    return declare(
        replace(N_TREES, description="Number of trees; of rounds with tree_per_output.", symbol="t"),
        LEARNING_RATE,
        Parameter(
            "loss",
            Names(
                ("auto", *losses),
                {name: loss.number for name, loss in losses.items() if loss.number is not None},
            )
            | Function(),
            "auto",
            f'Loss to minimise. "auto" is {auto}; {describe(losses)}; or a function of targets and scores that returns'
            " gradient and hessian.",
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
        replace(MAX_LEAVES, symbol=""),
        MIN_SAMPLES_LEAF,
        L2,
        MAX_BINS,
        SUBSAMPLE,
        COLSAMPLE_BYTREE,
        CATEGORICAL,
        MONOTONE,
        EARLY_STOPPING,
        Parameter(
            "eval_metric",
            Names(metrics) | Function(),
            DenseObjective.default_metric,
            "Metric on eval_set after every tree: a name, or a function of targets and predictions that returns (name,"
            " value, higher_is_better).",
            former_values=former,
        ),
        WARM_START,
        *EXECUTION,
        LEAF_MIN_GAIN,
        GROWTH,
        MIN_HESSIAN_LEAF,
        MIN_GAIN,
        COLSAMPLE_BYNODE,
        Parameter(
            "split",
            Names(("auto", "full", "topk", "topk-shared", "sketch")),
            "auto",
            "Search splits on all outputs (Algorithm 2), on the leaf_labels best of each side (3) or of both (4), or on"
            ' sketched gradients. "auto" is sketch for more than 32 outputs, else topk-shared with leaf_labels, else'
            " full.",
            advanced=True,
            former_values={"reduced": "sketch"},
        ),
        replace(
            SKETCH,
            values=Names(tuple(name for name in REDUCERS if name != "none")),
            default="random-projection",
        ),
        SKETCH_DIM,
        Parameter(
            "hessian",
            Names(("diagonal", "exact")),
            "diagonal",
            "Hessian of each output alone (eq. 15), or the full matrix (eq. 13; softmax of up to 32 classes).",
            advanced=True,
        ),
        Parameter(
            "tree_per_output",
            Bool(),
            False,
            "Whether to grow a tree for each output in every round (GBDT-SO).",
            advanced=True,
        ),
        HISTOGRAM_MB,
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
)

RANKING_METRICS = (*(f"ndcg@{k}" for k in (1, 3, 5, 10)), "map", "mrr", "pairwise")

RANKER = declare(
    replace(N_TREES, symbol=""),
    LEARNING_RATE,
    Parameter(
        "loss",
        Names(tuple(objectives_of("ranking"))),
        "lambdamart",
        "; ".join(loss.description for loss in objectives_of("ranking").values()) + ".",
    ),
    Parameter("metric", Names(CHANGES), "ndcg", "LambdaMART: the metric whose change weights a pair."),
    replace(MAX_DEPTH, symbol=""),
    replace(MAX_LEAVES, symbol=""),
    MIN_SAMPLES_LEAF,
    L2,
    MAX_BINS,
    SUBSAMPLE,
    COLSAMPLE_BYTREE,
    CATEGORICAL,
    MONOTONE,
    EARLY_STOPPING,
    Parameter(
        "eval_metric",
        Names(RANKING_METRICS),
        RankingObjective.default_metric,
        "Metric on eval_set after every tree.",
    ),
    WARM_START,
    *EXECUTION,
    Parameter(
        "places",
        Int(1),
        30,
        "LambdaMART: truncation level; pairs count whose better-ranked document is among the first ones.",
        advanced=True,
    ),
    Parameter(
        "normalise",
        Bool(),
        True,
        "LambdaMART: divide lambdas by the difference of the scores, and bound their sum per query.",
        advanced=True,
    ),
    Parameter(
        "margin",
        Float(0, 1e6),
        1.0,
        "GBRank: wanted difference of the scores of two documents; only a scale without l2.",
        symbol="τ",
        advanced=True,
    ),
    Parameter(
        "averaged",
        Bool(),
        True,
        "GBRank: every tree fits whole scores, and the model is their mean (the paper's update); False adds gradient"
        " steps of the squared hinge, which learns more from many small trees.",
        advanced=True,
    ),
    Parameter(
        "sigma",
        Float(0, 1e6, low_open=True) | NONE,
        None,
        "LambdaMART: steepness of the sigmoid; SmoothDCG: width of the smoothing. None is 1 and 0.3.",
        symbol="σ",
        advanced=True,
    ),
    Parameter(
        "start_rounds",
        Int(1),
        30,
        "SmoothDCG: first rounds, which fit the gains: its gradient is 0 where all scores are equal.",
        advanced=True,
    ),
    Parameter(
        "subsample_by",
        Names(("row", "query")),
        "row",
        "Whether subsample draws rows, or whole queries.",
        advanced=True,
    ),
    GROWTH,
    replace(MIN_HESSIAN_LEAF, default=1e-3),
    MIN_GAIN,
    COLSAMPLE_BYNODE,
    HISTOGRAM_MB,
)

# --- routed trees

ARITY = Parameter("arity", Int(2, MOST_CHILDREN), 2, "Number of children of a node.", symbol="M")
RERANKED = replace(RERANK, description=RERANK.description.removesuffix(" NaN in X is then refused."))

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
        "A node's passes end when one changes the objective J by less than this; 0 makes them all.",
    ),
    Parameter("learning_rate", Float(0, low_open=True), 0.1, "Step size of the routers' updates."),
    Parameter("lambda_1", Float(0), 2.0, "Weight of class integrity in the objective J.", symbol="λ1"),
    Parameter("lambda_2", Float(0), 1.0, "Weight of the multi-way penalty in the objective J.", symbol="λ2"),
    replace(MIN_SAMPLES_LEAF, default=1),
    Parameter(
        "prune",
        Float(0),
        0.01,
        "Routers drop features that change a margin by less than this, and by less than a quarter of what their"
        " strongest feature does.",
    ),
    replace(LEAF_LABELS, symbol=""),
    RERANKED,
    *EXECUTION,
    RERANK_WEIGHT,
    RERANK_SCALE,
)

FOREST = declare(
    replace(N_TREES, default=50, symbol=""),
    replace(ARITY, default=4),
    replace(MIN_SAMPLES_LEAF, default=2),
    replace(MAX_DEPTH, values=Int(0) | NONE, symbol=""),
    Parameter(
        "label_weight",
        Float(0, 4),
        0.0,
        "Labels are weighted by their frequency to the power of minus this: 0 weights all alike, 1 by rarity.",
    ),
    Parameter(
        "router_weights",
        Int(1),
        300,
        "Maximum number of features of a router; a node of few rows has no more than four per row.",
    ),
    Parameter("max_features", SHARE, 1.0, "Fraction of the features sampled for every node's router."),
    Parameter(
        "bootstrap",
        Bool(),
        False,
        "Whether to grow every tree on rows drawn with replacement; gives out-of-bag scores.",
    ),
    replace(LEAF_LABELS, symbol=""),
    replace(
        RERANKED,
        default="auto",
        description=RERANKED.description.replace(
            '"auto" takes the best on a validation set.',
            '"auto" takes "boosted" unless "linear", "bayes" or the forest alone is clearly better on a validation'
            " set.",
        ),
    ),
    *EXECUTION,
    replace(
        SKETCH_DIM, default=64, description="Number of columns that the labels of a node are hashed into."
    ),
    RERANK_WEIGHT,
    RERANK_SCALE,
)

BLEND = declare(
    Parameter(
        "weights",
        AUTO | Sequences() | NONE,
        "auto",
        'A weight per classifier; "auto" takes those of highest mean precision@1, @3 and @5 on held-out rows; None'
        " weights all alike.",
    ),
    Parameter(
        "prefit",
        Bool(),
        False,
        "Whether the classifiers are fitted already; fit then chooses weights on rows that they have not seen."
        " Otherwise it trains copies of them, for weights first without a tenth of the rows (at most 4,000) and then on"
        " all.",
    ),
    replace(N_JOBS, description="Number of threads of prediction; None for all cores."),
    replace(RANDOM_STATE, description="Seed of which rows are held out."),
)
