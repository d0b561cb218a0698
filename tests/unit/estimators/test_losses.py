"""Every loss of the dense estimators from end to end: a new one is tested here without a line."""

import numpy as np
import pytest

import sparseleaf
from multi_models import clf, make, reg
from smalldata import saved_bytes
from sparseleaf import export
from sparseleaf.cli import run
from sparseleaf.objectives import dense_objective, objectives_of

NUMBERS = objectives_of("regression")
LABELS = {name: loss for name, loss in objectives_of("classification").items() if not loss.needs_classes}
BOUNDED = {name: loss for name, loss in NUMBERS.items() if loss.target_range.low >= 0}


def rows():
    """Features, and positive targets, which suit all losses."""
    X, Y = make(200, missing=0.05)
    return X, np.exp(Y)


def labels():
    X, Y = make(200, missing=0.05)
    return X, (Y > 0.3).astype(int)


def fitted(name, **parameters):
    if name.partition(":")[0] in LABELS:
        X, y = labels()
        return X, y, clf(loss=name, **parameters)
    X, y = rows()
    return X, y, reg(loss=name, **parameters)


def predictions(estimator, X):
    return estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else estimator.predict(X)


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_training_lowers_the_loss_and_predictions_are_the_links(name):
    X, y, estimator = fitted(name, n_trees=30, learning_rate=0.1)
    estimator.fit(X, y, eval_set=(X, y))
    history = estimator.history_["valid loss"]
    assert np.isfinite(history).all()
    assert history[-1] < history[0]
    link, raw = dense_objective(name).link, estimator._scores(X)
    assert estimator.model_.link == link.name
    np.testing.assert_array_equal(predictions(estimator, X), link.apply(raw))


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_weights_of_all_rows_cancel_without_l2(name):
    X, y, estimator = fitted(name, l2=0.0, min_samples_leaf=20)
    plain = predictions(estimator.fit(X, y), X)
    np.testing.assert_allclose(
        predictions(estimator.fit(X, y, sample_weight=np.full(200, 4.0)), X), plain, rtol=1e-5, atol=1e-6
    )
    uneven = predictions(estimator.fit(X, y, sample_weight=np.linspace(0.1, 2, 200)), X)
    assert np.abs(uneven - plain).max() > 1e-3


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_unknown_targets_are_left_out(name):
    X, y, estimator = fitted(name)
    y = y.astype(np.float64)
    y[::3, 1] = np.nan
    estimator.fit(X, y)
    assert np.isfinite(predictions(estimator, X)).all()
    there = np.arange(200) % 3 > 0
    known = fitted(name)[2].fit(X[there], y[there])
    assert estimator.model_.base_score[1] == pytest.approx(known.model_.base_score[1], rel=1e-6)


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_threads_change_no_byte_and_files_no_prediction(name, tmp_path):
    X, y, estimator = fitted(name)
    files = [saved_bytes(fitted(name, n_jobs=n)[2].fit(X, y), tmp_path) for n in (1, 3)]
    assert files[0] == files[1]
    loaded = sparseleaf.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(predictions(loaded, X), predictions(estimator.fit(X, y), X))
    assert loaded.loss == name


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_other_runtimes_predict_the_same(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y, estimator = fitted(name)
    proto = export.to_onnx(estimator.fit(X, y))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run([session.get_outputs()[-1].name], {"X": X})[0]
    np.testing.assert_allclose(found, predictions(estimator, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BOUNDED)
def test_targets_out_of_range_are_refused(name):
    X, y = rows()
    bad = y.copy()
    bad[7, 1] = -0.5
    message = rf"loss='{name}' requires (non-negative|strictly positive) y. Got -0.5 instead"
    with pytest.raises(ValueError, match=message):
        reg(loss=name).fit(X, bad)
    with pytest.raises(ValueError, match=message):
        reg(loss=name).fit(X, y, eval_set=(X, bad))
    bad[7, 1] = 0
    if NUMBERS[name].target_range.above:
        with pytest.raises(ValueError, match=rf"loss='{name}' requires strictly positive y. Got 0 instead"):
            reg(loss=name).fit(X, bad)
    else:
        reg(loss=name).fit(X, bad)
    assert reg(loss=name).__sklearn_tags__().target_tags.positive_only


@pytest.mark.parametrize("name", [name for name, loss in (NUMBERS | LABELS).items() if loss.number])
def test_numbers_behind_names_have_a_range(name):
    X, y, estimator = fitted(name)
    number = dense_objective(name).number
    beyond = [number.low, number.high, "nan", "", "x", -1] + [np.inf] * (number.high == np.inf)
    for bad in beyond:
        with pytest.raises(ValueError, match=f"'{name}:x' with {number.text}"):
            estimator.set_params(loss=f"{name}:{bad}").fit(X, y)
    inside = number.low + 0.5 * (min(number.high, 10) - number.low)
    explicit, default = (predictions(fitted(n)[2].fit(X, y), X) for n in (f"{name}:{inside}", name))
    assert np.abs(explicit - default).max() > 1e-4 or inside == number.default
    same = predictions(fitted(f"{name}:{number.default}")[2].fit(X, y), X)
    np.testing.assert_array_equal(same, default)


@pytest.mark.parametrize("name", NUMBERS | LABELS)
def test_the_command_line_takes_it(name, tmp_path, capsys):
    X, y, _ = fitted(name)
    table = np.column_stack((np.nan_to_num(X), y))
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d,p,q,r", comments="")
    number = dense_objective(name).number
    loss = name if number is None else f"{name}:{number.default}"
    targets = ("p", "--task", "classification") if name in LABELS else ("p,q,r",)
    code = run([
        "train", str(tmp_path / "t.csv"), "-m", str(tmp_path / "m.safetensors"), "--method", "gbdt-mo",
        "-s", f"loss={loss}", "-s", "n_trees=3", "-q", "--target", *targets,
    ])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    assert sparseleaf.load(tmp_path / "m.safetensors").loss == loss
