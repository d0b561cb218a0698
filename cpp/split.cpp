// Best cut of every node from its histogram: gain = Σ GL²/(nL+λ) + Σ GR²/(nR+λ) − Σ G²/(n+λ).
//
// Ties: higher gain, then lower feature, then lower bin, then missing rows to the right. Every gain is
// computed by one thread in one fixed order, so the winner does not depend on the number of threads.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

struct Cut {
    double gain = 0.0;
    int32_t feature = -1;  // position among the active features
    int32_t bin = -1;
    int32_t left_count = 0;
    bool missing_left = false;
};

bool better(const Cut& a, const Cut& b) {
    if (a.feature < 0 || b.feature < 0) return b.feature < 0 && a.feature >= 0;
    if (a.gain != b.gain) return a.gain > b.gain;
    if (a.feature != b.feature) return a.feature < b.feature;
    if (a.bin != b.bin) return a.bin < b.bin;
    return !a.missing_left && b.missing_left;
}

// Σ left² and Σ (total − left)² over columns, in eight fixed lanes whatever the vector width.
[[gnu::always_inline]] inline void squares(const int32_t* left, const int32_t* total, int64_t m,
                                           double& sq_left, double& sq_right) {
    constexpr int kWide = 8;
    double l[kWide] = {}, r[kWide] = {};
    for (int64_t c = 0; c < m; c += kWide) {
        for (int j = 0; j < kWide; ++j) {
            const double a = left[c + j], b = static_cast<double>(total[c + j]) - a;
            l[j] += a * a;
            r[j] += b * b;
        }
    }
    sq_left = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
    sq_right = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

SPARSELEAF_WIDE
void add_columns(int32_t* sums, const int32_t* more, int64_t m) {
    for (int64_t c = 0; c < m; ++c) sums[c] += more[c];
}

struct Limits {
    double l2;
    int64_t min_samples;
};

// Scans the bins of one feature upwards; `left` starts empty, or with the missing rows in it.
SPARSELEAF_WIDE
void scan(const int32_t* hist, const int32_t* counts, int64_t n_value_bins, int64_t m, const int32_t* total,
          int64_t n, double parent, const Limits* limits, int32_t feature, bool missing_left, int32_t* left,
          int64_t n_left, bool last_bin_too, Cut* best) {
    const int64_t end = last_bin_too ? n_value_bins : n_value_bins - 1;
    for (int64_t b = 0; b < end; ++b) {
        if (counts[b] == 0) continue;  // same partition as the bin before
        const int32_t* bin = hist + b * m;
        for (int64_t c = 0; c < m; ++c) left[c] += bin[c];
        n_left += counts[b];
        const int64_t n_right = n - n_left;
        if (n_left < limits->min_samples) continue;
        if (n_right < limits->min_samples) break;
        double sq_left, sq_right;
        squares(left, total, m, sq_left, sq_right);
        const double gain = sq_left / (static_cast<double>(n_left) + limits->l2) +
                            sq_right / (static_cast<double>(n_right) + limits->l2) - parent;
        const Cut cut{gain, feature, static_cast<int32_t>(b), static_cast<int32_t>(n_left), missing_left};
        if (better(cut, *best)) *best = cut;
    }
}

// node_mask (may have no rows): which active features a node may use. has_missing: the feature's last bin
// holds the rows without a value, which are tried on both sides.
void find_splits(nb::ndarray<const int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu> hist,
                 In2<int32_t> counts, In1<int32_t> slots, In1<int32_t> offsets, In1<uint8_t> has_missing,
                 In2<uint8_t> node_mask, double l2, int64_t min_samples, Out1<int32_t> out_feature,
                 Out1<int32_t> out_bin, Out1<double> out_gain, Out1<uint8_t> out_missing_left,
                 Out1<int32_t> out_left_count, int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(slots.size()),
                  n_active = static_cast<int64_t>(has_missing.size());
    const int64_t n_bins = static_cast<int64_t>(hist.shape(1)), m = static_cast<int64_t>(hist.shape(2));
    require(m % kLanes == 0, "hist: columns must be a multiple of 16");
    require(static_cast<int64_t>(offsets.size()) == n_active + 1 && offsets.data()[n_active] == n_bins,
            "offsets: one more than features, ending at the bins of hist");
    require(static_cast<int64_t>(counts.shape(1)) == n_bins && counts.shape(0) == hist.shape(0),
            "counts: (slots, bins) of hist");
    const bool masked = node_mask.shape(0) > 0;
    require(!masked || (static_cast<int64_t>(node_mask.shape(0)) == n_nodes &&
                        static_cast<int64_t>(node_mask.shape(1)) == n_active),
            "node_mask: (nodes, features), or no rows");
    for (const auto size : {out_feature.size(), out_bin.size(), out_gain.size(), out_missing_left.size(),
                            out_left_count.size()})
        require(size == slots.size(), "out arrays: one number a node");
    for (int64_t k = 0; k < n_nodes; ++k)
        require(slots.data()[k] >= 0 && slots.data()[k] < static_cast<int64_t>(hist.shape(0)),
                "slots: beyond hist");
    nb::gil_scoped_release release;

    const int64_t parts =
        std::clamp<int64_t>((4 * n_threads + n_nodes - 1) / std::max<int64_t>(n_nodes, 1), 1, n_active);
    std::vector<Cut> best(static_cast<size_t>(n_nodes * parts));
    std::vector<std::vector<int32_t>> scratch(static_cast<size_t>(n_threads));
    const Limits limits{l2, std::max<int64_t>(min_samples, 1)};
    parallel_tasks(n_nodes * parts, n_threads, [&](int64_t task, int thread) {
        const int64_t k = task / parts, part = task % parts;
        auto& buffer = scratch[thread];
        buffer.assign(static_cast<size_t>(2 * m), 0);
        int32_t *total = buffer.data(), *left = total + m;
        const int32_t* node_hist = hist.data() + slots.data()[k] * n_bins * m;
        const int32_t* node_counts = counts.data() + slots.data()[k] * n_bins;
        // every feature's bins add up to the node: take the first one's
        int64_t n = 0;
        for (int64_t b = offsets.data()[0]; b < offsets.data()[1]; ++b) {
            add_columns(total, node_hist + b * m, m);
            n += node_counts[b];
        }
        double parent = 0.0, nothing = 0.0;
        squares(total, total, m, parent, nothing);
        parent /= static_cast<double>(n) + l2;
        Cut& winner = best[task];
        for (int64_t f = n_active * part / parts; f < n_active * (part + 1) / parts; ++f) {
            if (masked && !node_mask.data()[k * n_active + f]) continue;
            const int64_t first = offsets.data()[f];
            const bool missing = has_missing.data()[f] != 0;
            const int64_t value_bins = offsets.data()[f + 1] - first - (missing ? 1 : 0);
            const int64_t n_missing = missing ? node_counts[first + value_bins] : 0;
            std::fill(left, left + m, 0);
            // with missing rows on the right, "all values left" is a cut as well
            scan(node_hist + first * m, node_counts + first, value_bins, m, total, n, parent, &limits,
                 static_cast<int32_t>(f), false, left, 0, n_missing > 0, &winner);
            if (n_missing > 0) {
                const int32_t* bin = node_hist + (first + value_bins) * m;
                std::copy(bin, bin + m, left);
                scan(node_hist + first * m, node_counts + first, value_bins, m, total, n, parent, &limits,
                     static_cast<int32_t>(f), true, left, n_missing, false, &winner);
            }
        }
    });
    for (int64_t k = 0; k < n_nodes; ++k) {
        Cut winner = best[k * parts];
        for (int64_t p = 1; p < parts; ++p)
            if (better(best[k * parts + p], winner)) winner = best[k * parts + p];
        out_feature.data()[k] = winner.feature;
        out_bin.data()[k] = winner.bin;
        out_gain.data()[k] = winner.feature < 0 ? 0.0 : winner.gain;
        out_missing_left.data()[k] = winner.missing_left;
        out_left_count.data()[k] = winner.left_count;
    }
}

}  // namespace
}  // namespace sparseleaf

void bind_split(nb::module_& m) {
    using namespace sparseleaf;
    m.def("find_splits", &find_splits, nb::arg("hist"), nb::arg("counts"), nb::arg("slots"),
          nb::arg("offsets"), nb::arg("has_missing"), nb::arg("node_mask"), nb::arg("l2"),
          nb::arg("min_samples"), nb::arg("out_feature").noconvert(), nb::arg("out_bin").noconvert(),
          nb::arg("out_gain").noconvert(), nb::arg("out_missing_left").noconvert(),
          nb::arg("out_left_count").noconvert(), nb::arg("n_threads"));
}
