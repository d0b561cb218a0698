// Routing of rows to children by margins, common to training and prediction.
#pragma once

#include <cmath>
#include <cstdint>

namespace sparseleaf {

constexpr float kSendAbove = 0.5f;

// Calls use(child) for every child whose margin reaches the threshold or, if there is none, for that of
// largest margin (ties: the first). NaN margins never reach the threshold and are never the largest.
template <typename F>
inline void each_child(const float* margins, int arity, float threshold, F&& use) {
    bool sent = false;
    int best = 0;
    for (int j = 0; j < arity; ++j) {
        if (margins[j] >= threshold) {
            use(j);
            sent = true;
        }
        if (margins[j] > margins[best] || margins[best] != margins[best]) best = j;
    }
    if (!sent) use(best);
}

// The child of largest margin (ties: the first), for routers relative to child 0, whose margin is 0.
inline int best_child(const float* margins, int arity) {
    int best = 0;
    float most = 0.0f;
    for (int j = 1; j < arity; ++j)
        if (margins[j - 1] > most) {
            most = margins[j - 1];
            best = j;
        }
    return best;
}

// Feature weighting of routers: factors of the features, then optional normalisation of rows.
struct RowView {
    const float* feature_weights;  // or null
    bool unit_rows;

    // The factor of a row's entries besides the features' weights.
    float row_scale(const int32_t* indices, const float* data, int64_t begin, int64_t end) const {
        if (!unit_rows) return 1.0f;
        double squares = 0.0;
        for (int64_t e = begin; e < end; ++e) {
            const double x = weighted(indices[e], data[e]);
            squares += x * x;
        }
        return squares > 0.0 ? static_cast<float>(1.0 / std::sqrt(squares)) : 0.0f;
    }

    float weighted(int32_t feature, float x) const {
        return feature_weights ? x * feature_weights[feature] : x;
    }
};

}  // namespace sparseleaf
