// Single passes over an array, for which numpy takes one thread: checks of the values, and copies of rows.
#include <nanobind/stl/pair.h>

#include <cmath>
#include <cstring>

#include "per_thread.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kChunk = 1 << 16;  // values per task

enum Special : uint8_t { kNan = 1, kInfinity = 2 };

template <typename T>
SPARSELEAF_WIDE uint8_t special(const T* values, int64_t n) {
    int nan = 0, infinity = 0;
    for (int64_t i = 0; i < n; ++i) {
        nan |= values[i] != values[i];
        infinity |= std::abs(values[i]) > std::numeric_limits<T>::max();  // false for NaN
    }
    return static_cast<uint8_t>((nan ? kNan : 0) | (infinity ? kInfinity : 0));
}

template <typename T>
SPARSELEAF_WIDE uint8_t other_than_binary(const T* values, int64_t n) {
    int other = 0;
    for (int64_t i = 0; i < n; ++i) other |= (values[i] != T{0}) & (values[i] != T{1});
    return other != 0;
}

template <typename T>
SPARSELEAF_WIDE uint8_t zero(const T* values, int64_t n) {
    int zero = 0;
    for (int64_t i = 0; i < n; ++i) zero |= values[i] == T{0};
    return zero != 0;
}

// The bits that a check of a chunk sets, over all chunks.
template <typename Check>
uint8_t any_of(int64_t n, int n_threads, Check check) {
    std::vector<uint8_t> found(static_cast<size_t>((n + kChunk - 1) / kChunk), 0);
    parallel_tasks(static_cast<int64_t>(found.size()), n_threads, [&](int64_t chunk, int) {
        const int64_t begin = chunk * kChunk;
        found[static_cast<size_t>(chunk)] = check(begin, std::min(kChunk, n - begin));
    });
    uint8_t all = 0;
    for (const uint8_t one : found) all |= one;
    return all;
}

// Whether there are NaN, and infinities.
template <typename T>
std::pair<bool, bool> special_values(In1<T> values, int n_threads) {
    GilRelease release;
    const uint8_t found = any_of(static_cast<int64_t>(values.size()), n_threads,
                                 [&](int64_t begin, int64_t n) { return special(values.data() + begin, n); });
    return {(found & kNan) != 0, (found & kInfinity) != 0};
}

// Whether all values are 0 or 1, and whether there are zeros.
template <typename T>
std::pair<bool, bool> binary_values(In1<T> values, int n_threads) {
    GilRelease release;
    const uint8_t found =
        any_of(static_cast<int64_t>(values.size()), n_threads, [&](int64_t begin, int64_t n) {
            const T* some = values.data() + begin;
            return static_cast<uint8_t>(other_than_binary(some, n) | zero(some, n) << 1);
        });
    return {(found & 1) == 0, (found & 2) != 0};
}

// Whether the row pointers and column indices of a CSR matrix are valid, without entries behind the last row,
// and whether the columns of every row increase.
std::pair<bool, bool> csr_state(In1<int64_t> indptr, In1<int32_t> indices, int64_t n_columns, int n_threads) {
    const int64_t n = static_cast<int64_t>(indptr.size()) - 1;
    GilRelease release;
    if (n < 0 || indptr.data()[0] != 0 || indptr.data()[n] != static_cast<int64_t>(indices.size()) ||
        !std::is_sorted(indptr.data(), indptr.data() + n + 1))
        return {false, false};
    constexpr int64_t kRows = 1024;
    std::vector<uint8_t> found(static_cast<size_t>((n + kRows - 1) / kRows), 0);
    parallel_tasks(static_cast<int64_t>(found.size()), n_threads, [&](int64_t task, int) {
        int wrong = 0, unordered = 0;
        for (int64_t i = task * kRows; i < std::min(n, (task + 1) * kRows); ++i) {
            const int32_t *row = indices.data() + indptr.data()[i],
                          *end = indices.data() + indptr.data()[i + 1];
            for (const int32_t* column = row; column < end; ++column) {
                wrong |= (*column < 0) | (*column >= n_columns);
                unordered |= column > row && column[-1] >= *column;
            }
        }
        found[static_cast<size_t>(task)] = static_cast<uint8_t>(wrong | unordered << 1);
    });
    uint8_t all = 0;
    for (const uint8_t one : found) all |= one;
    return {(all & 1) == 0, all == 0};
}

