"""A small set, a model trained on it, and the command line with its outcome in hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparseleaf import SparseGBDTClassifier
from sparseleaf.cli import run
from sparseleaf.data import make_xc, save_xc

N_TRAIN, N_TEST, N_FEATURES, N_LABELS = 300, 100, 40, 30


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Files:
    train: Path
    test: Path
    model: Path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("cli")
    X, Y = make_xc(N_TRAIN + N_TEST, N_FEATURES, N_LABELS, labels_per_row=3, nnz_per_row=8, seed=3)
    found = Files(folder / "train.txt.gz", folder / "test.txt", folder / "m.safetensors")
    save_xc(found.train, X[:N_TRAIN], Y[:N_TRAIN])
    save_xc(found.test, X[N_TRAIN:], Y[N_TRAIN:])
    SparseGBDTClassifier(n_trees=6).fit(X[:N_TRAIN], Y[:N_TRAIN], eval_set=(X[N_TRAIN:], Y[N_TRAIN:])).save(
        found.model
    )
    return found


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Outcome]:
    def call(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return call


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "sparseleaf", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command line; what still runs when the test ends, or fails, is ended."""
    started = []

    def begin(*arguments: object, **options: object) -> subprocess.Popen[str]:
        started.append(start(*arguments, **options))
        return started[-1]

    yield begin
    for running in started:
        running.kill()
        running.communicate()
