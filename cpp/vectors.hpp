// One sparse row against many sparse vectors: the row is spread over a table of all features, and a vector
// then reads from it what it needs.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// A row in a table of all features, zeros elsewhere. The table is the thread's and outlives the row, since a
// single row costs less than making one; it is clean again when the row goes.
class SpreadRow {
  public:
    explicit SpreadRow(int64_t n_features) : table_(table(static_cast<size_t>(n_features))) {}
    SpreadRow(const SpreadRow&) = delete;
    SpreadRow& operator=(const SpreadRow&) = delete;
    ~SpreadRow() { clear(); }

    void set(int32_t feature, float value) {
        touched_.push_back(feature);
        table_[static_cast<size_t>(feature)] = value;
    }

    void clear() {
        for (const int32_t feature : touched_) table_[static_cast<size_t>(feature)] = 0.0f;
        touched_.clear();
    }

    float operator[](int32_t feature) const { return table_[static_cast<size_t>(feature)]; }

  private:
    // no two rows are spread in a thread at once
    static std::vector<float>& table(size_t size) {
        thread_local std::vector<float> zeros;
        if (zeros.size() < size) zeros.resize(size, 0.0f);
        return zeros;
    }

    std::vector<float>& table_;
    std::vector<int32_t> touched_;
};

// Sparse vectors, a line each.
struct SparseLines {
    const int64_t* indptr;
    const int32_t* features;
    const float* values;

    // In four lanes: sums need not wait for each other.
    float product(int32_t line, const SpreadRow& x) const {
        constexpr int kWide = 4;
        float lanes[kWide] = {};
        int64_t e = indptr[line];
        const int64_t end = indptr[line + 1];
        for (; e + kWide <= end; e += kWide)
            for (int j = 0; j < kWide; ++j) lanes[j] += values[e + j] * x[features[e + j]];
        for (int j = 0; e < end; ++e, ++j) lanes[j] += values[e] * x[features[e]];
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    }

    // Lines lie far apart: the first bytes of the next are asked for while one is read.
    void fetch(int32_t line) const {
        for (int64_t e = indptr[line]; e < std::min(indptr[line + 1], indptr[line] + 128); e += 16) {
            __builtin_prefetch(features + e);
            __builtin_prefetch(values + e);
        }
    }
};

}  // namespace sparseleaf
