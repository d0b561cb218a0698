"""The tensors of calibrators and thresholds: written, read, and refused where they are wrong."""

import numpy as np
import pytest
from scipy.special import expit, logit

import sparseleaf
from sparseleaf import ModelFileError, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.model import Role, save_model
from sparseleaf.model.calibrator import Isotonic, Platt, rank_bins
from sparseleaf.model.curves import IsotonicCurves, PlattCurves
from sparseleaf.model.decision import Thresholds

N_LABELS = 6
GROUP = np.array([0, 0, 1, 1, 0, 1], np.uint8)
X, Y = make_xc(120, 20, N_LABELS, labels_per_row=2, nnz_per_row=5, seed=1)


def floats(*values):
    return np.array(values, np.float32)


RANKS = np.array([0, 0, 0, 1, 1, 1, 1], np.uint8)


def isotonic(
    *, x=(0, 1, 0, 0.5, 1), y=(0.1, 0.9, 0.2, 0.2, 0.4), offsets=(0, 2, 5), rank_slope=(1, 1), **changes
):
    by_frequency = IsotonicCurves(np.array(offsets), floats(*x), floats(*y))
    by_rank = PlattCurves(floats(*rank_slope), floats(0, 0), log_odds=True)
    common = {"group": GROUP, "rank_group": RANKS, "prior_scale": 1.0}
    return Isotonic(**common | changes, by_frequency=by_frequency, by_rank=by_rank)


def platt(*, slope=(1, 0), intercept=(0.5, -1), log_odds=True, **changes):
    by_frequency = PlattCurves(floats(*slope), floats(*intercept), log_odds)
    by_rank = PlattCurves(floats(1, 1), floats(0, 0), log_odds=True)
    common = {"group": GROUP, "rank_group": RANKS, "prior_scale": 2.0}
    return Platt(**common | changes, by_frequency=by_frequency, by_rank=by_rank)


@pytest.fixture(scope="module")
def model():
    return SparseGBDTClassifier(n_trees=2, projection=None).fit(X, Y).model_


def reloaded(model, stage, tmp_path):
    save_model(model.with_stage(stage.role, stage), tmp_path / "m.safetensors")
    return sparseleaf.load(tmp_path / "m.safetensors").model_.stage(stage.role)


@pytest.mark.parametrize(
    "stage", [isotonic(), platt(), platt(log_odds=False)], ids=["isotonic", "platt", "plain"]
)
def test_stages_are_read_as_they_were_written(stage, model, tmp_path):
    read = reloaded(model, stage, tmp_path)
    tensors = stage.tensors(compact=True)
    assert tensors.keys() == read.tensors(compact=True).keys()
    for name, value in read.tensors(compact=True).items():
        np.testing.assert_array_equal(value, tensors[name])
    assert read.describe() == {"calibration": {"method": stage.kind, "n_groups": 2}}


def test_thresholds_are_read_as_they_were_written(model, tmp_path):
    for values in (floats(0.25), np.linspace(0, 1, N_LABELS, dtype=np.float32)):
        read = reloaded(model, Thresholds(values, on_probabilities=False), tmp_path)
        np.testing.assert_array_equal(read.values, values)
        assert not read.on_probabilities
        assert read.describe()["thresholds"]["per_label"] == (len(values) > 1)


WRONG = {
    "group must have 6 numbers below 2": isotonic(group=GROUP + 1),
    "group must have 6 numbers": isotonic(group=GROUP[:5]),
    "rank_group must have 7 numbers below 2": isotonic(rank_group=RANKS + 1),
    "rank_group must have 7 numbers": isotonic(rank_group=RANKS[:3]),
    "prior_scale must be one number above 0": isotonic(prior_scale=-1.0),
    "prior_scale has values that are not finite": isotonic(prior_scale=np.inf),
    "sizes must be positive and sum": isotonic(offsets=(0, 2, 4)),
    "sizes must be positive and sum to": isotonic(offsets=(0, 5, 5)),
    "y must be in": isotonic(y=(0.1, 1.1, 0.2, 0.3, 0.4)),
    "x has values that are not finite": isotonic(x=(0, np.nan, 0, 0.5, 1)),
    "x and y must not decrease": isotonic(x=(1, 0, 0, 0.5, 1)),
    "x and y must not decrease within": isotonic(y=(0.1, 0.9, 0.2, 0.5, 0.4)),
    "slope and intercept must have one number": isotonic(rank_slope=(1, -1)),
    "sizes must be positive": isotonic(y=(0.1,)),
    "slope and intercept must have": platt(slope=(-1, 0)),
    "slope and intercept must have one": platt(slope=(1,)),
    "slope has values that are not finite": platt(slope=(1, np.inf)),
    "group must have 6 numbers below 1": platt(slope=(1,), intercept=(1,)),
    "values must be one number, or one for each of 6": Thresholds(floats(1, 2), on_probabilities=True),
    "values has values that are not finite": Thresholds(floats(np.nan), on_probabilities=True),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_tensors_are_refused(message, model, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        reloaded(model, WRONG[message], tmp_path)


def test_a_group_map_that_contradicts_the_ranking_is_pooled():
    stage = isotonic(y=(0.1, 0.2, 0.5, 0.6, 0.9))
    starts, labels, scores = np.array([0, 3]), np.array([0, 2, 3]), floats(0.9, 0.8, 0.1)
    mapped = [
        np.interp(0.9, [0, 1], [0.1, 0.2]),
        np.interp(0.8, [0.5, 1], [0.6, 0.9]),
        np.interp(0.1, [0, 0.5], [0.5, 0.6]),
    ]
    found = stage.probabilities(starts, labels, scores, 1)
    assert (np.diff(found) < 0).all()
    np.testing.assert_allclose(found, np.mean(mapped), rtol=1e-5)
    assert found.sum() == pytest.approx(sum(mapped), rel=1e-5)  # the expected number of true labels is kept


def test_scores_outside_the_fitted_range_are_clipped():
    stage = isotonic()
    starts = np.array([0, 1, 2])
    found = stage.probabilities(starts, np.array([0, 0]), floats(5, -5), 1)
    np.testing.assert_allclose(found, [0.9, 0.1], rtol=1e-6)
    assert (platt().probabilities(starts, np.array([0, 0]), floats(5, -5), 1) > 0).all()


def test_a_model_has_one_decision_stage(model):
    both = model.with_stage(Role.DECISION, Thresholds(floats(1), on_probabilities=False))
    assert both.stage(Role.DECISION).values[0] == 1
    assert both.with_stage(Role.DECISION, None).stages == model.stages


def test_ranks_are_binned_by_powers_of_two():
    bins = rank_bins(np.array([0, 100, 100, 102]))
    for rank in range(1, 101):
        assert bins[rank - 1] == min(6, int(np.log2(rank)))
    assert bins[100:].tolist() == [0, 1]
    assert len(rank_bins(np.array([0]))) == 0


def test_the_curve_of_a_rank_is_applied_after_that_of_the_frequency():
    stage = isotonic(rank_slope=(0.5, 1))  # halves the log-odds of the first ranks
    starts = np.array([0, 9])
    found = stage.probabilities(starts, np.zeros(9, int), np.full(9, 0.25, np.float32), 1)
    mapped = 0.1 + 0.25 * 0.8
    np.testing.assert_allclose(found, [expit(logit(mapped) / 2)] * 7 + [mapped] * 2, rtol=1e-5)
