// Histogram kernels: histogram.cpp for dense features, entries.cpp for sparse ones.
//
// Layout: hist[bin][column], columns innermost. Where padding leaves a free column, it holds 1 in every row,
// so that rows are counted along with the sums, without another memory access.
#pragma once

#include "features.hpp"
#include "residual_row.hpp"

namespace sparseleaf {

constexpr int64_t kCacheBytes = 512 * 1024;  // a core's L2 cache

// Adds rows to the bins of features[f_begin:f_end]; offsets[f] is the first bin of features[f]. counts: null
// where a gradient column counts the rows.
using AddRows = void (*)(const uint8_t* bins, int64_t n_features, const int16_t* residuals, int64_t columns,
                         const int32_t* rows, int64_t n, const int32_t* features, const int32_t* offsets,
                         int64_t f_begin, int64_t f_end, int32_t* hist, int32_t* counts);
AddRows add_rows_of(int64_t columns);

// Adds Σ gradients of the rows to `total`.
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total);

// Element-wise to += more and from -= less.
void add_numbers(int32_t* to, const int32_t* more, int64_t n);
void subtract_numbers(int32_t* from, const int32_t* less, int64_t n);

// Sparse features: those with the same bin in most rows. All other (row, feature) pairs are entries of a CSR
// matrix by rows; an entry is a place, the index of a bin among all bins of all features. Entries of a row
// are divided into groups of consecutive features, so that threads can share a row.
class SparseColumns {
  public:
    // common: the most common bin of a sparse feature, -1 for dense features.
    SparseColumns(const uint8_t* bins, int64_t n_rows, std::vector<int32_t> n_bins,
                  std::vector<int32_t> common, int n_threads);

    bool sparse(int32_t column) const { return common[column] >= 0; }
    int64_t n_groups() const { return static_cast<int64_t>(groups.size()) - 1; }

    std::vector<int32_t> common;
    std::vector<int32_t> first;      // the place of every column's first bin, and the end
    std::vector<int32_t> groups;     // first column of every group, and the end
    std::vector<int64_t> n_entries;  // of every group
    std::unique_ptr<int64_t[]> indptr;
    // one of the two: 16 bits if they suffice, since reading places is half of the cost
    std::unique_ptr<uint16_t[]> short_places;
    std::unique_ptr<int32_t[]> long_places;

  private:
    template <typename Place>
    std::unique_ptr<Place[]> collect(const uint8_t* bins, int64_t n_rows, int n_threads);
};

// The map from places to the histogram of one tree.
//
// bin_at: the histogram bin of every place; empty if the tree uses all features, when the two are equal.
// Places of unused features map to the common bin of a used sparse feature of the same group, which is
// overwritten later: cheaper than a test per entry. walked: the groups with a sparse feature of the tree; all
// groups if the tree uses all features.
struct TreePlaces {
    TreePlaces(const SparseColumns& columns, const FeatureSet& features);

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

// Fills the common bin of a sparse feature with bins [low, high): the node's n rows and their sums minus all
// other bins. counts has stride `step`.
void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n);

}  // namespace sparseleaf
