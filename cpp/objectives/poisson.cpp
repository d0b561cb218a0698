// Poisson's negative log-likelihood of the rate e^z: e^z − y z.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void poisson(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float mean = exp_of(z[j]);
        g[j] = mean - y[j];
        h[j] = mean;
    }
}

const RegisterDenseLoss registered("poisson", {poisson});

}  // namespace
}  // namespace sparseleaf
