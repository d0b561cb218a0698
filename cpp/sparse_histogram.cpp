// Histograms of features that have the same bin in most rows, as words do: only the other rows are added, and
// the common bin is what remains of the node's total. In integers that is exact, so the result is the same as
// if every row had been added.
#include "histogram.hpp"

namespace sparseleaf {
namespace {

// Borders of groups of neighbouring features with about as many entries a row each, judged by a sample of
// rows. As many groups as threads and caches may want to part a row into, unless they become so small that a
// row takes longer to look up.
std::vector<int32_t> group_features(const In2<uint8_t>& bins, int64_t n, const In1<int32_t>& common,
                                    int n_threads) {
    constexpr int64_t kSample = 1024, kLeast = 8, kEnough = 8;
    const auto n_features = static_cast<int64_t>(bins.shape(1));
    const int64_t step = std::max<int64_t>(1, n / kSample);
    std::vector<int64_t> entries(static_cast<size_t>(n_features) + 1, 0);  // of the features before
    int64_t n_looked_at = 0;
    for (int64_t i = 0; i < n; i += step, ++n_looked_at)
        for (int64_t f = 0; f < n_features; ++f)
            entries[f + 1] += common.data()[f] >= 0 && bins.data()[i * n_features + f] != common.data()[f];
    for (int64_t f = 0; f < n_features; ++f) entries[f + 1] += entries[f];
    const int64_t wanted = entries.back() / std::max<int64_t>(1, kLeast * n_looked_at);
    const int64_t n_groups = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(4 * n_threads, kEnough));
    std::vector<int32_t> borders{0};
    for (int64_t g = 1; g < n_groups; ++g)
        borders.push_back(static_cast<int32_t>(
            std::lower_bound(entries.begin(), entries.end(), entries.back() * g / n_groups) -
            entries.begin()));
    borders.push_back(static_cast<int32_t>(n_features));
    borders.erase(std::unique(borders.begin() + 1, borders.end()), borders.end());
    return borders;
}

// The bins of sparse features that are not their common bin: a CSR by rows and groups of places, the features
// where groups begin, and the entries of every group. `first` is the place of every feature's first bin.
// common: the common bin of a sparse feature, -1 for the others; if none is sparse no row is looked at, nor
// has a place in the CSR.
template <typename Place>
nb::tuple uncommon_of(In2<uint8_t> bins, In1<int32_t> common, In1<int32_t> first, int n_threads) {
    const auto n_features = static_cast<int64_t>(bins.shape(1));
    const int64_t n = has_sparse(common) ? static_cast<int64_t>(bins.shape(0)) : 0;
    require(static_cast<int64_t>(common.size()) == n_features, "common: one number a feature");
    require(static_cast<int64_t>(first.size()) == n_features + 1, "first: one more than the features");
    std::unique_ptr<int64_t[]> indptr;
    std::unique_ptr<Place[]> places;
    std::unique_ptr<int32_t[]> groups;
    std::unique_ptr<int64_t[]> n_entries;
    int64_t n_groups = 0;
    {
        GilRelease release;
        const std::vector<int32_t> borders = group_features(bins, n, common, n_threads);
        groups.reset(new int32_t[borders.size()]);
        std::copy(borders.begin(), borders.end(), groups.get());
        n_groups = static_cast<int64_t>(borders.size()) - 1;
        indptr.reset(new int64_t[static_cast<size_t>(n * n_groups) + 1]);
        std::vector<int32_t> sparse;
        for (int64_t f = 0; f < n_features; ++f)
            if (common.data()[f] >= 0) sparse.push_back(static_cast<int32_t>(f));
        std::vector<int64_t> begins;  // of the groups, in `sparse`
        for (const int32_t border : borders)
            begins.push_back(std::lower_bound(sparse.begin(), sparse.end(), border) - sparse.begin());
        const auto each_uncommon = [&](int64_t row, int64_t group, auto&& use) {
            const uint8_t* own = bins.data() + row * n_features;
            for (int64_t j = begins[group]; j < begins[group + 1]; ++j)
                if (own[sparse[j]] != common.data()[sparse[j]]) use(first.data()[sparse[j]] + own[sparse[j]]);
        };
        constexpr int64_t kChunk = 1024;
        const auto each_row = [&](auto&& use) {
            parallel_tasks((n + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int) {
                for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i)
                    for (int64_t g = 0; g < n_groups; ++g) use(i, g);
            });
        };
        indptr[0] = 0;
        each_row([&](int64_t row, int64_t group) {
            int64_t count = 0;
            each_uncommon(row, group, [&](int32_t) { ++count; });
            indptr[row * n_groups + group + 1] = count;
        });
        n_entries.reset(new int64_t[static_cast<size_t>(n_groups)]());
        for (int64_t i = 0; i < n * n_groups; ++i) {
            n_entries[i % n_groups] += indptr[i + 1];
            indptr[i + 1] += indptr[i];
        }
        places.reset(new Place[static_cast<size_t>(indptr[n * n_groups])]);
        each_row([&](int64_t row, int64_t group) {
            int64_t at = indptr[row * n_groups + group];
            each_uncommon(row, group, [&](int32_t place) { places[at++] = static_cast<Place>(place); });
        });
    }
    const auto size = static_cast<size_t>(indptr[n * n_groups]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n * n_groups) + 1),
                          to_numpy(std::move(places), size),
                          to_numpy(std::move(groups), static_cast<size_t>(n_groups) + 1),
                          to_numpy(std::move(n_entries), static_cast<size_t>(n_groups)));
}

