// What every kernel shares: array types, argument checks, and the vector-width dispatch.
//
// Kernels are plain functions, arrays in and arrays out. They release the GIL, take the number of threads
// as their last argument, and never let the number of threads change a bit of the result: every sum over
// rows is a sum of integers, and every floating-point operation belongs to exactly one row, node or cut.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gil.hpp"
#include "parallel.hpp"

namespace nb = nanobind;

// One clone of the function per instruction set; the loader picks the widest that the machine has.
// Sums of floating-point numbers inside are written over fixed lanes so that every clone adds in the same
// order.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(SPARSELEAF_SANITIZE)
#define SPARSELEAF_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SPARSELEAF_WIDE
#endif

namespace sparseleaf {

// Columns of a histogram are padded to a multiple of this: the narrowest vector of 32-bit integers.
constexpr int kLanes = 4;

template <typename T>
using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// Of a type that is asked for when it is known.
using AnyIn1 = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out3 = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Numpy1 = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

// The row (or column) pointers of a compressed matrix with n_entries entries: kernels walk them unchecked.
inline void require_indptr(const In1<int64_t>& indptr, size_t n_entries) {
    const auto last = static_cast<int64_t>(indptr.size()) - 1;
    require(last >= 0 && indptr.data()[0] == 0 && indptr.data()[last] == static_cast<int64_t>(n_entries) &&
                std::is_sorted(indptr.data(), indptr.data() + last + 1),
            "indptr: must rise from 0 to the number of entries");
}

// Ranges [starts[k], ends[k]) of `rows`, one for each node.
inline void require_ranges(const In1<int64_t>& starts, const In1<int64_t>& ends, size_t n_rows) {
    require(starts.size() == ends.size(), "starts, ends: same size");
    for (size_t k = 0; k < starts.size(); ++k)
        require(starts.data()[k] >= 0 && starts.data()[k] <= ends.data()[k] &&
                    ends.data()[k] <= static_cast<int64_t>(n_rows),
                "starts, ends: not a range of rows");
}

// Rows that trees with routers are trained on: features and labels, both CSR.
inline void require_labelled_rows(const In1<int64_t>& x_indptr, const In1<int32_t>& x_indices,
                                  const In1<float>& x_data, int64_t n_features, const In1<int64_t>& y_indptr,
                                  const In1<int32_t>& y_indices, int64_t n_labels) {
    require(x_indices.size() == x_data.size(), "x_indices, x_data: same size");
    require_indptr(x_indptr, x_data.size());
    require_indptr(y_indptr, y_indices.size());
    require(x_indptr.size() == y_indptr.size(), "x_indptr, y_indptr: same rows");
    require(n_features >= 0 && n_labels >= 0, "n_features, n_labels: not negative");
    for (size_t e = 0; e < x_indices.size(); ++e)
        require(x_indices.data()[e] >= 0 && x_indices.data()[e] < n_features, "x_indices: no such feature");
    for (size_t e = 0; e < y_indices.size(); ++e)
        require(y_indices.data()[e] >= 0 && y_indices.data()[e] < n_labels, "y_indices: no such label");
}

// Nodes to split: rows [offsets[k], offsets[k + 1]) of n_rows, and a key for each node's draws.
inline void require_nodes(const In1<int32_t>& rows, const In1<int64_t>& offsets, const In1<uint64_t>& keys,
                          int64_t n_rows) {
    require_indptr(offsets, rows.size());
    require(offsets.size() == keys.size() + 1, "offsets, keys: one more offset than keys");
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n_rows, "rows: no such row");
}

// nanobind ends the process where it gets no memory for the handle of an array: throw std::bad_alloc, which
// becomes MemoryError, before it asks.
inline void require_room_for_handles() {
    void* volatile probe = std::malloc(size_t{1} << 16);
    if (probe == nullptr) throw std::bad_alloc();
    std::free(probe);
}

// Hand a C++ array over to numpy without a copy; the capsule frees it.
template <typename T>
Numpy1<T> to_numpy(std::unique_ptr<T[]> data, size_t size) {
    require_room_for_handles();
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Numpy1<T>(raw, {size}, owner);
}

// splitmix64's finaliser: a well mixed 64-bit hash of a 64-bit key.
inline uint64_t mix64(uint64_t key) {
    key += 0x9e3779b97f4a7c15ULL;
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
    return key ^ (key >> 31);
}

}  // namespace sparseleaf
