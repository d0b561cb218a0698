// Dense losses: gradient and curvature of every (row, output) pair from its target and its score.
//
// A target of NaN is unknown: gradient and curvature are 0. Weights multiply both; they are one a row, one a
// pair, or none. All arithmetic belongs to one row, so threads cannot change it.
#include <cmath>
#include <limits>

#include "common.hpp"
#include "exp.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kRowChunk = 256;

enum Loss : int { kSquared = 0, kLogistic, kSoftmax, kAbsolute, kHuber, kQuantile, kPoisson };

[[gnu::always_inline]] inline float sigmoid(float z) {
    return 1.0f / (1.0f + exp_of(-z));
}

SPARSELEAF_WIDE
void logistic_row(const float* z, const float* y, int64_t d, float* g, float* h) {
    for (int64_t j = 0; j < d; ++j) {
        const float p = sigmoid(z[j]);
        g[j] = p - y[j];
        h[j] = p * (1.0f - p);
    }
}

// Σ in eight fixed lanes, so that every clone adds in the same order.
SPARSELEAF_WIDE
void softmax_row(const float* z, int64_t d, int64_t own, float* g, float* h) {
    constexpr int kWide = 8;
    float top = z[0];
    for (int64_t j = 1; j < d; ++j) top = std::max(top, z[j]);
    float lanes[kWide] = {};
    int64_t j = 0;
    for (; j + kWide <= d; j += kWide)
        for (int l = 0; l < kWide; ++l) {
            g[j + l] = exp_of(z[j + l] - top);
            lanes[l] += g[j + l];
        }
    for (int l = 0; j < d; ++j, ++l) {
        g[j] = exp_of(z[j] - top);
        lanes[l] += g[j];
    }
    const float sum =
        ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    const float scale = 1.0f / sum;
    for (j = 0; j < d; ++j) {
        const float p = g[j] * scale;
        g[j] = p;
        h[j] = p * (1.0f - p);
    }
    g[own] -= 1.0f;
}

SPARSELEAF_WIDE
void poisson_row(const float* z, const float* y, int64_t d, float* g, float* h) {
    for (int64_t j = 0; j < d; ++j) {
        const float mean = exp_of(z[j]);
        g[j] = mean - y[j];
        h[j] = mean;
    }
}

SPARSELEAF_WIDE
void residual_row(int loss, const float* z, const float* y, int64_t d, float parameter, float* g) {
    switch (loss) {
        case kSquared:
            for (int64_t j = 0; j < d; ++j) g[j] = z[j] - y[j];
            break;
        case kAbsolute:
            for (int64_t j = 0; j < d; ++j) {
                const float r = z[j] - y[j];
                g[j] = r > 0.0f ? 1.0f : r < 0.0f ? -1.0f : r;  // NaN stays
            }
            break;
        case kHuber:
            for (int64_t j = 0; j < d; ++j) {
                const float r = z[j] - y[j];
                g[j] = r > parameter ? parameter : r < -parameter ? -parameter : r;
            }
            break;
        default:  // kQuantile
            for (int64_t j = 0; j < d; ++j) {
                const float r = z[j] - y[j];
                g[j] = r >= 0.0f ? 1.0f - parameter : r < 0.0f ? -parameter : r;
            }
    }
}

SPARSELEAF_WIDE
void weigh_row(const float* weight, int64_t stride, int64_t d, float* values) {
    for (int64_t j = 0; j < d; ++j) values[j] *= weight[j * stride];
}

SPARSELEAF_WIDE
void largest_of_row(const float* values, int64_t d, float* largest) {
    for (int64_t j = 0; j < d; ++j) {
        const float size = std::fabs(values[j]);
        largest[j] = size > largest[j] ? size : largest[j];
    }
}

