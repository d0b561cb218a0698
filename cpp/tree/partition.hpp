// Partitioning rows by the splits of their nodes.
#pragma once

#include "cut.hpp"

namespace sparseleaf {

// Bins of rows, row-major.
template <typename Bin>
struct BinMatrix {
    const Bin* data;
    int64_t n_columns;
};

// A node's rows, [start, end) of all, and its split. Those from `middle` on go right.
struct RowsToPart {
    int64_t start, end, middle;
    int64_t column, bin, missing_bin;
    bool missing_left;
    const uint8_t* set;  // the bins that go left, null where they have an order
};

// Partitions the rows of several nodes, each in their old order on both sides.
template <typename Bin>
void part_rows(const BinMatrix<Bin>& bins, int32_t* rows, std::vector<RowsToPart>& nodes, int n_threads);

// The same for one node on one thread; `room` is the thread's own.
template <typename Bin>
void part_node(const BinMatrix<Bin>& bins, int32_t* rows, RowsToPart& node, std::vector<int32_t>& room);

// The partition of a node as bits, one per row (1: left; lowest bit first): made where the split's feature
// is, applied where only the rows are.
template <typename Bin>
void left_bits(const BinMatrix<Bin>& bins, const int32_t* rows, const RowsToPart& node, uint8_t* bits,
               int n_threads);

struct RowsByBits {
    int64_t start, end, middle;
    const uint8_t* bits;
};

void part_rows_by_bits(int32_t* rows, std::vector<RowsByBits>& nodes, int n_threads);

}  // namespace sparseleaf
