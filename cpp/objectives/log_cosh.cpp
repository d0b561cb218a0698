// log cosh r, r = z − y: near ½ r² for small residuals, near |r| for large ones.
//
// h is tanh(r)/r, the second derivative of the parabola that touches the loss at r and at −r and lies above
// it everywhere else. A leaf's step is then a weighted mean of its residuals and never raises the loss. The
// second derivative, 1 − tanh² r, vanishes for large residuals, and steps with it overshoot without bound.
#include "dense.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void log_cosh(const OutputRow& row) {
    const auto [z, y, label, n, parameter, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const float r = z[j] - y[j], size = std::fabs(r), square = r * r;
        const float u = exp_of(-2.0f * size);
        const float large = (1.0f - u) / (1.0f + u);
        // Taylor's polynomial of tanh(r)/r, where 1 − u would cancel
        const float small =
            1.0f + square * (-1.0f / 3.0f + square * (2.0f / 15.0f + square * (-17.0f / 315.0f +
                                                                               square * (62.0f / 2835.0f))));
        const bool near = size < 0.25f;
        g[j] = near ? r * small : r < 0.0f ? -large : large;
        h[j] = near ? small : large / size;
    }
}

const RegisterDenseLoss registered("log-cosh", {log_cosh});

}  // namespace
}  // namespace sparseleaf
