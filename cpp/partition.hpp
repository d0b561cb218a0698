// Rows parted by the cuts of their nodes: what partition.cpp offers to other kernels.
#pragma once

#include "cut.hpp"

namespace sparseleaf {

// A node's rows, [start, end) of all, and its cut. Those from `middle` on go right.
struct RowsToPart {
    int64_t start, end, middle;
    int64_t feature, cut, missing_bin;
    bool missing_left;
    const uint8_t* set;  // the bins that go left, null where they have an order
};

// Parts the rows of several nodes, each in their old order on both sides.
template <typename Bin>
void part_rows(const Bin* bins, int64_t n_features, int32_t* rows, std::vector<RowsToPart>& nodes,
               int n_threads);

}  // namespace sparseleaf
