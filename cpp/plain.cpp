// Fast validation of CSR matrices.
#include <cmath>

#include "common.hpp"

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

}  // namespace sparseleaf

void bind_plain(nb::module_& m) {
    using namespace sparseleaf;
    m.def("plain_rows", &plain_rows<int32_t>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("data").noconvert(), nb::arg("n_features"));
    m.def("plain_rows", &plain_rows<int64_t>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("data").noconvert(), nb::arg("n_features"));
}
