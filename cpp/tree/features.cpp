// Feature metadata and feature sampling: see features.hpp.
#include "features.hpp"

#include "goes_left.hpp"

namespace sparseleaf {

FeatureTable::FeatureTable(In1<int32_t> n_bins, In1<int32_t> missing_bin, In1<uint8_t> has_missing,
                           In1<uint8_t> categorical, In2<int8_t> directions)
    : n_bins(std::move(n_bins)),
      missing_bin(std::move(missing_bin)),
      has_missing(std::move(has_missing)),
      categorical(std::move(categorical)),
      directions(std::move(directions)) {
    const size_t n = this->n_bins.size();
    require(this->missing_bin.size() == n && this->has_missing.size() == n && this->categorical.size() == n,
            "n_bins, missing_bin, has_missing, categorical: must have one entry per feature");
    require(this->directions.shape(0) == 0 || this->directions.shape(0) == n,
            "directions: must have one row per feature, or none");
    for (size_t f = 0; f < n; ++f) {
        const int32_t size = this->n_bins.data()[f];
        require(size >= 1 + (this->has_missing.data()[f] != 0),
                "n_bins: must be at least 1, and 2 for features with missing values");
        require(!this->categorical.data()[f] || size <= 8 * kSetBytes,
                "categorical: must have at most 256 bins");
    }
}

FeatureSet::FeatureSet(const FeatureTable& table, std::vector<int32_t> given, int64_t first_feature,
                       int64_t step)
    : n(static_cast<int64_t>(given.size())), numbers(std::move(given)) {
    int64_t n_bins = 0;
    for (const int32_t f : numbers) {
        columns.push_back(static_cast<int32_t>((f - first_feature) / step));
        n_bins += table.n_bins.data()[f];
        require(n_bins <= INT32_MAX, "n_bins: must sum to less than 2^31");
        offsets.push_back(static_cast<int32_t>(n_bins));
        has_missing.push_back(table.has_missing.data()[f]);
        categorical.push_back(table.categorical.data()[f]);
    }
}

void FeatureSampler::draw(uint64_t key, const FeatureSet& set, std::vector<uint8_t>& chosen) const {
    std::vector<uint64_t> hashes(numbers_.size());
    const auto hash_of = [&](int32_t number) { return mix64(key ^ static_cast<uint64_t>(number)); };
    for (size_t i = 0; i < numbers_.size(); ++i) hashes[i] = hash_of(numbers_[i]);
    // mix64 is a bijection: hashes are distinct
    std::nth_element(hashes.begin(), hashes.begin() + (count_ - 1), hashes.end());
    const uint64_t last = hashes[count_ - 1];
    chosen.resize(static_cast<size_t>(set.n));
    for (int64_t f = 0; f < set.n; ++f) chosen[f] = hash_of(set.numbers[f]) <= last;
}

}  // namespace sparseleaf
