"""The parameters that boosted trees with dense losses share, and what each means."""

from __future__ import annotations

from sparseleaf.binning import MAX_BINS
from sparseleaf.boosting.frontier import FRONTIERS
from sparseleaf.boosting.reducers import REDUCERS
from sparseleaf.estimators.parameters import N_JOBS, SAMPLING_PARAMETERS, Parameter
from sparseleaf.objectives import Objective, describe

SPLITS = ("auto", "full", "topk", "topk-shared", "reduced")
REDUCERS_OF_MANY = tuple(name for name in REDUCERS if name != "none")

COMMON: dict[str, Parameter] = {
    "n_trees": Parameter("int", "Number of trees; rounds with tree_per_output.", low=1, symbol="t"),
    "learning_rate": Parameter("float", "Every leaf is multiplied by it.", low=0, high=1, low_open=True),
    "loss": Parameter("name", "", symbol="l"),
    "leaf_outputs": Parameter(
        "int",
        "Outputs a leaf keeps, those of largest G²/(H + l2); None keeps all.",
        low=1,
        none=True,
        symbol="k",
    ),
    "leaf_min_gain": Parameter(
        "float", "Keep a leaf's entry only if it lowers the loss by this: G²/(H + l2).", low=0
    ),
    "max_depth": Parameter(
        "int", "Levels of a tree below its root; None for no limit.", low=1, none=True, symbol="h"
    ),
    "max_leaves": Parameter("int", "Leaves of a tree; None for no limit.", low=2, none=True),
    "growth": Parameter(
        "name", "The node of highest gain next, or a level at a time.", choices=tuple(FRONTIERS)
    ),
    "min_samples_leaf": Parameter("int", "Rows a leaf must have.", low=1),
    "min_curvature_leaf": Parameter(
        "float", "Σ of the curvatures H, over rows and outputs, that a leaf must have.", low=0
    ),
    "l2": Parameter("float", "Leaf value is -G/(H + l2).", low=0, symbol="λ"),
    "min_gain": Parameter(
        "float", "A cut must raise Σ G²/(H + l2), over all outputs, by more than this.", low=0, symbol="γ"
    ),
    "max_bins": Parameter("int", "Bins of a feature.", low=2, high=MAX_BINS, symbol="b"),
    "hessian": Parameter(
        "name",
        "Curvatures of each output alone (eq. 15), or their full matrix (eq. 13; softmax of up to 32 classes).",
        choices=("diagonal", "exact"),
    ),
    "split": Parameter(
        "name",
        "Search cuts on all outputs (Algorithm 2), on the leaf_outputs best of each side (3) or of both (4), or on "
        'reduced gradients; "auto": reduced for more than 32 outputs, else topk-shared with leaf_outputs, else full.',
        choices=SPLITS,
    ),
    "reducer": Parameter(
        "name", 'How split="reduced" makes few columns of many outputs.', choices=REDUCERS_OF_MANY
    ),
    "sketch_dim": Parameter("int", "Columns of the reduced gradients.", low=1, high=4096),
    "tree_per_output": Parameter("flag", "A tree for each output in every round (GBDT-SO)."),
    "categorical_features": Parameter(
        "list",
        'Categorical columns. "auto": the categorical and text columns of a DataFrame; names or numbers of columns add '
        "to these; a mask (a boolean per column) replaces them; None: no column. At most 255 categories each; unknown "
        "ones are treated as missing.",
        choices=("auto",),
        none=True,
    ),
    "monotone_constraints": Parameter(
        "list",
        "Monotonic constraint of each feature (and output): 1 increasing, -1 decreasing, 0 none; or a dict by feature "
        "name or number.",
        none=True,
        by_feature=True,
    ),
    **SAMPLING_PARAMETERS,
    "early_stopping_rounds": Parameter(
        "int", "Stop when eval_metric on eval_set has not become better for so many trees.", low=1, none=True
    ),
    "eval_metric": Parameter("name", ""),
    "warm_start": Parameter("flag", "Go on from the trees of the last fit, up to n_trees of them."),
    "histogram_mb": Parameter("int", "Memory for histograms, in MiB; past it they are rebuilt.", low=1),
    "n_jobs": N_JOBS,
    "random_state": Parameter("seed", "Seed of all random draws."),
    "verbose": Parameter(
        "int", "0 silent, 1 a progress bar on a terminal, 2 a line per phase and tree.", low=0
    ),
}


def multi_parameters(
    losses: dict[str, type[Objective]], about: str, metrics: tuple[str, ...]
) -> dict[str, Parameter]:
    """All parameters, of an estimator with these losses, about which this is said, and these metrics."""
    return COMMON | {
        "loss": Parameter(
            "name",
            f"Loss to minimise. {about}; {describe(losses)}; or a function of targets and scores that returns gradient "
            "and hessian.",
            choices=("auto", *losses),
            with_number={name: loss.number for name, loss in losses.items() if loss.number is not None},
            function=True,
            symbol="l",
        ),
        "eval_metric": Parameter(
            "name",
            "What is measured on eval_set after every tree: a name, or a function of targets and predictions that "
            "answers (name, value, whether higher is better).",
            choices=metrics,
            function=True,
        ),
    }
