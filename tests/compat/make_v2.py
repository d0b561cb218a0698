"""Makes gbdt-mo-v2-*.safetensors and what they predict: kept for the record, run once for a format version.

    python tests/compat/make_v2.py

The regression has categories, missing values, names of features and outputs, and leaves with a value for every
output; the classification has names of classes and sparse leaves. The JSON files hold rows and what the models say.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import sparseleaf
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

HERE = Path(__file__).parent
SMALL = {"n_trees": 5, "learning_rate": 0.4, "max_leaves": 6, "min_samples_leaf": 5, "max_bins": 16}
TOWNS = np.array(["Århus", "Bergen", "Oslo", "Turku"], object)


def rows_of(frame):
    """Rows as JSON has them, with None for what is missing."""
    return [
        [None if pd.isna(value) else value for value in row]
        for row in frame.astype(object).to_numpy().tolist()
    ]


def write(name, model, rows, expected):
    parameters = model.model_.parameters
    expected |= {"X": rows, "n_trees": model.model_.n_trees, "parameters": parameters}
    (HERE / f"{name}.json").write_text(json.dumps(expected) + "\n")


def regression(name="gbdt-mo-v2-regression"):
    rng = np.random.default_rng(21)

    def frame(n):
        x = np.round(rng.normal(size=(n, 2)), 2)
        x[rng.random(x.shape) < 0.2] = np.nan
        town = rng.integers(0, 5, n)  # 4: missing
        return pd.DataFrame(
            {"a": x[:, 0], "town": [TOWNS[t] if t < 4 else None for t in town], "b": x[:, 1]}
        ), town

    X, town = frame(200)
    Y = np.c_[np.nan_to_num(X["a"]), np.nan_to_num(X["b"]), town % 2] + 0.1 * rng.normal(size=(200, 3))
    est = MultiGBDTRegressor(**SMALL).fit(X, pd.DataFrame(Y, columns=["u", "v", "w"]), eval_set=(X, Y))
    est.save(HERE / f"{name}.safetensors")
    est = sparseleaf.load(HERE / f"{name}.safetensors")
    other, _ = frame(12)
    other.loc[3, "town"] = "a town that training did not have"
    write(name, est, rows_of(other), {
        "predict": est.predict(other).tolist(), "apply": est.apply(other).tolist(),
        "importances": est.output_importances_.tolist(),
    })  # fmt: skip


def classification(name="gbdt-mo-v2-classification"):
    rng = np.random.default_rng(22)
    X = np.round(rng.normal(size=(200, 4)), 2).astype(np.float32)
    y = np.array(["ash", "birch", "elm", "hâsel"], object)[(X @ rng.normal(size=(4, 4))).argmax(axis=1)]
    est = MultiGBDTClassifier(**SMALL, leaf_outputs=2).fit(X, y, eval_set=(X, y))
    est.save(HERE / f"{name}.safetensors")
    est = sparseleaf.load(HERE / f"{name}.safetensors")
    other = np.round(rng.normal(size=(12, 4)), 2).astype(np.float32)
    write(name, est, other.astype(float).tolist(), {
        "predict": est.predict(other).tolist(), "scores": est.decision_function(other).tolist(),
        "apply": est.apply(other).tolist(), "importances": est.output_importances_.tolist(),
    })  # fmt: skip


if __name__ == "__main__":
    regression()
    classification()
