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
    std::vector<int32_t> child;  // the left one, or a leaf's number
    std::vector<int64_t> count;
    std::vector<int32_t> categorical;                             // nodes whose split is of categories, and
    std::vector<uint8_t> sets;                                    // kSetBytes of bins that go left for each
    std::vector<int64_t> starts, ends, aside_starts, aside_ends;  // the rows of every leaf
    std::vector<double> low, high;  // bounds of the leaves' values, n_outputs each; empty: none
};

}  // namespace sparseleaf
