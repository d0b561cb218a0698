// Split scoring: from gradient and hessian sums to gains.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// The denominator of the score: the number of rows, one hessian for all outputs, one per output, or the full
// hessian matrix.
enum Hessian : int { kCount = 0, kShared, kDiagonal, kMatrix };

constexpr int kWide = 8;  // lanes of a sum, independent of the vector width

// Arrays are padded to full vectors with weight 0 and a huge lambda, which cancel out whatever is read.
struct Scoring {
    Scoring(int64_t columns, int hessian, const In1<double>& weight, const In1<double>& lambda,
            const In1<double>& step, double l2, int64_t top, bool shared, int64_t min_samples,
            double min_hessian);

    int64_t outputs, padded, columns;
    int hessian;
    double l2;    // for kCount, in rows
    int64_t top;  // score only the best `top` outputs; 0 for all
    bool shared;  // the same outputs on both sides
    int64_t min_samples;
    double min_hessian;  // minimum Σ H of a side over all outputs, unscaled
    std::vector<double> weight, lambda, step;
};

// Monotone constraints of one node and feature; all null without constraints.
struct Constraint {
    const int8_t* direction = nullptr;
    const double *low = nullptr, *high = nullptr;
};

// Buffers of one thread.
struct Work {
    explicit Work(const Scoring& scoring);

    int64_t room;  // columns plus padding for vector loads
    std::vector<int32_t> sums;
    std::vector<double> left, right, buffer;
    std::vector<int32_t> order, so_far;
};

// Score of an unsplit node.
double node_score(const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
                  Work& work);

// Score of both sides of a split; NaN if a constraint forbids it.
double split_score(const Scoring& scoring, const Constraint& limits, const int32_t* left,
                   const int32_t* total, int64_t n_left, int64_t n, Work& work);

// Σ H over all outputs, unscaled.
double hessian_of(const Scoring& scoring, const int32_t* sums);

// For every output, the midpoint of the two sides' values, each clipped to the node's bounds.
void middle_of(const Scoring& scoring, const Constraint& limits, const int32_t* left, const int32_t* total,
               int64_t n_left, int64_t n, double* middle);

}  // namespace sparseleaf
