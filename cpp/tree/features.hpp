// Feature metadata and feature sampling.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// Metadata of all features, over all workers.
struct FeatureTable {
    FeatureTable(In1<int32_t> n_bins, In1<int32_t> missing_bin, In1<uint8_t> has_missing,
                 In1<uint8_t> categorical, In2<int8_t> directions);

    int64_t n() const { return static_cast<int64_t>(n_bins.size()); }
    bool constrained() const { return directions.shape(0) > 0; }

    In1<int32_t> n_bins;       // histogram bins, including the bin of missing values if has_missing
    In1<int32_t> missing_bin;  // the bin of missing values
    In1<uint8_t> has_missing;  // whether any row has a missing value
    In1<uint8_t> categorical;  // whether the feature is categorical
    In2<int8_t> directions;    // monotone constraints per output; no rows if there are none
};

// A subset of the features, with their layout in a histogram.
struct FeatureSet {
    FeatureSet() = default;
    FeatureSet(const FeatureTable& table, std::vector<int32_t> numbers, int64_t first_feature, int64_t step);

    int64_t n_bins_of(int64_t f) const { return offsets[f + 1] - offsets[f]; }
    int64_t n_bins() const { return offsets.back(); }

    int64_t n = 0;
    std::vector<int32_t> numbers;     // indices into the table, increasing
    std::vector<int32_t> columns;     // columns of the bin matrix
    std::vector<int32_t> offsets{0};  // first bin of each feature, and the end
    std::vector<uint8_t> has_missing, categorical;
};

// Samples `count` features per node, those of smallest hash: the sample depends only on the node's key and
// the features' indices.
class FeatureSampler {
  public:
    FeatureSampler(std::vector<int32_t> numbers, int64_t count)
        : numbers_(std::move(numbers)), count_(count) {}

    bool all() const { return count_ >= static_cast<int64_t>(numbers_.size()); }
    int64_t count() const { return count_; }
    int64_t n() const { return static_cast<int64_t>(numbers_.size()); }

    // Sets chosen[f] for the features of `set`, a subset of the sampler's.
    void draw(uint64_t key, const FeatureSet& set, std::vector<uint8_t>& chosen) const;

  private:
    std::vector<int32_t> numbers_;
    int64_t count_;
};

}  // namespace sparseleaf
