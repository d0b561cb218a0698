// One sparse row against many sparse vectors: the row is spread over a table of all features, and a vector
// then reads from it what it needs.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// A row in a table of all features, zeros elsewhere, with a bit for every feature that it has: most vectors
// share few features with a row, and the bits are near where the table is not. The table is the thread's and
// outlives the row, since a single row costs less than making one; it is clean again when the row goes.
class SpreadRow {
  public:
    explicit SpreadRow(int64_t n_features) : table_(table(static_cast<size_t>(n_features))) {}
    SpreadRow(const SpreadRow&) = delete;
    SpreadRow& operator=(const SpreadRow&) = delete;
    ~SpreadRow() { clear(); }

    void set(int32_t feature, float value) {
        touched_.push_back(feature);
        table_.values[static_cast<size_t>(feature)] = value;
        table_.bits[static_cast<size_t>(feature) / 64] |= uint64_t{1} << (feature % 64);
    }

    void clear() {
        for (const int32_t feature : touched_) {
            table_.values[static_cast<size_t>(feature)] = 0.0f;
            table_.bits[static_cast<size_t>(feature) / 64] = 0;
        }
        touched_.clear();
    }

    // Calls use(e, value) for every e of features[0, n) that the row has, in order.
    template <typename F>
    void each_common(const int32_t* features, int64_t n, F&& use) const {
        const uint64_t* bits = table_.bits.data();
        for (int64_t e = 0; e < n; ++e) {
            const auto feature = static_cast<uint32_t>(features[e]);
            if (bits[feature / 64] >> (feature % 64) & 1) use(e, table_.values[feature]);
        }
    }

    // With a sparse vector.
    float product(const int32_t* features, const float* values, int64_t n) const {
        float sum = 0.0f;
        each_common(features, n, [&](int64_t e, float x) { sum += values[e] * x; });
        return sum;
    }

  private:
    struct Table {
        std::vector<float> values;
        std::vector<uint64_t> bits;
    };

    // no two rows are spread in a thread at once
    static Table& table(size_t size) {
        thread_local Table zeros;
        if (zeros.values.size() < size) {
            zeros.values.resize(size, 0.0f);
            zeros.bits.resize(size / 64 + 1, 0);
        }
        return zeros;
    }

    Table& table_;
    std::vector<int32_t> touched_;
};

// Sparse vectors, a line each.
struct SparseLines {
    const int64_t* indptr;
    const int32_t* features;
    const float* values;

    float product(int32_t line, const SpreadRow& x) const {
        return x.product(features + indptr[line], values + indptr[line], indptr[line + 1] - indptr[line]);
    }

    // Lines lie far apart: the first bytes of the next are asked for while one is read.
    void fetch(int32_t line) const {
        for (int64_t e = indptr[line]; e < std::min(indptr[line + 1], indptr[line] + 128); e += 16)
            __builtin_prefetch(features + e);
    }
};

}  // namespace sparseleaf
