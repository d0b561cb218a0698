// The bins of a feature in a node, their best split, and the scan order of categories.
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

// Updates `best` with the best split of the bins of a feature, with missing rows on either side. Returns
// false if no split leaves enough rows on both sides.
bool search_bins(const Scoring& scoring, const Constraint& limits, const Bins& bins, const int32_t* total,
                 int64_t n, double parent, int32_t feature, Work& work, Split* best);

// Writes the scan order to work.order.
void order_categories(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, Work& work);

}  // namespace sparseleaf
