"""Reader of XC text, the format of the Extreme Classification Repository."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from sparseleaf.data.reading import AUTO, Reader, Rows, Source, guess_format, register
from sparseleaf.data.xc import load_xc


@register
class XCReader(Reader):
    """Read XC text as CSR matrices; the format has no label or feature names."""

    name = "xc"
    suffixes = (".txt",)

    def read(self, source: Source) -> Rows:
        """Read the rows; X has the columns of ``source.features``, or all files must have the same shape."""
        parts = [self._load(path, source) for path in source.paths]
        first_X, first_y = parts[0]
        for path, (X, y) in zip(source.paths, parts, strict=True):
            if source.features is not None and X.shape[1] > source.features.count:
                raise ValueError(
                    f"{path}: expected at most {source.features.count} features, as in training, got {X.shape[1]}."
                )
            if source.features is None and (X.shape[1], y.shape[1]) != (first_X.shape[1], first_y.shape[1]):
                raise ValueError(
                    f"{path}: line 1: expected {first_X.shape[1]} features and {first_y.shape[1]} labels, as in"
                    f" {source.paths[0]}, got {X.shape[1]} and {y.shape[1]}."
                )
        n_features = first_X.shape[1] if source.features is None else source.features.count
        n_labels = max(y.shape[1] for _, y in parts)
        for X, y in parts:
            X.resize(X.shape[0], n_features)
            y.resize(y.shape[0], n_labels)
        if len(parts) == 1:
            return Rows(*parts[0])
        return Rows(*(sparse.vstack([part[side] for part in parts], format="csr") for side in (0, 1)))

    @staticmethod
    def _load(path: Any, source: Source) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        try:
            return load_xc(path, n_jobs=source.n_jobs)
        except ValueError as error:
            if source.format == AUTO and guess_format(path) is None:
                raise ValueError(f"{error} (read as XC text; set the format to read another)") from None
            raise
