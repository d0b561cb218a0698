// The bins of a feature in a node, and the order of those that are categories.
#pragma once

#include "split.hpp"

namespace sparseleaf {

struct Bins {
    const int32_t* hist;
    const int32_t* counts;
    int64_t step;          // from a bin's count to the next
    int64_t n;             // without that of missing rows
    const int32_t* order;  // categories: the order to scan in; else null
    int64_t n_missing;

    int32_t count(int64_t bin) const { return counts[bin * step]; }
};

// The order goes to work.order.
void order_categories(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, Work& work);

}  // namespace sparseleaf
