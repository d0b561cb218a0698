// Split finding from the rows of a node: see row_finder.hpp.
#include "row_finder.hpp"

#include <cmath>
#include <cstring>
#include <numeric>

namespace sparseleaf {
namespace {

constexpr uint8_t kLeft = 0, kMissing = 1, kRight = 2;  // slots of a random split
constexpr uint64_t kThreshold = 0x74687265;             // purposes of random draws: part of their keys
constexpr uint64_t kSubset = 0x73756273;
constexpr int64_t kFewColumns = 3;  // with more of them, a vector has a row's gradients

// A number in [0, 1) with 53 random bits.
double uniform(uint64_t hash) {
    return static_cast<double>(hash >> 11) * 0x1.0p-53;
}

// Whether two rows would have the same leaf value: equal gradients or, with weights, equal G/H up to
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

constexpr int64_t kTogether = 64;  // bins of one vector

// Rows with those that fill the last vector.
int64_t room_for(int64_t n) {
    return (n + kTogether - 1) / kTogether * kTogether;
}

// Copies the bins of some rows, and more of them up to a multiple of kTogether. Most nodes have few rows:
// without the others, a vector would never be full.
SPARSELEAF_WIDE
BinRange copy_bins(const uint8_t* column, const int32_t* rows, int64_t n, uint8_t missing, uint8_t* bins) {
    for (int64_t i = 0; i < n; ++i) bins[i] = column[rows[i]];
    const uint8_t first = bins[0];
    for (int64_t i = n; i % kTogether != 0; ++i) bins[i] = first;
    uint8_t lows[kTogether], highs[kTogether], present[kTogether];
    for (int64_t c = 0; c < kTogether; ++c) lows[c] = first, highs[c] = first, present[c] = 0;
    for (int64_t i = 0; i < n; i += kTogether)
        for (int64_t c = 0; c < kTogether; ++c) {
            const uint8_t bin = bins[i + c];
            lows[c] = std::min(lows[c], bin);
            highs[c] = std::max(highs[c], bin);
            present[c] = std::max(present[c], bin == missing ? uint8_t{0} : bin);
        }
    uint8_t low = first, high = first, highest_present = 0;
    for (int64_t c = 0; c < kTogether; ++c) {
        low = std::min(low, lows[c]);
        high = std::max(high, highs[c]);
        highest_present = std::max(highest_present, present[c]);
    }
    return {low, highest_present, high == missing, low == high};  // missing values have the largest bin
}

// Σ of the gradients of the rows that belong to a side; returns their number.
template <int kBlock, typename Belongs>
[[gnu::always_inline]] inline int64_t sum_side(const int16_t* gradients, int64_t m, int64_t n,
                                               Belongs&& belongs, int32_t* sums) {
    int64_t count = 0;
    for (int64_t first = 0; first < m; first += kBlock) {
        int32_t block[kBlock] = {};
        count = 0;
        for (int64_t i = 0; i < n; ++i) {
            const int32_t mask = -static_cast<int32_t>(belongs(i));
            count -= mask;
            for (int c = 0; c < kBlock; ++c) block[c] += gradients[i * m + first + c] & mask;
        }
        std::copy_n(block, kBlock, sums + first);
    }
    return count;
}

template <typename Belongs>
[[gnu::always_inline]] inline int64_t sum_side_of(const int16_t* gradients, int64_t m, int64_t n,
                                                  Belongs&& belongs, int32_t* sums) {
    return m % 16 == 0  ? sum_side<16>(gradients, m, n, belongs, sums)
           : m % 8 == 0 ? sum_side<8>(gradients, m, n, belongs, sums)
                        : sum_side<4>(gradients, m, n, belongs, sums);
}

SPARSELEAF_WIDE
int64_t sum_below(const int16_t* gradients, int64_t m, const uint8_t* bins, int64_t n, uint8_t above,
                  int32_t* sums) {
    return sum_side_of(gradients, m, n, [&](int64_t i) { return bins[i] < above; }, sums);
}

// The same of gradients by column, `room` apart, of which only a few are used: a vector has many rows. Bins
// and gradients are readable up to a multiple of kTogether, where gradients are 0 and bins those of the first
// row.
SPARSELEAF_WIDE
int64_t sum_columns_below(const int16_t* columns, int64_t n_columns, int64_t room, const uint8_t* bins,
                          int64_t n, uint8_t above, int32_t* sums) {
    constexpr int64_t kRows = 16;
    int32_t count[kRows] = {};
    int64_t i = 0;
    for (; i < n; i += kRows)
        for (int64_t r = 0; r < kRows; ++r) count[r] += bins[i + r] < above;
    for (int64_t c = 0; c < n_columns; ++c) {
        const int16_t* column = columns + c * room;
        int32_t sum[kRows] = {};
        for (int64_t first = 0; first < n; first += kRows)
            for (int64_t r = 0; r < kRows; ++r)
                sum[r] += column[first + r] & -static_cast<int32_t>(bins[first + r] < above);
        sums[c] = std::accumulate(sum, sum + kRows, 0);
    }
    return std::accumulate(count, count + kRows, int64_t{0}) - (bins[0] < above ? i - n : 0);
}

SPARSELEAF_WIDE
int64_t sum_equal(const int16_t* gradients, int64_t m, const uint8_t* slots, int64_t n, uint8_t slot,
                  int32_t* sums) {
    return sum_side_of(gradients, m, n, [&](int64_t i) { return slots[i] == slot; }, sums);
}

}  // namespace

void ColumnPartition::split(const std::vector<Family*>& families) {
    std::vector<int32_t> room;
    for (const Family* family : families) split_one(*family, room);
}

void ColumnPartition::split_one(const Family& family, std::vector<int32_t>& room) {
    Node &parent = *family.parent, &left = *family.left, &right = *family.right;
    const Split& split = parent.split;
    const bool categorical = table_.categorical.data()[split.feature] != 0;
    SplitRows rows{parent.start,
                   parent.end,
                   0,
                   0,
                   split.bin,
                   table_.missing_bin.data()[split.feature],
                   split.missing_left,
                   categorical ? parent.set : nullptr};
    partition_node<uint8_t>({bins_.of(split.feature), 1}, rows_, rows, room);
    require(rows.middle - parent.start == left.count, "bins: the partition must match the split");
    left.start = parent.start;
    left.end = right.start = rows.middle;
    right.end = parent.end;
}

RowFinder::RowFinder(Data data, const Scoring& scoring, const Limits& limits)
    : data_(std::move(data)),
      scoring_(scoring),
      limits_(limits),
      work_(scoring),
      add_rows_(add_rows_of(scoring.columns)),
      sums_(static_cast<size_t>((kByteBins + 1) * scoring.columns + 2 * kWide)),
      counts_(kByteBins + 1),
      total_(static_cast<size_t>(work_.room)) {
    n_used_ = scoring.outputs + (scoring.hessian == kCount    ? 0
                                 : scoring.hessian == kShared ? 1
                                                              : scoring.outputs);
    by_column_ = data_.random && n_used_ <= kFewColumns;
    std::fill(work_.sums.begin(), work_.sums.end(), 0);  // columns that are not used stay 0
    data_.n_node_features =
        std::min<int64_t>(data_.n_node_features, static_cast<int64_t>(data_.features.size()));
}

void RowFinder::find_root(Node& root) {
    find(root, nullptr);
}

void RowFinder::expand(std::vector<Family>& families, Partition& partition) {
    for (Family& family : families) {
        partition.split_one(family, room_);
        for (Node* child : {family.left, family.right})
            if (family.searched && limits_.may_split(*child)) find(*child, family.parent);
        family.parent->live = nullptr;
    }
}

void RowFinder::find(Node& node, const Node* parent) {
    if (!collect(node)) return;
    const double score = node_score(scoring_, {}, total_.data(), node.count, work_);
    if (data_.n_node_features == static_cast<int64_t>(data_.features.size()))
        search_all(node, parent, score);
    else
        search_sample(node, score);
    node.split.gain = std::max(node.split.gain, 0.0);  // of a split without effect, but for rounding
}

// Searches the features that are not constant in the parent, and keeps those that are not constant in the
// node.
void RowFinder::search_all(Node& node, const Node* parent, double score) {
    const std::vector<int32_t>& features =
        parent != nullptr && parent->live ? parent->live->dense : data_.features;
    auto live = std::make_shared<LiveFeatures>();
    for (const int32_t feature : features) {
        if (!gather(node, feature)) continue;
        live->dense.push_back(feature);
        search(node, feature, score);
    }
    if (live->dense.size() == features.size() && parent != nullptr && parent->live)
        node.live = parent->live;
    else
        node.live = live;
}

// Searches the features sampled for the node, those of a random permutation that depends on its key only. If
// none of them can split the node, sampling goes on until one can.
void RowFinder::search_sample(Node& node, double score) {
    const auto n_features = static_cast<int64_t>(data_.features.size());
    swapped_.clear();
    bool possible = false;
    for (int64_t i = 0; i < n_features && (i < data_.n_node_features || !possible); ++i) {
        swap_feature(node.key, i);
        if (gather(node, data_.features[i])) possible |= search(node, data_.features[i], score);
    }
    for (auto i = static_cast<int64_t>(swapped_.size()); i-- > 0;)
        std::swap(data_.features[i], data_.features[swapped_[i]]);
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
        bins_.resize(static_cast<size_t>(n + kTogether));
    }
    if (by_column_) {
        columns_.assign(static_cast<size_t>(n_used_ * room_for(n)), 0);
        for (int64_t c = 0; c < n_used_; ++c)
            for (i = 0; i < n; ++i) columns_[c * room_for(n) + i] = gradients_[i * m + c];
    }
    std::fill(total_.begin(), total_.end(), 0);
    add_up(gradients_.data(), m, numbers_.data(), n, total_.data());
    return true;
}

