// Histograms of reduced residuals: for every node and every bin of every feature, how many rows and Σ
// residuals.
//
// Layout: hist[slot][bin][column], columns innermost. `offsets[f]` is the first bin of the f-th active
// feature, so features with few bins take few. Bins are row-major: a row's residuals are loaded once and
// added to one bin of every feature. Work is cut into (node, features) tasks whose part of the histogram fits
// in cache; tasks write to disjoint memory, so there is nothing to merge. Features marked `sparse` are left
// out: see sparse_histogram.cpp.
//
// Where padding leaves a column free, it holds 1 in every row (count_column), so that a row's count comes
// with its sums and costs no memory access of its own.
#include "histogram.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kMaxColumns = 1 << 20;

struct Task {
    int64_t node;
    int64_t feature_begin, feature_end;
};

// kNext: the features are one after the other, so that their numbers need not be read.
template <int kColumns, bool kNext>
[[gnu::always_inline]] inline void add_rows_impl(const uint8_t* bins, int64_t n_features,
                                                 const int16_t* residuals, int64_t columns,
                                                 const int32_t* rows, int64_t n, const int32_t* features,
                                                 const int32_t* offsets, int64_t f_begin, int64_t f_end,
                                                 int32_t* hist, int32_t* counts) {
    const int64_t m = kColumns > 0 ? kColumns : columns;
    constexpr int64_t kAhead = 16;
    for (int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            __builtin_prefetch(residuals + rows[i + kAhead] * m);
            const uint8_t* ahead = bins + rows[i + kAhead] * n_features;
            __builtin_prefetch(ahead + features[f_begin]);
            __builtin_prefetch(
                ahead + std::min(features[f_begin] + kLine, static_cast<int64_t>(features[f_end - 1])));
        }
        const ResidualRow<kColumns> row(residuals + rows[i] * m, m);
        const uint8_t* row_bins = bins + rows[i] * n_features + (kNext ? features[f_begin] - f_begin : 0);
        for (int64_t f = f_begin; f < f_end; ++f) {
            const int64_t bin = offsets[f] + row_bins[kNext ? f : features[f]];
            if (counts) ++counts[bin];
            row.add_to(hist + bin * m);
        }
    }
}

#define SPARSELEAF_ADD_ROWS(name, columns_at_compile_time)                                                  \
    SPARSELEAF_WIDE void name(const uint8_t* bins, int64_t n_features, const int16_t* residuals,            \
                              int64_t columns, const int32_t* rows, int64_t n, const int32_t* features,     \
                              const int32_t* offsets, int64_t f_begin, int64_t f_end, int32_t* hist,        \
                              int32_t* counts) {                                                            \
        if (features[f_end - 1] - features[f_begin] == f_end - 1 - f_begin)                                 \
            add_rows_impl<columns_at_compile_time, true>(bins, n_features, residuals, columns, rows, n,     \
                                                         features, offsets, f_begin, f_end, hist, counts);  \
        else                                                                                                \
            add_rows_impl<columns_at_compile_time, false>(bins, n_features, residuals, columns, rows, n,    \
                                                          features, offsets, f_begin, f_end, hist, counts); \
    }
SPARSELEAF_ADD_ROWS(add_rows_4, 4)
SPARSELEAF_ADD_ROWS(add_rows_8, 8)
SPARSELEAF_ADD_ROWS(add_rows_16, 16)
SPARSELEAF_ADD_ROWS(add_rows_24, 24)
SPARSELEAF_ADD_ROWS(add_rows_32, 32)
SPARSELEAF_ADD_ROWS(add_rows_64, 64)
SPARSELEAF_ADD_ROWS(add_rows_any, 0)

}  // namespace

AddRows add_rows_of(int64_t columns) {
    return columns == 4    ? add_rows_4
           : columns == 8  ? add_rows_8
           : columns == 16 ? add_rows_16
           : columns == 24 ? add_rows_24
           : columns == 32 ? add_rows_32
           : columns == 64 ? add_rows_64
                           : add_rows_any;
}

