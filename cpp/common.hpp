// Common to all kernels: array types, argument checks, and the vector-width dispatch.
//
// Kernels are functions from arrays to arrays. They release the GIL, take the number of threads as their last
// argument, and return the same bits for any number of threads: sums over rows are sums of integers, and
// every floating-point operation belongs to exactly one row, node or split.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gil.hpp"
#include "parallel.hpp"
#include "platform.h"

namespace nb = nanobind;

// One clone of the function per instruction set; the loader picks the widest supported one. Floating-point
// sums use a fixed number of lanes, so that every clone adds in the same order.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(SPARSELEAF_SANITIZE)
#define SPARSELEAF_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SPARSELEAF_WIDE
#endif

namespace sparseleaf {

// Histogram columns are padded to a multiple of this, the narrowest vector of 32-bit integers.
constexpr int kLanes = 4;

template <typename T>
using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// Of any type, checked at run time.
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

// Validates the row (or column) pointers of a compressed matrix, which kernels read unchecked.
inline void require_indptr(const In1<int64_t>& indptr, size_t n_entries) {
    const auto last = static_cast<int64_t>(indptr.size()) - 1;
    require(last >= 0 && indptr.data()[0] == 0 && indptr.data()[last] == static_cast<int64_t>(n_entries) &&
                std::is_sorted(indptr.data(), indptr.data() + last + 1),
            "indptr: must increase from 0 to the number of entries");
}

// Validates the ranges [starts[k], ends[k]) of `rows`, one per node.
inline void require_ranges(const In1<int64_t>& starts, const In1<int64_t>& ends, size_t n_rows) {
    require(starts.size() == ends.size(), "starts, ends: must have equal sizes");
    for (size_t k = 0; k < starts.size(); ++k)
        require(starts.data()[k] >= 0 && starts.data()[k] <= ends.data()[k] &&
                    ends.data()[k] <= static_cast<int64_t>(n_rows),
                "starts, ends: must be ranges of rows");
}

inline void require_weights(const In1<float>& weights, int64_t n, const char* message) {
    require(static_cast<int64_t>(weights.size()) == n, message);
    for (size_t i = 0; i < weights.size(); ++i)
        require(weights.data()[i] > 0.0f && weights.data()[i] < std::numeric_limits<float>::infinity(),
                message);
}

// Validates the training rows of routed trees: features and labels, both CSR.
inline void require_labelled_rows(const In1<int64_t>& x_indptr, const In1<int32_t>& x_indices,
                                  const In1<float>& x_data, int64_t n_features, const In1<int64_t>& y_indptr,
                                  const In1<int32_t>& y_indices, int64_t n_labels) {
    require(x_indices.size() == x_data.size(), "x_indices, x_data: must have equal sizes");
    require_indptr(x_indptr, x_data.size());
    require_indptr(y_indptr, y_indices.size());
    require(x_indptr.size() == y_indptr.size(), "x_indptr, y_indptr: must have equal sizes");
    require(n_features >= 0 && n_labels >= 0, "n_features, n_labels: must not be negative");
    for (size_t e = 0; e < x_indices.size(); ++e)
        require(x_indices.data()[e] >= 0 && x_indices.data()[e] < n_features,
                "x_indices: must be less than n_features");
    for (size_t e = 0; e < y_indices.size(); ++e)
        require(y_indices.data()[e] >= 0 && y_indices.data()[e] < n_labels,
                "y_indices: must be less than n_labels");
}

// Validates nodes to split: rows [offsets[k], offsets[k + 1]), and a key per node for random draws.
inline void require_nodes(const In1<int32_t>& rows, const In1<int64_t>& offsets, const In1<uint64_t>& keys,
                          int64_t n_rows) {
    require_indptr(offsets, rows.size());
    require(offsets.size() == keys.size() + 1, "offsets, keys: must have one more offset than keys");
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n_rows, "rows: must be less than the number of rows");
}

// nanobind aborts the process if it cannot allocate an array handle: throw std::bad_alloc, which becomes
// MemoryError, first.
inline void require_room_for_handles() {
    void* volatile probe = std::malloc(size_t{1} << 16);
    if (probe == nullptr) throw std::bad_alloc();
    std::free(probe);
}

// Moves a C++ array to numpy without a copy; the capsule frees it.
template <typename T>
Numpy1<T> to_numpy(std::unique_ptr<T[]> data, size_t size) {
    require_room_for_handles();
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Numpy1<T>(raw, {size}, owner);
}

using sl::mix64;

}  // namespace sparseleaf
