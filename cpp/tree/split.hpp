// The best split of a node's histogram, feature by feature.
#pragma once

#include "cut.hpp"
#include "features.hpp"
#include "scoring.hpp"

namespace sparseleaf {

struct Split {
    double gain = 0.0;
    int32_t feature = -1;
    int32_t bin = -1;
    int32_t left_count = 0;
    bool missing_left = false;
};

// Higher gain, then lower feature, then lower bin, then missing rows to the right.
bool better(const Split& a, const Split& b);

// A node: its rows, their sums, and a row of sums and a count for every bin. Counts may be a column of the
// sums: the next is `step` numbers on.
struct NodeSums {
    const int32_t *hist, *counts;
    int64_t step;
    const int32_t* total;
    int64_t n;
};

// Makes `best` the best split of one feature of the set, if that is better. False: no split leaves enough
// rows on both sides, so that none of a node with only some of these rows can, unless bins have no order.
bool search_feature(const Scoring& scoring, const Constraint& limits, const FeatureSet& features,
                    const NodeSums& node, int64_t feature, double parent, Work& work, Split* best);

// Sums of a split's left side, and the bins in it where they have no order: kSetBytes bytes, which start as
// 0.
void left_side(const Scoring& scoring, const FeatureSet& features, const NodeSums& node, const Split& split,
               Work& work, int32_t* left, uint8_t* set);

}  // namespace sparseleaf
