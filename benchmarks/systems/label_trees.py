"""Linear label trees: omikuji (Parabel, Bonsai) and napkinXC (PLT, and BR, binary relevance)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.systems.base import TOP, Task


class Omikuji:
    """Reads its training set from XC text (not timed) and predicts single rows, here from a pool of threads."""

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

        def predict_rows(first: int) -> None:
            for i in range(first, X.shape[0], self.task.threads):
                a, b = X.indptr[i], X.indptr[i + 1]
                pairs = list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
                best = self.model.predict(pairs, top_k=TOP)
                ids[i, : len(best)] = [label for label, _ in best]

        with ThreadPoolExecutor(self.task.threads) as pool:
            list(pool.map(predict_rows, range(self.task.threads)))
        return ids

    def save(self, folder: Path) -> None:
        self.model.save(str(folder))


class NapkinXC:
    """Writes its model to a folder during training and loads it from there for prediction."""

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name

    def prepare(self, split: Any, folder: Path) -> None:
        self.folder = folder

    def fit(self, split: Any) -> None:
        import napkinxc.models

        kind = getattr(napkinxc.models, self.name)
        seed = {"seed": split.seed} if self.name == "PLT" else {}
        self.model = kind(
            str(self.folder / "model"), threads=self.task.threads, **seed, **self.task.overrides
        )
        Y = split.Y.tocsr()
        labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr, Y.indptr[1:], strict=False)]
        self.model.fit(sp.csr_matrix(split.X, dtype=np.float32), labels)

    def predict(self, X: Any) -> Any:
        best = self.model.predict(sp.csr_matrix(X, dtype=np.float32), top_k=TOP)
        return np.array([(*row[:TOP], *[-1] * (TOP - len(row))) for row in best])

    def save(self, folder: Path) -> None:
        for file in (self.folder / "model").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
