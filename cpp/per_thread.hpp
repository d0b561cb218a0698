// Sums and extremes over rows: an array for every thread, combined afterwards.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// The operation must be exact and commutative, so that the number of threads does not matter.
template <typename T>
class PerThread {
  public:
    PerThread(int n_threads, int64_t size, T start) : size_(size), start_(start) {
        arrays_.resize(static_cast<size_t>(n_threads));
    }

    // The array of a thread; allocated by that thread, and only if it gets work.
    T* operator[](int thread) {
        auto& array = arrays_[static_cast<size_t>(thread)];
        if (array.empty()) array.assign(static_cast<size_t>(size_), start_);
        return array.data();
    }

    template <typename Combine>
    void combined(T* out, int n_threads, Combine combine) const {
        constexpr int64_t kChunk = 4096;
        parallel_tasks((size_ + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int) {
            const int64_t begin = chunk * kChunk, end = std::min(size_, begin + kChunk);
            std::fill(out + begin, out + end, start_);
            for (const auto& array : arrays_)
                for (int64_t i = begin; i < end && !array.empty(); ++i) out[i] = combine(out[i], array[i]);
        });
    }

  private:
    int64_t size_;
    T start_;
    std::vector<std::vector<T>> arrays_;
};

}  // namespace sparseleaf
