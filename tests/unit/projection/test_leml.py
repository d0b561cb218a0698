import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.projection import LEML
from sparseleaf.projection.leml import _Alternating, _mean_square


def make_set(n_rows=400, n_features=60, n_labels=30, seed=0):
    sizes = {"labels_per_row": min(3, n_labels / 2), "nnz_per_row": min(12, n_features / 2)}
    return make_xc(n_rows, n_features, n_labels, **sizes, seed=seed)


def reduced_rank_fit(X, Y, rank, gamma):
    """Naive: the ridge solution, cut to its best rank in the metric of the augmented least squares problem."""
    X, Y = X.toarray().astype(float), Y.toarray().astype(float)
    gram = X.T @ X + gamma * np.eye(X.shape[1])
    B = np.linalg.solve(gram, X.T @ Y)
    augmented = np.vstack([X, np.sqrt(gamma) * np.eye(X.shape[1])])
    _, _, Vt = np.linalg.svd(augmented @ B, full_matrices=False)
    return X @ B @ Vt[:rank].T @ Vt[:rank]


def objective(X, Y, W, H, gamma):
    X, Y = X.toarray().astype(float), Y.toarray().astype(float)
    return np.sum((Y - X @ W @ H.T) ** 2) + gamma * (np.sum(W**2) + np.sum(H**2))


def test_exact_features_span_the_reduced_rank_ridge_fit():
    X, Y = make_set()
    rank = 7
    gamma = 0.5 * _mean_square(X) * X.shape[0]
    Z = LEML(rank, gamma=0.5).fit(X, Y).transform(X).astype(float)
    fit = reduced_rank_fit(X, Y, rank, gamma)
    # the fit is Z times some r × labels matrix, and has no direction that Z lacks
    coefficients, *_ = np.linalg.lstsq(Z, fit, rcond=None)
    np.testing.assert_allclose(Z @ coefficients, fit, atol=1e-4 * np.abs(fit).max())
    assert np.linalg.matrix_rank(fit, tol=1e-8 * np.linalg.norm(fit)) == rank


@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_columns_are_uncorrelated_and_ordered(solver):
    X, Y = make_set()
    Z = LEML(6, solver=solver).fit(X, Y).transform(X).astype(float)
    covariance = np.cov(Z.T)
    spread = np.diag(covariance)
    assert (np.diff(spread) <= 1e-6 * spread[0]).all()
    assert np.abs(covariance - np.diag(spread)).max() < 1e-4 * spread[0]


def test_every_step_lowers_the_objective_of_the_paper():
    X, Y = make_set()
    gamma = 2.0
    steps = _Alternating(X, Y, gamma, 1)
    W = steps._start(5, 0)
    values = []
    for _ in range(6):
        H = steps._h_step(W)
        values.append(objective(X, Y, W, H, gamma))
        W = steps._w_step(W, H, 50)
        values.append(objective(X, Y, W, H @ steps.basis, gamma))
    assert np.all(np.diff(values) < 1e-3)
    assert values[-1] < 0.99 * values[0]


def test_the_steps_solve_their_normal_equations():
    X, Y = make_set()
    gamma = 3.0
    steps = _Alternating(X, Y, gamma, 1)
    W = steps._start(5, 0)
    H = steps._h_step(W)
    dense, truth = X.toarray().astype(float), Y.toarray().astype(float)
    Z = dense @ W
    np.testing.assert_allclose(H @ (Z.T @ Z + gamma * np.eye(5)), truth.T @ Z, rtol=1e-3, atol=1e-3)
    W = steps._w_step(W, H, 300, tolerance=1e-6)
    H = H @ steps.basis
    left = dense.T @ dense @ W @ (H.T @ H) + gamma * W
    right = dense.T @ (truth @ H)
    np.testing.assert_allclose(left, right, atol=1e-3 * np.abs(right).max())


