"""The suites of the benchmark page: a set (or several), who is measured on it, with what settings and limits.

`settings` are for every booster, in our words; `own` is what a system gets besides. `seconds` limits a process whole:
reading, training, predicting. Boosters and forests stop training by themselves after three quarters of it and are
measured as they are then; what cannot be stopped, and runs out of time, has no result, which is a result.
The limits are such that everything fits into 90 minutes on two idle cores.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks import gbdt_mo_paper, ldsm_paper, ranking, sets, tuned
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import System

GB = 10**9
MEMORY_GB = 8.0
SOFT_SHARE = 0.75
"""Of a process's time, for training."""


@dataclass(frozen=True)
class Suite:
    """``cases``: the sets by name. ``axis``: what grows from case to case, in a sweep."""

    name: str
    title: str
    kind: str
    about: str
    cases: dict[str, Callable[[str], Iterator[sets.Split]]]
    systems: tuple[str, ...]
    settings: dict[str, Any]
    seconds: float
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    longer: dict[str, float] = field(default_factory=dict)
    """Seconds of systems that the others' would cut off."""
    case_own: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: str | None = None
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
        return self.suite.longer.get(self.key, self.suite.seconds)

    @property
    def own(self) -> dict[str, Any]:
        return {**self.suite.own.get(self.key, {}), **self.suite.case_own.get(self.case, {})}

    @property
    def asked(self) -> dict[str, Any]:
        """What a result depends on besides code and machine: where it differs, a result is of another job."""
        return {"settings": self.suite.settings, "own": self.own, "threads": self.threads}


