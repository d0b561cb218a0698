// How the sums of a node's rows become the gain of a split.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// What stands below the squared gradients: the number of rows, one hessian for all outputs, one for each, or
// their matrix.
enum Hessian : int { kCount = 0, kShared, kDiagonal, kMatrix };

constexpr int kWide = 8;  // lanes of a sum, whatever the vector width

// Arrays are padded to full vectors: weight 0 and a lambda that swamps what is read.
struct Scoring {
    Scoring(int64_t columns, int hessian, const In1<double>& weight, const In1<double>& lambda,
            const In1<double>& step, double l2, int64_t top, bool shared, int64_t min_samples,
            double min_hessian);

    int64_t outputs, padded, columns;
    int hessian;
    double l2;    // for kCount: rows
    int64_t top;  // > 0: only so many outputs count
    bool shared;  // the same ones on both sides
    int64_t min_samples;
    double min_hessian;  // Σ H over all outputs that a side must have, in its own units
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

// Score of the node as it is.
double worth_whole(const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
                   Work& work);

// Score of both sides of a split; NaN where a constraint forbids it.
double worth(const Scoring& scoring, const Constraint& limits, const int32_t* left, const int32_t* total,
             int64_t n_left, int64_t n, Work& work);

// Σ H over all outputs, freed of its scale.
double hessian_of(const Scoring& scoring, const int32_t* sums);

// Half-way between the values of a split's two sides, each kept within the node's bounds, for every output.
void middle_of(const Scoring& scoring, const Constraint& limits, const int32_t* left, const int32_t* total,
               int64_t n_left, int64_t n, double* middle);

}  // namespace sparseleaf
