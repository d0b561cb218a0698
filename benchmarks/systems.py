"""The systems of the benchmark page behind one face: `fit` on a split, `predict` rows, `save` to a folder.

A booster takes the suite's settings, which are in our words, and says them in its own; what else a system has is in its
`note`, which the page shows, and in `own` of the suite. `predict` answers the five best labels of a row (labels), a
class number (classes), all outputs (numbers) or a score (ranking). Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._peers import lightgbm_parameters, xgboost_parameters

TOP = 5


class TooSlow(Exception):
    """The time limit would be passed by far; ``seconds`` is what all of the training would take."""

    def __init__(self, seconds: float, done: int, wanted: int, what: str) -> None:
        super().__init__(f"{done} of {wanted:,} {what}; all would take about {seconds:,.0f} s")
        self.seconds = seconds


class Pace:
    """Watches a training that goes in steps: it may be stopped when its time is up, or is given up early.

    ``may_stop``: a booster or forest with fewer rounds is still a model, and is measured as that.
    """

    def __init__(self, seconds: float, *, may_stop: bool) -> None:
        self.seconds = seconds
        self.may_stop = may_stop
        self.began = time.perf_counter()
        self.first = 0.0
        self.rounds: int | None = None
        self.wanted: int | None = None

    def begin(self) -> None:
        self.began = time.perf_counter()

    def after(self, done: int, wanted: int) -> bool:
        """Called after ``done`` of ``wanted`` rounds. Whether training shall stop."""
        self.rounds, self.wanted = done, wanted
        if not self.may_stop:
            self.check(done, wanted, "rounds")
            return False
        return time.perf_counter() - self.began > self.seconds

    def check(self, done: int, wanted: int, what: str) -> None:
        """Give up where it is clear from a part that the whole takes twice the time there is.

        The first step, with all that is done but once, says nothing of the others.
        """
        passed = time.perf_counter() - self.began
        if done == 1:
            self.first = passed
            return
        whole = self.first + (passed - self.first) / (done - 1) * (wanted - 1)
        if whole > 2 * self.seconds and (done >= 4 or passed > self.seconds / 2):
            raise TooSlow(whole, done, wanted, what)


@dataclass(frozen=True)
class Task:
    """What a system is asked to do."""

    kind: str
    settings: dict[str, Any]
    own: dict[str, Any]
    threads: int
    pace: Pace

    @property
    def n_trees(self) -> int:
        return int(self.settings["n_trees"])


@dataclass(frozen=True)
class System:
    """``needs``: modules ("m" or "m:name") and programs ("!p") that must be there; ``note``: settings in words."""

    name: str
    needs: str
    kinds: tuple[str, ...]
    make: Callable[[Task], Any]
    note: str
    ours: bool = False

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        for need in self.needs.split():
            module, _, name = need.partition(":")
            if need.startswith("!"):
                if shutil.which(need[1:]) is None:
                    return f"there is no {need[1:]}"
            elif not _found(module):
                return f"{module} is not installed"
            elif name and name not in importlib.import_module(module).__all__:
                return f"{module} has no {name}"
        return None


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def top(scores: Any) -> Any:
    """The five best columns of every row, best first; ties go to the lower column."""
    scores = np.asarray(scores)
    if scores.shape[1] <= TOP:
        ids = np.argsort(-scores, axis=1, kind="stable")
        return np.pad(ids, ((0, 0), (0, TOP - ids.shape[1])), constant_values=-1)
    part = np.sort(np.argpartition(-scores, TOP - 1, axis=1)[:, :TOP], axis=1)
    order = np.argsort(-np.take_along_axis(scores, part, axis=1), axis=1, kind="stable")
    return np.take_along_axis(part, order, axis=1)


def dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


# ---------------------------------------------------------------------------------------------------- ours


class Ours:
    def __init__(self, task: Task, estimator: Any, *, watched: bool = True) -> None:
        self.task, self.estimator, self.watched = task, estimator, watched

    def fit(self, split: Any) -> None:
        self.estimator.set_params(random_state=split.seed)
        more = {"group": split.group} if self.task.kind == "ranking" else {}
        if self.watched:
            pace = self.task.pace
            more["callbacks"] = [lambda state: pace.after(state.tree, state.n_trees)]
        self.estimator.fit(split.X, split.Y, **more)

    def predict(self, X: Any) -> Any:
        if self.task.kind == "labels":
            return self.estimator.predict_topk(X, TOP)[0]
        return self.estimator.predict(X)

    def save(self, folder: Path) -> None:
        self.estimator.save(folder / "model.safetensors")


def sparse_gbdt(task: Task) -> Ours:
    from sparseleaf import SparseGBDTClassifier

    # its defaults; where the suite is about cost, the number of trees is the suite's
    given = {"n_trees": task.n_trees} if "n_trees" in task.settings else {}
    return Ours(task, SparseGBDTClassifier(**given | task.own, n_jobs=task.threads))


def multi_gbdt(task: Task) -> Ours:
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    kind = MultiGBDTRegressor if task.kind == "numbers" else MultiGBDTClassifier
    return Ours(task, kind(**task.settings | task.own, n_jobs=task.threads))


def ldsm(task: Task) -> Ours:
    from sparseleaf import LdSMClassifier

    return Ours(task, LdSMClassifier(**task.own, n_jobs=task.threads), watched=False)


def sketch_forest(task: Task) -> Ours:
    import sparseleaf

    return Ours(task, sparseleaf.SketchForestClassifier(**task.own, n_jobs=task.threads), watched=False)


def ranker(task: Task) -> Ours:
    from sparseleaf import GBDTRanker

    return Ours(task, GBDTRanker(**task.settings | task.own, n_jobs=task.threads))


# ---------------------------------------------------------------------------------------------------- boosters


class XGBoost:
    def __init__(self, task: Task, *, vector: bool) -> None:
        self.task, self.vector = task, vector

    def parameters(self, split: Any) -> dict[str, Any]:
        kind = self.task.kind
        n_classes = int(split.Y.max()) + 1 if kind == "classes" else None
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or 0}  # 0 is no limit
        found = xgboost_parameters(settings, n_classes, vector=self.vector, threads=self.task.threads)
        found |= {"seed": split.seed, "colsample_bytree": self.task.settings.get("colsample_bytree", 1.0)}
        del found["eval_metric"]  # nothing is watched
        if kind == "labels":
            found |= {"objective": "binary:logistic", "min_child_weight": 1}
        elif kind == "ranking":
            found |= {"objective": "rank:ndcg", "min_child_weight": 1, "grow_policy": "lossguide"}
        return found

    def fit(self, split: Any) -> None:
        import xgboost

        pace, wanted = self.task.pace, self.task.n_trees

        class Watch(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return pace.after(epoch + 1, wanted)

        parameters = self.parameters(split)
        targets = split.Y.toarray() if sp.issparse(split.Y) else split.Y
        rows = xgboost.QuantileDMatrix(split.X, targets, max_bin=parameters["max_bin"], group=split.group)
        self.booster = xgboost.train(parameters, rows, wanted, callbacks=[Watch()])

    def predict(self, X: Any) -> Any:
        found = self.booster.inplace_predict(X)
        if self.task.kind == "labels":
            return top(found)
        return found.argmax(axis=1) if self.task.kind == "classes" else found

    def save(self, folder: Path) -> None:
        self.booster.save_model(folder / "model.ubj")


class LightGBM:
    """One model for classes and grades; else one for every output, ``threads`` of them at a time."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import lightgbm

        kind = self.task.kind
        settings = self.task.settings | {"max_depth": self.task.settings["max_depth"] or -1}  # -1 is no limit
        together = kind in ("classes", "ranking")
        objective = {"labels": "binary", "numbers": "regression", "classes": "multiclass"}
        parameters = lightgbm_parameters(settings, self.task.threads if together else 1) | {
            "objective": objective.get(kind, "lambdarank"),
            "seed": split.seed,
            "feature_fraction": settings.get("colsample_bytree", 1.0),
        }
        if together:
            if kind == "classes":
                parameters["num_class"] = int(split.Y.max()) + 1
            pace, wanted = self.task.pace, self.task.n_trees

            def watch(environment: Any) -> None:
                if pace.after(environment.iteration + 1, wanted):
                    raise lightgbm.callback.EarlyStopException(environment.iteration, [])

            rows = lightgbm.Dataset(split.X, split.Y, group=split.group, params=parameters)
            self.boosters = [lightgbm.train(parameters, rows, wanted, callbacks=[watch])]
            return
        columns = split.Y.tocsc() if sp.issparse(split.Y) else split.Y
        n_outputs = columns.shape[1]

        def train(share: int) -> dict[int, Any]:
            rows = lightgbm.Dataset(split.X, params=parameters)  # binned once
            found = {}
            for j in range(share, n_outputs, self.task.threads):
                y = columns[:, [j]].toarray().ravel() if sp.issparse(columns) else columns[:, j]
                if kind == "labels" and not y.any():
                    continue  # a label without rows is never predicted
                rows.set_label(y)
                found[j] = lightgbm.train(parameters, rows, self.task.n_trees, keep_training_booster=True)
                found[j].free_dataset()
                if share == 0:
                    self.task.pace.check(
                        len(found), -(-n_outputs // self.task.threads), "outputs of a thread"
                    )
            return found

        self.n_outputs = n_outputs
        with ThreadPoolExecutor(self.task.threads) as pool:
            parts = list(pool.map(train, range(self.task.threads)))
        self.boosters = {j: model for part in parts for j, model in part.items()}

    def predict(self, X: Any) -> Any:
        if self.task.kind in ("classes", "ranking"):
            found = self.boosters[0].predict(X, num_threads=self.task.threads)
            return found.argmax(axis=1) if self.task.kind == "classes" else found
        found = np.full((X.shape[0], self.n_outputs), -np.inf if self.task.kind == "labels" else 0.0)
        for j, model in self.boosters.items():
            found[:, j] = model.predict(X, num_threads=self.task.threads)
        return top(found) if self.task.kind == "labels" else found

    def save(self, folder: Path) -> None:
        models = self.boosters.values() if isinstance(self.boosters, dict) else self.boosters
        for j, model in enumerate(models):
            model.save_model(folder / f"{j}.txt")


class CatBoost:
    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        import catboost

        settings, pace = self.task.settings, self.task.pace

        class Watch:
            def after_iteration(self, info: Any) -> bool:
                return not pace.after(info.iteration, settings["n_trees"])

        loss = {"labels": "MultiLogloss", "classes": "MultiClass", "numbers": "MultiRMSE"}
        parameters = {
            "iterations": settings["n_trees"],
            "learning_rate": settings["learning_rate"],
            "depth": settings.get("max_depth") or 6,
            "border_count": min(settings.get("max_bins", 254), 254),
            "l2_leaf_reg": settings.get("l2", 1.0),
            "rsm": settings.get("colsample_bytree", 1.0) * settings.get("colsample_bynode", 1.0),
            "loss_function": loss.get(self.task.kind, "YetiRank"),
            "thread_count": self.task.threads,
            "random_seed": split.seed,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        subsample = settings.get("subsample", 1.0)
        if subsample < 1:
            parameters |= {"bootstrap_type": "Bernoulli", "subsample": subsample}
        else:
            parameters |= {"bootstrap_type": "No"}
        more = {}
        if split.group is not None:
            more["group_id"] = np.repeat(np.arange(len(split.group)), split.group)
        targets = split.Y.toarray().astype(np.int8) if sp.issparse(split.Y) else split.Y
        self.pruned = None
        if self.task.kind == "labels":  # it refuses outputs that never change
            self.pruned = np.flatnonzero(np.ptp(targets, axis=0))
            targets = targets[:, self.pruned]
        self.model = catboost.CatBoost(parameters)
        self.model.fit(catboost.Pool(split.X, targets, **more), callbacks=[Watch()])

    def predict(self, X: Any) -> Any:
        found = self.model.predict(X, thread_count=self.task.threads)
        if self.task.kind == "labels":
            return np.append(self.pruned, -1)[top(found)]
        return found.argmax(axis=1) if self.task.kind == "classes" else found

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / "model.cbm"))


