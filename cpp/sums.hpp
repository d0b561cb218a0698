// Score accumulator of one row: sums of leaf values by label.
#pragma once

#include "topk.hpp"

namespace sparseleaf {

// Label -> sum for one row. Small label sets use a plain array; others an open-addressing table that grows.
class Sums {
  public:
    explicit Sums(int64_t n_labels) : n_labels_(static_cast<uint32_t>(n_labels)), dense_(n_labels <= kDense) {
        if (dense_) {
            values_.assign(static_cast<size_t>(n_labels), 0.0f);
            seen_.assign(static_cast<size_t>(n_labels), 0);
        } else {
            resize(1024);
        }
    }

    // Labels may be in a mapped file that changes: invalid ones are skipped.
    template <typename Label, typename Value>
    void add(const Label* labels, const Value* values, float scale, int64_t n) {
        if (dense_) {
            for (int64_t i = 0; i < n; ++i) {
                const auto label = static_cast<uint32_t>(labels[i]);
                if (label >= n_labels_) continue;
                if (!seen_[label]) {
                    seen_[label] = 1;
                    touched_.push_back(static_cast<int32_t>(label));
                }
                values_[label] += scale * static_cast<float>(values[i]);
            }
            return;
        }
        if (2 * (touched_.size() + static_cast<size_t>(n)) > keys_.size())
            grow(touched_.size() + static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            const auto label = static_cast<int32_t>(labels[i]);
            if (static_cast<uint32_t>(label) >= n_labels_) continue;
            const size_t at = place(label);
            if (keys_[at] < 0) {
                keys_[at] = label;
                values_[at] = 0.0f;
                touched_.push_back(static_cast<int32_t>(at));
            }
            values_[at] += scale * static_cast<float>(values[i]);
        }
    }

    // Moves the sums to `out` and clears the accumulator. Sums of exactly 0 are not candidates, as in
    // training; NaN, which has no rank, is dropped.
    void take(std::vector<Scored>& out) {
        out.clear();
        for (const int32_t at : touched_) {
            if (values_[at] != 0.0f && values_[at] == values_[at])
                out.push_back({values_[at], dense_ ? at : keys_[at]});
            if (dense_) {
                values_[at] = 0.0f;
                seen_[at] = 0;
            } else {
                keys_[at] = -1;
            }
        }
        touched_.clear();
    }

  private:
    static constexpr int64_t kDense = 16384;

    size_t place(int32_t label) const {
        size_t at = (static_cast<uint64_t>(static_cast<uint32_t>(label)) * 0x9e3779b97f4a7c15ULL) >> shift_;
        while (keys_[at] >= 0 && keys_[at] != label) at = (at + 1) & (keys_.size() - 1);
        return at;
    }

    void resize(size_t size) {
        keys_.assign(size, -1);
        values_.assign(size, 0.0f);
        shift_ = __builtin_clzll(size) + 1;
    }

    void grow(size_t n_labels) {
        std::vector<Scored> entries;
        take(entries);
        size_t size = keys_.size();
        while (size < 2 * n_labels + 2) size *= 2;
        resize(size);
        for (const Scored& entry : entries) {
            const size_t at = place(entry.label);
            keys_[at] = entry.label;
            values_[at] = entry.score;
            touched_.push_back(static_cast<int32_t>(at));
        }
    }

    uint32_t n_labels_;
    bool dense_;
    int shift_ = 0;
    std::vector<int32_t> keys_;
    std::vector<float> values_;
    std::vector<uint8_t> seen_;
    std::vector<int32_t> touched_;
};

}  // namespace sparseleaf
