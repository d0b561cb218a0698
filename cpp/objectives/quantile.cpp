// Quantile (pinball) loss at level α: max(α (y − z), (α − 1) (y − z)).
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void quantile(const OutputRow& row) {
    const auto [z, y, label, n, level, g, h] = row;
    for (int64_t j = 0; j < n; ++j) g[j] = z[j] - y[j] >= 0.0f ? 1.0f - level : -level;
}

const RegisterDenseLoss registered("quantile", {quantile, true});

}  // namespace
}  // namespace sparseleaf
