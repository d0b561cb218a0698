// Radix sort of numbers with 32-bit keys, which takes a tenth of the time of comparisons.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace sparseleaf {

// Keys in the order of the floats, -0 before 0; NaN must be handled apart.
inline uint32_t ordered_key(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

inline float of_ordered_key(uint32_t key) {
    return std::bit_cast<float>(key ^ ((key >> 31) ? 0x80000000u : 0xffffffffu));
}

// Sorts by the `key_bits` bits from `first_bit` on; stable.
template <typename T>
void radix_sort(std::vector<T>& entries, int first_bit, int key_bits = 32) {
    constexpr int kBits = 11;
    std::vector<T> other(entries.size());
    for (int shift = 0; shift < key_bits; shift += kBits) {
        const T mask = (T{1} << std::min(kBits, key_bits - shift)) - 1;
        std::vector<size_t> place(size_t{1} << kBits, 0);
        const auto digit = [&](T entry) { return (entry >> (first_bit + shift)) & mask; };
        for (const T entry : entries) ++place[digit(entry)];
        size_t before = 0;
        for (size_t& count : place) before += std::exchange(count, before);
        for (const T entry : entries) other[place[digit(entry)]++] = entry;
        entries.swap(other);
    }
}

}  // namespace sparseleaf
