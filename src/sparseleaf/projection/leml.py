"""LEML: supervised linear projection for multi-label data (Yu, Jain, Kar & Dhillon, ICML 2014).

Minimises ‖Y − X W Hᵀ‖² + γ(‖W‖² + ‖H‖²) over W (n_features × r) and H (n_labels × r); the features are X W.

- H step: Z = X W, H = (Yᵀ Z)(Zᵀ Z + γ I)⁻¹, one r × r factorisation for all labels.
- W step: with M = Hᵀ H, solve Xᵀ X W M + γ W = Xᵀ (Y H). In the eigenbasis of M its columns decouple into r ridge
  systems (m_j Xᵀ X + γ I) w_j = b_j, solved together by conjugate gradients. The labels are not used in this loop.
- With few features, the reduced-rank ridge regression min ‖Y − X B‖² + γ‖B‖², rank(B) ≤ r, is solved exactly
  instead: with Xᵀ X + γ I = Rᵀ R and U Σ² Uᵀ the leading eigenpairs of R⁻ᵀ Xᵀ Y Yᵀ X R⁻¹, W = R⁻¹ U Σ.

Any W A gives the same fit. Trees split along axes, so W is rotated to make the new columns uncorrelated, in order of
decreasing variance.

The result is nearly always byte-identical for every BLAS: BLAS and LAPACK are used in float64 on small matrices only
(r × r, or n_features² if features are few), whose entries are rounded to a grid; products over rows, features or labels
are computed by kernels with a fixed summation order. A matrix of size n_features² is only allocated if features are
few, and one of size rows × labels never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from sparseleaf._arrays import as_csr32, effective_n_jobs, on_grid
from sparseleaf._threads import sparse_product
from sparseleaf.data.checks import check_sparse, check_values
from sparseleaf.data.targets import encode_targets
from sparseleaf.progress import phase, reporting
from sparseleaf.projection.linear import times

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

EXACT_FEATURES = 2_048
"""Maximum number of features for which the reduced-rank ridge regression is solved exactly."""

LABEL_BLOCK = 16_384

TOLERANCE = 0.1
"""Relative residual at which conjugate gradients stop; the next round changes the system anyway."""


class LEML(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Supervised linear dimensionality reduction for multi-label data.

    Parameters
    ----------
    n_components : int, default=100
        Number of new features; limited by the number of features and of labels.
    gamma : float, default=1.0
        Regularisation strength, relative to the mean diagonal of XᵀX, with X scaled to rows of about unit length. It
        does not depend on the scale of X or the number of rows.
    max_iter : int, default=5
        Number of rounds of alternating minimisation.
    cg_iter : int, default=5
        Number of conjugate gradient steps per round.
    solver : {"auto", "exact", "alternating"}, default="auto"
        "exact": reduced-rank ridge regression; "alternating": alternating minimisation; "auto": "exact" for up to 2,048
        features.
    n_jobs : int or None, default=None
        Number of threads; None for all cores. Does not affect the result.
    random_state : int, RandomState or None, default=0
        Seed of the initialisation of the alternating minimisation.
    verbose : int, default=0
        0: silent; 1: progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of float32, shape (n_features, n_components)
        Projection matrix.
    n_features_in_ : int
        Number of features seen in ``fit``.

    Examples
    --------
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.projection import LEML
    >>> X, Y = make_xc(300, 100, 20)
    >>> LEML(n_components=5).fit(X, Y).transform(X).shape
    (300, 5)
    """

    def __init__(
        self,
        n_components: int = 100,
        gamma: float = 1.0,
        max_iter: int = 5,
        cg_iter: int = 5,
        solver: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.max_iter = max_iter
        self.cg_iter = cg_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.

        Returns
        -------
        self : object
            Fitted transformer.
        """
        self._check()
        X = self._validate(X, reset=True)
        Y = encode_targets(y, X.shape[0]).matrix
        n_jobs = effective_n_jobs(self.n_jobs)
        rank = min(self.n_components, X.shape[1], max(1, Y.shape[1]))
        scale = _scale(X)
        X = X * np.float32(scale)
        gamma = self.gamma * max(_mean_square(X) * X.shape[0], 1e-30)
        exact = self.solver == "exact" or (self.solver == "auto" and X.shape[1] <= EXACT_FEATURES)
        # the summation order of BLAS depends on the number of threads
        with threadpool_limits(1), reporting(self.verbose):
            if exact:
                W = _reduced_rank_ridge(X, Y, rank, gamma, n_jobs)
            else:
                seed = int(check_random_state(self.random_state).randint(2**31))
                W = _Alternating(X, Y, gamma, n_jobs).fit(rank, self.max_iter, self.cg_iter, seed)
            self.components_ = _rotate(X, W, n_jobs) * np.float32(scale)
        self._n_features_out = self.components_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Project the features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.

        Returns
        -------
        X_new : ndarray of float32, shape (n_rows, n_components)
            Projected features.
        """
        check_is_fitted(self, "components_")
        return times(self._validate(X, reset=False), self.components_, effective_n_jobs(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        for name, low in (("n_components", 1), ("max_iter", 1), ("cg_iter", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                raise ValueError(
                    f"The {name!r} parameter of LEML must be an int >= {low}. Got {value!r} instead."
                )
        if not isinstance(self.gamma, int | float | np.number) or not 0 < self.gamma < np.inf:
            raise ValueError(
                f"The 'gamma' parameter of LEML must be a number > 0. Got {self.gamma!r} instead."
            )
        if self.solver not in ("auto", "exact", "alternating"):
            raise ValueError(
                "The 'solver' parameter of LEML must be one of {'auto', 'exact', 'alternating'}. Got"
                f" {self.solver!r} instead."
            )

    def _validate(self, X: Any, *, reset: bool) -> Features:
        check_values(X, "X")
        if sp.issparse(X):
            X = check_sparse(X, "X")
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float32, order="C")
        return as_csr32(X) if sp.issparse(X) else X


def _mean_square(X: Features) -> float:
    values = X.data if sp.issparse(X) else X
    return float(np.square(values, dtype=np.float64).sum() / max(1, X.shape[0] * X.shape[1]))


def _scale(X: Features) -> float:
    """Power of two that scales rows to about unit length, so that gamma does not depend on the scale of X.

    Limited to a range that float32 can represent.
    """
    square = _mean_square(X) * X.shape[1]
    return float(2.0 ** np.clip(-np.round(np.log2(square) / 2), -120, 120)) if square > 0 else 1.0


def _reduced_rank_ridge(X: Features, Y: sp.csr_matrix, rank: int, gamma: float, n_jobs: int) -> Array:
    gram = _dense(sparse_product(X.T.tocsr(), X, n_jobs)) if sp.issparse(X) else _gram(X)
    gram[np.diag_indices_from(gram)] += gamma
    factor = scipy.linalg.cholesky(gram)  # gram = factorᵀ factor
    del gram
    middle = scipy.linalg.solve_triangular(factor, _label_gram(X, Y, n_jobs), trans="T")
    middle = scipy.linalg.solve_triangular(factor, middle.T, trans="T")
    n = len(middle)
    values, vectors = scipy.linalg.eigh((middle + middle.T) / 2, subset_by_index=[n - rank, n - 1])
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.ascontiguousarray(on_grid(scipy.linalg.solve_triangular(factor, scaled)), np.float32)


def _label_gram(X: Features, Y: sp.csr_matrix, n_jobs: int) -> Array:
    """Xᵀ Y Yᵀ X, without a dense n_features × n_labels matrix."""
    if sp.issparse(X):
        cross = sparse_product(X.T.tocsr(), Y, n_jobs)
        return _dense(sparse_product(cross, cross.T.tocsr(), n_jobs))
    gram = np.zeros((X.shape[1], X.shape[1]))
    by_label = Y.T.tocsr()
    for begin in range(0, Y.shape[1], LABEL_BLOCK):
        block = _dense(by_label[begin : begin + LABEL_BLOCK] @ X)
        gram += block.T @ block
    return gram


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, np.float64)


class _Alternating:
    """Alternating minimisation; transposes are stored as CSR, so that every product is row-wise."""

    def __init__(self, X: Features, Y: sp.csr_matrix, gamma: float, n_jobs: int) -> None:
        self._X = X
        self._Xt = X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)
        self._Y = Y
        self._Yt = Y.T.tocsr()
        self._gamma = gamma
        self._n_jobs = n_jobs

    def fit(self, rank: int, rounds: int, cg_steps: int, seed: int) -> Array:
        """Run the rounds and return W."""
        with phase("alternating minimisation", rounds + 1) as advance:
            W = self._start(rank, seed)
            advance(1, "")
            for done in range(rounds):
                W = self._w_step(W, self._h_step(W), cg_steps)
                advance(done + 2, "")
        return W

    def _start(self, rank: int, seed: int) -> Array:
        """Approximate leading left singular vectors of Xᵀ Y."""
        rng = np.random.Generator(np.random.PCG64(seed))
        W = rng.standard_normal((self._Xt.shape[0], rank), dtype=np.float32)
        for _ in range(2):
            W = self._orthonormal(W)
            W = self._times(self._Xt, self._times(self._Y, self._times(self._Yt, self._times(self._X, W))))
        return self._orthonormal(W)

    def _orthonormal(self, W: Array) -> Array:
        """Orthonormal basis of the column space of W, by the eigenvectors of WᵀW."""
        values, vectors = np.linalg.eigh(_gram(W))
        lengths = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
        lengths[lengths == 0] = 1.0
        return self._times(W, on_grid(vectors / lengths).astype(np.float32))

    def _h_step(self, W: Array) -> Array:
        Z = self._times(self._X, W)
        gram = _gram(Z)
        gram[np.diag_indices_from(gram)] += self._gamma
        right = self._times(self._Yt, Z)
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), np.eye(len(gram)))
        return self._times(right, on_grid(inverse).astype(np.float32))

    def _w_step(self, W: Array, H: Array, steps: int, tolerance: float = TOLERANCE) -> Array:
        """W for fixed H, in the eigenbasis of HᵀH, stored as ``basis``: the fit is X W (H basis)ᵀ."""
        weights, basis = np.linalg.eigh(_gram(H))
        self.basis = rotation = on_grid(basis).astype(np.float32)
        scale = on_grid(np.maximum(weights, 0.0), 34).astype(np.float32)  # keeps small eigenvalues
        W = self._times(W, rotation)  # warm start
        residual = self._times(self._Xt, self._times(self._Y, self._times(H, rotation)))
        start = _column_dots(residual, residual)
        residual -= self._operator(W, scale)
        direction = residual.copy()
        size = _column_dots(residual, residual)
        for _ in range(steps):
            if np.all(size <= tolerance**2 * start):
                break
            applied = self._operator(direction, scale)
            length = _ratio(size, _column_dots(direction, applied))
            W += direction * length
            residual -= applied * length
            new_size = _column_dots(residual, residual)
            direction *= _ratio(new_size, size)
            direction += residual
            size = new_size
        return W

    def _operator(self, S: Array, scale: Array) -> Array:
        applied = self._times(self._Xt, self._times(self._X, S) * scale)
        applied += np.float32(self._gamma) * S
        return applied

    def _times(self, A: Features, B: Array) -> Array:
        return times(A, np.ascontiguousarray(B), self._n_jobs)


