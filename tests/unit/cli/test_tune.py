"""``sparseleaf tune``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparseleaf
from sparseleaf.data import load_xc

SMALL = ("--set", "n_trees=6", "--folds", "2", "--jobs", "1")


def test_from_data_to_a_model(cli, files, tmp_path):
    model, study, plot = (tmp_path / name for name in ("m.safetensors", "s.db", "p.png"))
    options = (*SMALL, "--study", study, "--method", "gbdt-sparse")
    done = cli("tune", files.train, "-m", model, *options, "--trials", "3", "--plot", plot, "-q", "--json")
    assert (done.code, done.err) == (0, "")
    result = json.loads(done.out)
    assert len(result["trials"]) == 3
    assert result["best_score"] >= result["default_score"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    again = cli("tune", files.train, "-m", model, *options, "--trials", "5", "--verbose")
    assert again.code == 0
    assert "5 trials" in again.out
    assert "trial 4: gbdt-sparse" in again.err
    assert "trial 3:" not in again.err
    expected = sparseleaf.tune(
        *load_xc(files.train), method="gbdt-sparse", n_trials=5, cv=2, params={"n_trees": 6}
    )
    X, _ = load_xc(files.test)
    loaded = sparseleaf.load(model)
    assert np.array_equal(loaded.predict_topk(X)[1], expected.best_estimator_.predict_topk(X)[1])


def test_tables_and_validation_data(cli, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,kind,y"]
    for a, b in rng.normal(size=(120, 2)):
        lines.append(f"{a:.3f},{b:.3f},{'uvw'[int(abs(b) * 2) % 3]},{a * a + b:.3f}")
    (tmp_path / "train.csv").write_text("\n".join(lines[:91]) + "\n")
    (tmp_path / "valid.csv").write_text("\n".join([lines[0], *lines[91:]]) + "\n")
    model = tmp_path / "m.safetensors"
    done = cli(
        "tune", tmp_path / "train.csv", "-m", model, "--target", "y", "--valid", tmp_path / "valid.csv",
        "--trials", "3", "--metric", "rmse", "--set", "n_trees=9", "--set", "learning_rate=0.3", "--seed", "3",
    )  # fmt: skip
    assert done.code == 0
    assert "by the validation set; 3 trials" in done.out
    assert type(sparseleaf.load(model)).__name__ == "MultiGBDTRegressor"  # the one with a learning rate


def test_texts_and_queries(cli, tmp_path):
    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta"]
    with (tmp_path / "texts.jsonl").open("w") as file:
        for _ in range(60):
            chosen = rng.choice(words, 2)
            record = {"title": " ".join(chosen), "tags": sorted({word[0] for word in chosen})}
            file.write(json.dumps(record) + "\n")
    model = tmp_path / "m.safetensors"
    options = ("--text", "title", "--labels", "tags", "--method", "forest", "--trials", "2", *SMALL)
    done = cli("tune", tmp_path / "texts.jsonl", "-m", model, *options, "--set", "rerank=none", "-q")
    assert (done.code, done.out) == (0, "")
    assert sparseleaf.load(model).predict_topk([{"title": "alpha beta"}], 2)[0].tolist()[0] in (
        ["a", "b"],
        ["b", "a"],
    )
    with (tmp_path / "ranks.svm").open("w") as file:
        for row in range(80):
            file.write(f"{row % 3} qid:{row // 8} 1:{row % 3 + rng.normal():.3f} 2:{rng.normal():.3f}\n")
    done = cli("tune", tmp_path / "ranks.svm", "-m", model, "--trials", "2", *SMALL, "-q")
    assert (done.code, done.err) == (0, "")
    assert type(sparseleaf.load(model)).__name__ == "GBDTRanker"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "precision"), "--metric must be one of"),
        (("--method", "trees"), "--method must be among"),
        (("--method", "ldsm", "--task", "regression"), "--task regression is not supported by --method ldsm"),
        (("--set", "depth=3"), "unknown parameter 'depth'"),
        (("--plot", "plot.txt"), "--plot must end in .png, .svg or .pdf"),
        (("--study", "missing/s.db"), "the directory missing does not exist"),
        (("--study", "m.safetensors"), "also the output of another option"),
        (("--scheduler", "tcp://a:1"), "--scheduler requires --engine dask"),
        (("--valid", "v.txt", "--folds", "3"), "--valid and --folds cannot be combined"),
        (("--verbose", "--quiet"), "--verbose and --quiet cannot be combined"),
        (("--method", "gbdt-mo", "--blend", "--trials", "1"), "'blend' parameter must be False unless"),
    ],
)
def test_invalid_options(cli, files, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    done = cli("tune", files.train, "-m", "m.safetensors", *options)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_saves_the_best_model(cli, files, tmp_path, monkeypatch):
    from sparseleaf.tuning import trials

    plain, calls = trials.Deadline.__call__, 0

    def press(self, state):
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt
        return plain(self, state)

    monkeypatch.setattr(trials.Deadline, "__call__", press)
    model = tmp_path / "m.safetensors"
    done = cli("tune", files.train, "-m", model, *SMALL, "--method", "gbdt-sparse", "--trials", "9", "-q")
    assert done.code == 130
    assert "wrote" in done.out
    assert sparseleaf.load(model).model_.n_trees == 6
