// Histograms of features that have the same bin in most rows, as words do: only the other rows are added, and
// the common bin is what remains of the node's total. In integers that is exact, so the result is the same as
// if every row had been added.
#include "histogram.hpp"

namespace sparseleaf {
namespace {

// The bins of sparse features that are not their common bin, a CSR by rows of places: `first` is the place of
// every feature's first bin. common: the common bin of a sparse feature, -1 for the others.
template <typename Place>
nb::tuple uncommon_of(In2<uint8_t> bins, In1<int32_t> common, In1<int32_t> first, int n_threads) {
    const int64_t n = static_cast<int64_t>(bins.shape(0)), n_features = static_cast<int64_t>(bins.shape(1));
    require(static_cast<int64_t>(common.size()) == n_features, "common: one number a feature");
    require(static_cast<int64_t>(first.size()) == n_features + 1, "first: one more than the features");
    std::unique_ptr<int64_t[]> indptr(new int64_t[static_cast<size_t>(n) + 1]);
    std::unique_ptr<Place[]> places;
    {
        nb::gil_scoped_release release;
        std::vector<int32_t> sparse;
        for (int64_t f = 0; f < n_features; ++f)
            if (common.data()[f] >= 0) sparse.push_back(static_cast<int32_t>(f));
        const auto each_uncommon = [&](int64_t row, auto&& use) {
            const uint8_t* own = bins.data() + row * n_features;
            for (const int32_t f : sparse)
                if (own[f] != common.data()[f]) use(first.data()[f] + own[f]);
        };
        constexpr int64_t kChunk = 1024;
        const int64_t n_chunks = (n + kChunk - 1) / kChunk;
        indptr[0] = 0;
        parallel_tasks(n_chunks, n_threads, [&](int64_t chunk, int) {
            for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
                int64_t count = 0;
                each_uncommon(i, [&](int32_t) { ++count; });
                indptr[i + 1] = count;
            }
        });
        for (int64_t i = 0; i < n; ++i) indptr[i + 1] += indptr[i];
        places.reset(new Place[static_cast<size_t>(indptr[n])]);
        parallel_tasks(n_chunks, n_threads, [&](int64_t chunk, int) {
            for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
                int64_t at = indptr[i];
                each_uncommon(i, [&](int32_t place) { places[at++] = static_cast<Place>(place); });
            }
        });
    }
    const auto size = static_cast<size_t>(indptr[n]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(places), size));
}

// Places in 16 bits where they fit: reading them is half of what a row costs.
nb::tuple uncommon_bins(In2<uint8_t> bins, In1<int32_t> common, In1<int32_t> first, int n_threads) {
    require(first.size() > 0, "first: one more than the features");
    return first.data()[first.size() - 1] <= 1 << 16 ? uncommon_of<uint16_t>(bins, common, first, n_threads)
                                                     : uncommon_of<int32_t>(bins, common, first, n_threads);
}

// The first of rising places that is at least `wanted`: halving without a jump that could not be foreseen, so
// that rows before this one are still being added meanwhile.
template <typename Place>
[[gnu::always_inline]] inline const Place* first_from(const Place* place, const Place* last, int32_t wanted) {
    int64_t n = last - place;
    while (n > 1) {
        const int64_t half = n / 2;
        place += place[half - 1] < wanted ? half : 0;
        n -= half;
    }
    return place + (n == 1 && *place < wanted);
}

// The entries with places in [begin, end) of one node's rows. A row's places increase: the first and the last
// part are walked over from the row's ends, the others found by halving.
template <int kColumns, bool kSame, typename Place>
[[gnu::always_inline]] inline void add_entries_impl(const Entries<Place>& entries, const int16_t* residuals,
                                                    int64_t columns, const int32_t* rows, int64_t n,
                                                    int32_t begin, int32_t end, int32_t* hist,
                                                    int32_t* counts) {
    const int64_t m = kColumns > 0 ? kColumns : columns;
    const bool last_part = begin > 0 && end == kToTheEnd;
    constexpr int64_t kAhead = 8;
    for (int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            __builtin_prefetch(residuals + rows[i + kAhead] * m);
            __builtin_prefetch(entries.place + entries.indptr[rows[i + kAhead] + last_part]);
        }
        const ResidualRow<kColumns> row(residuals + rows[i] * m, m);
        const Place* place = entries.place + entries.indptr[rows[i]];
        const Place* last = entries.place + entries.indptr[rows[i] + 1];
        const auto add = [&](Place at) {
            const int64_t bin = kSame ? at : entries.bin_at[at];
            if (counts) ++counts[bin];
            row.add_to(hist + bin * m);
        };
        if (last_part) {
            while (last > place && last[-1] >= begin) add(*--last);
        } else {
            if (begin > 0) place = first_from(place, last, begin);
            for (; place < last && *place < end; ++place) add(*place);
        }
    }
}