// h has no rows where the curvature is 1 (or the weight, which is then the caller's to keep) in every row.
// classes: the class of every row for softmax, -1 where unknown; targets for all other losses.
void gradients(int loss, double parameter, In2<float> scores, In2<float> targets, In1<int32_t> classes,
               In2<float> weights, Out2<float> g, Out2<float> h, Out1<float> largest_g, Out1<float> largest_h,
               int n_threads) {
    const int64_t n = static_cast<int64_t>(scores.shape(0)), d = static_cast<int64_t>(scores.shape(1));
    const bool curved = h.shape(0) > 0, by_class = loss == kSoftmax;
    const auto same = [&](const auto& a) {
        return static_cast<int64_t>(a.shape(0)) == n && static_cast<int64_t>(a.shape(1)) == d;
    };
    require(loss >= kSquared && loss <= kPoisson, "loss: unknown");
    require(same(g) && (!curved || same(h)), "g, h: shape of the scores");
    require(by_class ? static_cast<int64_t>(classes.size()) == n : same(targets),
            "targets: shape of the scores, or classes for softmax");
    require(curved || (loss != kLogistic && loss != kSoftmax && loss != kPoisson),
            "h: this loss has a curvature");
    const bool weighted = weights.shape(0) > 0;
    require(!weighted || (static_cast<int64_t>(weights.shape(0)) == n &&
                          (weights.shape(1) == 1 || static_cast<int64_t>(weights.shape(1)) == d)),
            "weights: (rows, 1), (rows, outputs) or no rows");
    require(static_cast<int64_t>(largest_g.size()) == d && static_cast<int64_t>(largest_h.size()) == d,
            "largest: one number an output");
    if (by_class)
        for (int64_t i = 0; i < n; ++i) require(classes.data()[i] < d, "classes: beyond the outputs");
    GilRelease release;
    const int64_t weight_columns = weighted ? static_cast<int64_t>(weights.shape(1)) : 0;
    std::vector<std::vector<float>> largest(static_cast<size_t>(n_threads));
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int thread) {
        auto& top = largest[thread];
        if (top.empty()) top.assign(static_cast<size_t>(2 * d), 0.0f);
        std::vector<float> unused(static_cast<size_t>(curved ? 0 : d), 0.0f);
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            const float* z = scores.data() + i * d;
            const float* y = by_class ? nullptr : targets.data() + i * d;
            float* gi = g.data() + i * d;
            float* hi = curved ? h.data() + i * d : unused.data();
            if (by_class) {
                const int32_t own = classes.data()[i];
                if (own < 0) {
                    std::fill(gi, gi + d, 0.0f);
                    std::fill(hi, hi + d, 0.0f);
                } else {
                    softmax_row(z, d, own, gi, hi);
                }
            } else {
                if (loss == kLogistic)
                    logistic_row(z, y, d, gi, hi);
                else if (loss == kPoisson)
                    poisson_row(z, y, d, gi, hi);
                else {
                    residual_row(loss, z, y, d, static_cast<float>(parameter), gi);
                    std::fill(hi, hi + d, 1.0f);
                }
                for (int64_t j = 0; j < d; ++j)
                    if (std::isnan(y[j])) gi[j] = hi[j] = 0.0f;
            }
            if (weighted) {
                const float* w = weights.data() + i * weight_columns;
                weigh_row(w, weight_columns > 1, d, gi);
                if (curved) weigh_row(w, weight_columns > 1, d, hi);
            }
            largest_of_row(gi, d, top.data());
            if (curved) largest_of_row(hi, d, top.data() + d);
        }
    });
    std::fill(largest_g.data(), largest_g.data() + d, 0.0f);
    std::fill(largest_h.data(), largest_h.data() + d, 0.0f);
    for (const auto& top : largest)
        for (size_t j = 0; j < top.size(); ++j) {
            float& into = static_cast<int64_t>(j) < d ? largest_g.data()[j] : largest_h.data()[j - d];
            into = std::max(into, top[j]);
        }
}

// The packed lower triangle of softmax's Hessian, diag(p) − p pᵀ, of every row; p is taken from g and the
// class.
void softmax_hessians(In2<float> g, In1<int32_t> classes, In2<float> weights, Out2<float> out,
                      int n_threads) {
    const int64_t n = static_cast<int64_t>(g.shape(0)), d = static_cast<int64_t>(g.shape(1));
    const int64_t size = d * (d + 1) / 2;
    require(static_cast<int64_t>(out.shape(0)) == n && static_cast<int64_t>(out.shape(1)) == size,
            "out: (rows, outputs · (outputs + 1) / 2)");
    require(static_cast<int64_t>(classes.size()) == n, "classes: one a row");
    const bool weighted = weights.shape(0) > 0;
    require(!weighted || (static_cast<int64_t>(weights.shape(0)) == n && weights.shape(1) == 1),
            "weights: (rows, 1) or no rows");
    GilRelease release;
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        std::vector<float> p(static_cast<size_t>(d));
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            float* row = out.data() + i * size;
            const int32_t own = classes.data()[i];
            const float weight = weighted ? weights.data()[i] : 1.0f;
            if (own < 0 || weight == 0.0f) {
                std::fill(row, row + size, 0.0f);
                continue;
            }
            for (int64_t j = 0; j < d; ++j)
                p[j] = g.data()[i * d + j] / weight + static_cast<float>(j == own);
            for (int64_t a = 0; a < d; ++a)
                for (int64_t b = 0; b <= a; ++b)
                    *row++ = weight * (a == b ? p[a] * (1.0f - p[a]) : -p[a] * p[b]);
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_losses(nb::module_& m) {
    using namespace sparseleaf;
    m.def("gradients", &gradients, nb::arg("loss"), nb::arg("parameter"), nb::arg("scores"),
          nb::arg("targets"), nb::arg("classes"), nb::arg("weights"), nb::arg("g").noconvert(),
          nb::arg("h").noconvert(), nb::arg("largest_g").noconvert(), nb::arg("largest_h").noconvert(),
          nb::arg("n_threads"));
    m.def("softmax_hessians", &softmax_hessians, nb::arg("g"), nb::arg("classes"), nb::arg("weights"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
}
