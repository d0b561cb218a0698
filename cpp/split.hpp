// The best cut of a node from its histogram: what split.cpp offers to the kernels that search for one.
#pragma once

#include "cut.hpp"

namespace sparseleaf {

enum Curvature : int { kCount = 0, kShared, kDiagonal, kMatrix };

struct Cut {
    double gain = 0.0;
    int32_t feature = -1;  // position among the active features
    int32_t bin = -1;
    int32_t left_count = 0;
    bool missing_left = false;
};

// Higher gain, then lower feature, then lower bin, then missing rows to the right.
bool better(const Cut& a, const Cut& b);

// How sums become a gain. Arrays are padded to full vectors: weight 0 and a lambda that swamps what is read.
struct Scoring {
    Scoring(int64_t columns, int curvature, const In1<double>& weight, const In1<double>& lambda,
            const In1<double>& step, double l2, int64_t top, bool shared, int64_t min_samples,
            double min_curvature);

    int64_t outputs, padded, columns;
    int curvature;
    double l2;    // for kCount: rows
    int64_t top;  // > 0: only so many outputs count
    bool shared;  // the same ones on both sides
    int64_t min_samples;
    double min_curvature;  // Σ H over all outputs that a side must have, in its own units
    std::vector<double> weight, lambda, step;
};

// Bounds and directions of one node and feature, for monotone constraints; all null where there are none.
struct Constraint {
    const int8_t* direction = nullptr;
    const double *low = nullptr, *high = nullptr;
};

// Room of one thread.
struct Work {
    explicit Work(const Scoring& scoring);

    int64_t room;  // columns, and as much as vectors may read beyond them
    std::vector<int32_t> sums;
    std::vector<double> left, right, buffer;
    std::vector<int32_t> order, so_far;
};

// The active features: the first bin of each and the end of the last, whether the last bin of a feature holds
// rows without a value, and whether its bins have no order.
struct ActiveFeatures {
    ActiveFeatures(const In1<int32_t>& offsets, const In1<uint8_t>& has_missing,
                   const In1<uint8_t>& categorical, int64_t n_bins);

    int64_t n;
    const int32_t* offsets;
    const uint8_t *has_missing, *categorical;
};

// A node: its rows, their sums, and a row of sums and a count for every bin. Counts may be a column of the
// sums: the next is `step` numbers on.
struct NodeSums {
    const int32_t *hist, *counts;
    int64_t step;
    const int32_t* total;
    int64_t n;
};

// What the node is worth as it is.
double worth_whole(const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
                   Work& work);

// Makes `best` the best cut of one feature, if that is better. False: no cut leaves enough rows on both
// sides, so that none of a node with only some of these rows can, unless bins have no order.
bool search_feature(const Scoring& scoring, const Constraint& limits, const ActiveFeatures& features,
                    const NodeSums& node, int64_t feature, double parent, Work& work, Cut* best);

// Sums of a cut's left side, and the bins in it where they have no order: kSetBytes bytes, which start as 0.
void left_side(const Scoring& scoring, const ActiveFeatures& features, const NodeSums& node, const Cut& cut,
               Work& work, int32_t* left, uint8_t* set);

}  // namespace sparseleaf
