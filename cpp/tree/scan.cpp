// The best split of a feature: a scan over the bins of its histogram.
//
// Ties: higher gain, then lower feature, then lower bin, then missing rows to the right. Every gain is
// computed by one thread in one fixed order, so the winner does not depend on the number of threads.
#include <cmath>
#include <limits>

#include "categories.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void add_columns(int32_t* sums, const int32_t* more, int64_t m) {
    for (int64_t c = 0; c < m; ++c) sums[c] += more[c];
}

Bins bins_of(const FeatureSet& features, const NodeSums& node, int64_t m, int64_t f) {
    const int64_t first = features.offsets[f];
    const bool missing = features.has_missing[f] != 0;
    const int64_t values = features.offsets[f + 1] - first - (missing ? 1 : 0);
    Bins bins{node.hist + first * m, node.counts + first * node.step, node.step, values, nullptr, 0};
    if (missing) bins.n_missing = bins.count(values);
    return bins;
}

// Scans the bins of one feature in order; missing rows start on the left if missing_left. Returns false if no
// split leaves enough rows on both sides.
bool scan(const Bins& bins, const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
          double parent, int32_t feature, bool missing_left, int32_t* left, Work& work, Split* best) {
    const int64_t m = scoring.columns;
    std::fill(left, left + m, 0);
    int64_t n_left = 0;
    if (missing_left) {
        add_columns(left, bins.hist + bins.n * m, m);
        n_left = bins.n_missing;
    }
    // with missing rows on the right, "all values left" is a split too
    const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
    bool possible = false;
    for (int64_t i = 0; i < end; ++i) {
        const int64_t b = bins.order ? bins.order[i] : i;
        if (bins.count(b) == 0) continue;  // same partition as at the previous bin
        add_columns(left, bins.hist + b * m, m);
        n_left += bins.count(b);
        if (n_left < scoring.min_samples) continue;
        if (n - n_left < scoring.min_samples) break;
        possible = true;
        if (scoring.min_hessian > 0.0 && scoring.hessian != kCount) {
            const double left_h = hessian_of(scoring, left);
            if (left_h < scoring.min_hessian) continue;
            if (hessian_of(scoring, total) - left_h < scoring.min_hessian) break;
        }
        const double gain = split_score(scoring, limits, left, total, n_left, n, work) - parent;
        if (std::isnan(gain)) continue;
        const Split split{gain, feature, static_cast<int32_t>(i), static_cast<int32_t>(n_left), missing_left};
        if (better(split, *best)) *best = split;
    }
    return possible;
}

// The score of both sides that a split must reach to beat the best so far.
double to_beat(const Split& best, double parent) {
    constexpr double kRounding = 1e-9;  // a safe bound on the rounding of gains
    return best.feature < 0 ? -std::numeric_limits<double>::infinity()
                            : best.gain + parent - kRounding * (std::abs(best.gain) + std::abs(parent));
}

constexpr int64_t kNarrow = 4;  // columns of a one-output histogram: gradient, hessian, padding, row count

// Vectorised screening of the splits with least to most rows on the left: whether any is possible, and
// whether any may score at least `worst`. `h` is the hessian column; prefix sums of the bins go to `sums`.
struct Screening {
    bool possible, promising;
};
SPARSELEAF_WIDE
Screening screen_splits(const int32_t* hist, const int32_t* missing, int64_t n, int64_t h,
                        const int32_t* total, int64_t least, int64_t most, double weight, double lambda,
                        double worst, int32_t* sums) {
    typedef int32_t Int4 __attribute__((vector_size(16), aligned(4), may_alias));
    Int4 sum{};
    if (missing) sum = *reinterpret_cast<const Int4*>(missing);
    for (int64_t i = 0; i < n; ++i) {
        sum += *reinterpret_cast<const Int4*>(hist + i * kNarrow);
        *reinterpret_cast<Int4*>(sums + i * kNarrow) = sum;
    }
    const double total_g = total[0], total_h = total[h];
    const auto rows = [&](int64_t i) { return sums[i * kNarrow + kNarrow - 1]; };
    int64_t begin = 0, end = n;
    while (begin < end && rows(begin) < least) ++begin;
    while (begin < end && rows(end - 1) > most) --end;
    int64_t n_promising = 0;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t* left = sums + i * kNarrow;
        const double left_g = left[0], right_g = total_g - left_g;
        const double below_left = left[h] + lambda, below_right = (total_h - left[h]) + lambda;
        const double above = (left_g * left_g) * below_right + (right_g * right_g) * below_left,
                     below = below_left * below_right;
        n_promising += !((weight * above < worst * below) & (below > 0.0));
    }
    return {begin < end, n_promising > 0};
}

