// Cross-entropy of one class per row: see losses.h; and the full matrix of its hessian.
#include "dense.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kRowChunk = 256;

SPARSELEAF_WIDE
void softmax(const OutputRow& row) {
    sl::loss::softmax(row.score, row.label, row.n_outputs, row.g, row.h);
}

const RegisterDenseLoss registered("softmax", {softmax, false, true});

// The packed lower triangle of softmax's Hessian, diag(p) − p pᵀ, of every row; p is taken from g and the
// class.
void softmax_hessians(In2<float> g, In1<int32_t> classes, In2<float> weights, Out2<float> out,
                      int n_threads) {
    const int64_t n = static_cast<int64_t>(g.shape(0)), d = static_cast<int64_t>(g.shape(1));
    const int64_t size = d * (d + 1) / 2;
    require(static_cast<int64_t>(out.shape(0)) == n && static_cast<int64_t>(out.shape(1)) == size,
            "out: (rows, outputs · (outputs + 1) / 2)");
    require(static_cast<int64_t>(classes.size()) == n, "classes: must have one entry per row");
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

void bind_softmax(nb::module_& m) {
    using namespace sparseleaf;
    m.def("softmax_hessians", &softmax_hessians, nb::arg("g"), nb::arg("classes"), nb::arg("weights"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
}