// Places in 16 bits where they fit: reading them is half of what a row costs.
nb::tuple uncommon_bins(In2<uint8_t> bins, In1<int32_t> common, In1<int32_t> first, int n_threads) {
    require(first.size() > 0, "first: one more than the features");
    return first.data()[first.size() - 1] <= 1 << 16 ? uncommon_of<uint16_t>(bins, common, first, n_threads)
                                                     : uncommon_of<int32_t>(bins, common, first, n_threads);
}

template <int kColumns, bool kSame, typename Place>
[[gnu::always_inline]] inline void add_entries_impl(const Entries<Place>& entries, const int16_t* residuals,
                                                    int64_t columns, const int32_t* rows, int64_t n,
                                                    int64_t begin, int64_t end, int32_t* hist,
                                                    int32_t* counts) {
    const int64_t m = kColumns > 0 ? kColumns : columns;
    const int64_t *starts = entries.indptr + begin, *ends = entries.indptr + end;
    // rows of a node lie apart: where their entries are is asked for first, then the entries
    constexpr int64_t kAhead = 8, kLine = 64 / sizeof(Place);
    for (int64_t i = 0; i < n; ++i) {
        if (i + 2 * kAhead < n) {
            const int64_t next = rows[i + 2 * kAhead];
            __builtin_prefetch(starts + next * entries.n_groups);
            __builtin_prefetch(residuals + next * m);
            const Place* place = entries.place + starts[rows[i + kAhead] * entries.n_groups];
            __builtin_prefetch(place);
            __builtin_prefetch(place + kLine);
        }
        const ResidualRow<kColumns> row(residuals + rows[i] * m, m);
        const Place* place = entries.place + starts[rows[i] * entries.n_groups];
        const Place* last = entries.place + ends[rows[i] * entries.n_groups];
        for (; place < last; ++place) {
            const int64_t bin = kSame ? *place : entries.bin_at[*place];
            if (counts) ++counts[bin];
            row.add_to(hist + bin * m);
        }
    }
}