template <int kColumns, typename Place>
[[gnu::always_inline]] inline void add_entries_mapped(const Entries<Place>& entries, const int16_t* residuals,
                                                      int64_t columns, const int32_t* rows, int64_t n,
                                                      int32_t begin, int32_t end, int32_t* hist,
                                                      int32_t* counts) {
    if (entries.bin_at == nullptr)
        add_entries_impl<kColumns, true>(entries, residuals, columns, rows, n, begin, end, hist, counts);
    else
        add_entries_impl<kColumns, false>(entries, residuals, columns, rows, n, begin, end, hist, counts);
}

#define SPARSELEAF_ADD_ENTRIES(name, columns_at_compile_time, Place)                                        \
    SPARSELEAF_WIDE void name(const Entries<Place>& entries, const int16_t* residuals, int64_t columns,     \
                              const int32_t* rows, int64_t n, int32_t begin, int32_t end, int32_t* hist,    \
                              int32_t* counts) {                                                            \
        add_entries_mapped<columns_at_compile_time>(entries, residuals, columns, rows, n, begin, end, hist, \
                                                    counts);                                                \
    }
#define SPARSELEAF_ADD_ENTRIES_OF(Place)              \
    SPARSELEAF_ADD_ENTRIES(add_entries_4, 4, Place)   \
    SPARSELEAF_ADD_ENTRIES(add_entries_8, 8, Place)   \
    SPARSELEAF_ADD_ENTRIES(add_entries_16, 16, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_24, 24, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_32, 32, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_any, 0, Place)
SPARSELEAF_ADD_ENTRIES_OF(uint16_t)
SPARSELEAF_ADD_ENTRIES_OF(int32_t)

}  // namespace

template <typename Place>
AddEntries<Place> add_entries_of(int64_t columns) {
    AddEntries<Place> add = add_entries_any;  // an overload: the type of the pointer chooses
    if (columns == 4) add = add_entries_4;
    if (columns == 8) add = add_entries_8;
    if (columns == 16) add = add_entries_16;
    if (columns == 24) add = add_entries_24;
    if (columns == 32) add = add_entries_32;
    return add;
}
template AddEntries<uint16_t> add_entries_of(int64_t);
template AddEntries<int32_t> add_entries_of(int64_t);

SPARSELEAF_WIDE
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < columns; ++c) total[c] += residuals[rows[i] * columns + c];
}

std::vector<int32_t> bins_at_places(const int32_t* first, const int32_t* common, int64_t n_features,
                                    const int32_t* features, int64_t n_active, const int32_t* offsets) {
    require(first[0] == 0 && std::is_sorted(first, first + n_features + 1), "first: must rise from 0");
    for (int64_t a = 0; a < n_active; ++a) {
        require(a == 0 || features[a - 1] < features[a], "features: must rise");
        require(common[features[a]] < offsets[a + 1] - offsets[a], "common: no such bin");
    }
    if (n_active == n_features) return {};
    std::vector<int32_t> bin_at(static_cast<size_t>(first[n_features]));
    int32_t forgotten = 0;
    for (int64_t a = n_active; a-- > 0;)
        if (common[features[a]] >= 0) forgotten = offsets[a] + common[features[a]];
    for (int64_t f = 0, a = 0; f < n_features; ++f) {
        const bool active = a < n_active && features[a] == f;
        for (int32_t place = first[f]; place < first[f + 1]; ++place)
            bin_at[place] = active ? offsets[a] + place - first[f] : forgotten;
        if (active && common[f] >= 0) forgotten = offsets[a] + common[f];
        a += active;
    }
    return bin_at;
}

void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n) {
    constexpr int64_t kFew = 8;  // columns that are subtracted sooner than it is known whether they are all 0
    const int64_t rest = low + common;
    int32_t* sums = hist + rest * columns;
    std::copy(total, total + columns, sums);
    int64_t count = n;
    for (int64_t b = low; b < high; ++b) {
        if (b == rest || (columns > kFew && counts[b * step] == 0)) continue;
        subtract_sums(sums, hist + b * columns, columns);
        count -= counts[b * step];
    }
    counts[rest * step] = static_cast<int32_t>(count);
}

