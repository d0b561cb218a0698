"""A part: rows as a worker has read and checked them, until a shard is made of them.

Its verbs are those of the time before the first tree: what all parts must agree on (labels, projection, cuts) is made
of what each of them says. All of them give what one part with all the rows, in the same order, would give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_numbers, require_countable, smallest_hashes
from sparseleaf.binning import EXACT_BINS, SAMPLE_ROWS, Cuts, bin_features, find_cuts, join_cuts
from sparseleaf.data.rows import RowsInfo, join_info
from sparseleaf.data.targets import Targets, form_of, relabelled
from sparseleaf.engine.shard import even_ranges
from sparseleaf.engine.sparse import SparseShard
from sparseleaf.fingerprint import fingerprint
from sparseleaf.model.empty import EmptyRows, feature_counts, find_empty
from sparseleaf.projection import Projection, fit_projection

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.engine.shard import Shard
    from sparseleaf.engine.shards import Shards
    from sparseleaf.fingerprint import Prints


ENOUGH_EMPTY = 20
"""Empty training rows from which boosted trees know what these mean."""


class Part:
    """Rows of features.

    Attributes
    ----------
    features : float32 array or CSR matrix
    shard : Shard or None
        What has been made of the rows: verbs that a part does not know are its.
    """

    def __init__(self, features: Features, names: list[str] | None, n_jobs: int) -> None:
        self.features = features
        self.names = names
        self.n_jobs = n_jobs
        self.shard: Shard | None = None
        self.columns: list[Features] = [features]
        self.first_row = 0
        self.place, self.n_parts = 0, 1

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_") or self.__dict__.get("shard") is None:
            raise AttributeError(verb)
        return getattr(self.shard, verb)

    def take_place(self, place: int, n_parts: int) -> None:
        """Which of how many parts this is."""
        self.place, self.n_parts = place, n_parts

    def describe(self) -> RowsInfo:
        """What the features are like."""
        return RowsInfo.of(self.features, self.names)

    def feature_counts(self) -> Array:
        """Rows in which each feature is not zero, int64; of sparse rows only."""
        return feature_counts(self.features)

    def empty_rows(self) -> Array:
        """How many rows have no features, int64 (1,); of sparse rows only."""
        return np.array([np.count_nonzero(find_empty(self.features))])

    def form(self) -> dict[str, Any]:
        """What all parts must have in common."""
        return {
            "n_features": self.features.shape[1],
            "feature names": self.names,
            "X": "sparse" if sp.issparse(self.features) else "dense",
        }

    def number_rows(self, sizes: list[int]) -> None:
        """Rows are numbered on from those of the parts before."""
        self.first_row = sum(sizes[: self.place])

    # --- cuts

    def sample_hashes(self, seed: int) -> Array | None:
        """The smallest hashes of the rows' numbers: the sample's are among them. None where there is one part."""
        if self.n_parts == 1:
            return None
        hashes = self._hashes(seed)
        return hashes[smallest_hashes(hashes, SAMPLE_ROWS)] if len(hashes) > SAMPLE_ROWS else hashes

    def feature_cuts(self, max_bins: int, seed: int, last: int | None) -> Cuts:
        """Where features are cut."""
        return find_cuts(self.columns, max_bins, seed, self.n_jobs)

    def feature_cuts_give(self, max_bins: int, seed: int, last: int | None) -> list[list[Features]]:
        """The sample's rows, up to the hash ``last``, parted by the parts that find the features' cuts."""
        columns = self.columns
        if last is not None:
            sampled = np.flatnonzero(self._hashes(seed) <= np.uint64(last))
            columns = [X[sampled] for X in columns]
        first = np.cumsum([0, *(X.shape[1] for X in columns)]).tolist()
        return [
            [X[:, max(a - at, 0) : max(b - at, 0)] for X, at in zip(columns, first, strict=False)]
            for a, b in even_ranges(np.ones(first[-1]), self.n_parts)
        ]

    def feature_cuts_take(
        self, pieces: list[list[Features]], max_bins: int, seed: int, last: int | None
    ) -> Cuts:
        """The cuts of this part's share of the features."""
        columns = [_stacked(list(found)) for found in zip(*pieces, strict=True)]
        columns = [X for X in columns if X.shape[1]]
        return find_cuts(columns, max_bins, seed, self.n_jobs) if columns else Cuts.none()

    def _hashes(self, seed: int) -> Array:
        n_rows = self.features.shape[0]
        return hash_numbers(np.arange(self.first_row, self.first_row + n_rows), seed)

    def _make(self, shard: Shard) -> None:
        self.shard = shard
        shard.take_place(self.place, self.n_parts)
        self.columns = [self.features[:0]]
        self.features = self.features[:0]  # bins are all that is needed of them


def agree_on_rows(shards: Shards) -> RowsInfo:
    """Number the rows of all parts; what they are like together."""
    found = shards.gather("describe")
    info = join_info(found)
    require_countable("X", info.n_rows, "rows in all parts")  # histograms add up counts of all of them
    for number, part in enumerate(found):
        if not part.n_rows:
            raise ValueError(f"X: found no rows in part {number}; wanted at least one in every part.")
    shards.call("number_rows", [part.n_rows for part in found])
    return info


