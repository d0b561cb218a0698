// Quantisation of the values of sparse vectors.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kVectors = 512;  // per task

// Values of every vector as integers up to `largest`, and the vector's scale: value ≈ integer · scale.
void quantise_vectors(In1<int64_t> indptr, In1<float> values, int largest, Out1<int8_t> integers,
                      Out1<float> scale, int n_threads) {
    const auto n = static_cast<int64_t>(indptr.size()) - 1;
    require_indptr(indptr, values.size());
    require(integers.size() == values.size(), "integers: must have one entry per value");
    require(static_cast<int64_t>(scale.size()) == n, "scale: must have one entry per vector");
    require(largest >= 1 && largest <= std::numeric_limits<int8_t>::max(), "largest: must be in 1 to 127");
    const auto most = static_cast<float>(largest);
    GilRelease release;
    parallel_tasks((n + kVectors - 1) / kVectors, n_threads, [&](int64_t task, int) {
        for (int64_t i = task * kVectors; i < std::min(n, (task + 1) * kVectors); ++i) {
            const int64_t begin = indptr.data()[i], end = indptr.data()[i + 1];
            float top = 0.0f;
            for (int64_t e = begin; e < end; ++e) top = std::max(top, std::fabs(values.data()[e]));
            // the quotient may underflow to 0
            const float unit =
                top > 0.0f ? std::max(top / most, std::numeric_limits<float>::denorm_min()) : 1.0f;
            scale.data()[i] = unit;
            for (int64_t e = begin; e < end; ++e)
                integers.data()[e] =
                    static_cast<int8_t>(std::clamp(std::nearbyint(values.data()[e] / unit), -most, most));
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_quantise(nb::module_& m) {
    m.def("quantise_vectors", &sparseleaf::quantise_vectors, nb::arg("indptr"), nb::arg("values"),
          nb::arg("largest"), nb::arg("integers").noconvert(), nb::arg("scale").noconvert(),
          nb::arg("n_threads"));
}