def _gram(Z: Array) -> Array:
    """Zᵀ Z in float64, by blocks of rows to avoid a float64 copy of Z."""
    gram = np.zeros((Z.shape[1], Z.shape[1]))
    for begin in range(0, len(Z), 65_536):
        block = Z[begin : begin + 65_536].astype(np.float64)
        gram += block.T @ block
    return gram


def _column_dots(A: Array, B: Array) -> Array:
    total = np.zeros(A.shape[1])
    for begin in range(0, len(A), 65_536):
        total += np.einsum("ij,ij->j", A[begin : begin + 65_536], B[begin : begin + 65_536], dtype=np.float64)
    return total


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Step length of conjugate gradients; 0 for columns that have converged."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0).astype(np.float32)


def _rotate(X: Features, W: Array, n_jobs: int) -> Array:
    """Rotate W so that the columns of X W are uncorrelated, in order of decreasing variance, with fixed signs."""
    Z = times(X, W, n_jobs)
    centre = Z.mean(axis=0, dtype=np.float64)
    covariance = _gram(Z) / len(Z) - np.outer(centre, centre)
    values, vectors = np.linalg.eigh(covariance)
    vectors[:, values <= 1e-12 * values[-1]] = 0.0  # directions of columns without variance are arbitrary
    rotated = times(W, np.ascontiguousarray(on_grid(vectors)[:, ::-1], np.float32), n_jobs)
    largest = rotated[np.abs(rotated).argmax(axis=0), np.arange(rotated.shape[1])]
    return rotated * np.where(largest < 0, np.float32(-1), np.float32(1))