# ---------------------------------------------------------------------------------------------------- scikit-learn


class Sklearn:
    """Saved as scikit-learn's users do, with joblib."""

    task: Task
    model: Any

    def save(self, folder: Path) -> None:
        import joblib

        joblib.dump(self.model, folder / "model.joblib")


class Forest(Sklearn):
    """Grown a few trees at a time, so that it can be stopped. Labels as numbers: the same cuts, half the memory."""

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name

    def fit(self, split: Any) -> None:
        import sklearn.ensemble

        settings = {"n_estimators": 100} | self.task.own
        kind = "Classifier" if self.task.kind == "classes" else "Regressor"
        if self.task.kind == "labels":
            settings = {"max_features": "sqrt", "min_samples_leaf": 5} | settings
        wanted = settings.pop("n_estimators")
        self.model = getattr(sklearn.ensemble, self.name + kind)(
            **settings, warm_start=True, n_jobs=self.task.threads, random_state=split.seed
        )
        targets = split.Y.toarray() if sp.issparse(split.Y) else split.Y
        pace, done, over = self.task.pace, 0, False
        while done < wanted and not over:
            passed = time.perf_counter() - pace.began
            at_once = int(done * pace.seconds / 20 / passed) if done else 0  # in a twentieth of the time
            done = min(wanted, done + max(2 * self.task.threads, at_once))
            self.model.set_params(n_estimators=done).fit(split.X, targets)
            over = pace.after(done, wanted)

    def predict(self, X: Any) -> Any:
        found = self.model.predict(X)
        return top(found) if self.task.kind == "labels" else found


