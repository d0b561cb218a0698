// Row partitioning by the splits of nodes.
#pragma once

#include "goes_left.hpp"

namespace sparseleaf {

// Bins of rows, row-major.
template <typename Bin>
struct BinMatrix {
    const Bin* data;
    int64_t n_columns;
};

// A node's range of rows, [start, end), and its split; the result is `middle`, where the right side begins.
struct SplitRows {
    int64_t start, end, middle;
    int64_t column, bin, missing_bin;
    bool missing_left;
    const uint8_t* set;  // the bins that go left; null for ordered bins
};

// Partitions the rows of several nodes, stably.
template <typename Bin>
void partition_rows(const BinMatrix<Bin>& bins, int32_t* rows, std::vector<SplitRows>& nodes, int n_threads);

// The same for one node on one thread; `room` is a per-thread buffer.
template <typename Bin>
void partition_node(const BinMatrix<Bin>& bins, int32_t* rows, SplitRows& node, std::vector<int32_t>& room);

// The partition of a node as one bit per row (1 for left, lowest bit first): computed by the worker that has
// the split's feature, applied by the others.
template <typename Bin>
void left_bits(const BinMatrix<Bin>& bins, const int32_t* rows, const SplitRows& node, uint8_t* bits,
               int n_threads);

struct RowsByBits {
    int64_t start, end, middle;
    const uint8_t* bits;
};

void partition_by_bits(int32_t* rows, std::vector<RowsByBits>& nodes, int n_threads);

}  // namespace sparseleaf