template <int kColumns, typename Place>
[[gnu::always_inline]] inline void add_entries_mapped(const Entries<Place>& entries, const int16_t* residuals,
                                                      int64_t columns, const int32_t* rows, int64_t n,
                                                      int64_t begin, int64_t end, int32_t* hist,
                                                      int32_t* counts) {
    if (entries.bin_at == nullptr)
        add_entries_impl<kColumns, true>(entries, residuals, columns, rows, n, begin, end, hist, counts);
    else
        add_entries_impl<kColumns, false>(entries, residuals, columns, rows, n, begin, end, hist, counts);
}

#define SPARSELEAF_ADD_ENTRIES(name, columns_at_compile_time, Place)                                        \
    SPARSELEAF_WIDE void name(const Entries<Place>& entries, const int16_t* residuals, int64_t columns,     \
                              const int32_t* rows, int64_t n, int64_t begin, int64_t end, int32_t* hist,    \
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

PlacesOfATree::PlacesOfATree(const In1<int32_t>& groups, const In1<int32_t>& first,
                             const In1<int32_t>& common, const In1<int32_t>& features,
                             const In1<int32_t>& offsets)
    : walked(groups.size() > 0 ? groups.size() - 1 : 0, 0) {
    const auto n_features = static_cast<int64_t>(common.size()),
               n_active = static_cast<int64_t>(features.size());
    require(first.size() == common.size() + 1 && first.data()[0] == 0 &&
                std::is_sorted(first.data(), first.data() + n_features + 1),
            "first: one more than the features, rising from 0");
    require(groups.size() > 1 && groups.data()[0] == 0 && groups.data()[walked.size()] == n_features &&
                std::is_sorted(groups.data(), groups.data() + groups.size()),
            "groups: must rise from 0 to the features");
    require(static_cast<int64_t>(offsets.size()) == n_active + 1, "offsets: one more than features");
    for (int64_t a = 0; a < n_active; ++a) {
        const int32_t f = features.data()[a];
        require(f >= 0 && f < n_features && (a == 0 || features.data()[a - 1] < f),
                "features: must rise, within common");
        require(common.data()[f] < offsets.data()[a + 1] - offsets.data()[a], "common: no such bin");
    }
    if (n_active == n_features) {
        require(first.data()[n_features] == offsets.data()[n_active],
                "first, offsets: other numbers of bins");
        std::fill(walked.begin(), walked.end(), uint8_t{1});
        return;
    }
    bin_at.resize(static_cast<size_t>(first.data()[n_features]));
    int64_t a = 0;
    for (size_t g = 0; g < walked.size(); ++g) {
        int64_t last = a;  // the active features of this group are [a, last)
        while (last < n_active && features.data()[last] < groups.data()[g + 1]) ++last;
        int32_t forgotten = 0;
        for (int64_t active = last; active-- > a;) {
            const int32_t bin = common.data()[features.data()[active]];
            if (bin < 0) continue;
            forgotten = offsets.data()[active] + bin;
            walked[g] = 1;
        }
        for (int32_t f = groups.data()[g]; f < groups.data()[g + 1]; ++f) {
            const bool active = a < last && features.data()[a] == f;
            for (int32_t place = first.data()[f]; place < first.data()[f + 1]; ++place)
                bin_at[place] = active ? offsets.data()[a] + place - first.data()[f] : forgotten;
            a += active;
        }
    }
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
void build_sparse_histograms(In1<int64_t> indptr, In1<Place> place, In1<int32_t> groups, In1<int32_t> first,
                             In1<int32_t> common, In2<int16_t> residuals, In1<int32_t> rows,
                             In1<int64_t> starts, In1<int64_t> ends, In1<int32_t> slots,
                             In1<int32_t> features, In1<int32_t> offsets, int64_t count_column,
                             Out3<int32_t> hist, Out2<int32_t> counts, int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(slots.size()),
                  n_active = static_cast<int64_t>(features.size());
    const int64_t m = static_cast<int64_t>(residuals.shape(1)), n_bins = static_cast<int64_t>(hist.shape(1));
    const PlacesOfATree places(groups, first, common, features, offsets);
    const auto n_groups = static_cast<int64_t>(places.walked.size());
    require_entries(indptr, place.size(), static_cast<int64_t>(residuals.shape(0)) * n_groups);
    require(static_cast<int64_t>(hist.shape(2)) == m && m % kLanes == 0, "hist: columns of the residuals");
    require(starts.size() == slots.size(), "starts, slots: same size");
    require(count_column < m, "count_column: beyond the columns");
    require(offsets.data()[n_active] == n_bins, "offsets: must end at the bins of hist");
    require(counts.shape(0) == hist.shape(0) && static_cast<int64_t>(counts.shape(1)) == n_bins,
            "counts: (slots, bins) of hist");
    require_ranges(starts, ends, rows.size());
    for (int64_t k = 0; k < n_nodes; ++k) {
        require(slots.data()[k] >= 0 && slots.data()[k] < static_cast<int64_t>(hist.shape(0)),
                "slots: beyond hist");
    }
    GilRelease release;

    std::vector<int64_t> active;  // places of the sparse features among the active ones
    for (int64_t a = 0; a < n_active; ++a)
        if (common.data()[features.data()[a]] >= 0) active.push_back(a);
    if (active.empty()) return;
    const Entries<Place> entries{indptr.data(), place.data(), n_groups,
                                 places.bin_at.empty() ? nullptr : places.bin_at.data()};
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
        const int64_t parts =
            2 * n_threads * rows_of(k) > all_rows ? std::min<int64_t>(n_threads, n_groups) : 1;
        for (int64_t part = 0; part < parts; ++part) tasks.push_back({k, part, parts, rows_of(k) / parts});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const Task& a, const Task& b) { return a.rows > b.rows; });
    parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t task, int) {
        const auto [k, part, parts, _] = tasks[task];
        const int64_t begin = n_groups * part / parts, end = n_groups * (part + 1) / parts;
        int32_t* node_hist = hist.data() + slots.data()[k] * n_bins * m;
        int32_t* node_counts = counts.data() + slots.data()[k] * n_bins;
        const auto each_feature = [&](auto&& use) {
            for (const int64_t a : active) {
                const int32_t f = features.data()[a];
                if (f >= groups.data()[begin] && f < groups.data()[end])
                    use(offsets.data()[a], offsets.data()[a + 1], common.data()[f]);
            }
        };
        each_feature([&](int64_t low, int64_t high, int32_t) {
            std::fill(node_hist + low * m, node_hist + high * m, 0);
            std::fill(node_counts + low, node_counts + high, 0);
        });
        const int32_t* own = rows.data() + starts.data()[k];
        const int64_t n = ends.data()[k] - starts.data()[k];
        places.each_run(begin, end, [&](int64_t from, int64_t to) {
            add(entries, residuals.data(), m, own, n, from, to, node_hist,
                count_column < 0 ? node_counts : nullptr);
        });
        std::vector<int32_t> total(static_cast<size_t>(m), 0);
        add_up(residuals.data(), m, own, n, total.data());
        each_feature([&](int64_t low, int64_t high, int32_t common_bin) {
            if (count_column >= 0)
                for (int64_t b = low; b < high; ++b) node_counts[b] = node_hist[b * m + count_column];
            fill_common(node_hist, node_counts, 1, m, low, high, common_bin, total.data(), n);
        });
    });
}

template <typename Place>
void bind_build(nb::module_& m) {
    m.def("build_sparse_histograms", &build_sparse_histograms<Place>, nb::arg("indptr"),
          nb::arg("place").noconvert(), nb::arg("groups"), nb::arg("first"), nb::arg("common"),
          nb::arg("residuals"), nb::arg("rows"), nb::arg("starts"), nb::arg("ends"), nb::arg("slots"),
          nb::arg("features"), nb::arg("offsets"), nb::arg("count_column"), nb::arg("hist").noconvert(),
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
