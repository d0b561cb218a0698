"""Types of the compiled kernels: one section per file of cpp/."""

import numpy as np
from numpy.typing import NDArray

# xctext.cpp
def xc_parse(
    text: bytes | NDArray[np.uint8], n_threads: int
) -> tuple[
    int,
    int,
    int,
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.float32],
]: ...
def xc_format(
    label_indptr: NDArray[np.int64],
    label_ids: NDArray[np.int32],
    feature_indptr: NDArray[np.int64],
    feature_ids: NDArray[np.int32],
    values: NDArray[np.float32],
    row_begin: int,
    row_end: int,
    n_threads: int,
) -> NDArray[np.uint8]: ...
