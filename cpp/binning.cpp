// Feature binning: bin thresholds, and the bins of values.
//
// Bin b of a feature holds the values in (thresholds[b-1], thresholds[b]]; NaN goes to the bin after the
// last, "missing". A threshold lies between two values of the data, so that `x <= threshold` separates them
// exactly.
#include <cmath>
#include <cstring>

#include "common.hpp"
#include "radix.hpp"

namespace sparseleaf {
namespace {

// A number c with low <= c < high, the midpoint where float32 allows.
float between(float low, float high) {
    const auto middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2.0);
    return middle < high ? middle : low;
}

void sort_floats(std::vector<float>& values) {
    constexpr size_t kFew = 1024;  // a radix sort takes at least the time of clearing its counters
    if (values.size() < kFew) {
        std::sort(values.begin(), values.end());
        return;
    }
    std::vector<uint32_t> keys(values.size());
    for (size_t i = 0; i < values.size(); ++i) keys[i] = ordered_key(values[i]);
    radix_sort(keys, 0);
    for (size_t i = 0; i < values.size(); ++i) values[i] = of_ordered_key(keys[i]);
}

// Thresholds of one feature from its values (sorted in place) and the number of zeros not among them. If
// there are at most max_bins distinct values, each has a bin; otherwise bins have about equal numbers of
// rows, except that a frequent value that fills a bin, such as zero in sparse data, has a separate bin.
std::vector<float> thresholds_of(std::vector<float>& values, int64_t n_zeros, int64_t max_bins) {
    sort_floats(values);
    std::vector<float> distinct;
    std::vector<int64_t> count;
    const auto add = [&](float value, int64_t times) {
        if (times == 0) return;
        if (!distinct.empty() && distinct.back() == value) {
            count.back() += times;
        } else {
            distinct.push_back(value);
            count.push_back(times);
        }
    };
    bool zeros_added = n_zeros == 0;
    for (const float value : values) {
        if (!zeros_added && value >= 0.0f) {
            add(0.0f, n_zeros);
            zeros_added = true;
        }
        add(value == 0.0f ? 0.0f : value, 1);  // -0 is 0
    }
    if (!zeros_added) add(0.0f, n_zeros);

    std::vector<float> thresholds;
    const auto n_distinct = static_cast<int64_t>(distinct.size());
    if (n_distinct <= max_bins) {
        for (int64_t i = 0; i + 1 < n_distinct; ++i)
            thresholds.push_back(between(distinct[i], distinct[i + 1]));
        return thresholds;
    }
    int64_t total = n_zeros + static_cast<int64_t>(values.size());
    int64_t rest = total, rest_bins = max_bins;  // rows and bins for values that do not fill a bin alone
    const double fill = static_cast<double>(total) / static_cast<double>(max_bins);
    for (const int64_t c : count)
        if (static_cast<double>(c) >= fill) {
            rest -= c;
            --rest_bins;
        }
    const double target = static_cast<double>(rest) / static_cast<double>(std::max<int64_t>(rest_bins, 1));
    int64_t n_in_bin = 0;
    for (int64_t i = 0; i + 1 < n_distinct && static_cast<int64_t>(thresholds.size()) + 1 < max_bins; ++i) {
        n_in_bin += count[i];
        const bool heavy = static_cast<double>(count[i]) >= fill;
        const bool heavy_next = static_cast<double>(count[i + 1]) >= fill;
        if (heavy || heavy_next || static_cast<double>(n_in_bin) >= target) {
            thresholds.push_back(between(distinct[i], distinct[i + 1]));
            n_in_bin = 0;
        }
    }
    return thresholds;
}

nb::tuple pack(std::vector<std::vector<float>>&& thresholds) {
    const size_t n_features = thresholds.size();
    auto offsets = std::make_unique<int64_t[]>(n_features + 1);
    offsets[0] = 0;
    for (size_t f = 0; f < n_features; ++f)
        offsets[f + 1] = offsets[f] + static_cast<int64_t>(thresholds[f].size());
    const auto size = static_cast<size_t>(offsets[n_features]);
    auto flat = std::make_unique<float[]>(size);
    for (size_t f = 0; f < n_features; ++f)
        std::copy(thresholds[f].begin(), thresholds[f].end(), flat.get() + offsets[f]);
    return nb::make_tuple(to_numpy(std::move(offsets), n_features + 1), to_numpy(std::move(flat), size));
}

// X: (rows, features). Returns (offsets int64 (features + 1), thresholds float32), the thresholds of feature
// f being thresholds[offsets[f]:offsets[f+1]], strictly increasing.
nb::tuple find_thresholds_dense(In2<float> X, int64_t max_bins, int n_threads) {
    const auto n = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    std::vector<std::vector<float>> thresholds(static_cast<size_t>(n_features));
    {
        GilRelease release;
        parallel_tasks(n_features, n_threads, [&](int64_t f, int) {
            std::vector<float> values;
            values.reserve(static_cast<size_t>(n));
            int64_t n_zeros = 0;  // counted, not sorted: there are often many
            for (int64_t i = 0; i < n; ++i) {
                const float value = X.data()[i * n_features + f];
                if (value == 0.0f)
                    ++n_zeros;
                else if (!std::isnan(value))
                    values.push_back(value);
            }
            thresholds[f] = thresholds_of(values, n_zeros, max_bins);
        });
    }
    return pack(std::move(thresholds));
}

// The same from CSC arrays (indptr, data).
nb::tuple find_thresholds_csc(In1<int64_t> indptr, In1<float> data, int64_t n_rows, int64_t max_bins,
                              int n_threads) {
    const int64_t n_features = static_cast<int64_t>(indptr.size()) - 1;
    require_indptr(indptr, data.size());
    std::vector<std::vector<float>> thresholds(static_cast<size_t>(n_features));
    {
        GilRelease release;
        parallel_tasks(n_features, n_threads, [&](int64_t f, int) {
            std::vector<float> values;
            const int64_t begin = indptr.data()[f], end = indptr.data()[f + 1];
            values.reserve(static_cast<size_t>(end - begin));
            for (int64_t i = begin; i < end; ++i)
                if (!std::isnan(data.data()[i])) values.push_back(data.data()[i]);
            thresholds[f] = thresholds_of(values, n_rows - (end - begin), max_bins);
        });
    }
    return pack(std::move(thresholds));
}

// The number of thresholds below the value, by branchless binary search: branches would be unpredictable.
template <typename Bin>
inline Bin bin_of(float value, const float* thresholds, int64_t n_thresholds) {
    if (std::isnan(value)) return static_cast<Bin>(n_thresholds + 1);
    const float* low = thresholds;
    for (int64_t n = n_thresholds; n > 0;) {
        const int64_t half = (n + 1) / 2;
        low += half & -static_cast<int64_t>(low[half - 1] < value);
        n -= half;
    }
    return static_cast<Bin>(low - thresholds);
}

void check_thresholds(In1<int64_t> offsets, In1<float> thresholds, int64_t n_features) {
    require(static_cast<int64_t>(offsets.size()) == n_features + 1,
            "offsets: must have one more entry than features");
    require(offsets.data()[n_features] == static_cast<int64_t>(thresholds.size()),
            "offsets: must end at the number of thresholds");
}

constexpr int64_t kRowChunk = 512;

template <typename Bin>
void bin_dense(In2<float> X, In1<int64_t> offsets, In1<float> thresholds, Out2<Bin> out, int n_threads) {
    const auto n = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    check_thresholds(offsets, thresholds, n_features);
    require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1), "out: must have the shape of X");
    GilRelease release;
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        const int64_t begin = chunk * kRowChunk, end = std::min(n, begin + kRowChunk);
        for (int64_t f = 0; f < n_features; ++f) {
            const float* feature_thresholds = thresholds.data() + offsets.data()[f];
            const int64_t n_thresholds = offsets.data()[f + 1] - offsets.data()[f];
            const Bin zero_bin = bin_of<Bin>(0.0f, feature_thresholds, n_thresholds);
            for (int64_t i = begin; i < end; ++i) {
                const float value = X.data()[i * n_features + f];
                out.data()[i * n_features + f] =
                    value == 0.0f ? zero_bin : bin_of<Bin>(value, feature_thresholds, n_thresholds);
            }
        }
    });
}

