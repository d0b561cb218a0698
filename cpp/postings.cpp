// Nearest training rows by inner product, through an inverted index.
//
// Returns the k rows of largest inner product with a query row, largest first (ties: lower row).
#include "postings.hpp"

#include <functional>

namespace sparseleaf {

SPARSELEAF_WIDE
void PostingIndex::largest(const std::vector<float>& sum, int64_t k, std::vector<Scored>& list) {
    list.clear();
    if (k == 0) return;
    // Most rows are far. The k-th largest of the blocks' maxima is at most the k-th largest product.
    constexpr size_t kStride = 64;
    thread_local std::vector<float> maxima, sorted;
    maxima.clear();
    for (size_t begin = 0; begin < sum.size(); begin += kStride) {
        float highest = 0.0f;
        const size_t end = std::min(sum.size(), begin + kStride);
        for (size_t row = begin; row < end; ++row) highest = std::max(highest, sum[row]);
        maxima.push_back(highest);
    }
    float floor = 0.0f;
    if (maxima.size() >= static_cast<size_t>(k)) {
        sorted = maxima;
        std::nth_element(sorted.begin(), sorted.begin() + k - 1, sorted.end(), std::greater<>());
        floor = sorted[static_cast<size_t>(k) - 1];
    }
    for (size_t block = 0; block < maxima.size(); ++block) {
        if (!(maxima[block] >= floor && maxima[block] > 0.0f)) continue;
        const size_t end = std::min(sum.size(), (block + 1) * kStride);
        for (size_t row = block * kStride; row < end; ++row)
            if (sum[row] >= floor && sum[row] > 0.0f) list.push_back({sum[row], static_cast<int32_t>(row)});
    }
}

void PostingIndex::votes(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<int32_t> found,
                         In2<float> products, const IndexLists& lists, In1<int64_t> starts,
                         In1<int32_t> labels, In1<int64_t> offsets, Out1<double> out, Out2<uint8_t> carriers,
                         int n_threads) const {
    const RowPairs pairs{indptr, indices, data, starts, labels, offsets, out};
    pairs.check(n_features(), lists.width());
    const auto k = static_cast<int64_t>(found.shape(1));
    require(static_cast<int64_t>(found.shape(0)) == pairs.n_rows() && products.shape(0) == found.shape(0) &&
                products.shape(1) == found.shape(1),
            "found, products: (rows, k)");
    require(k <= 255, "found: at most 255 neighbours");
    require(lists.n_lines() == n_rows_, "lists: a list of labels for every row");
    require(carriers.shape(0) == labels.size() && static_cast<int64_t>(carriers.shape(1)) == k,
            "carriers: (pairs, k)");
    for (size_t i = 0; i < found.size(); ++i)
        require(found.data()[i] >= -1 && found.data()[i] < n_rows_, "found: no such row");
    GilRelease release;
    pairs.each_row(n_threads, [&](int64_t row, int) {
        thread_local std::vector<uint8_t> place;  // of a training row among the neighbours, from 1; or 0
        if (static_cast<int64_t>(place.size()) < n_rows_) place.assign(static_cast<size_t>(n_rows_), 0);
        const int32_t* near = found.data() + row * k;
        const float* cosine = products.data() + row * k;
        const int64_t first = starts.data()[row], last = starts.data()[row + 1];
        std::fill(carriers.data() + first * k, carriers.data() + last * k, uint8_t{0});
        for (int64_t j = 0; j < k; ++j) {
            if (near[j] < 0) continue;
            bool any = false;
            lists.each(near[j], [&](int64_t, uint64_t label) {
                for (int64_t p = first; p < last; ++p)
                    if (static_cast<uint64_t>(labels.data()[p]) == label)
                        carriers.data()[p * k + j] = any = true;
            });
            if (any) place[static_cast<size_t>(near[j])] = static_cast<uint8_t>(j + 1);
        }
        for (int64_t p = first; p < last; ++p)
            std::fill(out.data() + offsets.data()[p], out.data() + offsets.data()[p + 1], 0.0);
        const int64_t begin = indptr.data()[row], n = indptr.data()[row + 1] - begin;
        for (int64_t e = 0; e < n; ++e)
            postings_.each_value(indices.data()[begin + e], [&](uint64_t other, float value) {
                const int64_t j = static_cast<int64_t>(place[other]) - 1;
                if (j < 0) return;
                const double c = static_cast<double>(cosine[j]);
                const double term = c * c * static_cast<double>(data.data()[begin + e] * value);
                for (int64_t p = first; p < last; ++p)
                    if (carriers.data()[p * k + j]) out.data()[offsets.data()[p] + e] += term;
            });
        for (int64_t j = 0; j < k; ++j)
            if (near[j] >= 0) place[static_cast<size_t>(near[j])] = 0;
    });
}

}  // namespace sparseleaf

void bind_postings(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<PostingIndex>(m, "PostingIndex")
        .def(nb::init<const PackedVectors&>(), nb::arg("postings"), nb::keep_alive<1, 2>())
        .def("nearest", &PostingIndex::nearest, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("own"), nb::arg("found").noconvert(), nb::arg("products").noconvert(),
             nb::arg("n_threads"))
        .def("votes", &PostingIndex::votes, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("found"), nb::arg("products"), nb::arg("lists"), nb::arg("starts"), nb::arg("labels"),
             nb::arg("offsets"), nb::arg("out").noconvert(), nb::arg("carriers").noconvert(),
             nb::arg("n_threads"));
}