def test_both_solvers_agree_on_what_can_be_fitted():
    X, Y = make_set()
    residuals = []
    for solver in ("exact", "alternating"):
        Z = LEML(8, gamma=0.1, solver=solver, max_iter=30, cg_iter=20).fit(X, Y).transform(X).astype(float)
        coefficients, *_ = np.linalg.lstsq(Z, Y.toarray(), rcond=None)
        residuals.append(np.sum((Y.toarray() - Z @ coefficients) ** 2))
    assert residuals[1] == pytest.approx(residuals[0], rel=0.03)


@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_the_same_bits_for_any_number_of_threads(solver):
    X, Y = make_set()
    found = [LEML(6, solver=solver, n_jobs=n).fit(X, Y).components_ for n in (1, 2, 4)]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_dense_and_sparse_input_agree(solver):
    X, Y = make_set()
    sparse = LEML(5, solver=solver).fit(X, Y)
    dense = LEML(5, solver=solver).fit(X.toarray(), Y)
    np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sparse.transform(X), sparse.transform(X.toarray()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("solver", ["exact", "alternating"])
@pytest.mark.parametrize("factor", [2.0**-80, 2.0**-3, 2.0**10, 2.0**50])
def test_the_fit_does_not_depend_on_the_scale_of_x(solver, factor):
    X, Y = make_set()
    one = LEML(5, solver=solver).fit(X, Y).transform(X)
    scaled = X * np.float32(factor)
    other = LEML(5, solver=solver).fit(scaled, Y).transform(scaled)
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * np.abs(one).max())


def test_in_a_pipeline_it_is_a_transformer():
    X, Y = make_set()
    pipeline = make_pipeline(LEML(4), DecisionTreeClassifier(random_state=0)).fit(X, Y.toarray())
    assert pipeline.predict(X).shape == Y.shape
    assert clone(pipeline[0]).get_params() == LEML(4).get_params()
    assert pipeline[0].get_feature_names_out().tolist() == ["leml0", "leml1", "leml2", "leml3"]


def test_the_classifier_takes_leml_for_wide_sparse_features():
    X, Y = make_set(600, 200, 40)
    auto = SparseGBDTClassifier(n_trees=10, projection_dim=20).fit(X, Y)
    assert auto.projection_kind_ == "leml"
    assert auto.model_.projection.components.shape == (200, 20)
    assert auto.model_.projection.keep_raw
    assert SparseGBDTClassifier(n_trees=2, projection_dim=20).fit(X.toarray(), Y).projection_kind_ is None
    assert SparseGBDTClassifier(n_trees=2, projection_dim=200).fit(X, Y).projection_kind_ is None


def test_few_rows_labels_or_features_make_fewer_columns():
    X, Y = make_set(50, 10, 4)
    assert LEML(100).fit(X, Y).components_.shape == (10, 4)
    one = LEML(3).fit(X[:1], Y[:1])
    assert np.isfinite(one.transform(X)).all()


@pytest.mark.parametrize("solver", ["exact", "alternating"])
def test_nothing_to_learn_is_no_error(solver):
    X, Y = make_set(50, 10, 4)
    for features, labels in ((X * np.float32(0), Y), (X, Y * 0)):
        fitted = LEML(3, solver=solver).fit(sp.csr_matrix(features), sp.csr_matrix(labels))
        assert np.isfinite(fitted.components_).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("gamma", 0),
        ("gamma", np.nan),
        ("max_iter", 1.5),
        ("cg_iter", -1),
        ("solver", "svd"),
    ],
)
def test_parameters_are_checked(name, value):
    with pytest.raises(ValueError, match=name):
        LEML(**{name: value}).fit(*make_set(20, 5, 3))


def test_missing_values_are_refused():
    X, Y = make_set(20, 5, 3)
    dense = X.toarray()
    dense[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LEML(2).fit(dense, Y)


def test_features_that_would_crash_or_be_misread_are_refused():
    X, Y = np.eye(20, dtype=np.float32), np.eye(20)[:, :4]
    broken = sp.csr_matrix(X)
    broken.indices[3] = 10**8
    with pytest.raises(ValueError, match="X is not a valid sparse matrix"):
        LEML(2).fit(broken, Y)
    with pytest.raises(ValueError, match="X is a masked array"):
        LEML(2).fit(np.ma.masked_array(X, mask=X > 0), Y)
