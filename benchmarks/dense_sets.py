"""Datasets with dense targets of the GBDT-MO paper, from files or synthetic."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np


def need(path):
    if not path.is_file():
        sys.exit(f"{path} does not exist. Pass the folder of the datasets as --data.")
    return path


def mnist(data):
    """Training images and digits (60,000), test images and digits (10,000)."""
    read = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        for kind, offset in (("images-idx3", 16), ("labels-idx1", 8)):
            with gzip.open(need(Path(data) / "mnist" / f"{prefix}-{kind}-ubyte.gz")) as file:
                read[part, kind] = np.frombuffer(file.read(), np.uint8, offset=offset)
    images = [read[part, "images-idx3"].reshape(-1, 784).astype(np.float32) for part in ("train", "test")]
    digits = [read[part, "labels-idx1"].astype(np.int64) for part in ("train", "test")]
    return images[0], digits[0], images[1], digits[1]


def inpainting(data):
    """Features: the upper half of the central 20 x 20 pixels; targets: the 4 x 6 pixels below, scaled to 0..1."""
    parts = []
    for images in mnist(data)[::2]:
        centre = images.reshape(-1, 28, 28)[:, 4:24, 4:24] / 255
        parts += [centre[:, :10].reshape(-1, 200), centre[:, 10:14, 7:13].reshape(-1, 24)]
    return parts


def yeast(data):
    rows = [line.split() for line in need(Path(data) / "yeast" / "yeast.data").read_text().splitlines()]
    X = np.array([row[1:9] for row in rows], np.float32)
    return X, np.unique([row[9] for row in rows], return_inverse=True)[1]


def student_por(data):
    """One-hot features; the three grades, 0 to 20, scaled to -1..1."""
    import pandas

    table = pandas.read_csv(need(Path(data) / "student-por" / "student-por.csv"), sep=None, engine="python")
    grades = ["G1", "G2", "G3"]
    X = pandas.get_dummies(table.drop(columns=grades)).to_numpy(np.float32)
    return X, (table[grades].to_numpy(np.float32) - 10) / 10


def friedman1(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (20_000, 10))
    f = np.sin(np.pi * x[:, 0] * x[:, 1]) + 2 * (x[:, 2] - 0.5) ** 2 + x[:, 3] + 0.5 * x[:, 4]
    return x.astype(np.float32), f[:, None] + 0.1 * random.normal(size=(20_000, 5))


def random_projection(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (20_000, 4))
    return x.astype(np.float32), x @ random.uniform(-1, 1, (4, 8))