class HistGradientBoosting(Sklearn):
    """One model for classes; else one for every output."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        settings = self.task.settings
        parameters = {
            "max_iter": settings["n_trees"],
            "learning_rate": settings["learning_rate"],
            "max_depth": settings["max_depth"],
            "max_leaf_nodes": settings["max_leaves"],
            "min_samples_leaf": settings["min_samples_leaf"],
            "l2_regularization": settings.get("l2", 1.0),
            "max_bins": settings["max_bins"],
            "max_features": settings.get("colsample_bynode", 1.0),
            "early_stopping": False,
            "random_state": split.seed,
        }
        X = dense(split.X)
        if self.task.kind == "classes":
            self.model = HistGradientBoostingClassifier(**parameters).fit(X, split.Y)
            return
        kind = (
            HistGradientBoostingRegressor if self.task.kind == "numbers" else HistGradientBoostingClassifier
        )
        columns = split.Y.tocsc() if sp.issparse(split.Y) else split.Y
        self.model = {}
        for j in range(columns.shape[1]):
            y = columns[:, [j]].toarray().ravel() if sp.issparse(columns) else columns[:, j]
            if len(np.unique(y)) > 1:
                self.model[j] = kind(**parameters).fit(X, y)
            self.task.pace.check(j + 1, columns.shape[1], "outputs")
        self.n_outputs = columns.shape[1]

    def predict(self, X: Any) -> Any:
        X = dense(X)
        if self.task.kind == "classes":
            return self.model.predict(X)
        labels = self.task.kind == "labels"
        found = np.full((len(X), self.n_outputs), -np.inf if labels else 0.0)
        for j, model in self.model.items():
            found[:, j] = model.decision_function(X) if labels else model.predict(X)
        return top(found) if labels else found


# ---------------------------------------------------------------------------------------------------- label trees


class Omikuji:
    """It reads XC text, which is not counted, and predicts a row at a time: threads take turns."""

    def __init__(self, task: Task, changes: dict[str, Any]) -> None:
        self.task, self.changes = task, changes

    def prepare(self, split: Any, folder: Path) -> None:
        from sparseleaf.data import save_xc

        self.file = folder / "train.txt"
        save_xc(self.file, sp.csr_matrix(split.X), split.Y)

    def fit(self, split: Any) -> None:
        import omikuji

        parameters = omikuji.Model.default_hyper_param()
        for name, value in self.changes.items():
            setattr(parameters, name, value)
        self.model = omikuji.Model.train_on_data(str(self.file), parameters, self.task.threads)
        self.model.init_prediction_thread_pool(1)

    def predict(self, X: Any) -> Any:
        X = sp.csr_matrix(X)
        ids = np.full((X.shape[0], TOP), -1)

        def rows(share: int) -> None:
            for i in range(share, X.shape[0], self.task.threads):
                a, b = X.indptr[i], X.indptr[i + 1]
                pairs = list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
                found = self.model.predict(pairs, top_k=TOP)
                ids[i, : len(found)] = [label for label, _ in found]

        with ThreadPoolExecutor(self.task.threads) as pool:
            list(pool.map(rows, range(self.task.threads)))
        return ids

    def save(self, folder: Path) -> None:
        self.model.save(str(folder))


class NapkinXC:
    """It writes its model while it trains, and its model is loaded from there."""

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name

    def prepare(self, split: Any, folder: Path) -> None:
        self.folder = folder

    def fit(self, split: Any) -> None:
        import napkinxc.models

        kind = getattr(napkinxc.models, self.name)
        seed = {"seed": split.seed} if self.name == "PLT" else {}
        self.model = kind(str(self.folder / "model"), threads=self.task.threads, **seed, **self.task.own)
        Y = split.Y.tocsr()
        labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr, Y.indptr[1:], strict=False)]
        self.model.fit(sp.csr_matrix(split.X, dtype=np.float32), labels)

    def predict(self, X: Any) -> Any:
        found = self.model.predict(sp.csr_matrix(X, dtype=np.float32), top_k=TOP)
        return np.array([(*row[:TOP], *[-1] * (TOP - len(row))) for row in found])

    def save(self, folder: Path) -> None:
        for file in (self.folder / "model").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())


# ---------------------------------------------------------------------------------------------------- baselines

NEIGHBOURS = 50
BLOCK_ROWS = 1_000


class NearestNeighbours:
    """Votes weighed by the cosine for sparse rows; sklearn's for dense ones, on standardised features."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
        from sklearn.pipeline import make_pipeline

        self.Y = split.Y
        if self.task.kind == "labels":
            index = NearestNeighbors(n_neighbors=NEIGHBOURS, metric="cosine", algorithm="brute")
            self.model = index.set_params(n_jobs=self.task.threads).fit(split.X)
            return
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import StandardScaler

        kind = KNeighborsClassifier if self.task.kind == "classes" else KNeighborsRegressor
        own = {"n_neighbors": 5, "scale": True} | self.task.own
        steps = [SimpleImputer(keep_empty_features=True), *([StandardScaler()] if own.pop("scale") else [])]
        self.model = make_pipeline(*steps, kind(**own, n_jobs=self.task.threads)).fit(split.X, split.Y)

    def predict(self, X: Any) -> Any:
        if self.task.kind != "labels":
            return self.model.predict(X)
        found = []
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            far, near = self.model.kneighbors(X[begin : begin + BLOCK_ROWS])
            n, k = near.shape
            votes = sp.csr_matrix(
                (1 - far.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), (n, self.Y.shape[0])
            )
            found.append(top((votes @ self.Y).toarray()))
        return np.concatenate(found)

    def save(self, folder: Path) -> None:
        import joblib

        joblib.dump((self.model, self.Y), folder / "model.joblib")


