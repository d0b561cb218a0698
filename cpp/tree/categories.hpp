// The bins of a feature in a node, and the scan order of categories.
#pragma once

#include "split.hpp"

namespace sparseleaf {

struct Bins {
    const int32_t* hist;
    const int32_t* counts;
    int64_t step;          // stride of counts
    int64_t n;             // without the bin of missing values
    const int32_t* order;  // scan order of categories; null for ordered bins
    int64_t n_missing;

    int32_t count(int64_t bin) const { return counts[bin * step]; }
};

// Writes the scan order to work.order.
void order_categories(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, Work& work);

}  // namespace sparseleaf
