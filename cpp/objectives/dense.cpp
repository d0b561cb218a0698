// Gradients and hessians of a dense loss, for every (row, output) pair: what all losses share.
#include "dense.hpp"

#include <nanobind/stl/string.h>

#include <map>

namespace sparseleaf {
namespace {

constexpr int64_t kRowChunk = 256;

std::map<std::string, DenseLoss>& dense_losses() {
    static std::map<std::string, DenseLoss> losses;
    return losses;
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

// h has no rows where the hessian is 1 (or the weight, which is then the caller's to keep) in every row.
// classes: the class of every row for a loss of classes, -1 where unknown; targets for all other losses.
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
            "largest: one number an output");
    if (loss.by_class)
        for (int64_t i = 0; i < n; ++i) require(classes.data()[i] < d, "classes: beyond the outputs");
    GilRelease release;
    const int64_t weight_columns = weighted ? static_cast<int64_t>(weights.shape(1)) : 0;
    std::vector<std::vector<float>> largest(static_cast<size_t>(n_threads));
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int thread) {
        auto& top = largest[thread];
        if (top.empty()) top.assign(static_cast<size_t>(2 * d), 0.0f);
        std::vector<float> unused(static_cast<size_t>(has_h ? 0 : d), 0.0f);
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            const float* y = loss.by_class ? nullptr : targets.data() + i * d;
            const int64_t label = loss.by_class ? classes.data()[i] : 0;
            float* gi = g.data() + i * d;
            float* hi = has_h ? h.data() + i * d : unused.data();
            if (label >= 0) {
                loss.fill({scores.data() + i * d, y, label, d, static_cast<float>(parameter), gi, hi});
                if (loss.constant_hessian) std::fill(hi, hi + d, 1.0f);
                for (int64_t j = 0; y != nullptr && j < d; ++j)
                    if (std::isnan(y[j])) gi[j] = hi[j] = 0.0f;
            } else {
                std::fill(gi, gi + d, 0.0f);
                std::fill(hi, hi + d, 0.0f);
            }
            if (weighted) {
                const float* w = weights.data() + i * weight_columns;
                weigh_row(w, weight_columns > 1, d, gi);
                if (has_h) weigh_row(w, weight_columns > 1, d, hi);
            }
            largest_of_row(gi, d, top.data());
            if (has_h) largest_of_row(hi, d, top.data() + d);
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
