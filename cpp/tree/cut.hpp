// Which way a row goes at a cut.
#pragma once

#include "common.hpp"

namespace sparseleaf {

constexpr int64_t kSetBytes = 32;

// A row goes left if its bin is at most the cut's, or, for a feature without order, in the cut's set; and if
// it has no value and the cut sends those left.
template <typename Bin>
inline bool goes_left(Bin bin, int64_t cut, int64_t missing_bin, bool missing_left, const uint8_t* set) {
    if (bin == missing_bin) return missing_left;
    return set ? (set[(bin >> 3) & (kSetBytes - 1)] >> (bin & 7)) & 1 : bin <= cut;
}

// set_of: the row of `sets` that a node's cut is, -1 for a cut of ordered bins.
inline void require_sets(const In1<int32_t>& set_of, const In2<uint8_t>& sets, size_t n_nodes) {
    require(set_of.size() == n_nodes, "set_of: one number a node");
    require(static_cast<int64_t>(sets.shape(1)) == kSetBytes, "sets: 32 bytes each");
    for (size_t k = 0; k < n_nodes; ++k)
        require(set_of.data()[k] < static_cast<int64_t>(sets.shape(0)), "set_of: no such set");
}

inline const uint8_t* set_at(const In1<int32_t>& set_of, const In2<uint8_t>& sets, int64_t node) {
    const int32_t at = set_of.data()[node];
    return at < 0 ? nullptr : sets.data() + at * kSetBytes;
}

}  // namespace sparseleaf
