// The features that a tree may split on.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// What is known of all features of a training set, in one place or spread over workers.
struct FeatureTable {
    FeatureTable(In1<int32_t> n_bins, In1<int32_t> missing_bin, In1<uint8_t> has_missing,
                 In1<uint8_t> categorical, In2<int8_t> directions);

    int64_t n() const { return static_cast<int64_t>(n_bins.size()); }
    bool constrained() const { return directions.shape(0) > 0; }

    In1<int32_t> n_bins;       // bins of a histogram, that of missing values among them where rows have it
    In1<int32_t> missing_bin;  // the bin of rows without a value
    In1<uint8_t> has_missing;  // whether there are such rows
    In1<uint8_t> categorical;  // whether bins have no order
    In2<int8_t> directions;    // monotone constraints, one for each output; no rows: none
};

// Some features side by side in a histogram.
struct FeatureSet {
    FeatureSet() = default;
    FeatureSet(const FeatureTable& table, std::vector<int32_t> numbers, int64_t first_held, int64_t step);

    int64_t n_bins_of(int64_t f) const { return offsets[f + 1] - offsets[f]; }
    int64_t n_bins() const { return offsets.back(); }

    int64_t n = 0;
    std::vector<int32_t> numbers;     // in the table, increasing
    std::vector<int32_t> columns;     // of the rows' bins
    std::vector<int32_t> offsets{0};  // first bin of each, and the end of the last
    std::vector<uint8_t> has_missing, categorical;
};

// Draws `count` of the features for a node, those of smallest hash: it depends on the node's key and the
// features' numbers alone.
class FeatureSampler {
  public:
    FeatureSampler(std::vector<int32_t> numbers, int64_t count)
        : numbers_(std::move(numbers)), count_(count) {}

    bool all() const { return count_ >= static_cast<int64_t>(numbers_.size()); }
    int64_t count() const { return count_; }
    int64_t n() const { return static_cast<int64_t>(numbers_.size()); }

    // chosen[f] of the features of `set`, which are some of these.
    void draw(uint64_t key, const FeatureSet& set, std::vector<uint8_t>& chosen) const;

  private:
    std::vector<int32_t> numbers_;
    int64_t count_;
};

}  // namespace sparseleaf
