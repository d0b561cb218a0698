// Fast validation of features.
#include <atomic>
#include <cmath>
#include <cstring>

#include "common.hpp"
#include "parallel.hpp"

namespace sparseleaf {

// Whether a CSR matrix is valid, with increasing features in every row and finite values. If not, the caller
// validates in detail.
template <typename Index>
bool plain_rows(In1<Index> indptr, In1<int32_t> indices, In1<float> data, int64_t n_features) {
    const auto n = static_cast<int64_t>(indptr.size()) - 1, size = static_cast<int64_t>(data.size());
    if (n < 0 || indptr.data()[0] != 0 || indptr.data()[n] != size || indices.size() != data.size())
        return false;
    GilRelease release;
    for (int64_t row = 0; row < n; ++row) {
        const int64_t begin = indptr.data()[row], end = indptr.data()[row + 1];
        if (begin > end || end > size) return false;
        for (int64_t e = begin; e < end; ++e) {
            const int32_t feature = indices.data()[e];
            if (feature < 0 || feature >= n_features || !std::isfinite(data.data()[e])) return false;
            if (e > begin && indices.data()[e - 1] >= feature) return false;
        }
    }
    return true;
}

// Whether all values are finite; NaN counts as finite if it is allowed. No early end within a block: that
// would keep the loop from being vectorised.
SPARSELEAF_WIDE
bool finite(const float* values, int64_t n, bool nan) {
    constexpr uint32_t kInfinity = 0x7f800000u;
    const uint32_t mask = nan ? 0x7fffffffu : kInfinity;
    uint32_t found = 0;
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, values + i, sizeof(bits));
        found |= (bits & mask) == kInfinity;
    }
    return found == 0;
}

bool plain_dense(In2<float> X, bool nan, int n_threads) {
    constexpr int64_t kBlock = 1 << 14, kValuesPerThread = 1 << 17;
    const auto n = static_cast<int64_t>(X.size());
    std::atomic<bool> plain{true};
    GilRelease release;
    n_threads = static_cast<int>(std::min<int64_t>(n_threads, n / kValuesPerThread + 1));
    parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        const int64_t begin = block * kBlock;
        if (plain && !finite(X.data() + begin, std::min(kBlock, n - begin), nan)) plain = false;
    });
    return plain;
}

}  // namespace sparseleaf

void bind_plain(nb::module_& m) {
    using namespace sparseleaf;
    m.def("plain_rows", &plain_rows<int32_t>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("data").noconvert(), nb::arg("n_features"));
    m.def("plain_rows", &plain_rows<int64_t>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("data").noconvert(), nb::arg("n_features"));
    m.def("plain_dense", &plain_dense, nb::arg("X").noconvert(), nb::arg("nan"), nb::arg("n_threads"));
}
