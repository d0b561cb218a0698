// From feature values to bins: where to cut, and which bin a value falls in.
//
// Bin b of a feature holds the values in (cuts[b-1], cuts[b]]; a value without a number (NaN) goes to the bin
// after the last, "missing". A cut lies between two values seen, so that `x <= cut` parts them exactly.
#include <cmath>
#include <cstring>

#include "common.hpp"

namespace sparseleaf {
namespace {

// A number c with low <= c < high, half-way where float32 allows.
float between(float low, float high) {
    const auto middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2.0);
    return middle < high ? middle : low;
}

// Cuts of one feature from its values (sorted in place) and the number of zeros not among them.
// At most max_bins bins; each distinct value has a bin of its own if there are few enough, otherwise bins
// hold about as many rows each, and a value that alone fills a bin (such as zero in sparse data) gets its
// own.
std::vector<float> cuts_of(std::vector<float>& values, int64_t n_zeros, int64_t max_bins) {
    std::sort(values.begin(), values.end());
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

    std::vector<float> cuts;
    const auto n_distinct = static_cast<int64_t>(distinct.size());
    if (n_distinct <= max_bins) {
        for (int64_t i = 0; i + 1 < n_distinct; ++i) cuts.push_back(between(distinct[i], distinct[i + 1]));
        return cuts;
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
    int64_t held = 0;
    for (int64_t i = 0; i + 1 < n_distinct && static_cast<int64_t>(cuts.size()) + 1 < max_bins; ++i) {
        held += count[i];
        const bool heavy = static_cast<double>(count[i]) >= fill;
        const bool heavy_next = static_cast<double>(count[i + 1]) >= fill;
        if (heavy || heavy_next || static_cast<double>(held) >= target) {
            cuts.push_back(between(distinct[i], distinct[i + 1]));
            held = 0;
        }
    }
    return cuts;
}

nb::tuple pack(std::vector<std::vector<float>>&& cuts) {
    const size_t n_features = cuts.size();
    auto offsets = std::make_unique<int64_t[]>(n_features + 1);
    offsets[0] = 0;
    for (size_t f = 0; f < n_features; ++f)
        offsets[f + 1] = offsets[f] + static_cast<int64_t>(cuts[f].size());
    const auto size = static_cast<size_t>(offsets[n_features]);
    auto flat = std::make_unique<float[]>(size);
    for (size_t f = 0; f < n_features; ++f)
        std::copy(cuts[f].begin(), cuts[f].end(), flat.get() + offsets[f]);
    return nb::make_tuple(to_numpy(std::move(offsets), n_features + 1), to_numpy(std::move(flat), size));
}

// X: (rows, features). Returns (offsets int64 (features + 1), cuts float32), the cuts of feature f being
// cuts[offsets[f]:offsets[f+1]], strictly increasing.
nb::tuple find_cuts_dense(In2<float> X, int64_t max_bins, int n_threads) {
    const auto n = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    std::vector<std::vector<float>> cuts(static_cast<size_t>(n_features));
    {
        GilRelease release;
        parallel_tasks(n_features, n_threads, [&](int64_t f, int) {
            std::vector<float> values;
            values.reserve(static_cast<size_t>(n));
            int64_t n_zeros = 0;  // counted: often there are many, and they need not be sorted
            for (int64_t i = 0; i < n; ++i) {
                const float value = X.data()[i * n_features + f];
                if (value == 0.0f)
                    ++n_zeros;
                else if (!std::isnan(value))
                    values.push_back(value);
            }
            cuts[f] = cuts_of(values, n_zeros, max_bins);
        });
    }
    return pack(std::move(cuts));
}

// The same from CSC parts (indptr, data): what is not stored is zero.
nb::tuple find_cuts_csc(In1<int64_t> indptr, In1<float> data, int64_t n_rows, int64_t max_bins,
                        int n_threads) {
    const int64_t n_features = static_cast<int64_t>(indptr.size()) - 1;
    require_indptr(indptr, data.size());
    std::vector<std::vector<float>> cuts(static_cast<size_t>(n_features));
    {
        GilRelease release;
        parallel_tasks(n_features, n_threads, [&](int64_t f, int) {
            std::vector<float> values;
            const int64_t begin = indptr.data()[f], end = indptr.data()[f + 1];
            values.reserve(static_cast<size_t>(end - begin));
            for (int64_t i = begin; i < end; ++i)
                if (!std::isnan(data.data()[i])) values.push_back(data.data()[i]);
            cuts[f] = cuts_of(values, n_rows - (end - begin), max_bins);
        });
    }
    return pack(std::move(cuts));
}

// The number of cuts below the value, by halving without jumps: which way it goes cannot be foreseen.
template <typename Bin>
inline Bin bin_of(float value, const float* cuts, int64_t n_cuts) {
    if (std::isnan(value)) return static_cast<Bin>(n_cuts + 1);
    const float* low = cuts;
    for (int64_t n = n_cuts; n > 0;) {
        const int64_t half = (n + 1) / 2;
        low += half & -static_cast<int64_t>(low[half - 1] < value);
        n -= half;
    }
    return static_cast<Bin>(low - cuts);
}

void check_cuts(In1<int64_t> offsets, In1<float> cuts, int64_t n_features) {
    require(static_cast<int64_t>(offsets.size()) == n_features + 1, "offsets: one more than features");
    require(offsets.data()[n_features] == static_cast<int64_t>(cuts.size()), "offsets: must end at the cuts");
}

constexpr int64_t kRowChunk = 512;

template <typename Bin>
void bin_dense(In2<float> X, In1<int64_t> offsets, In1<float> cuts, Out2<Bin> out, int n_threads) {
    const auto n = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    check_cuts(offsets, cuts, n_features);
    require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1), "out: shape of X");
    GilRelease release;
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        const int64_t begin = chunk * kRowChunk, end = std::min(n, begin + kRowChunk);
        for (int64_t f = 0; f < n_features; ++f) {
            const float* own = cuts.data() + offsets.data()[f];
            const int64_t n_cuts = offsets.data()[f + 1] - offsets.data()[f];
            const Bin zero_bin = bin_of<Bin>(0.0f, own, n_cuts);
            for (int64_t i = begin; i < end; ++i) {
                const float value = X.data()[i * n_features + f];
                out.data()[i * n_features + f] = value == 0.0f ? zero_bin : bin_of<Bin>(value, own, n_cuts);
            }
        }
    });
}

