// The decision of a split: whether a row goes left.
#pragma once

#include "common.hpp"

namespace sparseleaf {

constexpr int64_t kSetBytes = 32;

// A row goes left if its bin is at most the split's or, for a categorical feature, in the split's set. A row
// with a missing value goes left if missing_left is set.
template <typename Bin>
inline bool goes_left(Bin bin, int64_t split_bin, int64_t missing_bin, bool missing_left,
                      const uint8_t* set) {
    if (bin == missing_bin) return missing_left;
    return set ? (set[(bin >> 3) & (kSetBytes - 1)] >> (bin & 7)) & 1 : bin <= split_bin;
}

// set_of: the row of `sets` of a node with a categorical split, -1 for all other nodes.
inline void require_sets(const In1<int32_t>& set_of, const In2<uint8_t>& sets, size_t n_nodes) {
    require(set_of.size() == n_nodes, "set_of: must have one entry per node");
    require(static_cast<int64_t>(sets.shape(1)) == kSetBytes, "sets: must have 32 bytes per row");
    for (size_t k = 0; k < n_nodes; ++k)
        require(set_of.data()[k] < static_cast<int64_t>(sets.shape(0)), "set_of: must be indices of sets");
}

inline const uint8_t* set_at(const In1<int32_t>& set_of, const In2<uint8_t>& sets, int64_t node) {
    const int32_t at = set_of.data()[node];
    return at < 0 ? nullptr : sets.data() + at * kSetBytes;
}

}  // namespace sparseleaf
