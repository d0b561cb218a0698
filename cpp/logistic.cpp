// Logistic regression on one input: sums over all rows.
#include <array>
#include <cmath>

#include "common.hpp"
#include "exp.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kRows = 4096;  // per task
constexpr size_t kSums = 6;

// Adds loss, gradient (slope, intercept) and hessian (both twice, mixed, intercept twice) of rows
// [begin, end) at the given coefficients.
void add_rows(const float* inputs, const uint8_t* truth, const double* weights, int64_t begin, int64_t end,
              double slope, double intercept, double* sums) {
    for (int64_t i = begin; i < end; ++i) {
        const double x = inputs[i], z = slope * x + intercept, y = truth[i] != 0,
                     w = weights ? weights[i] : 1.0;
        const double e = exp_of(-std::fabs(z)), p = (z < 0.0 ? e : 1.0) / (1.0 + e);
        const double g = w * (p - y), h = w * e / ((1.0 + e) * (1.0 + e));
        sums[0] += w * (std::max(z, 0.0) - y * z + std::log1p(e));
        sums[1] += g * x;
        sums[2] += g;
        sums[3] += h * x * x;
        sums[4] += h * x;
        sums[5] += h;
    }
}

// Σ over all rows of loss, gradient (2) and hessian (3) of the log loss. weights: empty if all are 1. Sums
// are those of blocks of a fixed size, in order, so that they do not depend on the number of threads.
void logistic_sums(In1<float> inputs, In1<uint8_t> truth, In1<double> weights, double slope, double intercept,
                   Out1<double> out, int n_threads) {
    require(inputs.size() == truth.size(), "inputs, truth: must have equal sizes");
    require(weights.size() == 0 || weights.size() == inputs.size(),
            "weights: must be empty or have one entry per row");
    require(out.size() == kSums, "out: must have six entries");
    const auto n = static_cast<int64_t>(inputs.size()), n_blocks = (n + kRows - 1) / kRows;
    GilRelease release;
    std::vector<std::array<double, kSums>> blocks(static_cast<size_t>(n_blocks), {0.0});
    parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
        add_rows(inputs.data(), truth.data(), weights.size() ? weights.data() : nullptr, block * kRows,
                 std::min(n, (block + 1) * kRows), slope, intercept,
                 blocks[static_cast<size_t>(block)].data());
    });
    std::fill(out.data(), out.data() + kSums, 0.0);
    for (const auto& block : blocks)
        for (size_t s = 0; s < kSums; ++s) out.data()[s] += block[s];
}

}  // namespace
}  // namespace sparseleaf

void bind_logistic(nb::module_& m) {
    m.def("logistic_sums", &sparseleaf::logistic_sums, nb::arg("inputs"), nb::arg("truth"),
          nb::arg("weights"), nb::arg("slope"), nb::arg("intercept"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
}