template <typename Bin>
void bin_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> offsets,
             In1<float> cuts, Out2<Bin> out, int n_threads) {
    const auto n = static_cast<int64_t>(out.shape(0)), n_features = static_cast<int64_t>(out.shape(1));
    check_cuts(offsets, cuts, n_features);
    require(static_cast<int64_t>(indptr.size()) == n + 1, "indptr: one more than the rows of out");
    require(indices.size() == data.size(), "indices, data: same size");
    require_indptr(indptr, data.size());
    GilRelease release;
    std::vector<Bin> zero_bin(static_cast<size_t>(n_features));
    for (int64_t f = 0; f < n_features; ++f)
        zero_bin[f] =
            bin_of<Bin>(0.0f, cuts.data() + offsets.data()[f], offsets.data()[f + 1] - offsets.data()[f]);
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            Bin* row = out.data() + i * n_features;
            std::copy(zero_bin.begin(), zero_bin.end(), row);
            for (int64_t e = indptr.data()[i]; e < indptr.data()[i + 1]; ++e) {
                const int64_t f = indices.data()[e];
                require(f >= 0 && f < n_features, "indices: a feature beyond the columns of out");
                row[f] = bin_of<Bin>(data.data()[e], cuts.data() + offsets.data()[f],
                                     offsets.data()[f + 1] - offsets.data()[f]);
            }
        }
    });
}

// The bin of every feature that at least `share` of the rows have, the lowest of equals, or -1; only every
// `step`-th row is looked at.
auto common_bins(In2<uint8_t> bins, int64_t step, double share, int n_threads) {
    const auto n = static_cast<int64_t>(bins.shape(0)), n_features = static_cast<int64_t>(bins.shape(1));
    require(step >= 1, "step: at least 1");
    std::unique_ptr<int32_t[]> common(new int32_t[static_cast<size_t>(n_features)]);
    {
        GilRelease release;
        constexpr int64_t kBins = 256, kFeatures = 64;  // whose counts stay in the cache, a line of every row
        const double enough = share * static_cast<double>((n + step - 1) / step);
        parallel_tasks((n_features + kFeatures - 1) / kFeatures, n_threads, [&](int64_t block, int) {
            const int64_t first = block * kFeatures, last = std::min(n_features, first + kFeatures);
            std::vector<int32_t> counts(static_cast<size_t>(kBins * (last - first)), 0);
            for (int64_t i = 0; i < n; i += step)
                for (int64_t f = first; f < last; ++f)
                    ++counts[(f - first) * kBins + bins.data()[i * n_features + f]];
            for (int64_t f = first; f < last; ++f) {
                const auto own = counts.begin() + (f - first) * kBins;
                const auto most = std::max_element(own, own + kBins);
                common[f] = n > 0 && *most >= enough ? static_cast<int32_t>(most - own) : -1;
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
    m.def("find_cuts_dense", &find_cuts_dense, nb::arg("X"), nb::arg("max_bins"), nb::arg("n_threads"));
    m.def("find_cuts_csc", &find_cuts_csc, nb::arg("indptr"), nb::arg("data"), nb::arg("n_rows"),
          nb::arg("max_bins"), nb::arg("n_threads"));
    m.def("bin_dense", &bin_dense<uint8_t>, nb::arg("X"), nb::arg("offsets"), nb::arg("cuts"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_dense", &bin_dense<uint32_t>, nb::arg("X"), nb::arg("offsets"), nb::arg("cuts"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_csr", &bin_csr<uint8_t>, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("offsets"), nb::arg("cuts"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("bin_csr", &bin_csr<uint32_t>, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("offsets"), nb::arg("cuts"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
