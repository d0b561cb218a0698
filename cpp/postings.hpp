// Nearest training rows by inner product, through an inverted index: see postings.cpp.
#pragma once

#include <cmath>

#include "pairs.hpp"
#include "topk.hpp"
#include "vectors.hpp"

namespace sparseleaf {

class PostingIndex {
  public:
    // postings: (features, rows).
    explicit PostingIndex(const PackedVectors& postings) : postings_(postings), n_rows_(postings.width()) {
        require(n_rows_ < std::numeric_limits<int32_t>::max(), "postings: too many rows");
    }

    // own[i] is the index of row i among the indexed rows, to be excluded, or -1. Results are padded with -1.
    void nearest(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int32_t> own,
                 Out2<int32_t> found, Out2<float> products, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const int64_t n_features = postings_.n_lines();
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require(static_cast<int64_t>(own.size()) == n, "own: must have one entry per row");
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

    // Which of its row's neighbours carry the label of a pair: carriers (pairs, k); and the terms of
    // Σ cosine³ over them, cosine² times those of the cosine. Neighbours are as `nearest` returns them.
    void votes(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<int32_t> found,
               In2<float> products, const IndexLists& lists, In1<int64_t> starts, In1<int32_t> labels,
               In1<int64_t> offsets, Out1<double> out, Out2<uint8_t> carriers, int n_threads) const;

    int64_t n_rows() const { return n_rows_; }
    int64_t n_features() const { return postings_.n_lines(); }

    // The same for one row with n entries.
    void nearest_rows(const int32_t* features, const float* data, int64_t n, int32_t own, int64_t k,
                      int32_t* found, float* products) const {
        thread_local std::vector<float> sum;  // for single-row prediction, allocation would dominate
        thread_local std::vector<Scored> list;
        sum.assign(static_cast<size_t>(n_rows_), 0.0f);
        for (int64_t e = 0; e < n; ++e)
            postings_.each_value(features[e],
                                 [&](uint64_t row, float value) { sum[row] += data[e] * value; });
        if (own >= 0 && own < n_rows_) sum[own] = 0.0f;
        largest(sum, k, list);
        write_topk(list, k, found, products);
    }

  private:
    // The k rows of largest positive product, and a few more.
    static void largest(const std::vector<float>& sum, int64_t k, std::vector<Scored>& list);

    const PackedVectors& postings_;
    int64_t n_rows_;
};

}  // namespace sparseleaf
