"""Reader of XC text, whose first line says how many features and labels there are."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from sparseleaf.data.reading import AUTO, Reader, Rows, Source, guess_format, register
from sparseleaf.data.xc import load_xc


@register
class XCReader(Reader):
    """XC text to CSR matrices; names of labels and features are not in it."""

    name = "xc"
    suffixes = (".txt",)

    def read(self, source: Source) -> Rows:
        """X as wide as ``source.features``, y as wide as the widest file; without features the files must agree."""
        parts = [self._load(path, source) for path in source.paths]
        first_X, first_y = parts[0]
        for path, (X, y) in zip(source.paths, parts, strict=True):
            if source.features is not None and X.shape[1] > source.features.count:
                raise ValueError(
                    f"{path}: found {X.shape[1]} features; wanted at most the {source.features.count} of training."
                )
            if source.features is None and (X.shape[1], y.shape[1]) != (first_X.shape[1], first_y.shape[1]):
                raise ValueError(
                    f"{path}: found {X.shape[1]} features and {y.shape[1]} labels in its first line; wanted"
                    f" {first_X.shape[1]} and {first_y.shape[1]} as in {source.paths[0]}: files to train on must agree."
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
                raise ValueError(f"{error} (read as XC text; give the format for another)") from None
            raise