LABEL_SYSTEMS = (
    "sparse-gbdt",
    "sparse-gbdt-turned",
    "ldsm",
    "sketch-forest",
    "sketch-forest-turned",
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
"""Of Bonsai, the strongest label tree, which takes long to predict in single rows."""

TITLE_SYSTEMS = (
    "sketch-forest",
    "sketch-forest-trees",
    "neighbours",
    "centroids",
    "parabel",
    "bonsai",
    "plt",
)

TREES_ALONE = {"rerank": None}
BAYES = {"n_trees": 20, "rerank": "bayes"}
FOREST_TURNED: dict[str, dict[str, Any]] = (
    importlib.import_module("benchmarks.forest").FOREST
    if importlib.util.find_spec("benchmarks.forest")
    else {}
)


def labels(name: str, title: str, about: str, seconds: float, **own: dict[str, Any]) -> Suite:
    given: dict[str, dict[str, Any]] = {
        "ldsm": ldsm_paper.TURNED[name] | ldsm_paper.RERANKED.get(name, {}),
        "sketch-forest-trees": TREES_ALONE,
        "sketch-forest-bayes": BAYES,
    }
    if name in tuned.FOUND:
        turned = tuned.BASE | tuned.FOUND[name]
        given["sparse-gbdt-turned"] = {key: value for key, value in turned.items() if key != "n_jobs"}
    if name in FOREST_TURNED:
        given["sketch-forest-turned"] = FOREST_TURNED[name]
    systems = tuple(key for key in LABEL_SYSTEMS if not key.endswith("-turned") or key in given)
    return Suite(
        name,
        title,
        "labels",
        about,
        {name: sets.xc(name)},
        systems,
        LABEL_BOOSTING,
        seconds,
        given | own,
        longer={"bonsai": LONG_SECONDS},
        needs=name,
        figure=True,
    )


def titles(language: str, name: str, about: str) -> Suite:
    """Short texts: the titles of tibkat-gnd's records in one language."""
    key = f"titles-{language}"
    return Suite(
        key,
        f"{name} titles",
        "labels",
        about,
        {key: sets.titles(language)},
        TITLE_SYSTEMS,
        LABEL_BOOSTING,
        240,
        {"sketch-forest-trees": TREES_ALONE},
        longer={"bonsai": LONG_SECONDS},
        needs="tibkat-gnd-text",
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
SWEEP_OWN: dict[str, dict[str, Any]] = {
    "ldsm": {"n_trees": 10},
    "sketch-forest-trees": {"n_trees": 10} | TREES_ALONE,
    "sketch-forest-bayes": BAYES | {"n_trees": 3},
    "random-forest": {"n_estimators": 10},
}
ROWS, FEATURES, OUTPUTS = 20_000, 2_000, 1_000
SWEEP_SECONDS = 18


def sweep(axis: str, title: str, cases: dict[int, tuple[int, int, int]], **changes: Any) -> Suite:
    given: dict[str, Any] = {"systems": SWEEP_SYSTEMS, "seconds": SWEEP_SECONDS} | changes
    return Suite(
        f"sweep-{axis}",
        title,
        "labels",
        given.get("about", ""),
        {str(case): sets.made(*shape) for case, shape in cases.items()},
        given["systems"],
        SWEEP_BOOSTING,
        given["seconds"],
        SWEEP_OWN,
        case_own=given.get("case_own", {}),
        threads=given.get("threads", 2),
        axis=axis,
        figure=len(cases) > 2,
    )


def _small(depth: int, rows: int, bins: int) -> dict[str, Any]:
    return gbdt_mo_paper.sized(depth, 0.1, max_bins=bins, min_samples_leaf=rows) | {"n_trees": 100}


SUITES = {
    suite.name: suite
    for suite in (
        labels("delicious", "Delicious", "983 tags, 19 a row; 500 binary features, 12,920 rows.", 120),
        labels("bibtex", "Bibtex", "159 tags, 2.4 a row; 1,836 binary features, 4,880 rows.", 90),
        labels(
            "tibkat-gnd",
            "tibkat-gnd",
            "41,218 subject headings, 2.9 a row, most of them rare; 88,279 tf-idf features, 90,452 rows.",
            240,
        ),
        titles(
            "de",
            "German",
            "24,555 subject headings, 2.9 a row; 25,374 tf-idf features, 8 a row, 49,119 rows.",
        ),
        titles(
            "en",
            "English",
            "22,625 subject headings, 2.7 a row; 16,021 tf-idf features, 8 a row, 41,333 rows.",
        ),
        Suite(
            "mnist",
            "MNIST",
            "classes",
            "Ten classes; 784 features, 60,000 rows.",
            {"mnist": sets.mnist},
            (*DENSE_SYSTEMS, "centroids"),
            gbdt_mo_paper.MNIST | {"n_trees": 100},
            70,
            {"neighbours": {"scale": False}},
            needs="mnist",
        ),
        Suite(
            "yeast",
            "Yeast",
            "classes",
            "Ten classes; 8 features, 1,484 rows, 70 % to train on, ten draws.",
            {"yeast": sets.yeast},
            (*DENSE_SYSTEMS, "centroids"),
            _small(4, 16, 32),
            40,
            needs="yeast",
            threads=1,
        ),
        Suite(
            "inpainting",
            "MNIST-inpainting",
            "numbers",
            "24 pixels from the 200 above them; 60,000 rows.",
            {"inpainting": sets.inpainting},
            DENSE_SYSTEMS,
            gbdt_mo_paper.sized(6, 0.1, **gbdt_mo_paper.INPAINTING) | {"n_trees": 100},
            60,
            {"neighbours": {"scale": False, "n_neighbors": 10}},
            needs="mnist",
        ),
        Suite(
            "student-por",
            "Student-por",
            "numbers",
            "Three grades; 30 features, 649 rows, 70 % to train on, ten draws.",
            {"student-por": sets.student_por},
            DENSE_SYSTEMS,
            _small(4, 4, 8),
            40,
            needs="student-por",
            threads=1,
        ),
        Suite(
            "multitarget",
            "Mulan's sets of several targets",
            "numbers",
            "2 to 16 outputs, 334 to 1,137 rows, 70 % to train on, five draws. aRRMSE: the error of every output over"
            " that of its mean, averaged.",
            {name: sets.multitarget(name) for name in sets.OUTPUTS},
            DENSE_SYSTEMS,
            _small(4, 5, 64),
            25,
            needs="multitarget",
            threads=1,
        ),
        Suite(
            "lambdarank",
            "lambdarank",
            "ranking",
            "Grades 0 to 4; 300 features, 3,005 rows of 201 queries, 50 queries to test, five seeds.",
            {"lambdarank": sets.lambdarank},
            ("lambdamart", "gbrank", "smoothdcg", "lightgbm", "xgboost", "catboost"),
            {key: value for key, value in ranking.OURS.items() if key != "n_jobs"}
            | {"max_bins": 255, "max_depth": None},
            40,
            {"gbrank": {"loss": "gbrank", "learning_rate": 0.3}, "smoothdcg": {"loss": "smoothdcg"}},
            needs="lambdarank",
        ),
        sweep(
            "outputs",
            "More outputs",
            {n: (ROWS, FEATURES, n) for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000)},
        ),
        sweep("rows", "More rows", {n: (n, FEATURES, OUTPUTS) for n in (2_000, 20_000, 200_000)}),
        sweep("features", "More features", {n: (ROWS, n, OUTPUTS) for n in (500, 5_000, 50_000, 500_000)}),
        sweep(
            "threads",
            "More threads",
            dict.fromkeys((1, 2), (100000, FEATURES, OUTPUTS)),
            systems=("sparse-gbdt", "ldsm", "sketch-forest-trees", "parabel", "plt"),
            seconds=80,
        ),
        sweep(
            "workers",
            "More workers",
            dict.fromkeys((1, 2), (100000, FEATURES, OUTPUTS)),
            systems=("mpi",),
            about="By features, of which there are 2,000, and without a projection, which one process fits for all;"
            " seconds are the whole command's.",
            seconds=80,
            threads=1,
            case_own={str(n): {"workers": n, "layout": "features", "projection": None} for n in (1, 2)},
        ),
    )
}


def worst_seconds(jobs: list[Job]) -> float:
    """Should every process use all of its time."""
    return sum(job.seconds for job in jobs)
