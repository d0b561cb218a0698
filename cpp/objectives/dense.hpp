// Dense losses: a loss is one file here with one function, which fills gradients and hessians of outputs and
// is registered by name. What all losses share is in dense.cpp: rows and threads, weights, unknown targets,
// the largest values.
//
// g is the derivative of the loss with respect to the score z, h the second one (or what stands in for it,
// which the loss says). All arithmetic belongs to one row, so threads cannot change it.
#pragma once

#include <cmath>
#include <string>

#include "../common.hpp"
#include "../exp.hpp"

namespace sparseleaf {

// The outputs of one row for a loss of classes; for all others those of several rows, one after the other:
// every output is by itself.
struct OutputRow {
    const float* score;
    const float* target;  // NaN where unknown; whatever is made of it is replaced by 0. Null with classes.
    int64_t label;        // the row's class, for a loss of classes
    int64_t n_outputs;
    float parameter;  // the number behind the loss's name
    float* g;
    float* h;
};

struct DenseLoss {
    void (*fill)(const OutputRow&);
    bool constant_hessian = false;  // h is 1 and `fill` leaves it alone
    bool by_class = false;          // targets are one class per row
};

// A constant of this type in a loss's file makes it known.
struct RegisterDenseLoss {
    RegisterDenseLoss(const char* name, DenseLoss loss);
};

// Factors of exponentials are bounded by this: large enough for any rate, and small enough that their sums
// and products with weights stay finite in float32.
constexpr float kLargestTerm = 1e30f;

[[gnu::always_inline]] inline float sigmoid(float z) {
    return 1.0f / (1.0f + exp_of(-z));
}

}  // namespace sparseleaf