class LabelCentroids(Sklearn):
    """Labels whose mean row is nearest in angle; for classes sklearn's NearestCentroid."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def fit(self, split: Any) -> None:
        from sklearn.neighbors import NearestCentroid
        from sklearn.preprocessing import normalize

        if self.task.kind == "classes":
            self.model = NearestCentroid().fit(split.X, split.Y)
        else:
            self.model = normalize(split.Y.T.tocsr() @ normalize(sp.csr_matrix(split.X))).T.tocsr()

    def predict(self, X: Any) -> Any:
        if self.task.kind == "classes":
            return self.model.predict(X)
        blocks = (X[a : a + BLOCK_ROWS] for a in range(0, X.shape[0], BLOCK_ROWS))
        return np.concatenate([top((sp.csr_matrix(block) @ self.model).toarray()) for block in blocks])


# ---------------------------------------------------------------------------------------------------- many processes


class OverMPI:
    """``mpiexec -n workers sparseleaf train --engine mpi`` on as many files; seconds are the whole command's."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.workers = task.own["workers"]

    def prepare(self, split: Any, folder: Path) -> None:
        from sparseleaf.data import save_xc

        self.folder = folder
        for part, rows in enumerate(np.array_split(np.arange(split.X.shape[0]), self.workers)):
            save_xc(folder / f"part-{part}.txt", split.X[rows], split.Y[rows])

    def fit(self, split: Any) -> None:
        settings = [f"n_trees={self.task.n_trees}", "n_jobs=1"]
        command = ["mpiexec", "--oversubscribe", "-n", str(self.workers), sys.executable, "-m", "sparseleaf"]
        command += ["train", *sorted(str(p) for p in self.folder.glob("part-*.txt"))]
        command += ["-m", str(self.folder / "model.safetensors"), "--engine", "mpi"]
        for setting in settings:
            command += ["--set", setting]
        if "mpich" in subprocess.run(["mpiexec", "--version"], capture_output=True, text=True).stdout.lower():
            command.remove("--oversubscribe")
        subprocess.run(command, check=True)

    def predict(self, X: Any) -> Any:
        import sparseleaf

        return sparseleaf.load(self.folder / "model.safetensors").predict_topk(X, TOP)[0]

    def save(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes((self.folder / "model.safetensors").read_bytes())


# ---------------------------------------------------------------------------------------------------- the list

ALL = ("labels", "classes", "numbers")
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
        "SketchForest", "sparseleaf:SketchForestClassifier", ("labels",), sketch_forest, "its defaults", True
    ),
    "sketch-forest-reranked": System(
        "SketchForest (re-ranked)",
        "sparseleaf:SketchForestClassifier",
        ("labels",),
        sketch_forest,
        "its defaults, candidates re-ranked by label centroids",
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
        "the suite's settings; labels and numbers: a model an output, two at a time; ranking: `lambdarank`",
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
        "sparseleaf.engine.mpi mpi4py !mpiexec",
        ("labels",),
        OverMPI,
        "a thread a worker",
        True,
    ),
}


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
