"""Gradients and hessians of every dense loss: against the twin, and against finite differences of the loss itself."""

import numpy as np
import pytest

import naive_dense
from sparseleaf import _kernels
from sparseleaf.objectives import dense_objective, objectives_of

NAMES = (
    "mse",
    "logistic",
    "softmax",
    "absolute",
    "huber",
    "quantile",
    "poisson",
    "tweedie",
    "gamma",
    "log-cosh",
    "focal",
)
PARAMETER = {"huber": 0.75, "quantile": 0.8, "tweedie": 1.3, "focal": 2.0}
CURVED = ("logistic", "softmax", "poisson", "tweedie", "gamma", "log-cosh", "focal")
BOUNDS = ("log-cosh", "focal")  # whose h is not the second derivative, but above it
NONE = np.empty((0, 0), np.float32)
NO_CLASSES = np.empty(0, np.int32)


def make(name, n, d, seed=0, unknown=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=2, size=(n, d)).astype(np.float32)
    if name == "softmax":
        return rng.integers(-1 if unknown else 0, d, n).astype(np.int32), scores
    if name in ("logistic", "focal"):
        y = (rng.random((n, d)) < 0.4).astype(np.float32)
    elif name in ("poisson", "tweedie"):
        y = rng.poisson(2.0, (n, d)).astype(np.float32)
    elif name == "gamma":
        y = rng.gamma(2.0, 1.5, (n, d)).astype(np.float32)
    else:
        y = rng.normal(scale=2, size=(n, d)).astype(np.float32)
    if unknown:
        y[rng.random(y.shape) < 0.3] = np.nan
    return y, scores


def run(name, y, scores, weights=NONE, n_threads=2, curved=True):
    g = np.full_like(scores, 99)
    h = np.full_like(scores, 99) if curved else np.empty((0, scores.shape[1]), np.float32)
    largest_g, largest_h = (np.full(scores.shape[1], 99, np.float32) for _ in range(2))
    by_class = name == "softmax"
    _kernels.gradients(
        name, PARAMETER.get(name, 0.0), scores, NONE if by_class else y, y if by_class else NO_CLASSES,
        weights, g, h, largest_g, largest_h, n_threads,
    )  # fmt: skip
    return g, h, largest_g, largest_h


def test_every_loss_is_tested_here():
    assert sorted(NAMES) == sorted(objectives_of("regression") | objectives_of("classification"))
    for name in NAMES:
        assert dense_objective(name).constant_hessian == (name not in CURVED)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("weighted", [0, 1, "pairs"])
@pytest.mark.parametrize("d", [2, 7, 8, 19])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_twins(name, d, weighted, unknown):
    n = 300  # more than a chunk
    y, scores = make(name, n, d, seed=d, unknown=unknown)
    weights = NONE
    if weighted:
        rng = np.random.default_rng(1)
        weights = rng.choice([0, 0.5, 1, 3], (n, 1 if weighted == 1 else d)).astype(np.float32)
    wanted_g, wanted_h = naive_dense.gradients(
        name, y, scores, weights if weighted else None, PARAMETER.get(name, 0.0)
    )
    g, h, largest_g, largest_h = run(name, y, scores, weights)
    np.testing.assert_allclose(g, wanted_g, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(h, wanted_h, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(largest_g, np.abs(g).max(axis=0))
    np.testing.assert_array_equal(largest_h, h.max(axis=0))
    if unknown:
        gone = np.repeat((y < 0)[:, None], d, 1) if name == "softmax" else np.isnan(y)
        assert gone.any()
        assert not g[gone].any()
        assert not h[gone].any()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CURVED])
def test_losses_with_a_constant_hessian_need_no_room_for_it(name):
    y, scores = make(name, 50, 3)
    with_room, without = run(name, y, scores), run(name, y, scores, curved=False)
    np.testing.assert_array_equal(with_room[0], without[0])
    assert (with_room[1] == 1).all()
    assert without[1].shape == (0, 3)
    assert not without[3].any()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "softmax"])
