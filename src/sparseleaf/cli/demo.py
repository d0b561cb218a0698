"""``sparseleaf demo``: train on synthetic data, compare with baselines, plot the learning curve."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf.cli._common import Jobs, check_folder, readable_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from scipy import sparse

    from sparseleaf.estimators import SparseGBDTClassifier

NAME = "sparseleaf-demo"
ROWS = {"train": 8000, "valid": 1000, "test": 2000}
TREES = 80
RATE = 0.15
NEIGHBOURS = 20
TOP = 5


@dataclass(frozen=True)
class Result:
    """A row of the table: ``ranking`` in a form that the metrics accept, ``size`` in bytes."""

    name: str
    ranking: Any
    train_seconds: float
    predict_seconds: float
    size: float


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the model, the test data and the plot.")] = Path(),
    jobs: Jobs = None,
) -> None:
    """Train on a synthetic dataset, compare with simple baselines and plot the learning curve."""
    if not out.is_dir():
        raise ValueError(f"--out {out}: the directory does not exist.")
    check_folder(out, f"--out {out}")

    from rich.console import Console

    from sparseleaf import SparseGBDTClassifier
    from sparseleaf.data import save_xc
    from sparseleaf.plotting import draw_learning_curve

    console = Console(highlight=False)
    parts = make_parts()
    X, Y = parts["train"]
    console.print(
        f"Synthetic dataset: {ROWS['train']:,} training rows, {ROWS['test']:,} test rows, {X.shape[1]:,} features,"
        f" {Y.shape[1]:,} labels, {Y.nnz / Y.shape[0]:.0f} labels per row.",
        soft_wrap=True,
    )
    test_file = out / f"{NAME}-test.txt.gz"
    save_xc(test_file, *parts["test"])

    results = [most_frequent(parts), centroids(parts), neighbours(parts)]
    model_file = out / f"{NAME}.safetensors"
    for leaf_labels in (5, 20):  # the file of the second model is kept
        classifier = SparseGBDTClassifier(TREES, RATE, leaf_labels, n_jobs=jobs)
        results.append(_trees(classifier, parts, model_file))

    _print_table(console, results, parts["test"][1])
    console.print(draw_learning_curve(classifier.history_), markup=False)
    picture = _plot(classifier.history_, out / f"{NAME}.png")
    written = [model_file, test_file, *([picture] if picture else [])]
    console.print(
        f"\nFiles written: {', '.join(str(path) for path in written)}", markup=False, soft_wrap=True
    )
    if picture is None:
        hint = "(install matplotlib to save the learning curve as an image: pip install matplotlib)"
        console.print(hint, markup=False, soft_wrap=True)
    console.print("Try next:")
    model, test = (shlex.quote(str(path)) for path in (model_file, test_file))
    for command in (f"predict {model} {test} -k 3 | head", f"evaluate {model} {test}", f"inspect {model}"):
        console.print(f"  {_program()} {command}", markup=False, soft_wrap=True)


def _program() -> str:
    """The command to run sparseleaf, also if the environment is not activated."""
    if shutil.which("sparseleaf"):
        return "sparseleaf"
    typed = Path(sys.argv[0])
    return shlex.quote(str(typed)) if typed.name == "sparseleaf" else f"{sys.executable} -m sparseleaf"


Part = tuple[Any, Any]


def make_parts() -> dict[str, Part]:
    """X and Y of ``train``, ``valid`` and ``test``."""
    from sparseleaf.data import make_xc

    X, Y = make_xc(
        sum(ROWS.values()), 300, 1000, labels_per_row=5, nnz_per_row=30, seed=1, noise=0.03, n_topics=20
    )
    parts, begin = {}, 0
    for name, n_rows in ROWS.items():
        parts[name] = (X[begin : begin + n_rows], Y[begin : begin + n_rows])
        begin += n_rows
    return parts


def most_frequent(parts: dict[str, Part]) -> Result:
    """Baseline: the most frequent labels for every row."""
    import numpy as np

    began = time.perf_counter()
    counts = np.asarray(parts["train"][1].sum(axis=0)).ravel()
    best = np.argsort(-counts, kind="stable")[:TOP]
    trained = time.perf_counter()
    ranking = np.tile(best, (parts["test"][0].shape[0], 1))
    return Result(
        "most frequent labels", ranking, trained - began, time.perf_counter() - trained, best.nbytes
    )


def centroids(parts: dict[str, Part]) -> Result:
    """Baseline: labels with the highest cosine similarity of their centroid."""
    from sklearn.preprocessing import normalize

    (X, Y), (X_test, _) = parts["train"], parts["test"]
    began = time.perf_counter()
    means = normalize(Y.T.tocsr() @ X)
    trained = time.perf_counter()
    scores = (X_test @ means.T).toarray()
    seconds = time.perf_counter() - trained
    size = 8 * means.nnz
    return Result("nearest label centroids", scores, trained - began, seconds, size)


def neighbours(parts: dict[str, Part]) -> Result:
    """Baseline: labels of the nearest training rows."""
    from sklearn.neighbors import NearestNeighbors

    (X, Y), (X_test, _) = parts["train"], parts["test"]
    began = time.perf_counter()
    index = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X)
    trained = time.perf_counter()
    near = index.kneighbors(X_test, return_distance=False)
    votes = sum(Y[near[:, i]] for i in range(NEIGHBOURS))
    seconds = time.perf_counter() - trained
    return Result(f"{NEIGHBOURS} nearest neighbours", votes, trained - began, seconds, 8 * X.nnz + 4 * Y.nnz)


def _trees(estimator: SparseGBDTClassifier, parts: dict[str, Part], path: Path) -> Result:
    from sparseleaf.progress import training_progress

    began = time.perf_counter()
    with training_progress(estimator.n_trees, 1) as shown:
        estimator.fit(*parts["train"], eval_set=parts["valid"], callbacks=shown)
    trained = time.perf_counter()
    labels, _ = estimator.predict_topk(parts["test"][0], k=TOP)
    seconds = time.perf_counter() - trained
    estimator.save(path)
    name = f"GBDT, {estimator.leaf_labels} labels per leaf"
    return Result(name, labels, trained - began, seconds, path.stat().st_size)


def _print_table(console: Console, results: list[Result], Y: sparse.csr_matrix) -> None:
    from rich.table import Table

    from sparseleaf.metrics import evaluate

    table = Table(caption="P@k: precision at k in percent")
    table.add_column("")
    for name in ("P@1", "P@3", "P@5", "train s", "ms/row", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    measured = [evaluate(Y, result.ranking) for result in results]
    best = max(values["precision@1"] for values in measured)
    for result, values in zip(results, measured, strict=True):
        table.add_row(
            result.name,
            *(f"{100 * values[f'precision@{k}']:.1f}" for k in (1, 3, 5)),
            f"{result.train_seconds:.2f}",
            f"{1000 * result.predict_seconds / Y.shape[0]:.3f}",
            readable_bytes(result.size),
            style="bold" if values["precision@1"] == best else None,
        )
    console.print(table)


def _plot(history: dict[str, list[float]], path: Path) -> Path | None:
    from sparseleaf.plotting import plot_learning_curve

    try:
        plot_learning_curve(history, path)
    except ImportError:
        return None
    return path