namespace {

template <typename Place>
void build_sparse_histograms(In1<int64_t> indptr, In1<Place> place, In1<int32_t> first, In1<int32_t> common,
                             In2<int16_t> residuals, In1<int32_t> rows, In1<int64_t> starts,
                             In1<int64_t> ends, In1<int32_t> slots, In1<int32_t> features,
                             In1<int32_t> offsets, int64_t count_column, Out3<int32_t> hist,
                             Out2<int32_t> counts, int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(slots.size()),
                  n_active = static_cast<int64_t>(features.size());
    const int64_t m = static_cast<int64_t>(residuals.shape(1)), n_bins = static_cast<int64_t>(hist.shape(1));
    const auto n_features = static_cast<int32_t>(common.size());
    require_indptr(indptr, place.size());
    require(indptr.size() == residuals.shape(0) + 1, "indptr: one more than the rows of residuals");
    require(first.size() == common.size() + 1, "first: one more than the features");
    require(static_cast<int64_t>(hist.shape(2)) == m && m % kLanes == 0, "hist: columns of the residuals");
    require(starts.size() == slots.size(), "starts, slots: same size");
    require(count_column < m, "count_column: beyond the columns");
    require(static_cast<int64_t>(offsets.size()) == n_active + 1 && offsets.data()[n_active] == n_bins,
            "offsets: one more than features, ending at the bins of hist");
    require(counts.shape(0) == hist.shape(0) && static_cast<int64_t>(counts.shape(1)) == n_bins,
            "counts: (slots, bins) of hist");
    require_ranges(starts, ends, rows.size());
    for (int64_t k = 0; k < n_nodes; ++k) {
        require(slots.data()[k] >= 0 && slots.data()[k] < static_cast<int64_t>(hist.shape(0)),
                "slots: beyond hist");
    }
    for (int64_t a = 0; a < n_active; ++a)
        require(features.data()[a] >= 0 && features.data()[a] < n_features, "features: beyond common");
    const auto bin_at =
        bins_at_places(first.data(), common.data(), n_features, features.data(), n_active, offsets.data());
    require(!bin_at.empty() || first.data()[n_features] == n_bins, "first, offsets: other numbers of bins");
    nb::gil_scoped_release release;

    std::vector<int64_t> active;  // places of the sparse features among the active ones
    for (int64_t a = 0; a < n_active; ++a)
        if (common.data()[features.data()[a]] >= 0) active.push_back(a);
    if (active.empty()) return;
    const Entries<Place> entries{indptr.data(), place.data(), bin_at.empty() ? nullptr : bin_at.data()};
    const AddEntries<Place> add = add_entries_of<Place>(m);
    // a node with much of all rows is cut by features, and the largest tasks come first: threads end together
    struct Task {
        int64_t node, part, parts, rows;
    };
    const auto rows_of = [&](int64_t k) { return ends.data()[k] - starts.data()[k]; };
    int64_t all_rows = 0;
    for (int64_t k = 0; k < n_nodes; ++k) all_rows += rows_of(k);
    std::vector<Task> tasks;
    for (int64_t k = 0; k < n_nodes; ++k) {
        const int64_t parts = 2 * n_threads * rows_of(k) > all_rows
                                  ? std::min<int64_t>(n_threads, static_cast<int64_t>(active.size()))
                                  : 1;
        for (int64_t part = 0; part < parts; ++part) tasks.push_back({k, part, parts, rows_of(k) / parts});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.rows > b.rows; });
    parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t task, int) {
        const auto [k, part, parts, _] = tasks[task];
        const int64_t n_own = static_cast<int64_t>(active.size());
        const int64_t begin = n_own * part / parts, end = n_own * (part + 1) / parts;
        int32_t* node_hist = hist.data() + slots.data()[k] * n_bins * m;
        int32_t* node_counts = counts.data() + slots.data()[k] * n_bins;
        for (int64_t j = begin; j < end; ++j) {
            const int64_t low = offsets.data()[active[j]], high = offsets.data()[active[j] + 1];
            std::fill(node_hist + low * m, node_hist + high * m, 0);
            std::fill(node_counts + low, node_counts + high, 0);
        }
        const int32_t* own = rows.data() + starts.data()[k];
        const int64_t n = ends.data()[k] - starts.data()[k];
        add(entries, residuals.data(), m, own, n,
            begin == 0 ? 0 : first.data()[features.data()[active[begin]]],
            end == n_own ? kToTheEnd : first.data()[features.data()[active[end - 1]] + 1], node_hist,
            count_column < 0 ? node_counts : nullptr);
        std::vector<int32_t> total(static_cast<size_t>(m), 0);
        add_up(residuals.data(), m, own, n, total.data());
        for (int64_t j = begin; j < end; ++j) {
            const int64_t low = offsets.data()[active[j]], high = offsets.data()[active[j] + 1];
            if (count_column >= 0)
                for (int64_t b = low; b < high; ++b) node_counts[b] = node_hist[b * m + count_column];
            fill_common(node_hist, node_counts, 1, m, low, high, common.data()[features.data()[active[j]]],
                        total.data(), n);
        }
    });
}

template <typename Place>
void bind_build(nb::module_& m) {
    m.def("build_sparse_histograms", &build_sparse_histograms<Place>, nb::arg("indptr"),
          nb::arg("place").noconvert(), nb::arg("first"), nb::arg("common"), nb::arg("residuals"),
          nb::arg("rows"), nb::arg("starts"), nb::arg("ends"), nb::arg("slots"), nb::arg("features"),
          nb::arg("offsets"), nb::arg("count_column"), nb::arg("hist").noconvert(),
          nb::arg("counts").noconvert(), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_sparse_histogram(nb::module_& m) {
    using namespace sparseleaf;
    m.def("uncommon_bins", &uncommon_bins, nb::arg("bins"), nb::arg("common"), nb::arg("first"),
          nb::arg("n_threads"));
    bind_build<uint16_t>(m);
    bind_build<int32_t>(m);
}
