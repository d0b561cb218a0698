// A grown tree as arrays.
#pragma once

#include "grower.hpp"

namespace sparseleaf {

// Nodes in level order; leaves are numbered in that order.
struct GrownTree {
    GrownTree(const std::deque<Node>& nodes, const FeatureTable& table, int64_t n_outputs);

    std::vector<int32_t> feature;  // -1 for a leaf
    std::vector<int32_t> bin;
    std::vector<double> gain;
    std::vector<uint8_t> missing_left;
    std::vector<int32_t> child;  // the left child, or the index of a leaf
    std::vector<int64_t> count;
    std::vector<int32_t> categorical;                         // nodes with a categorical split, and
    std::vector<uint8_t> sets;                                // the bins that go left, kSetBytes each
    std::vector<int64_t> starts, ends, oob_starts, oob_ends;  // row ranges of the leaves
    std::vector<double> low, high;  // bounds of the leaf values, n_outputs each; empty without constraints
};

}  // namespace sparseleaf
