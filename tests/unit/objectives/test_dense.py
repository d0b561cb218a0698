"""Dense losses: where boosting starts, what they are worth, and what scores mean."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import mean_tweedie_deviance

import naive_dense
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.links import LINKS
from sparseleaf.objectives import Custom, dense_objective, objectives_of
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.training.dense_partition import DensePartition, common_base_score
from sparseleaf.training.dense_targets import KnownTargets
from workers import run_workers

PAIRS = (
    "mse",
    "logistic",
    "absolute",
    "huber:0.75",
    "quantile:0.8",
    "poisson",
    "tweedie:1.3",
    "gamma",
    "log-cosh",
    "focal:2",
)


def number_of(name):
    return float(name.partition(":")[2] or 0)


def make(name, n=60, d=3, seed=0, *, unknown=False, weights=0):
    rng = np.random.default_rng(seed)
    w = NO_VALUES
    if weights:
        w = rng.choice([0, 1, 2.5], (n, 1 if weights == 1 else d)).astype(np.float32)
    if name == "softmax":
        classes = rng.integers(-1 if unknown else 0, d, n).astype(np.int32)
        return DenseTargets(NO_VALUES, classes, w, d)
    x = rng.normal(size=(n, d))
    kinds = {
        "logistic": x > 0.3,
        "focal": x > 0.3,
        "poisson": np.floor(np.exp(x)),
        "tweedie": np.exp(x).clip(0.5) - 0.5,
        "gamma": np.exp(x),
    }
    y = kinds.get(name.partition(":")[0], x).astype(np.float32)
    if unknown:
        y[rng.random(y.shape) < 0.3] = np.nan
    return DenseTargets(y, NO_CLASSES, w, d)


def start_of(loss, targets):
    """Where boosting starts, by one worker and, to the bit, by several."""
    n = targets.n_rows
    known = KnownTargets("regression", None, np.zeros(targets.n_outputs))

    def part(rows):
        return DensePartition(None, {}, None, known, targets.rows(rows), 1, (np.zeros((n, 1)), None))

    start = common_base_score(LocalCommunicator(), part(slice(None)), loss, n)
    rows = [slice(0, 7), slice(7, 30), slice(30, n)]
    for found in run_workers(3, lambda comm: common_base_score(comm, part(rows[comm.rank]), loss, n)):
        assert found.tobytes() == start.tobytes()
    return start


def value_of(name, targets, scores):
    """Mean loss of the known pairs by weight (mse without the half)."""
    kind, number = name.partition(":")[0], number_of(name)
    weights = targets.known_weights()
    if kind == "softmax":
        rows = [i for i in range(targets.n_rows) if targets.classes[i] >= 0]
        each = [naive_dense.softmax_loss(targets.classes[i], scores[i].tolist()) for i in rows]
        return np.average(each, weights=weights[rows, 0])
    total = 0.0
    for i, j in np.argwhere(weights > 0):
        loss = naive_dense.pair_loss(kind, float(targets.values[i, j]), float(scores[i, j]), number)
        total += weights[i, j] * loss * (2 if kind == "mse" else 1)
    return total / weights.sum()


@pytest.mark.parametrize("weights", [0, 1, "pairs"])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", [*PAIRS, "softmax"])
def test_value_is_the_mean_over_known_pairs(name, unknown, weights):
    if name == "softmax" and weights == "pairs":
        pytest.skip("a row has one class")
    targets = make(name, unknown=unknown, weights=weights)
    scores = np.random.default_rng(5).normal(size=(60, 3)).astype(np.float32)
    assert dense_objective(name).value(targets, scores) == pytest.approx(
        value_of(name, targets, scores), rel=1e-6
    )


@pytest.mark.parametrize("name", [*PAIRS, "softmax"])
def test_value_of_extreme_scores_is_finite(name):
    targets = make(name)
    with np.errstate(over="raise", invalid="raise"):
        for score in (-1e4, 1e4):
            assert np.isfinite(dense_objective(name).value(targets, np.full((60, 3), score, np.float32)))


@pytest.mark.parametrize(("name", "power"), [
    ("poisson", 1), ("tweedie:1.1", 1.1), ("tweedie:1.5", 1.5), ("tweedie:1.9", 1.9), ("gamma", 2),
])  # fmt: skip
def test_losses_are_half_the_deviance(name, power):
    loss, targets = dense_objective(name), make(name, weights="pairs")
    y, w = targets.values.ravel(), targets.known_weights().ravel()
    for score in (0.25, -1.5):
        deviance = mean_tweedie_deviance(y, np.full(len(y), np.exp(score)), sample_weight=w, power=power)
        value = loss.value(targets, np.full((60, 3), score, np.float32))
        assert value == pytest.approx(deviance / 2, rel=1e-6)
    unknown = make(name, unknown=True)
    assert np.isfinite(loss.value(unknown, np.zeros((60, 3), np.float32)))


@pytest.mark.parametrize("weights", [0, 1, "pairs"])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", [name for name in PAIRS if not name.startswith("huber")])
def test_base_score_is_the_best_constant(name, unknown, weights):
    targets = make(name, unknown=unknown, weights=weights)
    loss = dense_objective(name)
    start = start_of(loss, targets)
    assert start.dtype == np.float32
    own = targets.known_weights()
    for j in range(3):
        alone = DenseTargets(
            targets.values[:, j : j + 1].copy(), NO_CLASSES, own[:, j : j + 1].astype(np.float32), 1
        )

        def at(score, alone=alone):
            return value_of(name, alone, np.full((60, 1), score))

        best = minimize_scalar(at, bounds=(-5, 5), method="bounded", options={"xatol": 1e-7})
        assert at(start[j]) <= best.fun + 1e-6


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", ["mse", "logistic", "poisson"])
def test_the_search_for_a_minimum_finds_the_closed_form(name, unknown):
    targets = make(name, unknown=unknown, weights="pairs")
    loss = dense_objective(name)
    found = start_of(Searched(loss), targets)
    np.testing.assert_allclose(found, start_of(loss, targets), rtol=3e-7, atol=3e-7)


class Searched:
    """A loss without a closed form for its base score."""

    quantile = None

    def __init__(self, loss):
        self.gradients = loss.gradients

    def base_score(self, targets):
        return targets.minimiser(self)


def test_the_search_reaches_far_and_is_0_where_nothing_is_known():
    y = np.array([[1e12, np.nan, -3e-9, 5]] * 3, np.float32)
    y[:, 3] = [4, 5, 6]
    targets = DenseTargets(y, NO_CLASSES, NO_VALUES, 4)
    known = KnownTargets("regression", None, np.zeros(4))
    part = DensePartition(None, {}, None, known, targets, 1, (np.zeros((3, 1)), None))
    found = common_base_score(LocalCommunicator(), part, Searched(dense_objective("mse")), 3)
    np.testing.assert_allclose(found, [1e12, 0, -3e-9, 5], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1, 1e5])
def test_log_cosh_starts_between_mean_and_median(scale):
    y = (scale * np.random.default_rng(0).exponential(size=(400, 1))).astype(np.float32)
    start = start_of(dense_objective("log-cosh"), DenseTargets(y, NO_CLASSES, NO_VALUES, 1))[0]
    assert np.median(y) * 0.999 <= start <= y.mean() * 1.001
    assert abs(np.tanh(start - y.astype(np.float64)).sum()) <= 1e-3 * max(1, scale**0.5)
    if scale == 1e-3:
        assert start == pytest.approx(y.mean(), rel=1e-5)


def test_huber_starts_at_the_mean():
    targets = make("huber:0.75", unknown=True)
    np.testing.assert_allclose(
        start_of(dense_objective("huber:0.75"), targets), np.nanmean(targets.values, axis=0), rtol=1e-5
    )


def test_softmax_starts_at_the_log_of_the_shares():
    targets = make("softmax", weights=1, unknown=True)
    start = start_of(dense_objective("softmax"), targets)
    weights = targets.known_weights()[:, 0]
    shares = [weights[targets.classes == c].sum() / weights.sum() for c in range(3)]
    np.testing.assert_allclose(start, np.log(shares), rtol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "focal", "softmax", "poisson", "tweedie", "gamma"])
def test_weights_that_add_up_to_little_do_not_move_the_start(name):
    targets = make(name, weights=1)
    little = replace(targets, weights=targets.weights / np.float32(2**20))
    loss = dense_objective(name)
    np.testing.assert_allclose(start_of(loss, little), start_of(loss, targets), rtol=1e-6)


@pytest.mark.parametrize("name", ["poisson", "tweedie", "gamma"])
def test_targets_in_small_units_start_small(name):
    targets = make(name)
    small = replace(targets, values=targets.values / np.float32(2**20))
    loss = dense_objective(name)
    start = start_of(loss, targets) - 20 * np.log(2)
    np.testing.assert_allclose(start_of(loss, small), start, rtol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "focal", "poisson"])
def test_outputs_that_are_never_on_start_finite(name):
    y = np.zeros((50, 3), np.float32)
    y[:, 1] = 1
    y[:, 2] = np.nan
    start = start_of(dense_objective(name), DenseTargets(y, NO_CLASSES, NO_VALUES, 3))
    assert np.isfinite(start).all()
    assert start[0] < -1
    if name == "logistic":
        assert start[1] == pytest.approx(-start[0])
        assert start[2] == 0


def test_a_class_without_weight_starts_finite():
    targets = DenseTargets(NO_VALUES, np.zeros(20, np.int32), NO_VALUES, 3)
    start = start_of(dense_objective("softmax"), targets)
    assert start[0] == 0
    assert np.isfinite(start).all()
    assert start[1] == start[2] < -3


def test_links():
    z = np.array([[0.0, 2.0, -1.0]], np.float32)
    for name in ("mse", "absolute", "huber", "quantile"):
        np.testing.assert_array_equal(dense_objective(name).link.apply(z), z)
    np.testing.assert_allclose(dense_objective("poisson").link.apply(z), np.exp(z))
    np.testing.assert_allclose(dense_objective("logistic").link.apply(z), 1 / (1 + np.exp(-z)), rtol=1e-6)
    np.testing.assert_allclose(
        dense_objective("softmax").link.apply(z), [naive_dense.softmax(z[0].tolist())], rtol=1e-6
    )
    each = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(LINKS["one-vs-rest"].apply(z), each / each.sum(), rtol=1e-6)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_links_of_extreme_scores_are_finite(name, dtype):
    z = np.array([[-1e4, 0, 1e4], [1e4, 1e4, 1e4], [-1e4, -1e4, -1e4]], dtype)
    with np.errstate(over="raise", invalid="raise"):
        predictions = LINKS[name].apply(z)
    assert predictions.dtype == dtype
    assert np.isfinite(predictions).all()


def test_names_and_numbers():
    assert dense_objective("huber").parameter == 1.0
    assert dense_objective("huber:2.5").parameter == 2.5
    assert dense_objective("quantile").quantile == 0.5
    assert dense_objective("quantile:0.9").quantile == 0.9
    assert dense_objective("absolute").quantile == 0.5
    assert dense_objective("huber:2").quantile is None
    for name in objectives_of("regression") | objectives_of("classification"):
        assert dense_objective(name).name == name


# --- room for hessians: as little as the loss and the targets need


@pytest.mark.parametrize(("name", "unknown", "weights", "shape"), [
    ("mse", False, 0, (0, 0)), ("mse", False, 1, (60, 1)), ("mse", False, "pairs", (60, 3)),
    ("mse", True, 0, (60, 3)), ("mse", True, 1, (60, 3)), ("absolute", False, 1, (60, 1)),
    ("logistic", False, 0, (60, 3)), ("softmax", False, 1, (60, 3)),
])  # fmt: skip
@pytest.mark.parametrize("d", [1, 3])
def test_hessians_take_the_room_they_need(name, unknown, weights, shape, d):
    if name == "softmax" and d == 1:
        pytest.skip("one class is no choice")
    targets = make(name, d=d, unknown=unknown, weights=weights)
    loss = dense_objective(name)
    scores = np.random.default_rng(1).normal(size=(60, d)).astype(np.float32)
    room = loss.hessian_room(targets, scores.shape)
    assert room.shape == (shape[0], min(shape[1], d))
    g = np.empty_like(scores)
    largest_g, largest_h = loss.gradients(targets, scores, g, room, 1)
    y = targets.classes if name == "softmax" else targets.values
    wanted = naive_dense.gradients(
        name.partition(":")[0], y, scores, targets.weights if len(targets.weights) else None, number_of(name)
    )
    np.testing.assert_allclose(g, wanted[0], atol=3e-6)
    np.testing.assert_allclose(largest_g, np.abs(wanted[0]).max(axis=0), atol=3e-6)
    if len(room):
        np.testing.assert_allclose(np.broadcast_to(room, scores.shape), wanted[1], atol=3e-6)
        np.testing.assert_allclose(largest_h, room.max(axis=0), atol=3e-6)
        assert len(targets.weights) == 0 or room is not targets.weights
    else:
        assert largest_h.shape == (0,)


# --- a function of the user's


def test_a_custom_loss_is_weighted_and_masked():
    targets = make("mse", unknown=True, weights="pairs")
    scores = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    loss = Custom(lambda y, z: (z - y, np.full(z.shape, 2.0)))
    g, h = np.empty_like(scores), loss.hessian_room(targets, scores.shape)
    largest = loss.gradients(targets, scores, g, h, 1)
    known = ~np.isnan(targets.values)
    np.testing.assert_allclose(g, np.where(known, (scores - targets.values) * targets.weights, 0))
    np.testing.assert_allclose(h, np.where(known, 2 * targets.weights, 0))
    np.testing.assert_array_equal(largest[0], np.abs(g).max(axis=0))
    np.testing.assert_array_equal(largest[1], h.max(axis=0))


@pytest.mark.parametrize(("function", "match"), [
    (lambda y, z: z, "must return a pair"),
    (lambda y, z: (z, z, z), "must return a pair"),
    (lambda y, z: (z[:, :1], z), r"must return a gradient of shape \(60, 3\). Got \(60, 1\) instead"),
    (lambda y, z: (z, z[0]), r"must return a hessian of shape \(60, 3\). Got \(3,\) instead"),
    (lambda y, z: (z + np.inf, z), "gradient that is not finite"),
    (lambda y, z: (z, z + np.nan), "hessian that is not finite"),
    (lambda y, z: (z, -np.ones(z.shape)), "must return a hessian >= 0"),
])  # fmt: skip
def test_functions_that_return_nonsense_are_refused(function, match):
    targets, scores = make("mse"), np.ones((60, 3), np.float32)
    loss = Custom(function)
    with pytest.raises(ValueError, match=match):
        loss.gradients(targets, scores, np.empty_like(scores), np.empty_like(scores), 1)


def test_a_custom_loss_cannot_change_the_scores():
    def spoil(y, z):
        z[:] = 0
        return z, z + 1

    targets, scores = make("mse"), np.ones((60, 3), np.float32)
    loss = Custom(spoil)
    loss.gradients(targets, scores, np.empty_like(scores), np.empty_like(scores), 1)
    loss.value(targets, scores)
    assert (scores == 1).all()


def test_targets():
    targets = make("softmax", unknown=True)
    matrix = targets.as_matrix()
    for row, own in zip(matrix, targets.classes, strict=True):
        assert np.isnan(row).all() if own < 0 else row.tolist() == [float(j == own) for j in range(3)]
    assert targets.has_unknown
    assert not make("softmax").has_unknown
    np.testing.assert_array_equal(targets.known_weights()[:, 1], targets.classes >= 0)
