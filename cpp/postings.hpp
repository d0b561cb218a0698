// Nearest training rows by inner product, through an inverted index: see postings.cpp.
#pragma once

#include <cmath>

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
        GilRelease release;
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
        GilRelease release;
        constexpr int64_t kBlock = 16;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                const int64_t begin = indptr.data()[row];
                nearest_rows(indices.data() + begin, data.data() + begin, indptr.data()[row + 1] - begin,
                             own.data()[row], k, found.data() + row * k, products.data() + row * k);
            }
        });
    }

    int64_t n_rows() const { return n_rows_; }
    int64_t n_features() const { return static_cast<int64_t>(indptr_.size()) - 1; }

    // The same for one row of n entries.
    void nearest_rows(const int32_t* features, const float* data, int64_t n, int32_t own, int64_t k,
                      int32_t* found, float* products) const {
        thread_local std::vector<float> sum;  // a single row costs less than making them
        thread_local std::vector<Scored> list;
        sum.assign(static_cast<size_t>(n_rows_), 0.0f);
        for (int64_t e = 0; e < n; ++e)
            for (int64_t p = indptr_.data()[features[e]]; p < indptr_.data()[features[e] + 1]; ++p)
                sum[rows_.data()[p]] += data[e] * values_.data()[p];
        if (own >= 0 && own < n_rows_) sum[own] = 0.0f;
        largest(sum, k, list);
        write_topk(list, k, found, products);
    }

  private:
    // The k rows of largest product above 0, and maybe more that the last cut has not met yet.
    static void largest(const std::vector<float>& sum, int64_t k, std::vector<Scored>& list);

    In1<int64_t> indptr_;
    In1<int32_t> rows_;
    In1<float> values_;
    int64_t n_rows_;
};

}  // namespace sparseleaf
