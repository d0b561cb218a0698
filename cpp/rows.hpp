// The sparse state of the training rows: the labels of each row and its scores so far.
//
// A row is a list of entries sorted by label; an entry is a label, with its truth in the top bit, and its
// score. It has exactly the labels that are true or in some leaf of the row, so residuals need not be stored:
//
//     row 7:  labels  [3*, 8, 21*]      (* top bit set: the label is true)
//             scores  [.4, .1,  0 ]     residual of the squared loss: [.6, -.1, 1]
//
// Rows are in blocks of a power-of-two size, so that one block is rebuilt at a time: peak memory is the
// non-zeros plus one block. The rows of a block follow one another, perhaps with unused entries between them.
#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr uint32_t kTruth = 0x80000000u;
constexpr uint32_t kLabelMask = 0x7fffffffu;

enum class Loss : int { kSquared = 0, kSquaredHinge = 1 };

// Full residuals are summed in units of 2^-24, the precision of float32 at 1. A residual up to 127 fits 32
// bits, and the sum of 2^31 of them 64 bits.
constexpr float kResidualLimit = 127.0f;
constexpr double kResidualScale = 16777216.0;

template <Loss loss>
inline float residual_of(uint32_t entry, float score) {
    if constexpr (loss == Loss::kSquared) {
        return static_cast<float>(entry >> 31) - score;
    } else {
        // eq. 9 of the paper: no residual once a true label is above 1 or a false one below 0
        return (entry & kTruth) ? std::max(1.0f - score, 0.0f) : std::min(-score, 0.0f);
    }
}

// Weights of the loss: one per row, and one per label for its true entries. Empty: all 1. The residual of an
// entry is multiplied by both.
struct LossWeights {
    In1<float> rows, labels;
};

// The same as pointers; null: all 1.
struct WeightView {
    const float* rows = nullptr;
    const float* labels = nullptr;
    uint32_t n_labels = 0;

    explicit operator bool() const { return rows || labels; }

    float row(int64_t i) const { return rows ? rows[i] : 1.0f; }

    float entry(uint32_t entry) const {
        const uint32_t label = entry & kLabelMask;
        return labels && (entry & kTruth) && label < n_labels ? labels[label] : 1.0f;
    }
};

inline WeightView view_of(const LossWeights* weights, int64_t n_rows) {
    if (!weights) return {};
    require(weights->rows.size() == 0 || static_cast<int64_t>(weights->rows.size()) == n_rows,
            "weights: must be empty or have one entry per row");
    return {weights->rows.size() ? weights->rows.data() : nullptr,
            weights->labels.size() ? weights->labels.data() : nullptr,
            static_cast<uint32_t>(weights->labels.size())};
}

// Sums of row weights are in units of 2^-20.
constexpr double kWeightScale = 1048576.0;

inline int32_t fixed_point(float residual) {
    // the scale is a power of two, so the product is exact
    return static_cast<int32_t>(std::rint(std::clamp(residual, -kResidualLimit, kResidualLimit) *
                                          static_cast<float>(kResidualScale)));
}

// A weighted residual in the same units. The residual is rounded first, so that an integer weight is the same
// as repeating the row.
inline int64_t weighted_point(int32_t residual, float row_weight, float label_weight) {
    return std::llrint(static_cast<double>(residual) * row_weight * label_weight);
}

struct Row {
    const uint32_t* labels;
    const float* scores;
    int64_t size;
};

using Block = std::tuple<In1<int64_t>, In1<int64_t>, In1<uint32_t>, In1<float>>;  // starts, ends, entries

// Residuals of a row in fixed point.
SPARSELEAF_WIDE inline void fixed_residuals_squared(const uint32_t* labels, const float* scores, int64_t n,
                                                    int32_t* out) {
    for (int64_t e = 0; e < n; ++e) out[e] = fixed_point(residual_of<Loss::kSquared>(labels[e], scores[e]));
}

SPARSELEAF_WIDE inline void fixed_residuals_hinge(const uint32_t* labels, const float* scores, int64_t n,
                                                  int32_t* out) {
    for (int64_t e = 0; e < n; ++e)
        out[e] = fixed_point(residual_of<Loss::kSquaredHinge>(labels[e], scores[e]));
}

template <Loss loss>
const int32_t* fixed_residuals(const Row& row, std::vector<int32_t>& buffer) {
    if (static_cast<int64_t>(buffer.size()) < row.size) buffer.resize(static_cast<size_t>(2 * row.size));
    if constexpr (loss == Loss::kSquared)
        fixed_residuals_squared(row.labels, row.scores, row.size, buffer.data());
    else
        fixed_residuals_hinge(row.labels, row.scores, row.size, buffer.data());
    return buffer.data();
}

class RowBlocks {
  public:
    explicit RowBlocks(const std::vector<Block>& blocks) {
        require(!blocks.empty(), "blocks: must not be empty");
        const auto first = static_cast<int64_t>(std::get<0>(blocks[0]).size());
        require(first >= 1, "blocks: the first block must have rows");
        shift_ = 63 - __builtin_clzll(static_cast<uint64_t>(first));
        if (blocks.size() > 1)
            require(first == int64_t{1} << shift_, "blocks: rows per block must be a power of two");
        else if (first != int64_t{1} << shift_)
            ++shift_;
        for (const auto& [starts, ends, labels, scores] : blocks) {
            require(labels.size() == scores.size(), "blocks: labels and scores must have equal sizes");
            const size_t n = starts.size();
            // arrays may be longer than the block, to allow growth
            require(ends.size() == n && (n == 0 || static_cast<size_t>(ends.data()[n - 1]) <= labels.size()),
                    "blocks: starts and ends must not exceed the number of entries");
            starts_.push_back(starts.data());
            ends_.push_back(ends.data());
            labels_.push_back(labels.data());
            scores_.push_back(scores.data());
            n_rows_ += static_cast<int64_t>(n);
        }
    }

    int64_t n_rows() const { return n_rows_; }

    Row operator[](int64_t row) const {
        const int64_t block = row >> shift_, local = row & ((int64_t{1} << shift_) - 1);
        const int64_t begin = starts_[block][local];
        return {labels_[block] + begin, scores_[block] + begin, ends_[block][local] - begin};
    }

  private:
    int shift_ = 0;
    int64_t n_rows_ = 0;
    std::vector<const int64_t*> starts_, ends_;
    std::vector<const uint32_t*> labels_;
    std::vector<const float*> scores_;
};

// Calls f with the loss as a compile-time constant, so that inner loops have no branch for it.
template <typename F>
auto with_loss(int loss, F&& f) {
    require(loss == 0 || loss == 1, "loss: must be 0 (squared) or 1 (squared hinge)");
    if (loss == static_cast<int>(Loss::kSquared)) return f(std::integral_constant<Loss, Loss::kSquared>{});
    return f(std::integral_constant<Loss, Loss::kSquaredHinge>{});
}

// Calls f with the residual of an entry as a function object, times the label's weight if there is one.
template <typename F>
auto with_residual(int loss, const WeightView& weights, F&& f) {
    return with_loss(loss, [&](auto kind) {
        constexpr Loss of_kind = kind();
        if (!weights.labels)
            return f([](uint32_t entry, float score) { return residual_of<of_kind>(entry, score); });
        return f([&](uint32_t entry, float score) {
            return residual_of<of_kind>(entry, score) * weights.entry(entry);
        });
    });
}

}  // namespace sparseleaf
