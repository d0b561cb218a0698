// Nearest training rows by inner product, through an inverted index; and what their labels say of candidates.
//
// In: postings (for every feature the rows that have it), sparse rows to look up. Out: the k rows of largest
// inner product, largest first, ties to the lower row. Votes: for every candidate label of a row, sums over
// its neighbours that have the label.
#include <cmath>

#include "common.hpp"
#include "topk.hpp"

namespace sparseleaf {

class PostingIndex {
  public:
    // postings: CSR (features, rows).
    PostingIndex(In1<int64_t> indptr, In1<int32_t> rows, In1<float> values, int64_t n_rows)
        : indptr_(indptr), rows_(rows), values_(values), n_rows_(n_rows) {
        require(rows.size() == values.size(), "postings: rows, values: same size");
        require_indptr(indptr, values.size());
        require(n_rows >= 0 && n_rows < std::numeric_limits<int32_t>::max(), "postings: too many rows");
        nb::gil_scoped_release release;
        for (size_t e = 0; e < rows.size(); ++e) {
            require(rows.data()[e] >= 0 && rows.data()[e] < n_rows, "postings: no such row");
            require(std::isfinite(values.data()[e]), "postings must be finite");
        }
    }

    // own[i] is the row that row i is itself, which is no neighbour; -1 is none. Missing places get row -1.
    void nearest(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int32_t> own,
                 Out2<int32_t> found, Out2<float> products, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto n_features = static_cast<int64_t>(indptr_.size()) - 1;
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require(static_cast<int64_t>(own.size()) == n, "own: one a row");
        require(static_cast<int64_t>(found.shape(0)) == n && static_cast<int64_t>(products.shape(0)) == n &&
                    found.shape(1) == products.shape(1),
                "found, products: (rows, k)");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features,
                    "indices: a feature that the model does not have");
        const auto k = static_cast<int64_t>(found.shape(1));
        nb::gil_scoped_release release;
        constexpr int64_t kBlock = 16;
        std::vector<std::vector<float>> sums(static_cast<size_t>(n_threads));
        std::vector<std::vector<Scored>> best(static_cast<size_t>(n_threads));
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            auto& sum = sums[static_cast<size_t>(thread)];
            auto& list = best[static_cast<size_t>(thread)];
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                sum.assign(static_cast<size_t>(n_rows_), 0.0f);
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e) {
                    const int32_t feature = indices.data()[e];
                    const float value = data.data()[e];
                    for (int64_t p = indptr_.data()[feature]; p < indptr_.data()[feature + 1]; ++p)
                        sum[rows_.data()[p]] += value * values_.data()[p];
                }
                if (own.data()[row] >= 0 && own.data()[row] < n_rows_) sum[own.data()[row]] = 0.0f;
                largest(sum, k, list);
                write_topk(list, k, found.data() + row * k, products.data() + row * k);
            }
        });
    }

  private:
    // The k rows of largest product above 0, and maybe more that the last cut has not met yet.
    SPARSELEAF_WIDE static void largest(const std::vector<float>& sum, int64_t k, std::vector<Scored>& list) {
        list.clear();
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

    In1<int64_t> indptr_;
    In1<int32_t> rows_;
    In1<float> values_;
    int64_t n_rows_;
};

}  // namespace sparseleaf

void bind_postings(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<PostingIndex>(m, "PostingIndex")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, int64_t>(), nb::arg("indptr"), nb::arg("rows"),
             nb::arg("values"), nb::arg("n_rows"))
        .def("nearest", &PostingIndex::nearest, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("own"), nb::arg("found").noconvert(), nb::arg("products").noconvert(),
             nb::arg("n_threads"));
}
