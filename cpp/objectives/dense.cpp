// Gradients and hessians of dense losses: the loop over (row, output) pairs, common to all losses.
#include "dense.hpp"

#include <nanobind/stl/string.h>

#include <map>

namespace sparseleaf {
namespace {

constexpr int64_t kPairs = 2048;  // per block: scores, targets and results fit the cache

std::map<std::string, DenseLoss>& dense_losses() {
    static std::map<std::string, DenseLoss> losses;
    return losses;
}

SPARSELEAF_WIDE
void forget_unknown(const float* targets, int64_t n, float* g, float* h) {
    for (int64_t j = 0; j < n; ++j) {
        const bool known = targets[j] == targets[j];
        g[j] = known ? g[j] : 0.0f;
        h[j] = known ? h[j] : 0.0f;
    }
}

// values (n, d) times weights, one or d per row.
SPARSELEAF_WIDE
void weigh_rows(const float* weights, int64_t columns, int64_t n, int64_t d, float* values) {
    if (columns == d) {
        for (int64_t e = 0; e < n * d; ++e) values[e] *= weights[e];
        return;
    }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < d; ++j) values[i * d + j] *= weights[i];
}

SPARSELEAF_WIDE
void largest_of_rows(const float* values, int64_t n, int64_t d, float* largest) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < d; ++j) {
            const float size = std::fabs(values[i * d + j]);
            largest[j] = size > largest[j] ? size : largest[j];
        }
}

// h has no rows if the hessian is 1 (or the weight, which the caller has) in every row. classes: the class of
// every row for classification losses, -1 if unknown; targets for all other losses.
void gradients(const std::string& name, double parameter, In2<float> scores, In2<float> targets,
               In1<int32_t> classes, In2<float> weights, Out2<float> g, Out2<float> h, Out1<float> largest_g,
               Out1<float> largest_h, int n_threads) {
    const auto known = dense_losses().find(name);
    require(known != dense_losses().end(), "loss: unknown");
    const DenseLoss loss = known->second;
    const int64_t n = static_cast<int64_t>(scores.shape(0)), d = static_cast<int64_t>(scores.shape(1));
    const bool has_h = h.shape(0) > 0;
    const auto same = [&](const auto& a) {
        return static_cast<int64_t>(a.shape(0)) == n && static_cast<int64_t>(a.shape(1)) == d;
    };
    require(same(g) && (!has_h || same(h)), "g, h: shape of the scores");
    require(loss.by_class ? static_cast<int64_t>(classes.size()) == n : same(targets),
            "targets: shape of the scores, or classes for a loss of classes");
    require(has_h || loss.constant_hessian, "h: the hessian of this loss is not constant");
    const bool weighted = weights.shape(0) > 0;
    require(!weighted || (static_cast<int64_t>(weights.shape(0)) == n &&
                          (weights.shape(1) == 1 || static_cast<int64_t>(weights.shape(1)) == d)),
            "weights: (rows, 1), (rows, outputs) or no rows");
    require(static_cast<int64_t>(largest_g.size()) == d && static_cast<int64_t>(largest_h.size()) == d,
            "largest: must have one entry per output");
    if (loss.by_class)
        for (int64_t i = 0; i < n; ++i) require(classes.data()[i] < d, "classes: beyond the outputs");
    GilRelease release;
    const int64_t weight_columns = weighted ? static_cast<int64_t>(weights.shape(1)) : 0;
    std::vector<std::vector<float>> largest(static_cast<size_t>(n_threads));
    const int64_t block = std::max<int64_t>(1, kPairs / std::max<int64_t>(1, d));
    parallel_tasks((n + block - 1) / block, n_threads, [&](int64_t chunk, int thread) {
        auto& top = largest[thread];
        if (top.empty()) top.assign(static_cast<size_t>(2 * d), 0.0f);
        const int64_t first = chunk * block, rows = std::min(n - first, block);
        std::vector<float> unused(static_cast<size_t>(has_h ? 0 : rows * d), 0.0f);
        float* gi = g.data() + first * d;
        float* hi = has_h ? h.data() + first * d : unused.data();
        const auto value = static_cast<float>(parameter);
        if (loss.by_class) {
            for (int64_t i = 0; i < rows; ++i) {
                const int64_t label = classes.data()[first + i];
                if (label >= 0) {
                    loss.fill(
                        {scores.data() + (first + i) * d, nullptr, label, d, value, gi + i * d, hi + i * d});
                } else {
                    std::fill(gi + i * d, gi + (i + 1) * d, 0.0f);
                    std::fill(hi + i * d, hi + (i + 1) * d, 0.0f);
                }
            }
        } else {
            const float* y = targets.data() + first * d;
            loss.fill({scores.data() + first * d, y, 0, rows * d, value, gi, hi});
            if (loss.constant_hessian) std::fill(hi, hi + rows * d, 1.0f);
            forget_unknown(y, rows * d, gi, hi);
        }
        if (weighted) {
            const float* w = weights.data() + first * weight_columns;
            weigh_rows(w, weight_columns, rows, d, gi);
            if (has_h) weigh_rows(w, weight_columns, rows, d, hi);
        }
        largest_of_rows(gi, rows, d, top.data());
        if (has_h) largest_of_rows(hi, rows, d, top.data() + d);
    });
    std::fill(largest_g.data(), largest_g.data() + d, 0.0f);
    std::fill(largest_h.data(), largest_h.data() + d, 0.0f);
    for (const auto& top : largest)
        for (size_t j = 0; j < top.size(); ++j) {
            float& into = static_cast<int64_t>(j) < d ? largest_g.data()[j] : largest_h.data()[j - d];
            into = std::max(into, top[j]);
        }
}

}  // namespace

RegisterDenseLoss::RegisterDenseLoss(const char* name, DenseLoss loss) {
    dense_losses().emplace(name, loss);
}

}  // namespace sparseleaf

void bind_objectives(nb::module_& m) {
    using namespace sparseleaf;
    m.def("gradients", &gradients, nb::arg("loss"), nb::arg("parameter"), nb::arg("scores"),
          nb::arg("targets"), nb::arg("classes"), nb::arg("weights"), nb::arg("g").noconvert(),
          nb::arg("h").noconvert(), nb::arg("largest_g").noconvert(), nb::arg("largest_h").noconvert(),
          nb::arg("n_threads"));
}
