"""Types of the compiled kernels: one section per file of cpp/."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_U8: TypeAlias = NDArray[np.uint8]
_U16: TypeAlias = NDArray[np.uint16]
_U32: TypeAlias = NDArray[np.uint32]
_I8: TypeAlias = NDArray[np.int8]
_I16: TypeAlias = NDArray[np.int16]
_I32: TypeAlias = NDArray[np.int32]
_I64: TypeAlias = NDArray[np.int64]
_F32: TypeAlias = NDArray[np.float32]
_F64: TypeAlias = NDArray[np.float64]
_Bins: TypeAlias = _U8 | _U32
_Block: TypeAlias = tuple[_I64, _I64, _U32, _F32]  # starts, ends, labels with the truth bit, scores
_LabelCsr: TypeAlias = tuple[_I64, _U32, _F32]  # indptr, labels, values

# binning.cpp
def common_bins(bins: _U8, step: int, share: float, n_threads: int) -> _I32: ...
def find_thresholds_dense(X: _F32, max_bins: int, n_threads: int) -> tuple[_I64, _F32]: ...
def find_thresholds_csc(
    indptr: _I64, data: _F32, n_rows: int, max_bins: int, n_threads: int
) -> tuple[_I64, _F32]: ...
def bin_dense(X: _F32, offsets: _I64, thresholds: _F32, out: _Bins, n_threads: int) -> None: ...
def bin_csr(
    indptr: _I64, indices: _I32, data: _F32, offsets: _I64, thresholds: _F32, out: _Bins, n_threads: int
) -> None: ...

# dense.cpp
def dense_sketch(g: _F32, key: int, out: _F32, n_threads: int) -> float: ...
def dense_project(g: _F32, signs: _F32, out: _F32, n_threads: int) -> float: ...
def dense_select(g: _F32, outputs: _I32, weights: _F32, out: _F32, n_threads: int) -> float: ...
def quantise_columns(
    values: _F32,
    from_column: int,
    scale: _F32,
    out: _I16,
    to_column: int,
    at_random: bool,
    key: int,
    first_row: int,
    magnitude: _I64,
    n_threads: int,
) -> None: ...
def leaf_sums(
    values: _F32, scale: _F64, rows: _I32, starts: _I64, ends: _I64, out: _I64, n_threads: int
) -> None: ...
def leaf_quantiles(
    targets: _F32,
    scores: _F32,
    weights: _F32,
    share: float,
    rows: _I32,
    starts: _I64,
    ends: _I64,
    out: _F64,
    n_threads: int,
) -> None: ...
def add_leaves(
    scores: _F32, leaf_of_row: _I32, indptr: _I64, outputs: _U32, values: _F32, n_threads: int
) -> None: ...

# forest.cpp
class SketchSplitter:
    def __init__(
        self,
        x_indptr: _I64,
        x_indices: _I32,
        x_data: _F32,
        feature_weights: _F32,
        unit_rows: bool,
        y_indptr: _I64,
        y_indices: _I32,
        label_weights: _F32,
        n_features: int,
        arity: int,
        sketch_dim: int,
        rounds: int,
        sample_rows: int,
        router_weights: int,
        weights_per_row: float,
        max_features: float,
        min_samples_leaf: int,
        n_threads: int,
        row_weights: _F32 | None = None,
    ) -> None: ...
    def split(
        self, rows: _I32, offsets: _I64, keys: NDArray[np.uint64]
    ) -> tuple[_U8, _I64, _I32, NDArray[np.int8], _F32, _F32, _I32, _I64]: ...

# ldsm.cpp
LdsmNode: TypeAlias = tuple[bool, _I32, _F32, _F32, _I32, _I64, _I32, _I64, _I64, _F64, float, float]
# split, features, weights, bias, rows, row_offsets, labels, counts, label_offsets, objective, balance, purity

class LdsmTrainer:
    def __init__(
        self,
        x_indptr: _I64,
        x_indices: _I32,
        x_data: _F32,
        y_indptr: _I64,
        y_indices: _I32,
        n_features: int,
        n_labels: int,
        arity: int,
        epochs: int,
        learning_rate: float,
        lambda_1: float,
        lambda_2: float,
        tolerance: float,
        prune: float,
        min_samples_leaf: int,
        standardise: bool,
        copy_entries: int,
        n_threads: int,
        row_weights: _F32 | None = None,
        label_weights: _F32 | None = None,
    ) -> None: ...
    def train(self, rows: _I32, offsets: _I64, keys: NDArray[np.uint64]) -> list[LdsmNode]: ...

def ldsm_best_subset(
    R: _F64, Q: _F64, labels: _I32, n: float, lambda_1: float, lambda_2: float, draw: int
) -> tuple[int, float]: ...

# leaves.cpp
def leaf_vectors(
    blocks: list[_Block],
    rows: _I32,
    starts: _I64,
    ends: _I64,
    n_labels: int,
    loss: int,
    k: int,
    l2: float,
    min_gain: float,
    rate: float,
    n_threads: int,
    weights: LossWeights | None = None,
    totals: _F64 | None = None,
    earlier: tuple[_I64, _U32, _I64, _I64] | None = None,
) -> _LabelCsr: ...
def leaf_label_sums(
    blocks: list[_Block],
    rows: _I32,
    starts: _I64,
    ends: _I64,
    n_labels: int,
    loss: int,
    n_threads: int,
    weights: LossWeights | None = None,
) -> tuple[_I64, _U32, _I64, _I64]: ...
def leaf_vectors_of_sums(
    pieces: list[tuple[_I64, _U32, _I64, _I64]],
    totals: _F64,
    n_labels: int,
    k: int,
    l2: float,
    min_gain: float,
    rate: float,
    n_threads: int,
    weights: LossWeights | None = None,
) -> _LabelCsr: ...

RESIDUAL_SCALE: float

# objectives/dense.cpp and objectives/softmax.cpp
def gradients(
    loss: str,
    parameter: float,
    scores: _F32,
    targets: _F32,
    classes: _I32,
    weights: _F32,
    g: _F32,
    h: _F32,
    largest_g: _F32,
    largest_h: _F32,
    n_threads: int,
) -> None: ...
def softmax_hessians(g: _F32, classes: _I32, weights: _F32, out: _F32, n_threads: int) -> None: ...

# predict.cpp
class Predictor:
    def __init__(
        self,
        tree_offsets: _I64,
        feature: _I32,
        threshold: _F32,
        missing_left: _U8,
        child: _I32,
        leaf_indptr: _I64,
        leaf_labels: _U16 | _U32,
        leaf_values: _F32 | _I16,
        value_scale: _F32,
        categorical: _U8,
        sets: _U8,
        n_features: int,
        n_labels: int,
    ) -> None: ...
    def topk(
        self, X: _F32, n_trees: int, missing: bool, labels: _I32, scores: _F32, n_threads: int
    ) -> None: ...
    def topk_csr(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        n_trees: int,
        missing: bool,
        labels: _I32,
        scores: _F32,
        n_threads: int,
    ) -> None: ...
    def dense(self, X: _F32, n_trees: int, missing: bool, out: _F32, n_threads: int) -> None: ...
    def dense_csr(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        n_trees: int,
        missing: bool,
        out: _F32,
        n_threads: int,
    ) -> None: ...
    def apply(self, X: _F32, n_trees: int, missing: bool, out: _I32, n_threads: int) -> None: ...
    def apply_csr(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        n_trees: int,
        missing: bool,
        out: _I32,
        n_threads: int,
    ) -> None: ...
    def scores(self, X: _F32, n_trees: int, missing: bool, n_threads: int) -> tuple[_I64, _I32, _F32]: ...
    def scores_csr(
        self, indptr: _I64, indices: _I32, data: _F32, n_trees: int, missing: bool, n_threads: int
    ) -> tuple[_I64, _I32, _F32]: ...

# objectives/ranking.cpp
def rank_gradients(
    loss: str,
    change: int,
    places: int,
    normalise: bool,
    parameter: float,
    factor: float,
    scores: _F32,
    grades: _F32,
    order: _I32,
    indptr: _I64,
    weights: _F32,
    g: _F32,
    h: _F32,
    n_threads: int,
) -> None: ...

# candidates.cpp
def join_candidates(
    labels: _I32,
    scores: _F32,
    found: _I32,
    closeness: _F32,
    theirs: IndexLists,
    named: _I32,
    width: int,
    n_threads: int,
) -> tuple[_I64, _I32, _F32]: ...

class LabelVectors:
    def __init__(self, vectors: PackedVectors) -> None: ...
    def products(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        starts: _I64,
        labels: _I32,
        out: _F32,
        n_threads: int,
    ) -> None: ...
    def terms(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        starts: _I64,
        labels: _I32,
        offsets: _I64,
        out: _F64,
        n_threads: int,
    ) -> None: ...

class LinearRanker:
    def __init__(
        self,
        centroids: CentroidReranker,
        linear: LabelVectors,
        bias: _F32,
        index: PostingIndex | None,
        lists: IndexLists,
        feature_weights: _F32,
        weights: _F32,
        n_neighbours: int,
        row_features: int,
        steepness: float,
    ) -> None: ...
    def topk(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        labels: _I32,
        scores: _F32,
        best: _I32,
        ranked: _F32,
        n_threads: int,
    ) -> None: ...

# examples.cpp
def label_examples(
    starts: _I64,
    labels: _I32,
    y_indptr: _I64,
    y_indices: _I32,
    held_out: _U8,
    n_labels: int,
    base: float,
    per_positive: float,
    seed: int,
) -> tuple[_I64, _I32, _I8, _I64]: ...

# largest.cpp
def mark_largest(indptr: _I64, data: _F32 | _F64, most: int, kept: _U8, n_threads: int) -> None: ...

# linear.cpp
_Vectors = tuple[_I64, _I32, _F32, _F32]

def fit_linear(
    indptr: _I64,
    indices: _I32,
    data: _F32,
    n_features: int,
    starts: _I64,
    examples: _I32,
    sides: _I8,
    seen: _I64,
    w0_indptr: _I64,
    w0_features: _I32,
    w0_values: _F32,
    w0_bias: _F32,
    cost: float,
    epochs: int,
    more_epochs: int,
    tolerance: float,
    prune: float,
    most: int,
    seed: int,
    n_threads: int,
    report: Callable[[int], object],
    row_weights: _F32 | None = None,
    label_weights: _F32 | None = None,
) -> tuple[_Vectors, ...]: ...

# passes.cpp
def binary_values(
    values: _F32 | _F64 | _I32 | _I64 | _I8 | _U8, n_threads: int
) -> tuple[bool, bool]: ...  # whether all are 0 or 1, and whether there are zeros
def special_values(values: _F32 | _F64, n_threads: int) -> tuple[bool, bool]: ...  # NaN, infinity
def csr_state(
    indptr: _I64, indices: _I32, n_columns: int, n_threads: int
) -> tuple[bool, bool]: ...  # whether valid, and whether columns increase
def count_bins(bins: _Bins, searched: _I32, counts: _I64, n_threads: int) -> None: ...
def take_rows(X: _U8, rows: _I64, out: _U8, n_threads: int) -> None: ...
def fill_rows(row: _U8, out: _U8, n_threads: int) -> None: ...

# plain.cpp
def plain_rows(indptr: _I32 | _I64, indices: _I32, data: _F32, n_features: int) -> bool: ...
def plain_dense(X: _F32, nan: bool, n_threads: int) -> bool: ...

# postings.cpp
class PostingIndex:
    def __init__(self, postings: PackedVectors) -> None: ...
    def nearest(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        own: _I32,
        found: _I32,
        products: _F32,
        n_threads: int,
    ) -> None: ...
    def votes(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        found: _I32,
        products: _F32,
        lists: IndexLists,
        starts: _I64,
        labels: _I32,
        offsets: _I64,
        out: _F64,
        carriers: _U8,
        n_threads: int,
    ) -> None: ...

# rerank.cpp
class IndexLists:
    def __init__(self, indptr: _I64, steps: NDArray[Any], leaps: NDArray[Any], width: int) -> None: ...

class PackedVectors:
    def __init__(
        self,
        indptr: _I64,
        steps: NDArray[Any],
        leaps: NDArray[Any],
        values: NDArray[Any],
        scale: _F32,
        width: int,
    ) -> None: ...

class NameMatcher:
    def __init__(self, similar: PackedVectors, names: IndexLists, weights: _F32, starts: _I64) -> None: ...
    def propose(self, indptr: _I64, indices: _I32, data: _F32, labels: _I32, n_threads: int) -> None: ...
    def evidence(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        starts: _I64,
        labels: _I32,
        proposed: _I32,
        table: _F32,
        first: int,
        n_threads: int,
    ) -> None: ...
    def terms(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        starts: _I64,
        labels: _I32,
        offsets: _I64,
        out: _F64,
        n_threads: int,
    ) -> None: ...

def similar_terms(
    term_text: _U8,
    term_lengths: _U32,
    word_text: _U8,
    word_lengths: _U32,
    prefix: int,
    least: float,
    n_threads: int,
) -> tuple[_I64, _I32, _F32]: ...
def related_values(
    starts: _I64,
    labels: _I32,
    values: _F32,
    broader: IndexLists,
    table: _F32,
    first: int,
    n_threads: int,
) -> None: ...
def part_margins(
    indptr: _I64,
    indices: _I32,
    data: _F32,
    starts: _I64,
    labels: _I32,
    parts: IndexLists,
    weights: PackedVectors,
    bias: _F32,
    table: _F32,
    first: int,
    n_threads: int,
) -> None: ...

class CentroidReranker:
    def __init__(self, centroids: PackedVectors, squared_norms: _F32) -> None: ...
    def rescore(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        starts: _I64,
        labels: _I32,
        scores: _F32,
        mix: int,
        weight: float,
        scale: float,
        n_threads: int,
    ) -> None: ...
    def topk(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        feature_weights: _F32,
        labels: _I32,
        scores: _F32,
        mix: int,
        weight: float,
        scale: float,
        best: _I32,
        ranked: _F32,
        n_threads: int,
    ) -> None: ...

# router.cpp
class LeafIndex: ...

class RoutedPredictor:
    def __init__(
        self,
        tree_offsets: _I64,
        child: _I32,
        inner: _I32,
        router_indptr: _I64,
        router_steps: NDArray[Any],
        router_weights: NDArray[Any],
        router_scale: _F32,
        router_bias: _F32,
        threshold: float,
        feature_weights: _F32,
        unit_rows: bool,
        leaf_indptr: _I64,
        leaf_labels: _U16 | _U32,
        leaf_values: NDArray[Any],
        n_features: int,
        n_labels: int,
    ) -> None: ...
    def topk(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        n_trees: int,
        labels: _I32,
        scores: _F32,
        n_threads: int,
    ) -> None: ...
    def scores(
        self, indptr: _I64, indices: _I32, data: _F32, n_trees: int, n_threads: int
    ) -> tuple[_I64, _I32, _F32]: ...
    def leaves(self, indptr: _I64, indices: _I32, data: _F32, n_threads: int) -> tuple[_I64, _I32]: ...
    def leaf_index(self) -> LeafIndex: ...
    def label_importances(
        self, index: LeafIndex, labels: _I32, n_threads: int
    ) -> tuple[_I64, _I32, _F64]: ...
    def explain(
        self,
        index: LeafIndex,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        leaf_starts: _I64,
        leaves: _I32,
        starts: _I64,
        labels: _I32,
        offsets: _I64,
        out: _F64,
        base: _F64,
        n_threads: int,
    ) -> None: ...

# sampling.cpp
def sample_rows(numbers: _I64, left_out: _U8, key: int, highest: int) -> tuple[_I32, _I32]: ...

# scores.cpp
def merge_leaves(
    starts: _I64,
    ends: _I64,
    labels: _U32,
    scores: _F32,
    leaf_of_row: _I32,
    leaf_indptr: _I64,
    leaf_labels: _U32,
    leaf_values: _F32,
    out_labels: _U32,
    out_scores: _F32,
    n_threads: int,
) -> tuple[_I64, _I64]: ...
def topk_scores(
    blocks: list[_Block], names: _I32, out_labels: _I32, out_scores: _F32, n_threads: int
) -> None: ...

# shap.cpp
def shap_values(
    tree_offsets: _I64,
    feature: _I32,
    threshold: _F32,
    missing_left: _U8,
    child: _I32,
    cover: _U32,
    categorical: _U8,
    sets: _U8,
    leaf_indptr: _I64,
    leaf_labels: _I32,
    leaf_values: _F32,
    X: _F32,
    out: _F64,
    n_threads: int,
) -> None: ...

# shap_pairs.cpp
class ShapTrees:
    def __init__(
        self,
        tree_offsets: _I64,
        feature: _I32,
        threshold: _F32,
        missing_left: _U8,
        child: _I32,
        cover: _U32,
        categorical: _U8,
        sets: _U8,
        n_features: int,
        starts: _I64,
        leaf: _I32,
        values: _F32,
        n_labels: int,
    ) -> None: ...
    def pairs(self, X: _F32, starts: _I64, labels: _I32, out: _F64, n_threads: int) -> None: ...

# sketch.cpp
class LossWeights:
    def __init__(self, rows: _F32, labels: _F32) -> None: ...

WEIGHT_SCALE: float

def count_sketch(
    blocks: list[_Block],
    key: int,
    n_labels: int,
    loss: int,
    out: _F32,
    n_threads: int,
    weights: LossWeights | None = None,
) -> float: ...
def sign_projection(
    blocks: list[_Block],
    key: int,
    loss: int,
    out: _F32,
    n_threads: int,
    weights: LossWeights | None = None,
) -> float: ...
def select_columns(
    blocks: list[_Block],
    column_of: _I32,
    factors: _F32,
    loss: int,
    out: _F32,
    n_threads: int,
    weights: LossWeights | None = None,
) -> float: ...
def column_norms(
    blocks: list[_Block], loss: int, out: _I64, n_threads: int, weights: LossWeights | None = None
) -> None: ...

# sparse.cpp
def csr_times_dense(
    indptr: _I64, indices: _I32, data: _F32, W: _F32 | _U16, out: _F32, n_threads: int
) -> None: ...
def dense_times_dense(X: _F32, W: _F32 | _U16, out: _F32, n_threads: int) -> None: ...

# discriminative.cpp
def fit_discriminative(
    indptr: _I64,
    indices: _I32,
    data: _F32,
    label_indptr: _I64,
    label_members: _I32,
    row_weights: _F64,
    label_rows: _F64,
    feature_shares: _F64,
    smoothing: float,
    found: _I32,
    weights: _F32,
    absent: _F32,
    n_threads: int,
) -> None: ...
def select_discriminative(
    indptr: _I64,
    features: _I32,
    counts: _F32,
    label_rows: _F64,
    feature_shares: _F64,
    smoothing: float,
    found: _I32,
    weights: _F32,
    absent: _F32,
    n_threads: int,
) -> None: ...
def first_features(features: _I32, weights: _F32, most: int, n_threads: int) -> tuple[_I64, _I32, _F32]: ...

class DiscriminativeIndex:
    def __init__(self, vectors: PackedVectors, bias: _F32, n_threads: int) -> None: ...
    def with_bias(self, bias: _F32) -> DiscriminativeIndex: ...
    def postings(self) -> tuple[_I32, _I64, _I32, _F32]: ...
    def join(
        self,
        indptr: _I64,
        indices: _I32,
        data: _F32,
        labels: _I32,
        scores: _F32,
        most: int,
        floor: float,
        n_threads: int,
    ) -> tuple[_I64, _I32, _F32, _F32]: ...

# tree/bindings.cpp
MIN_SLOTS: int
EXTRA_SLOTS: int

class FeatureTable:
    def __init__(
        self, n_bins: _I32, missing_bin: _I32, has_missing: _U8, categorical: _U8, directions: _I8
    ) -> None: ...

class GrowthRules:
    def __init__(
        self, best_first: bool, max_leaves: int, max_depth: int, min_samples: int, min_gain: float
    ) -> None: ...

class HistogramRules:
    def __init__(
        self, l2: float, top: int, shared: bool, min_hessian: float, budget: int, max_nodes: int
    ) -> None: ...

class ExactRules:
    def __init__(self, k: int, step: float, l2: float) -> None: ...

class GradientColumns:
    def __init__(
        self,
        values: _I16,
        count_column: int,
        hessian: int,
        weight: _F64,
        lambda_: _F64,
        step: _F64,
        first_output: int,
    ) -> None: ...
    values: _I16
    count_column: int
    hessian: int
    weight: _F64
    lambda_: _F64
    step: _F64
    first_output: int

class ResidualBlocks:
    def __init__(
        self, blocks: list[_Block], n_labels: int, loss: int, weights: LossWeights | None = None
    ) -> None: ...

class TreeSample:
    def __init__(
        self, rows: _I32, oob_rows: _I32, features: _I32, n_node_features: int, key: int
    ) -> None: ...

class GrownTree:
    feature: _I32
    bin: _I32
    gain: _F64
    missing_left: _U8
    child: _I32
    count: _I64
    categorical: _I32
    sets: _U8
    starts: _I64
    ends: _I64
    oob_starts: _I64
    oob_ends: _I64
    low: _F64
    high: _F64

class HistogramTreeBuilder:
    def __init__(
        self,
        bins: _U8,
        common: _I32,
        table: FeatureTable,
        growth: GrowthRules,
        rules: HistogramRules,
        first_feature: int,
        feature_stride: int,
        n_threads: int,
    ) -> None: ...
    def build(
        self, gradients: GradientColumns, sample: TreeSample, communicator: Any, by_rows: bool
    ) -> GrownTree: ...

class DeviceChunks:
    def __init__(self, most: int, fewest: int, blocks_per_chunk: int, n_blocks: int) -> None: ...

class DeviceBatch:
    bytes: _U8
    places: list[int]
    built_slots: list[int]
    n_partitions: int
    n_partition_chunks: int
    n_builds: int
    n_build_chunks: int
    n_several: int
    n_searches: int
    n_slots: int

class DeviceTreeBuilder:
    def __init__(self, table: FeatureTable, growth: GrowthRules, rules: HistogramRules) -> None: ...
    def build(
        self,
        gradients: GradientColumns,
        n_sample: int,
        n_here: int,
        totals: _I64,
        features: _I32,
        n_node_features: int,
        key: int,
        chunks: DeviceChunks,
        search: Callable[[DeviceBatch], _U8],
        partition: Callable[[DeviceBatch], _I64] | None,
    ) -> GrownTree: ...

class ExactTreeBuilder:
    def __init__(
        self,
        bins: _U32,
        table: FeatureTable,
        growth: GrowthRules,
        rules: ExactRules,
        first_feature: int,
        feature_stride: int,
        n_threads: int,
    ) -> None: ...
    def build(
        self, residuals: ResidualBlocks, sample: TreeSample, communicator: Any, by_rows: bool
    ) -> GrownTree: ...

class BinPositions:
    def __init__(self, offsets: _I64, values: _F64) -> None: ...

class RowTreeBuilder:
    def __init__(
        self,
        bins: _U8,
        table: FeatureTable,
        positions: BinPositions,
        growth: GrowthRules,
        l2: float,
        random: bool,
    ) -> None: ...
    def build(
        self, gradients: GradientColumns, sample: TreeSample, communicator: Any, by_rows: bool
    ) -> GrownTree: ...

# tree/route.cpp
def route_binned(
    bins: _Bins,
    rows: _I32,
    feature: _I32,
    split_bin: _I32,
    missing_bin: _I32,
    missing_left: _U8,
    set_of: _I32,
    sets: _U8,
    child: _I32,
    leaf_of_row: _I32,
    n_threads: int,
) -> None: ...
def write_leaves(rows: _I32, starts: _I64, ends: _I64, leaf_of_row: _I32, n_threads: int) -> None: ...

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

# hits.cpp

def best_hits(starts: _I64, scores: _F32, truth: _U8, hits: _U8, n_threads: int) -> None: ...
def mixed_gains(
    starts: _I64,
    labels: _I32,
    first: _F32,
    second: _F32,
    truth: _U8,
    offsets: _F32,
    powers: _F32,
    weights: _F32,
    gain_of_place: _U8,
    base: float,
    gains: _U8,
    n_threads: int,
) -> None: ...

# quantise.cpp
def quantise_vectors(
    indptr: _I64, values: _F32, largest: int, integers: _I8, scale: _F32, n_threads: int
) -> None: ...

# frequencies.cpp
def leaf_frequencies(
    indptr: _I64,
    labels: _I32,
    counts: _F64,
    added_indptr: _I64,
    added_labels: _I32,
    added_counts: _F64,
    totals: _F64,
    label_weights: _F64,
    most: int,
    n_threads: int,
) -> tuple[_I64, _I32, _F32]: ...

# thresholds.cpp
def group_sums(labels: _I32, hits: _F64, ends: _I64, group: _I64, n_true: _F64, sums: _F64) -> None: ...

# lists.cpp
def descending_order(values: _F32, n_threads: int) -> _I64: ...
def sort_lists(starts: _I64, labels: _I32, values: _F32, n_threads: int) -> None: ...
def sum_labels(
    starts: _I64, rows: _I32, weights: _F64, label_indptr: _I64, labels: _I32, n_threads: int
) -> tuple[_I64, _I32, _F64]: ...
def best_of_lists(
    starts: _I64, labels: _I32, scores: _F32, best: _I32, ranked: _F32, n_threads: int
) -> None: ...
def mark_true(
    starts: _I64, labels: _I32, true_indptr: _I64, true_labels: _I32, truth: _U8, n_threads: int
) -> None: ...

# logistic.cpp
def logistic_sums(
    inputs: _F32, truth: _U8, weights: _F64, slope: float, intercept: float, out: _F64, n_threads: int
) -> None: ...

# product.cpp
def csr_product(
    left_indptr: _I64,
    left_indices: _I32,
    left_data: _F32 | _F64,
    right_indptr: _I64,
    right_indices: _I32,
    right_data: _F32 | _F64,
    n_columns: int,
    n_threads: int,
) -> tuple[_I64, _I32, _F32 | _F64]: ...

# counts.cpp
def count_columns(indptr: _I64, indices: _I32, units: _I64, counts: _I64, n_threads: int) -> None: ...

# start.cpp
def start_rows(
    truth_indptr: _I64,
    truth: _I32,
    before_indptr: _I64,
    before: _I32,
    scores: _F32,
    rank_of: _I32,
    begin: int,
    end: int,
    n_threads: int,
) -> _LabelCsr: ...

# targets.cpp
def known_values(values: _F32, counts: _I64, n_threads: int) -> tuple[float, float]: ...
def largest_targets(values: _F32, classes: _I32, weights: _F32, out: _F64, n_threads: int) -> None: ...
def target_sums(
    values: _F32, classes: _I32, weights: _F32, scales: _F64, out: _I64, n_threads: int
) -> None: ...

# text/bindings.cpp
_Csr: TypeAlias = tuple[_I64, _I32, _F32]  # indptr, columns, values

class TextTables:
    def __init__(self, page_of: _U16, changes: _I32, kinds: _U8, starts: _I64, expansions: _I32) -> None: ...

class TextAnalyzer:
    def __init__(
        self,
        tables: TextTables,
        analyzer: int,
        min_n: int,
        max_n: int,
        stop_text: _U8,
        stop_lengths: _U32,
        field_weights: _F32,
        binary: bool,
    ) -> None: ...
    def terms(self, text: str) -> list[str]: ...

class TermIndex:
    size: int
    def __init__(self, text: _U8, lengths: _U32) -> None: ...

class TermCounter:
    def __init__(self, analyzer: TextAnalyzer, keep_rows: bool) -> None: ...
    def add(self, fields: list[list[str]], n_threads: int) -> None: ...
    def finish(
        self, min_count: int, max_count: int, max_terms: int, n_threads: int
    ) -> tuple[_U8, _U32, _U32]: ...
    def rows(self, n_threads: int) -> _Csr: ...

def count_terms(
    analyzer: TextAnalyzer, index: TermIndex, fields: list[list[str]], n_threads: int
) -> _Csr: ...
def hash_terms(
    analyzer: TextAnalyzer, n_columns: int, alternate_sign: bool, fields: list[list[str]], n_threads: int
) -> _Csr: ...
def weigh_terms(
    indptr: _I64,
    columns: _I32,
    values: _F32,
    idf: _F64,
    sublinear: bool,
    norm: int,
    weight: float,
    n_threads: int,
) -> None: ...
def join_columns(parts: list[_Csr], offsets: _I64, n_threads: int) -> _Csr: ...

# probabilities.cpp

def pool_ranked(starts: _I64, values: _F32, depth: int, n_threads: int) -> None: ...
def expected_f1_sizes(starts: _I64, probabilities: _F32, sizes: _I32, n_threads: int) -> None: ...
