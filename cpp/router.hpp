// How margins send a row to children: shared by training and prediction, which must agree.
#pragma once

#include <cstdint>

namespace sparseleaf {

constexpr float kSendAbove = 0.5f;

// Calls use(child) for every child whose margin reaches the threshold, or else for the one of largest margin,
// the first of equals. (Margins that are no numbers reach nothing and are never the largest.)
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

}  // namespace sparseleaf