def test_gradients_are_slopes_of_the_loss_and_hessians_slopes_of_gradients(name):
    y, scores = make(name, 40, 3, seed=3)
    parameter = PARAMETER.get(name, 0.0)
    g, h, *_ = run(name, y, scores)
    step = 1e-5
    for i in range(len(y)):
        for j in range(3):
            at, target = float(scores[i, j]), float(y[i, j])
            loss = [naive_dense.pair_loss(name, target, at + move, parameter) for move in (-step, 0, step)]
            assert g[i, j] == pytest.approx((loss[2] - loss[0]) / (2 * step), abs=2e-5, rel=2e-5)
            if name in CURVED or name == "mse":
                slope = [
                    naive_dense.gradients(name, np.array([[target]]), [[at + move]], None, parameter)[0][0, 0]
                    for move in (-step, step)
                ]
                second = (slope[1] - slope[0]) / (2 * step)
                if name in BOUNDS:
                    assert h[i, j] >= second - 1e-6
                else:
                    assert h[i, j] == pytest.approx(second, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_focal_is_precise_over_all_scores(gamma, monkeypatch):
    monkeypatch.setitem(PARAMETER, "focal", gamma)
    z = np.linspace(-16, 16, 1001).astype(np.float32)[:, None]
    z = np.hstack((z, z))
    y = np.repeat([[0.0, 1.0]], len(z), axis=0).astype(np.float32)
    g, h, *_ = run("focal", y, z)
    wanted_g, wanted_h = naive_dense.gradients("focal", y, z, None, gamma)
    np.testing.assert_allclose(g, wanted_g, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(h, wanted_h, rtol=1e-5, atol=1e-30)
    assert (h > 0).all()
    np.testing.assert_array_equal(g[:, 0], -g[::-1, 1])  # the labels are symmetric


def test_focal_with_little_focus_is_logistic(monkeypatch):
    monkeypatch.setitem(PARAMETER, "focal", 1e-6)
    y, z = make("logistic", 100, 3)
    for focal, logistic in zip(run("focal", y, z)[:2], run("logistic", y, z)[:2], strict=True):
        np.testing.assert_allclose(focal, logistic, rtol=2e-5, atol=1e-6)


def test_log_cosh_is_precise_for_residuals_of_any_size():
    r = np.concatenate((np.logspace(-30, 4, 400), np.linspace(0.2, 0.3, 101))).astype(np.float32)
    r = np.concatenate((r, -r))[:, None]
    g, h, *_ = run("log-cosh", np.zeros_like(r), r)
    exact = np.tanh(r.astype(np.float64))
    np.testing.assert_allclose(g, exact, rtol=5e-7)
    np.testing.assert_allclose(h, exact / r, rtol=5e-7)
    assert run("log-cosh", np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32))[:2] == (0, 1)


def test_steps_of_log_cosh_never_raise_the_loss():
    rng = np.random.default_rng(0)
    for scale in (0.1, 1, 30, 1e4):
        y = rng.normal(scale=scale, size=(50, 1)).astype(np.float32)
        before = np.inf
        z = 5 * scale
        for _ in range(5):
            value = np.mean([naive_dense.pair_loss("log-cosh", target, z) for target in y[:, 0].tolist()])
            assert value <= before + 1e-6 * scale
            before = value
            g, h, *_ = run("log-cosh", y, np.full_like(y, z))
            z -= float(g.sum() / h.sum())


def test_softmax_gradients_and_hessian_are_slopes():
    y, scores = make("softmax", 12, 5, seed=4)
    g, _, *_ = run("softmax", y, scores)
    packed = np.empty((12, 15), np.float32)
    _kernels.softmax_hessians(g, y, NONE, packed, 2)
    step = 1e-5
    for i in range(12):
        z = scores[i].astype(np.float64)
        place = 0
        for a in range(5):
            move = step * np.eye(5)[a]
            slope = naive_dense.softmax_loss(y[i], z + move) - naive_dense.softmax_loss(y[i], z - move)
            assert g[i, a] == pytest.approx(slope / (2 * step), abs=1e-5)
            for b in range(a + 1):
                across = (naive_dense.softmax(z + move)[b] - naive_dense.softmax(z - move)[b]) / (2 * step)
                assert packed[i, place] == pytest.approx(across, abs=1e-5)
                place += 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [2, 3, 10])