// counts[j] = number of rows with bin `searched[j]` in column j.
template <typename Bin>
void count_bins(In2<Bin> bins, In1<int32_t> searched, Out1<int64_t> counts, int n_threads) {
    const auto n = static_cast<int64_t>(bins.shape(0)), d = static_cast<int64_t>(bins.shape(1));
    require(static_cast<int64_t>(searched.size()) == d && static_cast<int64_t>(counts.size()) == d,
            "searched, counts: must have one entry per column");
    GilRelease release;
    constexpr int64_t kRows = 1024;
    PerThread<int64_t> found(n_threads, d, 0);
    parallel_tasks((n + kRows - 1) / kRows, n_threads, [&](int64_t task, int thread) {
        int64_t* mine = found[thread];
        for (int64_t i = task * kRows; i < std::min(n, (task + 1) * kRows); ++i)
            for (int64_t j = 0; j < d; ++j)
                mine[j] += static_cast<int64_t>(bins.data()[i * d + j]) == searched.data()[j];
    });
    found.combined(counts.data(), n_threads, [](int64_t a, int64_t b) { return a + b; });
}

using Bytes = In2<uint8_t>;

// Copies some rows. Memory that is new is mapped by all threads, which takes longer than writing it.
template <typename Source>
void copy_rows(int64_t n, size_t bytes, uint8_t* out, int n_threads, Source source) {
    const int64_t rows = kChunk / static_cast<int64_t>(std::max<size_t>(bytes, 1)) + 1;
    parallel_tasks((n + rows - 1) / rows, n_threads, [&](int64_t task, int) {
        for (int64_t i = task * rows; i < std::min(n, (task + 1) * rows); ++i)
            std::memcpy(out + static_cast<size_t>(i) * bytes, source(i), bytes);
    });
}

// out[i] = X[rows[i]], as bytes
void take_rows(Bytes X, In1<int64_t> rows, Out2<uint8_t> out, int n_threads) {
    const auto n = static_cast<int64_t>(rows.size());
    require(static_cast<int64_t>(out.shape(0)) == n && out.shape(1) == X.shape(1),
            "out: must have the taken rows");
    GilRelease release;
    for (int64_t i = 0; i < n; ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < static_cast<int64_t>(X.shape(0)),
                "rows: must be less than the number of rows");
    copy_rows(n, X.shape(1), out.data(), n_threads,
              [&](int64_t i) { return X.data() + static_cast<size_t>(rows.data()[i]) * X.shape(1); });
}

// out[i] = row, as bytes
void fill_rows(In1<uint8_t> row, Out2<uint8_t> out, int n_threads) {
    require(row.size() == out.shape(1), "out: must have the columns of the row");
    GilRelease release;
    copy_rows(static_cast<int64_t>(out.shape(0)), row.size(), out.data(), n_threads,
              [&](int64_t) { return row.data(); });
}

template <typename T>
void bind_values(nb::module_& m) {
    m.def("binary_values", &binary_values<T>, nb::arg("values").noconvert(), nb::arg("n_threads"));
    if constexpr (std::is_floating_point_v<T>)
        m.def("special_values", &special_values<T>, nb::arg("values").noconvert(), nb::arg("n_threads"));
}

template <typename Bin>
void bind_bins(nb::module_& m) {
    m.def("count_bins", &count_bins<Bin>, nb::arg("bins").noconvert(), nb::arg("searched"),
          nb::arg("counts").noconvert(), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_passes(nb::module_& m) {
    using namespace sparseleaf;
    bind_values<float>(m);
    bind_values<double>(m);
    bind_values<int32_t>(m);
    bind_values<int64_t>(m);
    bind_values<int8_t>(m);
    bind_values<uint8_t>(m);
    m.def("csr_state", &csr_state, nb::arg("indptr"), nb::arg("indices"), nb::arg("n_columns"),
          nb::arg("n_threads"));
    bind_bins<uint8_t>(m);
    bind_bins<uint32_t>(m);
    m.def("take_rows", &take_rows, nb::arg("X"), nb::arg("rows"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("fill_rows", &fill_rows, nb::arg("row"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
