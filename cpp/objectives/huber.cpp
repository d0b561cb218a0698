// Huber's loss: ½ r² up to |r| = δ and δ (|r| − ½ δ) beyond, r = z − y.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void huber(const OutputRow& row) {
    const auto [z, y, label, n, delta, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float r = z[j] - y[j];
        g[j] = r > delta ? delta : r < -delta ? -delta : r;
    }
}

const RegisterDenseLoss registered("huber", {huber, true});

}  // namespace
}  // namespace sparseleaf
