"""The suites of the benchmark page: datasets, systems, settings and limits.

`settings` apply to every booster, under sparseleaf's parameter names; `overrides` are further settings of single
systems. `seconds` limits a whole process: reading, training, prediction. Boosters and forests stop training after
three quarters of it and are evaluated with the trees trained so far; other systems that exceed it have no result.
The limits are chosen so that everything fits into 90 minutes on two idle cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks import forest, gbdt_mo_paper, ldsm_paper, ranking, sets, tuned
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import System

GB = 10**9
MEMORY_GB = 8.0
TRAINING_SHARE = 0.75
"""Training's share of a process's time limit."""


@dataclass(frozen=True)
class Suite:
    """``cases``: datasets by name. ``axis``: in a sweep, the quantity that grows from case to case."""

    name: str
    title: str
    kind: str
    description: str
    cases: dict[str, Callable[[str], Iterator[sets.Split]]]
    systems: tuple[str, ...]
    settings: dict[str, Any]
    seconds: float
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)
    time_limits: dict[str, float] = field(default_factory=dict)
    """Time limits, in seconds, of systems that need more than ``seconds``."""
    case_overrides: dict[str, dict[str, Any]] = field(default_factory=dict)
    folder: str | None = None
    """Folder of the dataset under ``--data``; synthetic datasets have none."""
    threads: int = 2
    axis: str | None = None
    figure: bool = False

    def jobs(self) -> Iterator[Job]:
        for key in self.systems:
            for case in self.cases:
                yield Job(self, case, key)


@dataclass(frozen=True)
class Job:
    """One process: a system on a case of a suite."""

    suite: Suite
    case: str
    key: str

    @property
    def system(self) -> System:
        return SYSTEMS[self.key]

    @property
    def name(self) -> str:
        return f"{self.suite.name}/{self.case}/{self.key}"

    @property
    def threads(self) -> int:
        return int(self.case) if self.suite.axis == "threads" else self.suite.threads

    @property
    def seconds(self) -> float:
        return self.suite.time_limits.get(self.key, self.suite.seconds)

    @property
    def overrides(self) -> dict[str, Any]:
        return {**self.suite.overrides.get(self.key, {}), **self.suite.case_overrides.get(self.case, {})}

    @property
    def config(self) -> dict[str, Any]:
        """Everything but code and machine that a result depends on; a record with another config is outdated."""
        return {"settings": self.suite.settings, "overrides": self.overrides, "threads": self.threads}


LABEL_SYSTEMS = (
    "sparse-gbdt",
    "sparse-gbdt-tuned",
    "ldsm",
    "sketch-forest",
    "sketch-forest-tuned",
    "sketch-forest-bayes",
    "sketch-forest-trees",
    "multi-gbdt",
    "centroids",
    "neighbours",
    "parabel",
    "bonsai",
    "plt",
    "br",
    "random-forest",
    "extra-trees",
    "xgboost-vector",
    "xgboost",
    "lightgbm",
    "catboost",
    "hist-gradient-boosting",
)
DENSE_SYSTEMS = (
    "multi-gbdt",
    "xgboost-vector",
    "xgboost",
    "lightgbm",
    "catboost",
    "random-forest",
    "extra-trees",
    "hist-gradient-boosting",
    "neighbours",
)

LABEL_BOOSTING = {
    "n_trees": 100,
    "learning_rate": 0.1,
    "max_depth": 6,
    "max_leaves": 64,
    "max_bins": 64,
    "min_samples_leaf": 10,
    "l2": 1.0,
}


LONG_SECONDS = 900
"""Time limit of Bonsai, the most accurate label tree, which predicts single rows slowly."""

TITLE_SYSTEMS = (
    "sketch-forest",
    "sketch-forest-trees",
    "neighbours",
    "centroids",
    "parabel",
    "bonsai",
    "plt",
)

TREES_ONLY = {"rerank": None}
BAYES = {"n_trees": 20, "rerank": "bayes"}


def multilabel(name: str, title: str, description: str, seconds: float) -> Suite:
    overrides: dict[str, dict[str, Any]] = {
        "ldsm": ldsm_paper.TUNED[name] | ldsm_paper.RERANKED.get(name, {}),
        "sketch-forest-trees": TREES_ONLY,
        "sketch-forest-bayes": BAYES,
    }
    if name in tuned.TUNED:
        settings = tuned.BASE | tuned.TUNED[name]
        overrides["sparse-gbdt-tuned"] = {key: value for key, value in settings.items() if key != "n_jobs"}
    if name in forest.TUNED:
        overrides["sketch-forest-tuned"] = forest.TUNED[name]
    systems = tuple(key for key in LABEL_SYSTEMS if not key.endswith("-tuned") or key in overrides)
    return Suite(
        name,
        title,
        "multilabel",
        description,
        {name: sets.xc(name)},
        systems,
        LABEL_BOOSTING,
        seconds,
        overrides,
        time_limits={"bonsai": LONG_SECONDS},
        folder=name,
        figure=True,
    )


def titles(language: str, name: str, description: str) -> Suite:
    """Short texts: the titles of tibkat-gnd's records in one language."""
    key = f"titles-{language}"
    return Suite(
        key,
        f"{name} titles",
        "multilabel",
        description,
        {key: sets.titles(language)},
        TITLE_SYSTEMS,
        LABEL_BOOSTING,
        240,
        {"sketch-forest-trees": TREES_ONLY},
        time_limits={"bonsai": LONG_SECONDS},
        folder="tibkat-gnd-text",
    )