// Copies the feature's bins of the node's rows. Returns false if the feature is constant in the node.
bool RowFinder::gather(const Node& node, int32_t feature) {
    const auto missing = static_cast<uint8_t>(data_.table.missing_bin.data()[feature]);
    range_ = copy_bins(data_.bins.of(feature), data_.rows + node.start, node.count, missing, bins_.data());
    return !range_.constant;
}

// Updates the node's split; returns whether the feature can split the node.
bool RowFinder::search(Node& node, int32_t feature, double score) {
    if (data_.random) return search_random(node, feature, score);
    find_occupied(feature, node.count);
    add_up_slots(node.count);
    return search_best(node, feature, score);
}

void RowFinder::find_occupied(int32_t feature, int64_t n) {
    alignas(64) uint8_t seen[kByteBins] = {};
    for (int64_t i = 0; i < n; ++i) seen[bins_[i]] = 1;
    const int32_t missing = data_.table.missing_bin.data()[feature];
    occupied_.missing = seen[missing] != 0;
    seen[missing] = 0;
    occupied_.n = 0;
    for (int32_t first = 0; first < kByteBins; first += 8) {
        uint64_t word;
        std::memcpy(&word, seen + first, sizeof word);
        for (; word != 0; word &= word - 1) {  // bytes are 0 or 1: one bit per bin
            const int32_t bin = first + __builtin_ctzll(word) / 8;
            occupied_.slots[bin] = static_cast<uint8_t>(occupied_.n);
            occupied_.bins[occupied_.n++] = bin;
        }
    }
    occupied_.slots[missing] = static_cast<uint8_t>(occupied_.n);
}

