// Absolute error: |z − y|.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void absolute(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float r = z[j] - y[j];
        g[j] = r > 0.0f ? 1.0f : r < 0.0f ? -1.0f : 0.0f;
    }
}

const RegisterDenseLoss registered("absolute", {absolute, true});

}  // namespace
}  // namespace sparseleaf
