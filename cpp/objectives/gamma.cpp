// Gamma regression's negative log-likelihood of the mean e^z, but for factors and constants: y e^−z + z.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void gamma(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float ratio = std::min(y[j] * exp_of(-z[j]), kLargestTerm);
        g[j] = 1.0f - ratio;
        h[j] = ratio;
    }
}

const RegisterDenseLoss registered("gamma", {gamma});

}  // namespace
}  // namespace sparseleaf
