// Nearest training rows by inner product, through an inverted index.
//
// In: postings (for every feature the rows that have it), sparse rows to look up. Out: the k rows of largest
// inner product, largest first, ties to the lower row.
#include "postings.hpp"

namespace sparseleaf {

SPARSELEAF_WIDE
void PostingIndex::largest(const std::vector<float>& sum, int64_t k, std::vector<Scored>& list) {
    list.clear();
    if (k == 0) return;
    float floor = 0.0f;
    const auto room = static_cast<size_t>(4 * k + 64);
    // most rows are far off: a block whose closest is not near enough is passed by at once
    constexpr size_t kStride = 32;
    for (size_t begin = 0; begin < sum.size(); begin += kStride) {
        const size_t end = std::min(sum.size(), begin + kStride);
        float highest = 0.0f;
        for (size_t row = begin; row < end; ++row) highest = std::max(highest, sum[row]);
        if (!(highest > floor)) continue;
        for (size_t row = begin; row < end; ++row) {
            if (!(sum[row] > floor)) continue;
            list.push_back({sum[row], static_cast<int32_t>(row)});
            if (list.size() < room) continue;
            // those that follow have higher numbers: they lose a tie with the k-th
            std::nth_element(list.begin(), list.begin() + k - 1, list.end(), ranks_before);
            list.resize(static_cast<size_t>(k));
            floor = list[static_cast<size_t>(k) - 1].score;
        }
    }
}

}  // namespace sparseleaf

void bind_postings(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<PostingIndex>(m, "PostingIndex")
        .def(nb::init<const PackedVectors&>(), nb::arg("postings"), nb::keep_alive<1, 2>())
        .def("nearest", &PostingIndex::nearest, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("own"), nb::arg("found").noconvert(), nb::arg("products").noconvert(),
             nb::arg("n_threads"));
}
