// The score of a split from integer sums, with one order of operations on every device: the model's bytes depend on it.
// Compile with contraction of multiply-add off.
#pragma once

namespace sl::gain {

constexpr int kWide = 8;  // lanes of a sum, independent of the vector width

SL_INLINE double sum_lanes(const double* l) {
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

// With one H for all outputs of a side: Σ w·left²/below_left + Σ w·right²/below_right. left(c), total(c): the sum of
// column c.
template <typename Left, typename Total>
SL_INLINE double common(Left left, Total total, long long padded, const double* weight, double below_left,
                        double below_right) {
    double l[kWide] = {}, r[kWide] = {};
    for (long long c = 0; c < padded; c += kWide)
        for (int j = 0; j < kWide; ++j) {
            const double a = left(c + j), b = static_cast<double>(total(c + j)) - a;
            l[j] += weight[c + j] * (a * a);
            r[j] += weight[c + j] * (b * b);
        }
    return sum_lanes(l) / below_left + sum_lanes(r) / below_right;
}

// With one H per output. Both quotients share one division, the bottleneck of the loop.
template <typename Left, typename Total>
SL_INLINE double diagonal(Left left, Total total, long long outputs, long long padded, const double* weight,
                          const double* lambda) {
    double sums[kWide] = {};
    for (long long c = 0; c < padded; c += kWide)
        for (int j = 0; j < kWide; ++j) {
            const double gl = left(c + j), gr = static_cast<double>(total(c + j)) - gl;
            const double h = left(outputs + c + j), hl = h + lambda[c + j],
                         hr = (static_cast<double>(total(outputs + c + j)) - h) + lambda[c + j];
            sums[j] += weight[c + j] * (((gl * gl) * hr + (gr * gr) * hl) / (hl * hr));
        }
    return sum_lanes(sums);
}

// The optimal value of an output, clipped to the node's bounds.
SL_INLINE double bounded_value(double sum, double below, double step, double low, double high) {
    const double value = -step * sum / below;
    return value < low ? low : high < value ? high : value;
}

// −(2Gv + (H + λ)v²) = weight · ((H + λ)(2uv − v²)) with u the unconstrained optimum, in units where step is 1.
SL_INLINE double bounded_score(double sum, double below, double weight, double step, double value) {
    const double v = value / step;
    return weight * (-2.0 * sum * v - below * v * v);
}

}  // namespace sl::gain