def test_softmax_hessians_are_the_twins(d, weighted):
    y, scores = make("softmax", 300, d, seed=5, unknown=True)
    weights = NONE
    if weighted:
        weights = np.random.default_rng(1).choice([0, 0.5, 2], (300, 1)).astype(np.float32)
    g, h, *_ = run("softmax", y, scores, weights)
    packed = np.full((300, d * (d + 1) // 2), 99, np.float32)
    _kernels.softmax_hessians(g, y, weights, packed, 2)
    wanted = [
        naive_dense.softmax_hessian(own, z.tolist(), float(weights[i, 0]) if weighted else 1.0)
        for i, (own, z) in enumerate(zip(y, scores.astype(np.float64), strict=True))
    ]
    np.testing.assert_allclose(packed, wanted, atol=2e-6)
    diagonal = packed[:, [i * (i + 3) // 2 for i in range(d)]]
    np.testing.assert_allclose(diagonal, h, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_scores_stay_finite(name):
    y, scores = make(name, 6, 3)
    scores[:] = np.array([-3e38, -1e4, -100, 100, 1e4, 3e38], np.float32)[:, None]
    scores[:, 1] = 0
    if name in ("mse",):
        scores[[0, 5]] = 1e30
    g, h, largest_g, largest_h = run(name, y, scores)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h >= 0).all()
    assert np.isfinite(largest_g).all()
    assert np.isfinite(largest_h).all()
    if name == "logistic":
        np.testing.assert_allclose(g[:, 0] + y[:, 0], [0, 0, 0, 1, 1, 1], atol=1e-6)


def test_exponentials_are_accurate_over_their_range():
    """Through Poisson's mean, which is e^z."""
    z = np.linspace(-86, 87, 200_001).astype(np.float32)[:, None]
    g, h, *_ = run("poisson", np.zeros_like(z), z)
    np.testing.assert_allclose(h, np.exp(z.astype(np.float64)), rtol=2.5e-7)
    np.testing.assert_array_equal(g, h)


@pytest.mark.parametrize("name", NAMES)
def test_threads_and_rows_do_not_change_a_bit(name):
    y, scores = make(name, 1000, 13, unknown=True)
    results = [run(name, y, scores, n_threads=n) for n in (1, 2, 5)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    g, h, *_ = run(name, y[700:701].copy(), scores[700:701].copy())
    assert g.tobytes() == results[0][0][700].tobytes()
    assert h.tobytes() == results[0][1][700].tobytes()


def test_kinks():
    """At the target: no slope for absolute, the upper one for quantile, none beyond δ for Huber."""
    y, z = np.zeros((1, 3), np.float32), np.array([[0, 2, -2]], np.float32)
    assert run("absolute", y, z)[0].tolist() == [[0, 1, -1]]
    assert run("quantile", y, z)[0][0] == pytest.approx([0.2, 0.2, -0.8])
    assert run("huber", y, z)[0].tolist() == [[0, 0.75, -0.75]]


def arguments(**change):
    n, d = 4, 3
    given = {
        "loss": "mse", "parameter": 0.0, "scores": np.zeros((n, d), np.float32),
        "targets": np.zeros((n, d), np.float32), "classes": NO_CLASSES, "weights": NONE,
        "g": np.empty((n, d), np.float32), "h": np.empty((n, d), np.float32),
        "largest_g": np.empty(d, np.float32), "largest_h": np.empty(d, np.float32), "n_threads": 1,
    }  # fmt: skip
    return given | change


@pytest.mark.parametrize(("change", "match"), [
    ({"loss": "mean"}, "loss"),
    ({"targets": np.zeros((4, 2), np.float32)}, "targets"),
    ({"targets": np.zeros((3, 3), np.float32)}, "targets"),
    ({"g": np.empty((3, 3), np.float32)}, "g, h"),
    ({"h": np.empty((4, 2), np.float32)}, "g, h"),
    ({"h": np.empty((0, 3), np.float32), "loss": "logistic"}, "hessian"),
    ({"loss": "softmax", "classes": np.zeros(3, np.int32)}, "targets"),
    ({"loss": "softmax", "classes": np.array([0, 1, 2, 3], np.int32)}, "classes"),
    ({"weights": np.ones((4, 2), np.float32)}, "weights"),
    ({"weights": np.ones((3, 1), np.float32)}, "weights"),
    ({"largest_g": np.empty(2, np.float32)}, "largest"),
    ({"largest_h": np.empty(2, np.float32)}, "largest"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(change, match):
    _kernels.gradients(**arguments())
    with pytest.raises(ValueError, match=match):
        _kernels.gradients(**arguments(**change))


@pytest.mark.parametrize(("change", "match"), [
    ({"out": np.empty((4, 5), np.float32)}, "out"),
    ({"out": np.empty((3, 6), np.float32)}, "out"),
    ({"classes": np.zeros(3, np.int32)}, "classes"),
    ({"weights": np.ones((4, 3), np.float32)}, "weights"),
])  # fmt: skip
def test_hessians_that_do_not_fit_are_refused(change, match):
    given = {
        "g": np.zeros((4, 3), np.float32), "classes": np.zeros(4, np.int32), "weights": NONE,
        "out": np.empty((4, 6), np.float32), "n_threads": 1,
    }  # fmt: skip
    _kernels.softmax_hessians(**given)
    with pytest.raises(ValueError, match=match):
        _kernels.softmax_hessians(**(given | change))