// Sums the gradients and counts the rows of every bin that occurs.
void RowFinder::add_up_slots(int64_t n) {
    const int64_t m = scoring_.columns, n_slots = occupied_.n + occupied_.missing;
    std::fill_n(sums_.begin(), n_slots * m, 0);
    std::fill_n(counts_.begin(), n_slots, 0);
    for (int64_t i = 0; i < n; ++i) slot_of_row_[i] = occupied_.slots[bins_[i]];
    const int32_t zero = 0;
    add_rows_(slot_of_row_.data(), 1, gradients_.data(), m, numbers_.data(), n, &zero, &zero, 0, 1,
              sums_.data(), counts_.data());
}

// All splits between the bins that occur.
bool RowFinder::search_best(Node& node, int32_t feature, double score) {
    Bins bins{sums_.data(), counts_.data(), 1, occupied_.n, nullptr, 0};
    if (occupied_.missing) bins.n_missing = counts_[occupied_.n];
    const bool categorical = data_.table.categorical.data()[feature] != 0;
    if (categorical) {
        order_categories(bins, scoring_, total_.data(), node.count, work_);
        bins.order = work_.order.data();
    }
    Split best = node.split;
    const bool possible =
        search_bins(scoring_, {}, bins, total_.data(), node.count, score, feature, work_, &best);
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
bool RowFinder::search_random(Node& node, int32_t feature, double score) {
    const bool categorical = data_.table.categorical.data()[feature] != 0;
    const auto missing_bin = static_cast<uint8_t>(data_.table.missing_bin.data()[feature]);
    const int64_t m = scoring_.columns, n = node.count;
    int32_t *left = work_.sums.data() + work_.room, *missing = sums_.data(), bin = 0;
    int64_t n_left, n_missing = 0;
    if (categorical) {
        divide_categories(node, feature);
        n_left = sum_equal(gradients_.data(), m, slot_of_row_.data(), n, kLeft, left);
    } else {
        bin = divide_bins(node, feature);
        const auto above = static_cast<uint8_t>(bin + 1);
        n_left = by_column_
                     ? sum_columns_below(columns_.data(), n_used_, room_for(n), bins_.data(), n, above, left)
                     : sum_below(gradients_.data(), m, bins_.data(), n, above, left);
    }
    if (range_.missing) n_missing = sum_equal(gradients_.data(), m, bins_.data(), n, missing_bin, missing);
    bool possible = false;
    for (const bool missing_left : {false, true}) {
        if (missing_left) {
            if (n_missing == 0) break;
            for (int64_t c = 0; c < m; ++c) left[c] += missing[c];
            n_left += n_missing;
        }
        if (n_left < scoring_.min_samples || n - n_left < scoring_.min_samples) continue;
        possible = true;
        const double gain = split_score(scoring_, {}, left, total_.data(), n_left, n, work_) - score;
        const Split split{gain, feature, bin, static_cast<int32_t>(n_left), missing_left};
        if (std::isnan(gain) || !better(split, node.split)) continue;
        node.split = split;
        if (n_missing == 0) node.split.missing_left = 2 * n_left > n;
        if (categorical) std::copy_n(set_, kSetBytes, node.set);
    }
    return possible;
}

// Divides ordered bins at a threshold; returns the last bin on the left.
int32_t RowFinder::divide_bins(const Node& node, int32_t feature) const {
    if (range_.low >= range_.high) return data_.table.missing_bin.data()[feature] - 1;  // present and missing
    const double* at = data_.positions.of(feature);
    const double width = at[range_.high] - at[range_.low];
    const double drawn = at[range_.low] + uniform(draw_of(node, feature, kThreshold)) * width;
    return static_cast<int32_t>(std::upper_bound(at + range_.low + 1, at + range_.high, drawn) - at) - 1;
}

// Divides categories at random: a prefix of random length of a random order goes left.
void RowFinder::divide_categories(const Node& node, int32_t feature) {
    find_occupied(feature, node.count);
    const int64_t n = occupied_.n;
    std::vector<std::pair<uint64_t, int32_t>> order;
    const uint64_t key = draw_of(node, feature, kSubset);
    for (int64_t i = 0; i < n; ++i)
        order.emplace_back(mix64(key ^ static_cast<uint64_t>(occupied_.bins[i])), occupied_.bins[i]);
    std::sort(order.begin(), order.end());
    const uint64_t draw = draw_of(node, feature, kThreshold);
    const int64_t n_left = n == 1 ? 1 : 1 + static_cast<int64_t>(draw % static_cast<uint64_t>(n - 1));
    std::fill_n(set_, kSetBytes, 0);
    for (int64_t i = 0; i < n; ++i) {
        const int32_t bin = order[i].second;
        occupied_.slots[bin] = i < n_left ? kLeft : kRight;
        if (i < n_left) set_[bin / 8] = static_cast<uint8_t>(set_[bin / 8] | (1u << (bin % 8)));
    }
    occupied_.slots[data_.table.missing_bin.data()[feature]] = kMissing;
    for (int64_t i = 0; i < node.count; ++i) slot_of_row_[i] = occupied_.slots[bins_[i]];
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