SWEEP_SYSTEMS = (
    "sparse-gbdt",
    "ldsm",
    "sketch-forest-bayes",
    "sketch-forest-trees",
    "parabel",
    "plt",
    "random-forest",
    "xgboost-vector",
    "xgboost",
    "lightgbm",
    "catboost",
)
SWEEP_BOOSTING = LABEL_BOOSTING | {"n_trees": 10}
SWEEP_OVERRIDES: dict[str, dict[str, Any]] = {
    "ldsm": {"n_trees": 10},
    "sketch-forest-trees": {"n_trees": 10} | TREES_ONLY,
    "sketch-forest-bayes": BAYES | {"n_trees": 3},
    "random-forest": {"n_estimators": 10},
}
ROWS, FEATURES, OUTPUTS = 20_000, 2_000, 1_000
SWEEP_SECONDS = 18


def sweep(
    axis: str,
    title: str,
    cases: dict[int, tuple[int, int, int]],
    description: str = "",
    systems: tuple[str, ...] = SWEEP_SYSTEMS,
    seconds: float = SWEEP_SECONDS,
    **others: Any,
) -> Suite:
    """Synthetic datasets of growing size; ``cases``: (rows, features, labels) by the value on the axis."""
    return Suite(
        f"sweep-{axis}",
        title,
        "multilabel",
        description,
        {str(case): sets.synthetic(*shape) for case, shape in cases.items()},
        systems,
        SWEEP_BOOSTING,
        seconds,
        SWEEP_OVERRIDES,
        axis=axis,
        figure=len(cases) > 2,
        **others,
    )


def _small(depth: int, rows: int, bins: int) -> dict[str, Any]:
    return gbdt_mo_paper.sized(depth, 0.1, max_bins=bins, min_samples_leaf=rows) | {"n_trees": 100}


