// Histogram construction for the features of one tree, in parts that threads can share.
#pragma once

#include "histogram.hpp"
#include "node.hpp"

namespace sparseleaf {

// The integer gradients of a tree's rows.
struct Gradients {
    const int16_t* data;
    int64_t columns;
    int64_t count_column;  // holds 1 in every row; -1: row counts are kept in a separate array
};

// Pointers to a histogram. `counts` is null where a gradient column counts the rows.
struct Histogram {
    int32_t *sums, *counts;
};

// A range of features of one kind: positions in LiveFeatures::dense, or groups of sparse features.
struct Part {
    bool sparse;
    int32_t begin, end;
    int64_t effort;
};

struct FeatureRange {
    const int32_t *first, *last;
    const int32_t* begin() const { return first; }
    const int32_t* end() const { return last; }
};

constexpr int64_t kEffortPerBin = 20;  // clearing, subtracting and scanning, in additions (measured)

class Accumulator {
  public:
    Accumulator(const FeatureSet& set, const uint8_t* bins, int64_t n_rows, const SparseColumns& sparse,
                const Gradients& gradients);

    const FeatureSet& set() const { return set_; }
    std::shared_ptr<const LiveFeatures> all() const { return all_; }
    bool counted_apart() const { return gradients_.count_column < 0; }
    int64_t columns() const { return gradients_.columns; }
    bool has_sparse() const { return !all_->sparse.empty(); }

    // Cost of a node's histogram, in additions.
    int64_t effort(int64_t n_rows, int64_t n_dense, int64_t n_bins) const;

    // Parts of about equal effort: at least `min_parts` of each kind of feature where there are enough
    // features, and enough for a part to fit into the cache.
    std::vector<Part> parts(const LiveFeatures& live, int64_t n_rows, int64_t min_parts) const;

    FeatureRange features_of(const LiveFeatures& live, const Part& part) const;

    void clear(const LiveFeatures& live, const Part& part, const Histogram& into) const;
    void add(const LiveFeatures& live, const Part& part, const int32_t* rows, int64_t n,
             const Histogram& into) const;
    void add_histogram(const LiveFeatures& live, const Part& part, const Histogram& from,
                       const Histogram& into) const;
    // Fills the most common bin of sparse features: the node's totals minus all other bins.
    void fill_common_bins(const LiveFeatures& live, const Part& part, const int32_t* total, int64_t n,
                          const Histogram& into) const;
    // Turns a parent's histogram into that of its larger child.
    void subtract(const FeatureRange& features, const Histogram& from, const Histogram& less) const;

    NodeSums sums_of(const Histogram& histogram, const int32_t* total, int64_t n) const {
        return {histogram.sums, counts_of(histogram), count_step(), total, n};
    }
    const Gradients& gradients() const { return gradients_; }

  private:
    int32_t* counts_of(const Histogram& histogram) const {
        return counted_apart() ? histogram.counts : histogram.sums + gradients_.count_column;
    }
    int64_t count_step() const { return counted_apart() ? 1 : gradients_.columns; }
    void add_parts(const std::vector<int64_t>& effort, bool sparse, int64_t min_parts, int64_t n_bins,
                   std::vector<Part>& parts) const;

    // Calls use(first bin, end) for every run of consecutive features.
    template <typename Use>
    void each_run(const FeatureRange& features, Use&& use) const {
        for (const int32_t *f = features.first, *next; f < features.last; f = next) {
            for (next = f + 1; next < features.last && next[0] == next[-1] + 1;) ++next;
            use(int64_t{set_.offsets[*f]}, int64_t{set_.offsets[next[-1] + 1]});
        }
    }

    const FeatureSet& set_;
    const uint8_t* bins_;
    int64_t n_rows_;
    const SparseColumns& sparse_;
    Gradients gradients_;
    TreePlaces places_;
    AddRows add_rows_;
    AddEntries add_entries_;
    std::shared_ptr<const LiveFeatures> all_;
    std::vector<int32_t> group_begins_;  // in all_->sparse
    double entries_per_row_ = 0.0;       // in the groups with a sparse feature of the tree
};

}  // namespace sparseleaf
