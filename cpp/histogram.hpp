// Rows added to a node's histogram: what histogram.cpp and sparse_histogram.cpp offer to other kernels.
#pragma once

#include <limits>

#include "residual_row.hpp"

namespace sparseleaf {

constexpr int64_t kCacheBytes = 512 * 1024;  // of a core's second-level cache

// Adds rows to the bins of features[f_begin:f_end]; offsets[f] is the first bin of features[f]. counts: null
// where a column of the residuals counts.
using AddRows = void (*)(const uint8_t* bins, int64_t n_features, const int16_t* residuals, int64_t columns,
                         const int32_t* rows, int64_t n, const int32_t* features, const int32_t* offsets,
                         int64_t f_begin, int64_t f_end, int32_t* hist, int32_t* counts);
AddRows add_rows_of(int64_t columns);

// The bins of sparse features that are not their common bin, a CSR by rows of places.
template <typename Place>
struct Entries {
    const int64_t* indptr;
    const Place* place;
    const int32_t* bin_at;  // bin of the histogram for every place; null: they are the same
};

// Adds the rows' entries with places in [begin, end), to the last one if `end` is kToTheEnd.
constexpr int32_t kToTheEnd = std::numeric_limits<int32_t>::max();
template <typename Place>
using AddEntries = void (*)(const Entries<Place>& entries, const int16_t* residuals, int64_t columns,
                            const int32_t* rows, int64_t n, int32_t begin, int32_t end, int32_t* hist,
                            int32_t* counts);
template <typename Place>
AddEntries<Place> add_entries_of(int64_t columns);

// The bin of the histogram for every place, none where all features are active and they are the same. Those
// of other features lead to the common bin of the active sparse feature before them (of the first, if none
// is), which is what the others leave and forgets what was added to it: to ask every entry whether it counts
// takes longer.
std::vector<int32_t> bins_at_places(const int32_t* first, const int32_t* common, int64_t n_features,
                                    const int32_t* features, int64_t n_active, const int32_t* offsets);

// Σ residuals of rows, added to `total`.
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total);

// Fills the common bin of a sparse feature whose bins are [low, high): what the others leave of the node's n
// rows and their sums. counts: those of bins, `step` numbers from one to the next.
void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n);

}  // namespace sparseleaf