template <typename Bin>
void bin_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> offsets,
             In1<float> thresholds, Out2<Bin> out, int n_threads) {
    const auto n = static_cast<int64_t>(out.shape(0)), n_features = static_cast<int64_t>(out.shape(1));
    check_thresholds(offsets, thresholds, n_features);
    require(static_cast<int64_t>(indptr.size()) == n + 1,
            "indptr: must have one more entry than rows of out");
    require(indices.size() == data.size(), "indices, data: must have equal sizes");
    require_indptr(indptr, data.size());
    GilRelease release;
    std::vector<Bin> zero_bin(static_cast<size_t>(n_features));
    for (int64_t f = 0; f < n_features; ++f)
        zero_bin[f] = bin_of<Bin>(0.0f, thresholds.data() + offsets.data()[f],
                                  offsets.data()[f + 1] - offsets.data()[f]);
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            Bin* row = out.data() + i * n_features;
            std::copy(zero_bin.begin(), zero_bin.end(), row);
            for (int64_t e = indptr.data()[i]; e < indptr.data()[i + 1]; ++e) {
                const int64_t f = indices.data()[e];
                require(f >= 0 && f < n_features, "indices: must be columns of out");
                row[f] = bin_of<Bin>(data.data()[e], thresholds.data() + offsets.data()[f],
                                     offsets.data()[f + 1] - offsets.data()[f]);
            }
        }
    });
}

