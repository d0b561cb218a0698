// The best split of a node, feature by feature, from its histogram.
#pragma once

#include "features.hpp"
#include "goes_left.hpp"
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

// A node's histogram and totals. Counts may be a column of the sums: they have stride `step`.
struct NodeSums {
    const int32_t *hist, *counts;
    int64_t step;
    const int32_t* total;
    int64_t n;
};

// Updates `best` with the best split of one feature of the set. Returns false if no split leaves enough rows
// on both sides; the same then holds for all descendants of the node, unless the feature is categorical.
bool search_feature(const Scoring& scoring, const Constraint& limits, const FeatureSet& features,
                    const NodeSums& node, int64_t feature, double parent, Work& work, Split* best);

// The sums of a split's left side and, for a categorical split, its set of bins (kSetBytes bytes, initially
// 0).
void left_side(const Scoring& scoring, const FeatureSet& features, const NodeSums& node, const Split& split,
               Work& work, int32_t* left, uint8_t* set);

}  // namespace sparseleaf
