"""sparseleaf's estimators, in one process or in several over MPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.systems.base import TOP, Task, program


class Ours:
    """An estimator; ``boosted`` ones stop at the end of the time budget."""

    def __init__(self, task: Task, estimator: Any, *, boosted: bool = True) -> None:
        self.task, self.estimator, self.boosted = task, estimator, boosted

    def fit(self, split: Any) -> None:
        self.estimator.set_params(random_state=split.seed)
        arguments = {"group": split.group} if self.task.kind == "ranking" else {}
        if self.boosted:
            budget = self.task.budget
            arguments["callbacks"] = [lambda state: budget.after_round(state.tree, state.n_trees)]
        self.estimator.fit(split.X, split.Y, **arguments)

    def predict(self, X: Any) -> Any:
        if self.task.kind == "multilabel":
            return self.estimator.predict_topk(X, TOP)[0]
        return self.estimator.predict(X)

    def save(self, folder: Path) -> None:
        self.estimator.save(folder / "model.safetensors")


def sparse_gbdt(task: Task) -> Ours:
    from sparseleaf import SparseGBDTClassifier

    # defaults but for the number of trees, which is the suite's (fewer in the scaling sweeps)
    settings = {"n_trees": task.n_trees} | task.overrides
    return Ours(task, SparseGBDTClassifier.from_settings({**settings, "n_jobs": task.threads}))


def multi_gbdt(task: Task) -> Ours:
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    kind = MultiGBDTRegressor if task.kind == "regression" else MultiGBDTClassifier
    return Ours(task, kind.from_settings({**task.settings | task.overrides, "n_jobs": task.threads}))


def ldsm(task: Task) -> Ours:
    from sparseleaf import LdSMClassifier

    return Ours(task, LdSMClassifier.from_settings({**task.overrides, "n_jobs": task.threads}), boosted=False)


def sketch_forest(task: Task) -> Ours:
    import sparseleaf

    return Ours(
        task,
        sparseleaf.SketchForestClassifier.from_settings({**task.overrides, "n_jobs": task.threads}),
        boosted=False,
    )


def ranker(task: Task) -> Ours:
    from sparseleaf import GBDTRanker

    return Ours(task, GBDTRanker.from_settings({**task.settings | task.overrides, "n_jobs": task.threads}))


class OverMPI:
    """``mpiexec -n workers sparseleaf train --engine mpi``, one file per worker; timed as a whole command."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.workers = task.overrides["workers"]

    def prepare(self, split: Any, folder: Path) -> None:
        from sparseleaf.data import save_xc

        self.folder = folder
        for part, rows in enumerate(np.array_split(np.arange(split.X.shape[0]), self.workers)):
            save_xc(folder / f"part-{part}.txt", split.X[rows], split.Y[rows])

    def fit(self, split: Any) -> None:
        mpiexec = program("mpiexec")
        assert mpiexec is not None
        version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
        options = ["--oversubscribe", "--allow-run-as-root"] if "Open MPI" in version else []
        command = [mpiexec, *options, "-n", str(self.workers), sys.executable, "-m", "sparseleaf", "train"]

        command += sorted(str(path) for path in self.folder.glob("part-*.txt"))
        command += ["-m", str(self.folder / "model.safetensors"), "--engine", "mpi", "--jobs", "1"]
        settings = [f"n_trees={self.task.n_trees}", f"projection={self.task.overrides['projection']}"]
        command += ["--layout", self.task.overrides["layout"], *(f"--set={setting}" for setting in settings)]
        subprocess.run(command, check=True)

    def predict(self, X: Any) -> Any:
        import sparseleaf

        return sparseleaf.load(self.folder / "model.safetensors").predict_topk(X, TOP)[0]

    def save(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes((self.folder / "model.safetensors").read_bytes())
