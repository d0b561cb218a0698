// Binary cross-entropy of every output: log(1 + e^z) − y z.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void logistic(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float p = sigmoid(z[j]);
        g[j] = p - y[j];
        h[j] = p * (1.0f - p);
    }
}

const RegisterDenseLoss registered("logistic", {logistic});

}  // namespace
}  // namespace sparseleaf
