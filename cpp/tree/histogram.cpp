// Histograms of dense features: the number of rows and Σ gradients of every bin.
//
// Bins are row-major: a row's gradients are loaded once and added to one bin of every feature.
#include "histogram.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kLine = 64;

// kNext: the features are consecutive columns, so that their indices need not be read.
template <int kColumns, bool kNext>
[[gnu::always_inline]] inline void add_rows_impl(const uint8_t* bins, int64_t n_features,
                                                 const int16_t* residuals, int64_t columns,
                                                 const int32_t* rows, int64_t n, const int32_t* features,
                                                 const int32_t* offsets, int64_t f_begin, int64_t f_end,
                                                 int32_t* hist, int32_t* counts) {
    const int64_t m = kColumns > 0 ? kColumns : columns;
    constexpr int64_t kAhead = 16;
    for (int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            __builtin_prefetch(residuals + rows[i + kAhead] * m);
            const uint8_t* ahead = bins + rows[i + kAhead] * n_features;
            __builtin_prefetch(ahead + features[f_begin]);
            __builtin_prefetch(
                ahead + std::min(features[f_begin] + kLine, static_cast<int64_t>(features[f_end - 1])));
        }
        const ResidualRow<kColumns> row(residuals + rows[i] * m, m);
        const uint8_t* row_bins = bins + rows[i] * n_features + (kNext ? features[f_begin] - f_begin : 0);
        for (int64_t f = f_begin; f < f_end; ++f) {
            const int64_t bin = offsets[f] + row_bins[kNext ? f : features[f]];
            if (counts) ++counts[bin];
            row.add_to(hist + bin * m);
        }
    }
}

#define SPARSELEAF_ADD_ROWS(name, columns_at_compile_time)                                                  \
    SPARSELEAF_WIDE void name(const uint8_t* bins, int64_t n_features, const int16_t* residuals,            \
                              int64_t columns, const int32_t* rows, int64_t n, const int32_t* features,     \
                              const int32_t* offsets, int64_t f_begin, int64_t f_end, int32_t* hist,        \
                              int32_t* counts) {                                                            \
        if (features[f_end - 1] - features[f_begin] == f_end - 1 - f_begin)                                 \
            add_rows_impl<columns_at_compile_time, true>(bins, n_features, residuals, columns, rows, n,     \
                                                         features, offsets, f_begin, f_end, hist, counts);  \
        else                                                                                                \
            add_rows_impl<columns_at_compile_time, false>(bins, n_features, residuals, columns, rows, n,    \
                                                          features, offsets, f_begin, f_end, hist, counts); \
    }
SPARSELEAF_ADD_ROWS(add_rows_4, 4)
SPARSELEAF_ADD_ROWS(add_rows_8, 8)
SPARSELEAF_ADD_ROWS(add_rows_16, 16)
SPARSELEAF_ADD_ROWS(add_rows_24, 24)
SPARSELEAF_ADD_ROWS(add_rows_32, 32)
SPARSELEAF_ADD_ROWS(add_rows_64, 64)
SPARSELEAF_ADD_ROWS(add_rows_any, 0)

}  // namespace

AddRows add_rows_of(int64_t columns) {
    return columns == 4    ? add_rows_4
           : columns == 8  ? add_rows_8
           : columns == 16 ? add_rows_16
           : columns == 24 ? add_rows_24
           : columns == 32 ? add_rows_32
           : columns == 64 ? add_rows_64
                           : add_rows_any;
}

SPARSELEAF_WIDE
void add_up(const int16_t* residuals, int64_t columns, const int32_t* rows, int64_t n, int32_t* total) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < columns; ++c) total[c] += residuals[rows[i] * columns + c];
}

SPARSELEAF_WIDE
void add_numbers(int32_t* to, const int32_t* more, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += more[i];
}

SPARSELEAF_WIDE
void subtract_numbers(int32_t* from, const int32_t* less, int64_t n) {
    for (int64_t i = 0; i < n; ++i) from[i] -= less[i];
}

}  // namespace sparseleaf