// scan() for one output, with scalars. Empty bins are not skipped: they repeat the split of the previous bin,
// which wins the tie, and testing for them takes longer. Most splits are rejected without a division.
bool scan_one(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, double parent,
              int32_t feature, bool missing_left, Split* best) {
    const int64_t m = scoring.columns;
    const bool count = scoring.hessian == kCount, diagonal = scoring.hessian == kDiagonal;
    const double weight = scoring.weight[0], lambda = count ? scoring.l2 : scoring.lambda[0];
    const double unit = weight / (scoring.step[0] * scoring.step[0]);  // of a hessian
    const double total_g = total[0], total_h = count ? static_cast<double>(n) : total[1];
    int64_t g = 0, h = 0, n_left = 0;
    const auto add = [&](int64_t b) {
        g += bins.hist[b * m];
        n_left += bins.count(b);
        h += count ? bins.count(b) : bins.hist[b * m + 1];
    };
    if (missing_left) add(bins.n);
    const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
    const int64_t least = std::max(scoring.min_samples, n_left + 1), most = n - scoring.min_samples;
    double worst = to_beat(*best, parent);
    bool possible = false;
    for (int64_t i = 0; i < end; ++i) {
        add(bins.order ? bins.order[i] : i);
        if (n_left < least) continue;
        if (n_left > most) break;
        possible = true;
        const double left_g = static_cast<double>(g), right_g = total_g - left_g;
        const double left_h = static_cast<double>(h), right_h = total_h - left_h;
        if (scoring.min_hessian > 0.0 && !count) {
            if (left_h * unit < scoring.min_hessian) continue;
            if (total_h * unit - left_h * unit < scoring.min_hessian) break;
        }
        const double below_left = left_h + lambda, below_right = right_h + lambda;
        const double above = (left_g * left_g) * below_right + (right_g * right_g) * below_left,
                     below = below_left * below_right;
        if (weight * above < worst * below && below > 0.0) continue;
        const double gain = (diagonal ? weight * (above / below)
                                      : weight * (left_g * left_g) / below_left +
                                            weight * (right_g * right_g) / below_right) -
                            parent;
        if (std::isnan(gain)) continue;
        const Split split{gain, feature, static_cast<int32_t>(i), static_cast<int32_t>(n_left), missing_left};
        if (better(split, *best)) *best = split;
        worst = to_beat(*best, parent);
    }
    return possible;
}

}  // namespace

bool better(const Split& a, const Split& b) {
    if (a.feature < 0 || b.feature < 0) return b.feature < 0 && a.feature >= 0;
    if (a.gain != b.gain) return a.gain > b.gain;
    if (a.feature != b.feature) return a.feature < b.feature;
    if (a.bin != b.bin) return a.bin < b.bin;
    return !a.missing_left && b.missing_left;
}

bool search_bins(const Scoring& scoring, const Constraint& limits, const Bins& bins, const int32_t* total,
                 int64_t n, double parent, int32_t feature, Work& work, Split* best) {
    const bool alone = scoring.outputs == 1 && scoring.hessian != kMatrix && limits.low == nullptr;
    const bool counted_inside = scoring.columns == kNarrow && bins.counts == bins.hist + kNarrow - 1;
    bool possible = false;
    for (const bool missing_left : {false, true}) {
        if (missing_left && bins.n_missing == 0) continue;
        if (alone && counted_inside && !bins.order) {
            // few features beat the best split so far, and vectors reject the others faster
            const bool count = scoring.hessian == kCount;
            const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
            work.so_far.resize(std::max(work.so_far.size(), static_cast<size_t>(kNarrow * bins.n)));
            const auto [some, promising] = screen_splits(
                bins.hist, missing_left ? bins.hist + bins.n * kNarrow : nullptr, end,
                count ? kNarrow - 1 : 1, total,
                std::max(scoring.min_samples, missing_left ? bins.n_missing + 1 : 0), n - scoring.min_samples,
                scoring.weight[0], count ? scoring.l2 : scoring.lambda[0], to_beat(*best, parent),
                work.so_far.data());
            possible |= some;
            if (!promising) continue;
        }
        possible |= alone ? scan_one(bins, scoring, total, n, parent, feature, missing_left, best)
                          : scan(bins, scoring, limits, total, n, parent, feature, missing_left,
                                 work.sums.data() + work.room, work, best);
    }
    return possible;
}

bool search_feature(const Scoring& scoring, const Constraint& limits, const FeatureSet& features,
                    const NodeSums& node, int64_t feature, double parent, Work& work, Split* best) {
    Bins bins = bins_of(features, node, scoring.columns, feature);
    if (features.categorical[feature]) {
        order_categories(bins, scoring, node.total, node.n, work);
        bins.order = work.order.data();
    }
    return search_bins(scoring, limits, bins, node.total, node.n, parent, static_cast<int32_t>(feature), work,
                       best);
}

void left_side(const Scoring& scoring, const FeatureSet& features, const NodeSums& node, const Split& split,
               Work& work, int32_t* left, uint8_t* set) {
    const int64_t m = scoring.columns;
    Bins bins = bins_of(features, node, m, split.feature);
    if (features.categorical[split.feature]) {
        order_categories(bins, scoring, node.total, node.n, work);
        bins.order = work.order.data();
    }
    std::fill(left, left + m, 0);
    if (split.missing_left) add_columns(left, bins.hist + bins.n * m, m);
    for (int64_t i = 0; i <= split.bin; ++i) {
        const int64_t b = bins.order ? bins.order[i] : i;
        add_columns(left, bins.hist + b * m, m);
        if (bins.order) set[b / 8] = static_cast<uint8_t>(set[b / 8] | (1u << (b % 8)));
    }
}

}  // namespace sparseleaf
