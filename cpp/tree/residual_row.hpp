// A row's gradients, widened once and kept in registers while they are added to the bins of all features.
//
// Vector types are explicit: the compiler would otherwise convert the row again for every bin, at half the
// speed.
#pragma once

#include "common.hpp"

namespace sparseleaf {

typedef int16_t Short4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef int16_t Short8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef int32_t Int4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t Int8 __attribute__((vector_size(32), aligned(4), may_alias));

// kColumns > 0 is the number of columns, a multiple of 8; 0 takes it at run time and keeps nothing in
// registers.
template <int kColumns>
struct ResidualRow {
    [[gnu::always_inline]] ResidualRow(const int16_t* residuals, int64_t) {
        for (int k = 0; k < kColumns / 8; ++k)
            part[k] = __builtin_convertvector(*reinterpret_cast<const Short8*>(residuals + 8 * k), Int8);
    }
    [[gnu::always_inline]] void add_to(int32_t* sums) const {
        for (int k = 0; k < kColumns / 8; ++k) *reinterpret_cast<Int8*>(sums + 8 * k) += part[k];
    }
    Int8 part[kColumns / 8];
};

template <>
struct ResidualRow<4> {
    [[gnu::always_inline]] ResidualRow(const int16_t* residuals, int64_t)
        : part(__builtin_convertvector(*reinterpret_cast<const Short4*>(residuals), Int4)) {}
    [[gnu::always_inline]] void add_to(int32_t* sums) const { *reinterpret_cast<Int4*>(sums) += part; }
    Int4 part;
};

template <>
struct ResidualRow<0> {
    [[gnu::always_inline]] ResidualRow(const int16_t* residuals, int64_t columns)
        : residuals(residuals), columns(columns) {}
    [[gnu::always_inline]] void add_to(int32_t* sums) const {
        for (int64_t c = 0; c < columns; ++c) sums[c] += residuals[c];
    }
    const int16_t* residuals;
    int64_t columns;
};

inline void subtract_sums(int32_t* sums, const int32_t* other, int64_t columns) {
    for (int64_t c = 0; c < columns; c += kLanes)
        *reinterpret_cast<Int4*>(sums + c) -= *reinterpret_cast<const Int4*>(other + c);
}

}  // namespace sparseleaf
