// Focal loss of every output: −q^γ log p, where p is the probability of the truth and q = 1 − p. With s = z
// for a true label and −z for a false one, p = σ(s) and
//   dloss/ds = q^γ (γ p log p − q),
//   d²loss/ds² = q^γ p ((1 + 2γ) q − γ² p log p + γ q log p).
// The last term is the only one that is negative; h leaves it out.
#include "dense.hpp"

namespace sparseleaf {
namespace {

// log(1 + u) for 0 <= u <= 1, as 2 artanh(u/(2 + u)): precise for small u as well.
[[gnu::always_inline]] inline float log1p_of(float u) {
    const float t = u / (2.0f + u), s = t * t;
    const float series =
        1.0f +
        s * (1.0f / 3 +
             s * (1.0f / 5 + s * (1.0f / 7 + s * (1.0f / 9 + s * (1.0f / 11 + s * (1.0f / 13 + s / 15))))));
    return 2.0f * t * series;
}

SPARSELEAF_WIDE
void focal(const OutputRow& row) {
    const auto [z, y, label, n, gamma, g, h] = row;
    for (int64_t j = 0; j < n; ++j) {
        const bool on = y[j] > 0.5f;
        const bool right = on == (z[j] >= 0.0f);
        const float size = std::min(std::fabs(z[j]), 87.0f);  // where exp_of ends
        const float u = exp_of(-size), larger = 1.0f / (1.0f + u), smaller = u * larger;
        const float near = -log1p_of(u), far = near - size;  // logarithms of the two
        const float p = right ? larger : smaller, q = right ? smaller : larger;
        const float log_p = right ? near : far, log_q = right ? far : near;
        const float focus = exp_of(gamma * log_q);
        const float slope = focus * (gamma * p * log_p - q);
        g[j] = on ? slope : -slope;
        h[j] = focus * p * ((1.0f + 2.0f * gamma) * q - gamma * gamma * p * log_p);
    }
}

const RegisterDenseLoss registered("focal", {focal});

}  // namespace
}  // namespace sparseleaf
