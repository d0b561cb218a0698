"""Terms of inner products of rows with the vectors of labels, as attributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import csr_parts
from sparseleaf.model.attribution import Attribution, tiled

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf import _kernels
    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Pairs


def product_terms(
    vectors: _kernels.LabelVectors, rows: sp.csr_matrix, pairs: Pairs, bias: Array | float, n_jobs: int
) -> Attribution:
    """The inner product of row and label vector of every pair, with a bias as the base."""
    terms = tiled(pairs, rows)
    starts = pairs.starts(rows.shape[0])
    vectors.terms(*csr_parts(rows), starts, pairs.labels, terms.indptr, terms.data, n_jobs)
    return Attribution(np.array(np.broadcast_to(bias, len(pairs)), np.float64), terms, {})
