// Rows added to a node's histogram: what histogram.cpp and sparse_histogram.cpp offer to other kernels.
#pragma once

#include "residual_row.hpp"

namespace sparseleaf {

constexpr int64_t kCacheBytes = 512 * 1024;  // of a core's second-level cache

// Adds rows to the bins of features[f_begin:f_end]; offsets[f] is the first bin of features[f]. counts: null
// where a column of the residuals counts.
using AddRows = void (*)(const uint8_t* bins, int64_t n_features, const int16_t* residuals, int64_t columns,
                         const int32_t* rows, int64_t n, const int32_t* features, const int32_t* offsets,
                         int64_t f_begin, int64_t f_end, int32_t* hist, int32_t* counts);
AddRows add_rows_of(int64_t columns);

// The bins of sparse features that are not their common bin, a CSR by rows of places. Neighbouring features
// are a group, and every row's entries are parted by groups, so that threads can share a row.
template <typename Place>
struct Entries {
    const int64_t* indptr;  // n_groups for every row, and the end of the last
    const Place* place;
    int64_t n_groups;
    const int32_t* bin_at;  // bin of the histogram for every place; null: they are the same
};

// common: the common bin of a sparse feature, -1 for the others.
inline bool has_sparse(const In1<int32_t>& common) {
    return std::any_of(common.data(), common.data() + common.size(), [](int32_t bin) { return bin >= 0; });
}

// The row pointers of entries; that they rise is known where they are made, and takes long to find out.
inline void require_entries(const In1<int64_t>& indptr, size_t n_entries, int64_t n_lines) {
    require(static_cast<int64_t>(indptr.size()) == n_lines + 1 && indptr.data()[0] == 0 &&
                indptr.data()[n_lines] == static_cast<int64_t>(n_entries),
            "indptr: a number for every row and group, from 0 to the number of entries");
}

// Adds the rows' entries in the groups [begin, end).
template <typename Place>
using AddEntries = void (*)(const Entries<Place>& entries, const int16_t* residuals, int64_t columns,
                            const int32_t* rows, int64_t n, int64_t begin, int64_t end, int32_t* hist,
                            int32_t* counts);
template <typename Place>
AddEntries<Place> add_entries_of(int64_t columns);

// Where the entries of a tree's features go.
//
// bin_at: the bin of the histogram for every place, none where all features are active and they are the same.
// Those of other features lead to the common bin of an active sparse feature of the same group, which is what
// the others leave and forgets what was added to it: to ask every entry whether it counts takes longer.
// walked: the groups that have an active sparse feature; all of them where all features are active.
struct PlacesOfATree {
    PlacesOfATree(const In1<int32_t>& groups, const In1<int32_t>& first, const In1<int32_t>& common,
                  const In1<int32_t>& features, const In1<int32_t>& offsets);

    // Calls use(from, to) for every run of walked groups in [begin, end).
    template <typename Use>
    void each_run(int64_t begin, int64_t end, Use&& use) const {
        for (int64_t to; begin < end; begin = to) {
            for (to = begin; to < end && walked[to] == walked[begin];) ++to;
            if (walked[begin]) use(begin, to);
        }
    }

    std::vector<int32_t> bin_at;
    std::vector<uint8_t> walked;
};

// Σ residuals of rows, added to `total`.
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total);

// Fills the common bin of a sparse feature whose bins are [low, high): what the others leave of the node's n
// rows and their sums. counts: those of bins, `step` numbers from one to the next.
void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n);

}  // namespace sparseleaf
