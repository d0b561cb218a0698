// Rows added to a node's histogram: what histogram.cpp and entries.cpp offer to the split search.
//
// Layout: hist[bin][column], columns innermost. Where padding leaves a column free, it holds 1 in every row,
// so that a row's count comes with its sums and costs no memory access of its own.
#pragma once

#include "features.hpp"
#include "residual_row.hpp"

namespace sparseleaf {

constexpr int64_t kCacheBytes = 512 * 1024;  // of a core's second-level cache

// Adds rows to the bins of features[f_begin:f_end]; offsets[f] is the first bin of features[f]. counts: null
// where a column of the residuals counts.
using AddRows = void (*)(const uint8_t* bins, int64_t n_features, const int16_t* residuals, int64_t columns,
                         const int32_t* rows, int64_t n, const int32_t* features, const int32_t* offsets,
                         int64_t f_begin, int64_t f_end, int32_t* hist, int32_t* counts);
AddRows add_rows_of(int64_t columns);

// Σ residuals of rows, added to `total`.
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total);

// n numbers added to others, or taken away from them.
void add_numbers(int32_t* to, const int32_t* more, int64_t n);
void subtract_numbers(int32_t* from, const int32_t* less, int64_t n);

// Features that have the same bin in most rows, as words do: the other bins, a CSR by rows of places (a bin
// of a feature has one place). Neighbouring features are a group, and every row's entries are parted by
// groups, so that threads can share a row.
class SparseColumns {
  public:
    // common: the common bin of a sparse feature, -1 for the others; if none is sparse no row is looked at.
    SparseColumns(const uint8_t* bins, int64_t n_rows, std::vector<int32_t> n_bins,
                  std::vector<int32_t> common, int n_threads);

    bool sparse(int32_t column) const { return common[column] >= 0; }
    int64_t n_groups() const { return static_cast<int64_t>(groups.size()) - 1; }

    std::vector<int32_t> common;
    std::vector<int32_t> first;      // the place of every column's first bin, and the end
    std::vector<int32_t> groups;     // columns where groups begin, and the end of the last
    std::vector<int64_t> n_entries;  // of every group
    std::unique_ptr<int64_t[]> indptr;
    // of one type: 16 bits where they do, for reading them is half of what a row costs
    std::unique_ptr<uint16_t[]> short_places;
    std::unique_ptr<int32_t[]> long_places;

  private:
    template <typename Place>
    std::unique_ptr<Place[]> collect(const uint8_t* bins, int64_t n_rows, int n_threads);
};

// Where the entries of a tree's features go.
//
// bin_at: the bin of the histogram for every place, none where all features are used and they are the same.
// Those of other features lead to the common bin of a sparse feature of the same group, which is what the
// others leave and forgets what was added to it: to ask every entry whether it counts takes longer.
// walked: the groups that have a sparse feature of the tree; all of them where all features are used.
struct PlacesOfATree {
    PlacesOfATree(const SparseColumns& columns, const FeatureSet& features);

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

// Adds the rows' entries in the groups [begin, end).
using AddEntries = void (*)(const SparseColumns& entries, const int32_t* bin_at, const int16_t* residuals,
                            int64_t columns, const int32_t* rows, int64_t n, int64_t begin, int64_t end,
                            int32_t* hist, int32_t* counts);
AddEntries add_entries_of(int64_t columns, const SparseColumns& entries);

// Fills the common bin of a sparse feature whose bins are [low, high): what the others leave of the node's n
// rows and their sums. counts: those of bins, `step` numbers from one to the next.
void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n);

}  // namespace sparseleaf
