// Terms of pairs of a row and a label: one number per entry of the row, for explanations.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// The pairs of row i are starts[i] to starts[i + 1] - 1. Those of pair p are out[offsets[p]:offsets[p + 1]],
// one for each entry of its row.
struct RowPairs {
    In1<int64_t> indptr;
    In1<int32_t> indices;
    In1<float> data;
    In1<int64_t> starts;
    In1<int32_t> labels;
    In1<int64_t> offsets;
    Out1<double> out;

    int64_t n_rows() const { return static_cast<int64_t>(indptr.size()) - 1; }

    void check(int64_t n_features, int64_t n_labels) const {
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        require_indptr(offsets, out.size());
        require(offsets.size() == labels.size() + 1, "offsets: one more than pairs");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features,
                    "indices: a feature that the model does not have");
        for (size_t p = 0; p < labels.size(); ++p)
            require(labels.data()[p] >= 0 && labels.data()[p] < n_labels, "labels: no such label");
        for (int64_t row = 0; row < n_rows(); ++row)
            for (int64_t p = starts.data()[row]; p < starts.data()[row + 1]; ++p)
                require(
                    offsets.data()[p + 1] - offsets.data()[p] == indptr.data()[row + 1] - indptr.data()[row],
                    "offsets: a pair must have a term for every entry of its row");
    }

    // Calls use(row, thread) for every row with a pair.
    template <typename F>
    void each_row(int n_threads, F&& use) const {
        constexpr int64_t kBlock = 4;
        parallel_tasks((n_rows() + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            for (int64_t row = block * kBlock; row < std::min(n_rows(), (block + 1) * kBlock); ++row)
                if (starts.data()[row] < starts.data()[row + 1]) use(row, thread);
        });
    }
};

}  // namespace sparseleaf
