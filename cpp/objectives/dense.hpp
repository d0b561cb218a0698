// Dense losses: every loss is one function, registered by name, that fills gradients and hessians of outputs.
// The arithmetic of most is in losses.h, which the GPU shares; a loss whose outputs are independent is one
// function there. The common part is in dense.cpp: loops, threads, weights, unknown targets, maxima.
//
// All arithmetic is within one row, so results do not depend on threads.
#pragma once

#include <cmath>
#include <string>

#include "../common.hpp"
#include "../exp.hpp"
#include "losses.h"

namespace sparseleaf {

// The outputs of one row for classification losses; of several consecutive rows for all others, whose outputs
// are independent.
struct OutputRow {
    const float* score;
    const float* target;  // NaN if unknown, for which results are replaced by 0; null with classes
    int64_t label;        // the row's class, for classification losses
    int64_t n_outputs;
    float parameter;  // the loss's parameter, as in "quantile:0.9"
    float* g;
    float* h;
};

struct DenseLoss {
    void (*fill)(const OutputRow&);
    bool constant_hessian = false;  // h is 1 and not filled
    bool by_class = false;          // targets are one class per row
};

// Registers a loss, as a constant in its file.
struct RegisterDenseLoss {
    RegisterDenseLoss(const char* name, DenseLoss loss);
};

}  // namespace sparseleaf
