// Tweedie's negative log-likelihood of the mean e^z, but for a constant; variance power 1 < p < 2:
// y e^((1−p) z)/(p − 1) + e^((2−p) z)/(2 − p).
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void tweedie(const OutputRow& row) {
    const auto [z, y, label, n, power, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float falls = std::min(y[j] * exp_of((1.0f - power) * z[j]), kLargestTerm);
        const float rises = std::min(exp_of((2.0f - power) * z[j]), kLargestTerm);
        g[j] = rises - falls;
        h[j] = (2.0f - power) * rises + (power - 1.0f) * falls;
    }
}

const RegisterDenseLoss registered("tweedie", {tweedie});

}  // namespace
}  // namespace sparseleaf
