// e^x in basic vector operations, so that loops are vectorised and all machines get the same bits:
// x = n·ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, and n added to the exponent.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace sparseleaf {

// Relative error below 2e-7. Inputs are clamped to the range of normal float32 results.
[[gnu::always_inline]] inline float exp_of(float x) {
    x = std::min(std::max(x, -87.0f), 88.0f);
    const float n = std::nearbyint(x * 1.44269504f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float p =
        1.0f + r * (1.0f + r * (0.5f + r * (0.166666667f + r * (0.0416666667f +
                                                                r * (0.00833333333f + r * 0.00138888889f)))));
    const auto bits = static_cast<uint32_t>((static_cast<int32_t>(n) + 127) << 23);
    return p * std::bit_cast<float>(bits);
}

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
