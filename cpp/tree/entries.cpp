// Histograms of sparse features, which have the same bin in most rows: only the other rows are added, and the
// common bin is the node's total minus all other bins. Integer sums make this exact.
#include "histogram.hpp"

namespace sparseleaf {
namespace {

// Boundaries of groups of consecutive features with about equal numbers of entries per row, estimated from a
// sample of rows. There are as many groups as threads and caches can use, unless groups become so small that
// finding a row's entries takes longer than adding them.
std::vector<int32_t> group_features(const uint8_t* bins, int64_t n, const std::vector<int32_t>& common,
                                    int n_threads) {
    constexpr int64_t kSample = 1024, kLeast = 8, kEnough = 8;
    const auto n_features = static_cast<int64_t>(common.size());
    const int64_t step = std::max<int64_t>(1, n / kSample);
    std::vector<int64_t> entries(static_cast<size_t>(n_features) + 1, 0);  // cumulative
    int64_t n_looked_at = 0;
    for (int64_t i = 0; i < n; i += step, ++n_looked_at)
        for (int64_t f = 0; f < n_features; ++f)
            entries[f + 1] += common[f] >= 0 && bins[i * n_features + f] != common[f];
    for (int64_t f = 0; f < n_features; ++f) entries[f + 1] += entries[f];
    const int64_t useful = entries.back() / std::max<int64_t>(1, kLeast * n_looked_at);
    const int64_t n_groups = std::clamp<int64_t>(useful, 1, std::max<int64_t>(4 * n_threads, kEnough));
    std::vector<int32_t> borders{0};
    for (int64_t g = 1; g < n_groups; ++g)
        borders.push_back(static_cast<int32_t>(
            std::lower_bound(entries.begin(), entries.end(), entries.back() * g / n_groups) -
            entries.begin()));
    borders.push_back(static_cast<int32_t>(n_features));
    borders.erase(std::unique(borders.begin() + 1, borders.end()), borders.end());
    return borders;
}

// The places, as 16 or 32 bits.
template <typename Place>
const Place* places_of(const SparseColumns& entries) {
    if constexpr (sizeof(Place) == 2)
        return entries.short_places.get();
    else
        return entries.long_places.get();
}

template <int kColumns, bool kSame, typename Place>
[[gnu::always_inline]] inline void add_entries_impl(const SparseColumns& entries, const int32_t* bin_at,
                                                    const int16_t* residuals, int64_t columns,
                                                    const int32_t* rows, int64_t n, int64_t begin,
                                                    int64_t end, int32_t* hist, int32_t* counts) {
    const int64_t m = kColumns > 0 ? kColumns : columns, n_groups = entries.n_groups();
    const int64_t *starts = entries.indptr.get() + begin, *ends = entries.indptr.get() + end;
    const Place* places = places_of<Place>(entries);
    // rows of a node are scattered: prefetch where their entries start, then the entries
    constexpr int64_t kAhead = 8, kLine = 64 / sizeof(Place);
    for (int64_t i = 0; i < n; ++i) {
        if (i + 2 * kAhead < n) {
            const int64_t next = rows[i + 2 * kAhead];
            __builtin_prefetch(starts + next * n_groups);
            __builtin_prefetch(residuals + next * m);
            const Place* place = places + starts[rows[i + kAhead] * n_groups];
            __builtin_prefetch(place);
            __builtin_prefetch(place + kLine);
        }
        const ResidualRow<kColumns> row(residuals + rows[i] * m, m);
        const Place* place = places + starts[rows[i] * n_groups];
        const Place* last = places + ends[rows[i] * n_groups];
        for (; place < last; ++place) {
            const int64_t bin = kSame ? *place : bin_at[*place];
            if (counts) ++counts[bin];
            row.add_to(hist + bin * m);
        }
    }
}

template <int kColumns, typename Place>
[[gnu::always_inline]] inline void add_entries_mapped(const SparseColumns& entries, const int32_t* bin_at,
                                                      const int16_t* residuals, int64_t columns,
                                                      const int32_t* rows, int64_t n, int64_t begin,
                                                      int64_t end, int32_t* hist, int32_t* counts) {
    if (bin_at == nullptr)
        add_entries_impl<kColumns, true, Place>(entries, bin_at, residuals, columns, rows, n, begin, end,
                                                hist, counts);
    else
        add_entries_impl<kColumns, false, Place>(entries, bin_at, residuals, columns, rows, n, begin, end,
                                                 hist, counts);
}

#define SPARSELEAF_ADD_ENTRIES(name, columns_at_compile_time, Place)                                         \
    SPARSELEAF_WIDE void name(const SparseColumns& entries, const int32_t* bin_at, const int16_t* residuals, \
                              int64_t columns, const int32_t* rows, int64_t n, int64_t begin, int64_t end,   \
                              int32_t* hist, int32_t* counts) {                                              \
        add_entries_mapped<columns_at_compile_time, Place>(entries, bin_at, residuals, columns, rows, n,     \
                                                           begin, end, hist, counts);                        \
    }
#define SPARSELEAF_ADD_ENTRIES_OF(suffix, Place)               \
    SPARSELEAF_ADD_ENTRIES(add_entries_4_##suffix, 4, Place)   \
    SPARSELEAF_ADD_ENTRIES(add_entries_8_##suffix, 8, Place)   \
    SPARSELEAF_ADD_ENTRIES(add_entries_16_##suffix, 16, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_24_##suffix, 24, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_32_##suffix, 32, Place) \
    SPARSELEAF_ADD_ENTRIES(add_entries_any_##suffix, 0, Place) \
    AddEntries add_entries_##suffix(int64_t columns) {         \
        return columns == 4    ? add_entries_4_##suffix        \
               : columns == 8  ? add_entries_8_##suffix        \
               : columns == 16 ? add_entries_16_##suffix       \
               : columns == 24 ? add_entries_24_##suffix       \
               : columns == 32 ? add_entries_32_##suffix       \
                               : add_entries_any_##suffix;     \
    }
SPARSELEAF_ADD_ENTRIES_OF(short, uint16_t)
SPARSELEAF_ADD_ENTRIES_OF(long, int32_t)

}  // namespace

AddEntries add_entries_of(int64_t columns, const SparseColumns& entries) {
    return entries.short_places ? add_entries_short(columns) : add_entries_long(columns);
}

SparseColumns::SparseColumns(const uint8_t* bins, int64_t n_rows, std::vector<int32_t> n_bins,
                             std::vector<int32_t> given, int n_threads)
    : common(std::move(given)), first{0} {
    for (size_t f = 0; f < common.size(); ++f) {
        require(common[f] < n_bins[f], "common: must be less than n_bins");
        first.push_back(first.back() + n_bins[f]);
    }
    const bool any = std::any_of(common.begin(), common.end(), [](int32_t bin) { return bin >= 0; });
    if (!any) n_rows = 0;
    groups = group_features(bins, n_rows, common, n_threads);
    if (first.back() <= 1 << 16)
        short_places = collect<uint16_t>(bins, n_rows, n_threads);
    else
        long_places = collect<int32_t>(bins, n_rows, n_threads);
}

template <typename Place>
std::unique_ptr<Place[]> SparseColumns::collect(const uint8_t* bins, int64_t n, int n_threads) {
    const auto n_features = static_cast<int64_t>(common.size());
    const int64_t n_groups = this->n_groups();
    indptr.reset(new int64_t[static_cast<size_t>(n * n_groups) + 1]);
    std::vector<int32_t> sparse;
    for (int64_t f = 0; f < n_features; ++f)
        if (common[f] >= 0) sparse.push_back(static_cast<int32_t>(f));
    std::vector<int64_t> begins;  // start of the groups in `sparse`
    for (const int32_t border : groups)
        begins.push_back(std::lower_bound(sparse.begin(), sparse.end(), border) - sparse.begin());
    const auto each_uncommon = [&](int64_t row, int64_t group, auto&& use) {
        const uint8_t* row_bins = bins + row * n_features;
        for (int64_t j = begins[group]; j < begins[group + 1]; ++j) {
            const int32_t f = sparse[j];
            if (row_bins[f] == common[f]) continue;
            require(first[f] + row_bins[f] < first[f + 1], "bins: must be less than n_bins");
            use(first[f] + row_bins[f]);
        }
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
    n_entries.assign(static_cast<size_t>(n_groups), 0);
    for (int64_t i = 0; i < n * n_groups; ++i) {
        n_entries[i % n_groups] += indptr[i + 1];
        indptr[i + 1] += indptr[i];
    }
    std::unique_ptr<Place[]> places(new Place[static_cast<size_t>(indptr[n * n_groups])]);
    each_row([&](int64_t row, int64_t group) {
        int64_t at = indptr[row * n_groups + group];
        each_uncommon(row, group, [&](int32_t place) { places[at++] = static_cast<Place>(place); });
    });
    return places;
}

TreePlaces::TreePlaces(const SparseColumns& columns, const FeatureSet& features)
    : walked(static_cast<size_t>(columns.n_groups()), 0) {
    if (features.n == static_cast<int64_t>(columns.common.size())) {
        std::fill(walked.begin(), walked.end(), uint8_t{1});
        return;
    }
    bin_at.resize(static_cast<size_t>(columns.first.back()));
    int64_t a = 0;
    for (size_t g = 0; g < walked.size(); ++g) {
        int64_t last = a;  // the tree's features of this group are [a, last)
        while (last < features.n && features.columns[last] < columns.groups[g + 1]) ++last;
        int32_t forgotten = 0;
        for (int64_t used = last; used-- > a;) {
            const int32_t bin = columns.common[features.columns[used]];
            if (bin < 0) continue;
            forgotten = features.offsets[used] + bin;
            walked[g] = 1;
        }
        for (int32_t f = columns.groups[g]; f < columns.groups[g + 1]; ++f) {
            const bool used = a < last && features.columns[a] == f;
            for (int32_t place = columns.first[f]; place < columns.first[f + 1]; ++place)
                bin_at[place] = used ? features.offsets[a] + place - columns.first[f] : forgotten;
            a += used;
        }
    }
}

void fill_common(int32_t* hist, int32_t* counts, int64_t step, int64_t columns, int64_t low, int64_t high,
                 int64_t common, const int32_t* total, int64_t n) {
    constexpr int64_t kFew = 8;  // up to this many columns, subtracting is faster than testing for empty bins
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

}  // namespace sparseleaf
