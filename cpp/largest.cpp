// The entries of largest magnitude of every row of a sparse matrix.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

template <typename T>
void mark(const int64_t* indptr, int64_t n_rows, const T* data, int64_t most, uint8_t* kept, int n_threads) {
    constexpr int64_t kBlock = 256;
    parallel_tasks((n_rows + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        std::vector<std::pair<T, int64_t>> entries;
        for (int64_t row = block * kBlock; row < std::min(n_rows, (block + 1) * kBlock); ++row) {
            const int64_t begin = indptr[row], end = indptr[row + 1];
            std::fill(kept + begin, kept + end, uint8_t{end - begin <= most});
            if (end - begin <= most) continue;
            entries.clear();
            for (int64_t e = begin; e < end; ++e)
                entries.push_back({std::isnan(data[e]) ? T{-1} : std::abs(data[e]), e});
            std::nth_element(entries.begin(), entries.begin() + most, entries.end(),
                             [](const auto& a, const auto& b) {
                                 return a.first != b.first ? a.first > b.first : a.second < b.second;
                             });
            for (int64_t i = 0; i < most; ++i) kept[entries[i].second] = 1;
        }
    });
}

}  // namespace

// kept[e] = whether entry e is among the `most` largest of its row; ties: the first. NaN is the smallest.
void mark_largest(In1<int64_t> indptr, AnyIn1 data, int64_t most, Out1<uint8_t> kept, int n_threads) {
    require_indptr(indptr, data.size());
    require(kept.size() == data.size(), "kept: one entry per value");
    require(most >= 0 && n_threads >= 1, "most, n_threads: too small");
    const auto n_rows = static_cast<int64_t>(indptr.size()) - 1;
    const bool wide = data.dtype() == nb::dtype<double>();
    require(wide || data.dtype() == nb::dtype<float>(), "data: must be float32 or float64");
    GilRelease release;
    if (wide)
        mark(indptr.data(), n_rows, static_cast<const double*>(data.data()), most, kept.data(), n_threads);
    else
        mark(indptr.data(), n_rows, static_cast<const float*>(data.data()), most, kept.data(), n_threads);
}

}  // namespace sparseleaf

void bind_largest(nb::module_& m) {
    using namespace sparseleaf;
    m.def("mark_largest", &mark_largest, nb::arg("indptr"), nb::arg("data"), nb::arg("most"),
          nb::arg("kept").noconvert(), nb::arg("n_threads"));
}
