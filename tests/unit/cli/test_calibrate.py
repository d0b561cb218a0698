"""``sparseleaf calibrate``, and the options of ``predict`` and ``evaluate`` for probabilities."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparseleaf
from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.data import load_xc


@pytest.fixture(scope="module")
def plain(files, tmp_path_factory):
    """A model without a calibrator."""
    path = tmp_path_factory.mktemp("calibrate") / "plain.safetensors"
    SparseGBDTClassifier(n_trees=3).fit(*load_xc(files.train)).save(path)
    return path


def test_a_calibrator_and_thresholds_are_added(cli, files, plain, tmp_path):
    out = tmp_path / "m.safetensors"
    done = cli("calibrate", plain, files.test, "-o", out, "--threshold", "macro-f1", "--per-label")
    assert (done.code, done.err) == (0, "")
    assert "platt" in done.out
    assert "30 thresholds" in done.out
    X, Y = load_xc(files.test)
    python = (
        sparseleaf.load(plain).fit_calibration(X, Y).set_threshold(X, Y, target="macro-f1", per_label=True)
    )
    loaded = sparseleaf.load(out)
    np.testing.assert_array_equal(loaded.predict(X).toarray(), python.predict(X).toarray())
    assert sparseleaf.load(plain).model_.calibrator is None
    described = json.loads(cli("inspect", out, "--json").out)
    assert described["calibration"]["method"] == "platt"
    assert described["thresholds"]["per_label"]
    assert "calibration" in cli("inspect", out).out


def test_a_model_is_replaced_without_output(cli, files, plain, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(plain.read_bytes())
    assert cli("calibrate", path, files.test, "--method", "isotonic").code == 0
    assert sparseleaf.load(path).model_.calibrator.kind == "isotonic"
    assert cli("calibrate", path, files.test, "--method", "none", "--threshold", "precision:0.5").code == 0
    assert sparseleaf.load(path).model_.calibrator.kind == "isotonic"


def test_predict_writes_probabilities(cli, files):
    X, _ = load_xc(files.test)
    clf = sparseleaf.load(files.model)
    lines = cli("predict", files.model, files.test, "--proba", "-k", 3, "--json").out.splitlines()
    labels, _ = clf.predict_topk(X, 3)
    p = clf.predict_proba(X, 3)
    for row, line in enumerate(lines):
        found = json.loads(line)
        assert found["labels"] == [label for label in labels[row].tolist() if label >= 0]
        np.testing.assert_allclose(found["scores"], p[row].toarray()[0][found["labels"]], rtol=1e-5)


@pytest.mark.parametrize(
    "options", [("--threshold", "0.2"), ("--decode", "expected_f1"), ("--decode", "top:2")]
)
def test_predict_writes_the_labels_of_a_decoder(cli, files, options):
    X, _ = load_xc(files.test)
    decode = "threshold:0.2" if options[0] == "--threshold" else options[1]
    expected = sparseleaf.load(files.model).predict(X, decode=decode)
    lines = cli("predict", files.model, files.test, *options, "--json").out.splitlines()
    assert len(lines) == X.shape[0]
    for row, line in enumerate(lines):
        found = json.loads(line)
        assert set(found["labels"]) == set(expected[row].indices)
        assert found["scores"] == sorted(found["scores"], reverse=True)


def test_evaluate_has_f1_and_calibration(cli, files, plain):
    found = json.loads(cli("evaluate", files.model, files.test, "--json").out)
    assert {"f1_micro", "f1_macro", "ece", "brier"} <= set(found)
    text = cli("evaluate", files.model, files.test).out
    assert "ECE" in text
    assert "macro" in text
    without = json.loads(cli("evaluate", plain, files.test, "--json").out)
    assert "f1_micro" in without
    assert "ece" not in without


def test_errors(cli, files, plain, tmp_path):
    assert "no calibrator" in cli("predict", plain, files.test, "--proba").err
    assert "no calibrator" in cli("predict", plain, files.test, "--decode", "expected_f1").err
    both = cli("predict", plain, files.test, "--decode", "top:2", "--threshold", "0.5")
    assert "Only one of --decode and --threshold" in both.err
    assert (
        "The 'decode' parameter must be one of" in cli("predict", plain, files.test, "--decode", "best").err
    )
    assert "The 'method' parameter must be" in cli("calibrate", plain, files.test, "--method", "beta").err
    assert "The 'target' parameter must be" in cli("calibrate", plain, files.test, "--threshold", "f2").err
    assert "--per-label requires --threshold" in cli("calibrate", plain, files.test, "--per-label").err
    regressor = tmp_path / "r.safetensors"
    MultiGBDTRegressor(n_trees=1).fit(np.eye(40, 40), np.arange(40)).save(regressor)
    assert "requires a classifier" in cli("calibrate", regressor, files.test).err
    assert "are for classifiers" in cli("predict", regressor, files.test, "--proba").err