def agree_on_cuts(shards: Shards, max_bins: int, seed: int, n_rows: int) -> Cuts:
    """Cuts of all features, from all rows or a sample of them."""
    last = None
    if max_bins != EXACT_BINS and n_rows > SAMPLE_ROWS:
        found = [hashes for hashes in shards.gather("sample_hashes", seed) if hashes is not None]
        if found:
            last = int(np.partition(np.concatenate(found), SAMPLE_ROWS - 1)[SAMPLE_ROWS - 1])
    return join_cuts(shards.exchange("feature_cuts", max_bins, seed, last))


def agree_on_empty_rows(shards: Shards, rows: RowsInfo, label_counts: Array) -> EmptyRows | None:
    """What rows without a known feature get; None where rows are dense."""
    if not rows.sparse:
        return None
    n_empty, of_empty = int(shards.sum("empty_rows")[0]), shards.sum("empty_label_counts")
    return EmptyRows.from_counts(shards.sum("feature_counts"), label_counts, rows.n_rows, of_empty, n_empty)


def agree_on_prior(shards: Shards, rows: RowsInfo, label_counts: Array) -> EmptyRows | None:
    """The same for boosting from a base score, whose trees learn what empty rows mean where there are some."""
    if not rows.sparse or int(shards.sum("empty_rows")[0]) >= ENOUGH_EMPTY:
        return None
    return EmptyRows.from_counts(
        shards.sum("feature_counts"), label_counts, rows.n_rows, np.zeros_like(label_counts), 0
    )


def _stacked(blocks: list[Features]) -> Features:
    if len(blocks) == 1:
        return blocks[0]
    if sp.issparse(blocks[0]):
        return sp.vstack(blocks, format="csr")
    return np.ascontiguousarray(np.concatenate(blocks))


class SparsePart(Part):
    """Rows of features and their labels.

    Attributes
    ----------
    targets : Targets
    """

    def __init__(self, features: Features, names: list[str] | None, targets: Targets, n_jobs: int) -> None:
        super().__init__(features, names, n_jobs)
        self.targets = targets

    def describe_targets(self) -> tuple[Targets, int]:
        """The kind and names of the labels, without the rows, and how many a row has in all."""
        return self.targets.form(), self.targets.matrix.nnz

    def form(self) -> dict[str, Any]:
        """See :class:`Part`."""
        return super().form() | form_of(self.targets.kind, self.targets.n_labels)

    def relabel(self, form: Targets) -> None:
        """Take the labels that all parts have together."""
        self.targets = relabelled(self.targets, form)

    def rows(self) -> tuple[Features, sp.csr_matrix]:
        """Features and labels."""
        return self.features, self.targets.matrix

    def keep_rows(self, features: Features, labels: sp.csr_matrix) -> None:
        """Go on with other rows, such as some of these."""
        self.features, self.columns = features, [features]
        self.targets = Targets(labels, self.targets.names, self.targets.kind)

    def label_counts(self) -> Array:
        """Rows that have each label, int64."""
        matrix = self.targets.matrix
        return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int64)

    def empty_label_counts(self) -> Array:
        """Rows without features that have each label, int64; of sparse rows only."""
        Y = self.targets.matrix
        return np.bincount(Y[find_empty(self.features)].indices, minlength=Y.shape[1])

    def fingerprints(self) -> Prints:
        """Fingerprints of the rows, by argument."""
        Y = self.targets.matrix
        return {
            "X": (self.features.shape, fingerprint(self.features, self.first_row)),
            "y": (Y.shape, fingerprint(Y, self.first_row)),
        }

    # --- projection

    def components(self, kind: str, dim: int, keep_raw: bool, seed: int, verbose: int) -> Projection | None:
        """Fit the projection to all rows."""
        return fit_projection(
            kind,
            self.features,
            self.targets.matrix,
            dim,
            keep_raw=keep_raw,
            seed=seed,
            n_jobs=self.n_jobs,
            verbose=verbose,
        )

    def components_give(self, kind: str, *args: Any) -> list[Any]:
        """All rows to the first part; a random projection is drawn by the size of X alone."""
        few = slice(0, 1) if kind == "random" else slice(None)
        own = self.features[few], self.targets.matrix[few]
        return [own, *[None] * (self.n_parts - 1)]

    def components_take(
        self, pieces: list[Any], kind: str, dim: int, keep_raw: bool, seed: int, verbose: int
    ) -> Projection | None:
        """Fit the projection in the first part."""
        if self.place:
            return None
        X, Y = _stacked([X for X, _ in pieces]), _stacked([Y for _, Y in pieces])
        return fit_projection(
            kind, X, Y, dim, keep_raw=keep_raw, seed=seed, n_jobs=self.n_jobs, verbose=verbose
        )

    def project(self, projection: Projection) -> None:
        """Trees see this from now on."""
        self.columns = projection.parts(self.features, self.n_jobs)

    def make_shard(self, cuts: Cuts, bin_type: type[np.unsignedinteger[Any]], loss: int) -> None:
        """Make bins of the features."""
        bins = bin_features(self.columns, cuts, bin_type, self.n_jobs)
        self._make(
            SparseShard(
                bins, cuts.missing_bins, self.targets.matrix, loss, self.n_jobs, first_row=self.first_row
            )
        )
        self.targets = self.targets.form()
