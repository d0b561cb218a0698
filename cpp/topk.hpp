// The k best of a list of scored labels.
#pragma once

#include <limits>

#include "common.hpp"

namespace sparseleaf {

struct Scored {
    float score;
    int32_t label;
};

inline bool ranks_before(const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.label < b.label;
}

// Writes the k best, best first, padded with label -1 and score -inf; reorders the list.
inline void write_topk(std::vector<Scored>& candidates, int64_t k, int32_t* labels, float* scores) {
    const int64_t kept = std::min<int64_t>(k, static_cast<int64_t>(candidates.size()));
    std::partial_sort(candidates.begin(), candidates.begin() + kept, candidates.end(), ranks_before);
    for (int64_t j = 0; j < kept; ++j) {
        labels[j] = candidates[j].label;
        scores[j] = candidates[j].score;
    }
    for (int64_t j = kept; j < k; ++j) {
        labels[j] = -1;
        scores[j] = -std::numeric_limits<float>::infinity();
    }
}

}  // namespace sparseleaf
