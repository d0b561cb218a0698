// The sparse state of the training rows: what each row's labels are and what the trees say so far.
//
// A row is a list of entries sorted by label; an entry is a label with its truth in the top bit, and its
// score. It holds exactly the labels that are true or that some leaf has given a value, so residuals need no
// storage:
//
//     row 7:  labels  [3*, 8, 21*]      (* top bit set: the label is true)
//             scores  [.4, .1,  0 ]     residual of the squared loss: [.6, -.1, 1]
//
// Rows live in blocks of a power-of-two size, each a CSR of its own, so that a block can be rebuilt while
// the rest stays: peak memory is what is non-zero plus one block.
#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr uint32_t kTruth = 0x80000000u;
constexpr uint32_t kLabelMask = 0x7fffffffu;

enum class Loss : int { kSquared = 0, kSquaredHinge = 1 };

// Full residuals are summed in units of 2^-24, a float32's own precision at 1. One fits 32 bits up to 127,
// and the sum of 2^31 of them 64.
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

inline int32_t fixed_point(float residual) {
    // the scale is a power of two, so the product is exact
    return static_cast<int32_t>(std::rint(std::clamp(residual, -kResidualLimit, kResidualLimit) *
                                          static_cast<float>(kResidualScale)));
}

struct Row {
    const uint32_t* labels;
    const float* scores;
    int64_t size;
};

using Block = std::tuple<In1<int64_t>, In1<uint32_t>, In1<float>>;

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
        require(!blocks.empty(), "blocks: at least one is needed");
        const int64_t first = static_cast<int64_t>(std::get<0>(blocks[0]).size()) - 1;
        require(first >= 1, "blocks: the first block has no rows");
        shift_ = 63 - __builtin_clzll(static_cast<uint64_t>(first));
        if (blocks.size() > 1)
            require(first == int64_t{1} << shift_, "blocks: rows of a block must be a power of two");
        else if (first != int64_t{1} << shift_)
            ++shift_;
        for (const auto& [indptr, labels, scores] : blocks) {
            require(labels.size() == scores.size(), "blocks: labels and scores differ in size");
            // arrays may be longer than what is in use: a block has room to grow
            require(static_cast<size_t>(indptr.data()[indptr.size() - 1]) <= labels.size(),
                    "blocks: indptr ends behind the entries");
            indptr_.push_back(indptr.data());
            labels_.push_back(labels.data());
            scores_.push_back(scores.data());
            n_rows_ += static_cast<int64_t>(indptr.size()) - 1;
        }
    }

    int64_t n_rows() const { return n_rows_; }

    Row operator[](int64_t row) const {
        const int64_t block = row >> shift_, local = row & ((int64_t{1} << shift_) - 1);
        const int64_t begin = indptr_[block][local];
        return {labels_[block] + begin, scores_[block] + begin, indptr_[block][local + 1] - begin};
    }

  private:
    int shift_ = 0;
    int64_t n_rows_ = 0;
    std::vector<const int64_t*> indptr_;
    std::vector<const uint32_t*> labels_;
    std::vector<const float*> scores_;
};

// Calls f with the loss as a compile-time constant, so that inner loops carry no branch for it.
template <typename F>
auto with_loss(int loss, F&& f) {
    require(loss == 0 || loss == 1, "loss: 0 (squared) or 1 (squared hinge)");
    if (loss == static_cast<int>(Loss::kSquared)) return f(std::integral_constant<Loss, Loss::kSquared>{});
    return f(std::integral_constant<Loss, Loss::kSquaredHinge>{});
}

}  // namespace sparseleaf
