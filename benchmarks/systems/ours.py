"""Our estimators, in one process or in several over MPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.systems.base import TOP, Task, program


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
    return Ours(task, SparseGBDTClassifier.from_settings({**given | task.own, "n_jobs": task.threads}))


def multi_gbdt(task: Task) -> Ours:
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    kind = MultiGBDTRegressor if task.kind == "numbers" else MultiGBDTClassifier
    return Ours(task, kind.from_settings({**task.settings | task.own, "n_jobs": task.threads}))


def ldsm(task: Task) -> Ours:
    from sparseleaf import LdSMClassifier

    return Ours(task, LdSMClassifier.from_settings({**task.own, "n_jobs": task.threads}), watched=False)


def sketch_forest(task: Task) -> Ours:
    import sparseleaf

    return Ours(
        task,
        sparseleaf.SketchForestClassifier.from_settings({**task.own, "n_jobs": task.threads}),
        watched=False,
    )


def ranker(task: Task) -> Ours:
    from sparseleaf import GBDTRanker

    return Ours(task, GBDTRanker.from_settings({**task.settings | task.own, "n_jobs": task.threads}))


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
        mpiexec = program("mpiexec")
        assert mpiexec is not None
        version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
        more = ["--oversubscribe", "--allow-run-as-root"] if "Open MPI" in version else []
        command = [mpiexec, *more, "-n", str(self.workers), sys.executable, "-m", "sparseleaf", "train"]
        command += sorted(str(path) for path in self.folder.glob("part-*.txt"))
        command += ["-m", str(self.folder / "model.safetensors"), "--engine", "mpi", "--jobs", "1"]
        settings = [f"n_trees={self.task.n_trees}", f"projection={self.task.own['projection']}"]
        command += ["--layout", self.task.own["layout"], *(f"--set={setting}" for setting in settings)]
        subprocess.run(command, check=True)

    def predict(self, X: Any) -> Any:
        import sparseleaf

        return sparseleaf.load(self.folder / "model.safetensors").predict_topk(X, TOP)[0]

    def save(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes((self.folder / "model.safetensors").read_bytes())
