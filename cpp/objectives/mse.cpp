// Squared error: ½ (z − y)².
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void mse(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) g[j] = z[j] - y[j];
}

const RegisterDenseLoss registered("mse", {mse, true});

}  // namespace
}  // namespace sparseleaf
