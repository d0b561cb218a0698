import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

from sparseleaf import SparseGBDTClassifier
from sparseleaf._arrays import has_nan
from sparseleaf.data.rows import RowsInfo, refuse_nan
from sparseleaf.model import Role
from sparseleaf.projection import Projection, choose_keep_raw, choose_projection, fit_projection


def make(n=120, d=30, sparse=True):
    X = sp.random(n, d, 0.3, "csr", dtype=np.float32, random_state=1)
    return X if sparse else X.toarray()


def targets(X):
    return sp.csr_matrix(np.eye(X.shape[0], 5, dtype=np.float32))


def test_auto_projects_wide_sparse_data_only():
    wide = sp.csr_matrix((3, 101), dtype=np.float32)
    assert choose_projection("auto", RowsInfo.of(wide), 100) == "leml"
    assert choose_projection("auto", RowsInfo.of(wide), 101) is None
    assert choose_projection("auto", RowsInfo.of(wide.toarray()), 100) is None
    assert choose_projection(None, RowsInfo.of(wide), 100) is None
    assert choose_projection("random", RowsInfo.of(wide.toarray()), 1000) == "random"


@pytest.mark.parametrize("kind", ["random", "pca", "leml"])
@pytest.mark.parametrize("sparse", [False, True])
def test_projection_is_a_product_and_the_same_for_any_threads(kind, sparse):
    X = make(sparse=sparse)
    projection = fit_projection(kind, X, targets(X), 5, keep_raw=False, seed=0, n_jobs=1)
    assert projection.width == 5
    assert projection.components.dtype == np.float16
    found = projection.transform(X, 1)
    np.testing.assert_allclose(found, X @ projection.components.astype(np.float64), atol=1e-4)
    np.testing.assert_array_equal(projection.transform(X, 3), found)
    np.testing.assert_array_equal(
        fit_projection(kind, X, targets(X), 5, keep_raw=False, seed=0, n_jobs=1).components,
        projection.components,
    )


def test_dense_pca_is_scikit_learns_up_to_a_shift_and_a_scale():
    X = make(sparse=False)
    found = fit_projection("pca", X, targets(X), 4, keep_raw=False, seed=0, n_jobs=1).transform(X, 1)
    wanted = PCA(4, random_state=0).fit_transform(X)
    found = (found - found.mean(axis=0)) / found.std(axis=0)
    np.testing.assert_allclose(np.abs(found), np.abs(wanted / wanted.std(axis=0)), atol=5e-3)


@pytest.mark.parametrize("kind", ["random", "pca", "leml"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [1, 3, 120])
def test_more_columns_than_there_are_are_not_made(kind, sparse, n):
    X = make(n, 8, sparse)
    projection = fit_projection(kind, X, targets(X), 100, keep_raw=False, seed=0, n_jobs=1)
    assert projection.width <= 8
    assert np.isfinite(projection.components).all()
    clf = SparseGBDTClassifier(n_trees=1, projection=kind).fit(X, np.eye(n, 5))
    assert clf.predict_topk(X, 1)[0].shape == (n, 1)


@pytest.mark.parametrize("kind", ["random", "pca", "leml"])
def test_nan_is_refused_with_a_way_out(kind):
    X = make(sparse=False)
    X[3, 4] = np.nan
    Y = np.ones((len(X), 2))
    with pytest.raises(ValueError, match=r"X contains NaN.*projection=None"):
        SparseGBDTClassifier(n_trees=1, projection=kind).fit(X, Y)
    clf = SparseGBDTClassifier(n_trees=1, projection=kind).fit(np.nan_to_num(X), Y)
    with pytest.raises(ValueError, match="X contains NaN"):
        clf.predict_topk(X.astype(np.float32))


def test_raw_features_are_kept_where_they_are_few():
    few, many = sp.csr_matrix((3, 2048)), sp.csr_matrix((3, 2049))
    assert choose_keep_raw("auto", "leml", RowsInfo.of(few)) is True
    assert choose_keep_raw("auto", "leml", RowsInfo.of(many)) is False
    assert choose_keep_raw(True, "pca", RowsInfo.of(many)) is True
    assert choose_keep_raw(False, "pca", RowsInfo.of(few)) is False
    assert choose_keep_raw(True, None, RowsInfo.of(few)) is False


@pytest.mark.parametrize("sparse", [False, True])
def test_raw_features_lie_behind_the_projected_ones(sparse):
    X = make(sparse=sparse)
    alone = fit_projection("pca", X, targets(X), 5, keep_raw=False, seed=0, n_jobs=1)
    beside = fit_projection("pca", X, targets(X), 5, keep_raw=True, seed=0, n_jobs=1)
    assert (alone.width, beside.width) == (5, 35)
    wanted = np.hstack([alone.transform(X, 1), X.toarray() if sparse else X])
    np.testing.assert_array_equal(beside.transform(X, 2), wanted)
    clf = SparseGBDTClassifier(n_trees=3, projection="pca", projection_dim=5, advanced={"keep_raw": True})
    clf.fit(X, np.eye(120, 5))
    assert clf.feature_importances_.shape == (35,)


def huge_rows():
    X = np.zeros((64, 4), np.float32)
    X[::2, :2], X[1::2, 2:] = 3e38, -3e38
    return X


@pytest.mark.parametrize("sparse", [False, True])
def test_huge_values_are_not_taken_for_nan(sparse):
    X = sp.csr_matrix(huge_rows()) if sparse else huge_rows()
    refuse_nan(X)
    assert not has_nan(X)
    X[3, 3] = np.nan
    assert has_nan(X)
    with pytest.raises(ValueError, match="X contains NaN"):
        refuse_nan(X)
    assert not has_nan(np.empty((0, 3), np.float32))


def test_a_projection_that_overflows_goes_the_same_way_in_training_and_in_prediction():
    rows = [[-1, 0], [1, 0], [3e38, 3e38]]  # the last one becomes inf - inf
    projection = Projection(np.array([[2], [-2]], np.float16))
    X, Y = np.repeat(np.array(rows, np.float32), 20, axis=0), np.repeat([[1, 0], [0, 1], [1, 0]], 20, axis=0)
    projected = projection.transform(X, 1)
    assert np.isnan(projected).ravel().tolist() == [False] * 40 + [True] * 20
    clf = SparseGBDTClassifier(n_trees=1, min_samples_leaf=5).fit(projected, Y)
    assert clf.model_.trees.missing_left[0] == 1
    model = clf.model_.with_stage(Role.PROJECTION, projection)
    assert model.topk(X, 1, None, 1)[0].ravel().tolist() == [0] * 20 + [1] * 20 + [0] * 20
