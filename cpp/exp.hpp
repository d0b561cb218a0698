// e^x in double precision, as exp.h has it in single precision.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "platform.h"
//
#include "exp.h"

namespace sparseleaf {

using sl::exp_of;

// Relative error below 1e-13. Adding 1.5 · 2^52 rounds to an integer in the low bits.
[[gnu::always_inline]] inline double exp_of(double x) {
    constexpr double kRound = 6755399441055744.0;
    x = std::min(std::max(x, -700.0), 700.0);
    const double shifted = x * 1.4426950408889634 + kRound;
    const double n = shifted - kRound;
    const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const auto bits = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
    return p * std::bit_cast<double>(bits);
}

}  // namespace sparseleaf