// The most common bin of every feature if at least a fraction `share` of the rows has it (ties: lowest bin),
// otherwise -1; from every `step`-th row.
auto common_bins(In2<uint8_t> bins, int64_t step, double share, int n_threads) {
    const auto n = static_cast<int64_t>(bins.shape(0)), n_features = static_cast<int64_t>(bins.shape(1));
    require(step >= 1, "step: must be at least 1");
    std::unique_ptr<int32_t[]> common(new int32_t[static_cast<size_t>(n_features)]);
    {
        GilRelease release;
        constexpr int64_t kBins = 256,
                          kFeatures = 64;  // counts fit the cache; features of one cache line of every row
        const double enough = share * static_cast<double>((n + step - 1) / step);
        parallel_tasks((n_features + kFeatures - 1) / kFeatures, n_threads, [&](int64_t block, int) {
            const int64_t first = block * kFeatures, last = std::min(n_features, first + kFeatures);
            std::vector<int32_t> counts(static_cast<size_t>(kBins * (last - first)), 0);
            for (int64_t i = 0; i < n; i += step)
                for (int64_t f = first; f < last; ++f)
                    ++counts[(f - first) * kBins + bins.data()[i * n_features + f]];
            for (int64_t f = first; f < last; ++f) {
                const auto bin_counts = counts.begin() + (f - first) * kBins;
                const auto most = std::max_element(bin_counts, bin_counts + kBins);
                common[f] = n > 0 && *most >= enough ? static_cast<int32_t>(most - bin_counts) : -1;
            }
        });
    }
    return to_numpy(std::move(common), static_cast<size_t>(n_features));
}

}  // namespace
}  // namespace sparseleaf

void bind_binning(nb::module_& m) {
    using namespace sparseleaf;
    m.def("common_bins", &common_bins, nb::arg("bins"), nb::arg("step"), nb::arg("share"),
          nb::arg("n_threads"));
    m.def("find_thresholds_dense", &find_thresholds_dense, nb::arg("X"), nb::arg("max_bins"),
          nb::arg("n_threads"));
    m.def("find_thresholds_csc", &find_thresholds_csc, nb::arg("indptr"), nb::arg("data"), nb::arg("n_rows"),
          nb::arg("max_bins"), nb::arg("n_threads"));
    m.def("bin_dense", &bin_dense<uint8_t>, nb::arg("X"), nb::arg("offsets"), nb::arg("thresholds"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_dense", &bin_dense<uint32_t>, nb::arg("X"), nb::arg("offsets"), nb::arg("thresholds"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_csr", &bin_csr<uint8_t>, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("offsets"), nb::arg("thresholds"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_csr", &bin_csr<uint32_t>, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("offsets"), nb::arg("thresholds"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