SUITES = {
    suite.name: suite
    for suite in (
        multilabel(
            "delicious",
            "Delicious",
            "Bookmarks and their tags: 12,920 training rows, 500 binary features, 983 labels, 19 per row.",
            120,
        ),
        multilabel(
            "bibtex",
            "Bibtex",
            "Bibliography entries and their tags: 4,880 training rows, 1,836 binary features, 159 labels, 2.4 per row.",
            90,
        ),
        multilabel(
            "tibkat-gnd",
            "tibkat-gnd",
            "Library records and their subject headings: 90,452 training rows, 88,279 tf-idf features, 41,218 labels,"
            " 2.9 per row, most of them rare.",
            240,
        ),
        titles(
            "de",
            "German",
            "The German titles of tibkat-gnd: 49,119 training rows, 25,374 tf-idf features, 8 per row, 24,555 labels,"
            " 2.9 per row.",
        ),
        titles(
            "en",
            "English",
            "The English titles of tibkat-gnd: 41,333 training rows, 16,021 tf-idf features, 8 per row, 22,625 labels,"
            " 2.7 per row.",
        ),
        Suite(
            "mnist",
            "MNIST",
            "multiclass",
            "Handwritten digits: 60,000 training rows, 784 features, 10 classes.",
            {"mnist": sets.mnist},
            (*DENSE_SYSTEMS, "centroids"),
            gbdt_mo_paper.MNIST | {"n_trees": 100},
            70,
            {"neighbours": {"scale": False}},
            folder="mnist",
        ),
        Suite(
            "yeast",
            "Yeast",
            "multiclass",
            "1,484 rows, 8 features, 10 classes; ten random splits, 70 % for training.",
            {"yeast": sets.yeast},
            (*DENSE_SYSTEMS, "centroids"),
            _small(4, 16, 32),
            40,
            folder="yeast",
            threads=1,
        ),
        Suite(
            "inpainting",
            "MNIST-inpainting",
            "regression",
            "Predict 24 pixels of a digit from the 200 above them: 60,000 training rows.",
            {"inpainting": sets.inpainting},
            DENSE_SYSTEMS,
            gbdt_mo_paper.sized(6, 0.1, **gbdt_mo_paper.INPAINTING) | {"n_trees": 100},
            60,
            {"neighbours": {"scale": False, "n_neighbors": 10}},
            folder="mnist",
        ),
        Suite(
            "student-por",
            "Student-por",
            "regression",
            "Predict three grades: 649 rows, 30 features; ten random splits, 70 % for training.",
            {"student-por": sets.student_por},
            DENSE_SYSTEMS,
            _small(4, 4, 8),
            40,
            folder="student-por",
            threads=1,
        ),
        Suite(
            "multitarget",
            "Mulan's multi-target datasets",
            "regression",
            "2 to 16 outputs, 334 to 1,137 rows; five random splits, 70 % for training. aRRMSE is the RMSE of an output"
            " relative to that of predicting its mean, averaged over the outputs.",
            {name: sets.multitarget(name) for name in sets.OUTPUTS},
            DENSE_SYSTEMS,
            _small(4, 5, 64),
            25,
            folder="multitarget",
            threads=1,
        ),
        Suite(
            "lambdarank",
            "lambdarank",
            "ranking",
            "LightGBM's example of learning to rank: 3,005 rows of 201 queries, 300 features, grades 0 to 4; 50 test"
            " queries, five seeds.",
            {"lambdarank": sets.lambdarank},
            ("lambdamart", "gbrank", "smoothdcg", "lightgbm", "xgboost", "catboost"),
            {key: value for key, value in ranking.OURS.items() if key != "n_jobs"}
            | {"max_bins": 255, "max_depth": None},
            40,
            {"gbrank": {"loss": "gbrank", "learning_rate": 0.3}, "smoothdcg": {"loss": "smoothdcg"}},
            folder="lambdarank",
        ),
        sweep(
            "outputs",
            "Number of labels",
            {n: (ROWS, FEATURES, n) for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000)},
        ),
        sweep("rows", "Number of rows", {n: (n, FEATURES, OUTPUTS) for n in (2_000, 20_000, 200_000)}),
        sweep(
            "features", "Number of features", {n: (ROWS, n, OUTPUTS) for n in (500, 5_000, 50_000, 500_000)}
        ),
        sweep(
            "threads",
            "Number of threads",
            dict.fromkeys((1, 2), (100000, FEATURES, OUTPUTS)),
            systems=("sparse-gbdt", "ldsm", "sketch-forest-trees", "parabel", "plt"),
            seconds=80,
        ),
        sweep(
            "workers",
            "Number of MPI workers",
            dict.fromkeys((1, 2), (100000, FEATURES, OUTPUTS)),
            "MPI workers of one thread each, `layout=features`, no projection; seconds of the whole command, reading"
            " included.",
            systems=("mpi",),
            seconds=80,
            threads=1,
            case_overrides={str(n): {"workers": n, "layout": "features", "projection": None} for n in (1, 2)},
        ),
    )
}


def total_time_limit(jobs: list[Job]) -> float:
    """Seconds if every process uses all of its time."""

    return sum(job.seconds for job in jobs)
