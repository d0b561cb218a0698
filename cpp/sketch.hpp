// Common to sketches of sparse residuals and of dense gradients.
#pragma once

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr int64_t kRowChunk = 256;

// Fills the m columns of every row by fill(row, sums), times the row's weight if there are weights, and
// returns the largest absolute value.
template <typename F>
float each_row_max(int64_t n, int64_t m, float* out, int n_threads, F&& fill,
                   const float* row_weights = nullptr) {
    std::vector<float> largest(static_cast<size_t>(n_threads), 0.0f);
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int thread) {
        float top = largest[thread];
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            float* sums = out + i * m;
            std::fill(sums, sums + m, 0.0f);
            fill(i, sums);
            if (row_weights)
                for (int64_t c = 0; c < m; ++c) sums[c] *= row_weights[i];
            for (int64_t c = 0; c < m; ++c) top = std::max(top, std::fabs(sums[c]));
        }
        largest[thread] = top;
    });
    return *std::max_element(largest.begin(), largest.end());
}

// Count sketch with m columns: twice the column of every output, plus one for a negative sign.
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