namespace {

void build_histograms(In2<uint8_t> bins, In2<int16_t> residuals, In1<int32_t> rows, In1<int64_t> starts,
                      In1<int64_t> ends, In1<int32_t> slots, In1<int32_t> features, In1<int32_t> offsets,
                      In1<uint8_t> sparse, int64_t count_column, Out3<int32_t> hist, Out2<int32_t> counts,
                      int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(slots.size()),
                  n_active = static_cast<int64_t>(features.size());
    const int64_t columns = static_cast<int64_t>(residuals.shape(1)),
                  n_bins = static_cast<int64_t>(hist.shape(1));
    const int64_t n_features = static_cast<int64_t>(bins.shape(1));
    require(starts.size() == slots.size(), "starts, slots: same size");
    require(static_cast<int64_t>(offsets.size()) == n_active + 1 && offsets.data()[n_active] == n_bins,
            "offsets: one more than features, ending at the bins of hist");
    require(static_cast<int64_t>(hist.shape(2)) == columns && columns % kLanes == 0 && columns <= kMaxColumns,
            "hist: columns of the residuals, a multiple of 4");
    require(counts.shape(0) == hist.shape(0) && static_cast<int64_t>(counts.shape(1)) == n_bins,
            "counts: (slots, bins) of hist");
    require(bins.shape(0) == residuals.shape(0), "bins, residuals: same rows");
    require(sparse.size() == features.size(), "sparse: one number a feature");
    require(count_column < columns, "count_column: beyond the columns");
    require_ranges(starts, ends, rows.size());
    for (int64_t k = 0; k < n_nodes; ++k) {
        require(slots.data()[k] >= 0 && slots.data()[k] < static_cast<int64_t>(hist.shape(0)),
                "slots: beyond hist");
    }
    GilRelease release;

    // the features that are not sparse, side by side: a row is loaded once for all of them
    std::vector<int32_t> dense, first_bin, end_bin;
    for (int64_t f = 0; f < n_active; ++f) {
        if (sparse.data()[f]) continue;
        dense.push_back(features.data()[f]);
        first_bin.push_back(offsets.data()[f]);
        end_bin.push_back(offsets.data()[f + 1]);
    }
    const auto n_dense = static_cast<int64_t>(dense.size());
    std::vector<Task> tasks;
    for (int64_t k = 0; k < n_nodes; ++k) {
        int64_t begin = 0, bytes = 0;
        const auto finish = [&](int64_t end) {
            if (begin < end) tasks.push_back({k, begin, end});
            begin = end;
            bytes = 0;
        };
        // large nodes are cut so that a lone root keeps all threads busy, twice for every thread unless a
        // part would then read less than a line of a row's bins: every part reads them from memory
        const bool large =
            n_threads > 1 && ends.data()[k] - starts.data()[k] >= 4096 && n_nodes < 4 * n_threads;
        const auto share = [&](int64_t parts) { return (n_dense + parts - 1) / parts; };
        const int64_t most =
            large ? std::max(share(2 * n_threads), std::min(kLine, share(n_threads))) : n_dense;
        for (int64_t f = 0; f < n_dense; ++f) {
            bytes += (end_bin[f] - first_bin[f]) * columns * 4;
            if (f + 1 - begin >= most || bytes >= kCacheBytes) finish(f + 1);
        }
        finish(n_dense);
    }
    const AddRows add = add_rows_of(columns);
    parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t t, int) {
        const Task& task = tasks[t];
        const int64_t slot = slots.data()[task.node], start = starts.data()[task.node];
        int32_t* node_hist = hist.data() + slot * n_bins * columns;
        int32_t* node_counts = counts.data() + slot * n_bins;
        for (int64_t f = task.feature_begin; f < task.feature_end; ++f) {
            std::fill(node_hist + first_bin[f] * columns, node_hist + end_bin[f] * columns, 0);
            std::fill(node_counts + first_bin[f], node_counts + end_bin[f], 0);
        }
        add(bins.data(), n_features, residuals.data(), columns, rows.data() + start,
            ends.data()[task.node] - start, dense.data(), first_bin.data(), task.feature_begin,
            task.feature_end, node_hist, count_column < 0 ? node_counts : nullptr);
        if (count_column < 0) return;
        for (int64_t f = task.feature_begin; f < task.feature_end; ++f)
            for (int64_t b = first_bin[f]; b < end_bin[f]; ++b)
                node_counts[b] = node_hist[b * columns + count_column];
    });
}

// hist[slot] -= hist[minus]: a parent's slot becomes that of its larger child.
void subtract_histograms(In1<int32_t> slots, In1<int32_t> minus, Out3<int32_t> hist, Out2<int32_t> counts,
                         int n_threads) {
    require(slots.size() == minus.size(), "slots, minus: same size");
    const auto n_slots = static_cast<int64_t>(hist.shape(0));
    for (size_t k = 0; k < slots.size(); ++k)
        require(slots.data()[k] >= 0 && slots.data()[k] < n_slots && minus.data()[k] >= 0 &&
                    minus.data()[k] < n_slots,
                "slots, minus: beyond hist");
    GilRelease release;
    const int64_t n_bins = static_cast<int64_t>(hist.shape(1)), m = static_cast<int64_t>(hist.shape(2)),
                  size = n_bins * m;
    parallel_tasks(static_cast<int64_t>(slots.size()), n_threads, [&](int64_t k, int) {
        int32_t* a = hist.data() + slots.data()[k] * size;
        const int32_t* b = hist.data() + minus.data()[k] * size;
        int32_t* ca = counts.data() + slots.data()[k] * n_bins;
        const int32_t* cb = counts.data() + minus.data()[k] * n_bins;
        for (int64_t bin = 0; bin < n_bins; ++bin) {
            if (cb[bin] == 0) continue;  // most bins of a small node: their sums are not even read
            ca[bin] -= cb[bin];
            subtract_sums(a + bin * m, b + bin * m, m);
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_histogram(nb::module_& m) {
    using namespace sparseleaf;
    m.def("build_histograms", &build_histograms, nb::arg("bins"), nb::arg("residuals"), nb::arg("rows"),
          nb::arg("starts"), nb::arg("ends"), nb::arg("slots"), nb::arg("features"), nb::arg("offsets"),
          nb::arg("sparse"), nb::arg("count_column"), nb::arg("hist").noconvert(),
          nb::arg("counts").noconvert(), nb::arg("n_threads"));
    m.def("subtract_histograms", &subtract_histograms, nb::arg("slots"), nb::arg("minus"),
          nb::arg("hist").noconvert(), nb::arg("counts").noconvert(), nb::arg("n_threads"));
}
