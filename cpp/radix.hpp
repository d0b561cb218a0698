// Radix sort of numbers with 32-bit keys, which takes a tenth of the time of comparisons.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallel.hpp"

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

// The same for a key in the upper 32 bits, with threads. Lower bits must increase with the place: the entries
// are distinct, so that a sample divides them evenly whatever the keys.
inline void radix_sort_in_threads(std::vector<uint64_t>& entries, int key_bits, int n_threads) {
    constexpr size_t kSamples = 64;  // per part
    constexpr size_t kFewest = 1 << 15;
    const size_t n = entries.size(), n_parts = std::min<size_t>(static_cast<size_t>(n_threads), n / kFewest);
    if (n_parts <= 1) return radix_sort(entries, 32, key_bits);
    std::vector<uint64_t> sample;
    for (size_t i = 0; i < kSamples * n_parts; ++i) sample.push_back(entries[i * n / (kSamples * n_parts)]);
    std::sort(sample.begin(), sample.end());
    const auto first_of = [&](size_t part) { return part * n / n_parts; };
    std::vector<std::vector<uint64_t>> pieces(n_parts * n_parts);  // of every part: by place, then by value
    const auto n_tasks = static_cast<int64_t>(n_parts);
    parallel_tasks(n_tasks, n_threads, [&](int64_t part, int) {
        std::vector<uint64_t> pivots;
        for (size_t p = 1; p < n_parts; ++p) pivots.push_back(sample[kSamples * p]);
        auto* mine = pieces.data() + static_cast<size_t>(part) * n_parts;
        for (size_t p = 0; p < n_parts; ++p) mine[p].reserve(n / n_parts / n_parts * 3 / 2);
        for (size_t i = first_of(static_cast<size_t>(part)); i < first_of(static_cast<size_t>(part) + 1); ++i)
            mine[std::upper_bound(pivots.begin(), pivots.end(), entries[i]) - pivots.begin()].push_back(
                entries[i]);
    });
    std::vector<size_t> ends(n_parts, 0);
    for (size_t value = 0; value < n_parts; ++value) {
        ends[value] = value ? ends[value - 1] : 0;
        for (size_t place = 0; place < n_parts; ++place)
            ends[value] += pieces[place * n_parts + value].size();
    }
    parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
        const auto value = static_cast<size_t>(task);
        std::vector<uint64_t> part;
        part.reserve(ends[value] - (value ? ends[value - 1] : 0));
        for (size_t place = 0; place < n_parts; ++place) {
            const auto& piece = pieces[place * n_parts + value];
            part.insert(part.end(), piece.begin(), piece.end());
        }
        radix_sort(part, 32, key_bits);
        std::copy(part.begin(), part.end(), entries.begin() + (value ? ends[value - 1] : 0));
    });
}

}  // namespace sparseleaf
