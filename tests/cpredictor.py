"""The exported C predictor: compiled once, run on rows, and compared with the estimator to the bit."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import scipy.sparse as sp

from sparseleaf.export.c_arrays import model_arrays
from sparseleaf.export.c_file import write_arrays

COMPILER = shutil.which(os.environ.get("CC", "cc"))
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SOURCES = files("sparseleaf.export").joinpath("csource")


def compile_predictor(folder, flags=()):
    """The path of the program ``predict``, compiled into a folder."""
    program = folder / "predict"
    sources = sorted(str(path) for path in SOURCES.iterdir() if path.name.endswith(".c"))
    subprocess.run([COMPILER, *STRICT, *flags, "-o", program, *sources, "-lm"], check=True)
    return program


def can_sanitize(folder):
    """Whether programs with sanitizers can be compiled and run here."""
    source, program = folder / "nothing.c", folder / "nothing"
    source.write_text("int main(void) { return 0; }\n")
    done = subprocess.run([COMPILER, *SANITIZED, "-o", program, source], capture_output=True, check=False)
    return (
        done.returncode == 0 and subprocess.run([program], capture_output=True, check=False).returncode == 0
    )


def run(program, model, lines, *options):
    """Run the program on a model file; returns the finished process."""
    environment = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}
    return subprocess.run(
        [program, *options, model],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        check=False,
        env=environment,
    )


def row_lines(X):
    """Rows in the format of the program; stored zeros and NaN stay."""
    X = sp.csr_matrix(np.where(X == 0, 0, X)) if not sp.issparse(X) else X
    return [
        " ".join(f"{feature}:{float(value)!r}" for feature, value in zip(row.indices, row.data, strict=True))
        for row in X
    ]


def predictions(done):
    """Labels as text and scores as float32 of every line of output."""
    assert done.returncode == 0, done.stderr.decode()
    rows = []
    for line in done.stdout.decode().splitlines():
        pairs = [pair.rpartition(":") for pair in line.split("\t") if pair]
        rows.append(
            ([label for label, _, _ in pairs], np.array([score for _, _, score in pairs], np.float32))
        )
    return rows


def write_model(model, path):
    """Write ``model.bin`` of a model."""
    with path.open("wb") as file:
        write_arrays(file, model_arrays(model))
    return path


def assert_same(found, labels, scores):
    """The program's predictions are those of ``predict_topk``, to the bit."""
    assert len(found) == len(labels)
    for (names, numbers), wanted, values in zip(found, labels.tolist(), scores, strict=True):
        wanted = [str(label) for label in wanted if label is not None and label != -1]
        assert names == wanted
        np.testing.assert_array_equal(numbers.view(np.int32), values[: len(wanted)].view(np.int32))


def check(program, estimator, X, path, k=7):
    """Compare the program and an estimator on rows, or on texts."""
    write_model(estimator.model_, path)
    if isinstance(X, list):
        done = run(program, path, X, "-t", "-k", str(k))
    else:
        done = run(program, path, row_lines(X), "-k", str(k))
    assert_same(predictions(done), *estimator.predict_topk(X, k))
