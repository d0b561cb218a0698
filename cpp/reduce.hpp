// What reducing many outputs to few columns shares, whether residuals are sparse or dense.
#pragma once

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr int64_t kRowChunk = 256;

// Fills m columns of every row by fill(row, sums) and returns the largest absolute value.
template <typename F>
float each_row_max(int64_t n, int64_t m, float* out, int n_threads, F&& fill) {
    std::vector<float> largest(static_cast<size_t>(n_threads), 0.0f);
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int thread) {
        float top = largest[thread];
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            float* sums = out + i * m;
            std::fill(sums, sums + m, 0.0f);
            fill(i, sums);
            for (int64_t c = 0; c < m; ++c) top = std::max(top, std::fabs(sums[c]));
        }
        largest[thread] = top;
    });
    return *std::max_element(largest.begin(), largest.end());
}

// Twice the column of every output in a sketch of m, plus one for a negative sign.
template <typename Place>
std::vector<Place> sketch_places(uint64_t key, int64_t n_outputs, uint64_t m) {
    std::vector<Place> place(static_cast<size_t>(n_outputs));
    const uint64_t start = mix64(key);
    for (int64_t j = 0; j < n_outputs; ++j) {
        const uint64_t hash = mix64(start + static_cast<uint64_t>(j));
        place[j] = static_cast<Place>((((hash >> 32) * m) >> 32) * 2 + (hash & 1));
    }
    return place;
}

}  // namespace sparseleaf
