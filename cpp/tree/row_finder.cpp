// Split finding from the rows of a node: see row_finder.hpp.
#include "row_finder.hpp"

#include <cmath>
#include <numeric>

namespace sparseleaf {
namespace {

constexpr int64_t kGathered = 32;            // features whose bins are gathered together
constexpr uint64_t kThreshold = 0x74687265;  // purposes of random draws: part of their keys
constexpr uint64_t kSubset = 0x73756273;

// A number in [0, 1) with 53 random bits.
double uniform(uint64_t hash) {
    return static_cast<double>(hash >> 11) * 0x1.0p-53;
}

// Whether leaves with either row alone have the same value: equal gradients or, with weights, equal G/H up to
// the rounding of both.
bool same_value(const Scoring& scoring, const int16_t* a, const int16_t* b) {
    if (std::equal(a, a + scoring.columns, b)) return true;
    if (scoring.hessian == kCount) return false;
    for (int64_t j = 0; j < scoring.outputs; ++j) {
        const int64_t h = scoring.outputs + (scoring.hessian == kShared ? 0 : j);
        const int64_t difference = int64_t{a[j]} * b[h] - int64_t{b[j]} * a[h];
        const int64_t rounding = std::abs(a[j]) + std::abs(a[h]) + std::abs(b[j]) + std::abs(b[h]);
        if (std::abs(difference) > rounding) return false;
    }
    return true;
}

uint64_t draw_of(const Node& node, int32_t feature, uint64_t purpose) {
    return mix64(node.key ^ mix64(purpose << 32 | static_cast<uint64_t>(feature)));
}

}  // namespace

RowFinder::RowFinder(Data data, const Scoring& scoring, const Limits& limits)
    : data_(std::move(data)),
      scoring_(scoring),
      limits_(limits),
      work_(scoring),
      add_rows_(add_rows_of(scoring.columns)),
      sums_(static_cast<size_t>((kByteBins + 1) * scoring.columns + 2 * kWide)),
      counts_(kByteBins + 1),
      total_(static_cast<size_t>(work_.room)) {
    data_.n_node_features =
        std::min<int64_t>(data_.n_node_features, static_cast<int64_t>(data_.features.size()));
}

void RowFinder::find_root(Node& root) {
    find(root);
}

void RowFinder::expand(std::vector<Family>& families, Partition& partition) {
    for (Family& family : families) {
        partition.split_one(family, room_);
        for (Node* child : {family.left, family.right})
            if (family.searched && limits_.may_split(*child)) find(*child);
    }
}

// Finds the best split among the features sampled for the node, those of a random permutation that depends on
// the node's key only. If none of them can split the node, sampling goes on until one can.
void RowFinder::find(Node& node) {
    if (!collect(node)) return;
    const double parent = node_score(scoring_, {}, total_.data(), node.count, work_);
    const auto n_features = static_cast<int64_t>(data_.features.size());
    swapped_.clear();
    bool possible = false;
    for (int64_t seen = 0; seen < n_features && (seen < data_.n_node_features || !possible);) {
        const int64_t n =
            seen < data_.n_node_features ? std::min(kGathered, data_.n_node_features - seen) : 1;
        for (int64_t i = seen; i < seen + n; ++i) swap_feature(node.key, i);
        gather(node, seen, n);
        for (int64_t i = 0; i < n; ++i)
            possible |= search(node, data_.features[seen + i], bins_.data() + i * node.count, parent);
        seen += n;
    }
    for (auto i = static_cast<int64_t>(swapped_.size()); i-- > 0;)
        std::swap(data_.features[i], data_.features[swapped_[i]]);
    node.split.gain = std::max(node.split.gain, 0.0);  // of a split without effect, but for rounding
}

// One step of a Fisher-Yates shuffle.
void RowFinder::swap_feature(uint64_t key, int64_t at) {
    const auto left = static_cast<uint64_t>(data_.features.size()) - static_cast<uint64_t>(at);
    const int64_t with = at + static_cast<int64_t>(mix64(key + static_cast<uint64_t>(at)) % left);
    std::swap(data_.features[at], data_.features[with]);
    swapped_.push_back(with);
}

// Copies and sums the gradients of the node's rows. Returns false if all have the same value: no split has an
// effect.
bool RowFinder::collect(const Node& node) {
    const int64_t m = scoring_.columns, n = node.count;
    const int32_t* rows = data_.rows + node.start;
    const int16_t* first = data_.gradients + rows[0] * m;
    int64_t i = 1;
    while (i < n && same_value(scoring_, first, data_.gradients + rows[i] * m)) ++i;
    if (i == n) return false;
    gradients_.resize(std::max(gradients_.size(), static_cast<size_t>(n * m)));
    for (i = 0; i < n; ++i) std::copy_n(data_.gradients + rows[i] * m, m, gradients_.begin() + i * m);
    if (static_cast<int64_t>(numbers_.size()) < n) {
        numbers_.resize(static_cast<size_t>(n));
        std::iota(numbers_.begin(), numbers_.end(), 0);
        slot_of_row_.resize(static_cast<size_t>(n));
    }
    std::fill(total_.begin(), total_.end(), 0);
    add_up(gradients_.data(), m, numbers_.data(), n, total_.data());
    return true;
}

// The bins of `n` features from `first` on, row by row.
void RowFinder::gather(const Node& node, int64_t first, int64_t n) {
    bins_.resize(std::max(bins_.size(), static_cast<size_t>(n * node.count)));
    const int32_t* rows = data_.rows + node.start;
    const int32_t* features = data_.features.data() + first;
    for (int64_t i = 0; i < node.count; ++i) {
        const uint8_t* row = data_.bins.data + rows[i] * data_.bins.n_columns;
        for (int64_t f = 0; f < n; ++f) bins_[f * node.count + i] = row[features[f]];
    }
}

// Updates the node's split; returns whether the feature can split the node.
bool RowFinder::search(Node& node, int32_t feature, const uint8_t* bins, double parent) {
    if (!occupied_bins(feature, bins, node.count)) return false;
    if (data_.random) return search_random(node, feature, bins, parent);
    add_up_slots(bins, node.count, occupied_.n + occupied_.missing);
    return search_best(node, feature, parent);
}

// Returns false if the feature is constant in the node.
bool RowFinder::occupied_bins(int32_t feature, const uint8_t* bins, int64_t n) {
    uint64_t words[4] = {};
    for (int64_t i = 0; i < n; ++i) words[bins[i] >> 6] |= uint64_t{1} << (bins[i] & 63);
    const int64_t missing = data_.table.missing_bin.data()[feature];
    const uint64_t bit = uint64_t{1} << (missing & 63);
    occupied_.missing = (words[missing >> 6] & bit) != 0;
    words[missing >> 6] &= ~bit;
    occupied_.n = 0;
    for (int64_t w = 0; w < 4; ++w)
        for (uint64_t word = words[w]; word != 0; word &= word - 1) {
            const int64_t bin = 64 * w + __builtin_ctzll(word);
            occupied_.slots[bin] = static_cast<uint8_t>(occupied_.n);
            occupied_.bins[occupied_.n++] = static_cast<int32_t>(bin);
        }
    occupied_.slots[missing] = static_cast<uint8_t>(occupied_.n);
    return occupied_.n + occupied_.missing > 1;
}

void RowFinder::add_up_slots(const uint8_t* bins, int64_t n, int64_t n_slots) {
    const int64_t m = scoring_.columns;
    std::fill_n(sums_.begin(), n_slots * m, 0);
    std::fill_n(counts_.begin(), n_slots, 0);
    for (int64_t i = 0; i < n; ++i) slot_of_row_[i] = occupied_.slots[bins[i]];
    const int32_t zero = 0;
    add_rows_(slot_of_row_.data(), 1, gradients_.data(), m, numbers_.data(), n, &zero, &zero, 0, 1,
              sums_.data(), counts_.data());
}

// All splits between the bins that occur.
bool RowFinder::search_best(Node& node, int32_t feature, double parent) {
    Bins bins{sums_.data(), counts_.data(), 1, occupied_.n, nullptr, 0};
    if (occupied_.missing) bins.n_missing = counts_[occupied_.n];
    const bool categorical = data_.table.categorical.data()[feature] != 0;
    if (categorical) {
        order_categories(bins, scoring_, total_.data(), node.count, work_);
        bins.order = work_.order.data();
    }
    Split best = node.split;
    const bool possible =
        search_bins(scoring_, {}, bins, total_.data(), node.count, parent, feature, work_, &best);
    if (best.feature != feature) return possible;
    node.split = best;
    if (bins.n_missing == 0) node.split.missing_left = 2 * best.left_count > node.count;
    if (!categorical) {
        node.split.bin = middle_bin(feature, best.bin);
        return possible;
    }
    std::fill_n(node.set, kSetBytes, 0);
    for (int64_t i = 0; i <= best.bin; ++i) {
        const int32_t bin = occupied_.bins[work_.order[i]];
        node.set[bin / 8] = static_cast<uint8_t>(node.set[bin / 8] | (1u << (bin % 8)));
    }
    return possible;
}

// One random split; rows with a missing value go to the better side.
bool RowFinder::search_random(Node& node, int32_t feature, const uint8_t* bins, double parent) {
    constexpr int64_t kLeft = 0, kMissing = 1;
    divide_at_random(node, feature);
    add_up_slots(bins, node.count, 3);
    const int64_t m = scoring_.columns;
    int32_t* left = work_.sums.data() + work_.room;
    std::copy_n(sums_.begin() + kLeft * m, m, left);
    bool possible = false;
    for (const bool missing_left : {false, true}) {
        int64_t n_left = counts_[kLeft];
        if (missing_left) {
            if (counts_[kMissing] == 0) break;
            for (int64_t c = 0; c < m; ++c) left[c] += sums_[kMissing * m + c];
            n_left += counts_[kMissing];
        }
        if (n_left < scoring_.min_samples || node.count - n_left < scoring_.min_samples) continue;
        possible = true;
        const double gain =
            split_score(scoring_, {}, left, total_.data(), n_left, node.count, work_) - parent;
        const auto at = static_cast<int32_t>(occupied_.bins[0]);
        const Split split{gain, feature, at, static_cast<int32_t>(n_left), missing_left};
        if (std::isnan(gain) || !better(split, node.split)) continue;
        node.split = split;
        if (counts_[kMissing] == 0) node.split.missing_left = 2 * n_left > node.count;
        std::copy_n(set_, kSetBytes, node.set);
    }
    return possible;
}

// Assigns bins to the left side (slot 0), missing values (1) or the right side (2), and stores the split's
// bin in occupied_.bins[0].
void RowFinder::divide_at_random(const Node& node, int32_t feature) {
    const int64_t n = occupied_.n, missing = data_.table.missing_bin.data()[feature];
    occupied_.slots[missing] = 1;
    const auto assign = [&](int64_t i, bool left) { occupied_.slots[occupied_.bins[i]] = left ? 0 : 2; };
    if (data_.table.categorical.data()[feature]) {
        std::vector<std::pair<uint64_t, int64_t>> order;
        const uint64_t key = draw_of(node, feature, kSubset);
        for (int64_t i = 0; i < n; ++i)
            order.emplace_back(mix64(key ^ static_cast<uint64_t>(occupied_.bins[i])), i);
        std::sort(order.begin(), order.end());
        const uint64_t draw = draw_of(node, feature, kThreshold);
        const int64_t n_left = n == 1 ? 1 : 1 + static_cast<int64_t>(draw % static_cast<uint64_t>(n - 1));
        std::fill_n(set_, kSetBytes, 0);
        for (int64_t i = 0; i < n; ++i) {
            assign(order[i].second, i < n_left);
            const int32_t bin = occupied_.bins[order[i].second];
            if (i < n_left) set_[bin / 8] = static_cast<uint8_t>(set_[bin / 8] | (1u << (bin % 8)));
        }
        return;
    }
    if (n == 1) {  // present against missing values
        assign(0, true);
        occupied_.bins[0] = static_cast<int32_t>(missing - 1);
        return;
    }
    const double* at = data_.positions.of(feature);
    const int32_t low = occupied_.bins[0], high = occupied_.bins[n - 1];
    const double drawn = at[low] + uniform(draw_of(node, feature, kThreshold)) * (at[high] - at[low]);
    const auto above = static_cast<int32_t>(std::upper_bound(at + low + 1, at + high, drawn) - at);
    for (int64_t i = 0; i < n; ++i) assign(i, occupied_.bins[i] < above);
    occupied_.bins[0] = above - 1;
}

// The bin of a split after the bin number `last_left` of those that occur: in the middle between it and the
// next. After the last of them, only missing values go right.
int32_t RowFinder::middle_bin(int32_t feature, int64_t last_left) const {
    if (last_left + 1 == occupied_.n) return data_.table.missing_bin.data()[feature] - 1;
    const double* at = data_.positions.of(feature);
    const int32_t low = occupied_.bins[last_left], high = occupied_.bins[last_left + 1];
    const double middle = at[low] + 0.5 * (at[high] - at[low]);
    return static_cast<int32_t>(std::upper_bound(at + low + 1, at + high, middle) - at) - 1;
}

}  // namespace sparseleaf
