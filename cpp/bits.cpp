// The partition of nodes as bits, one a row: made where the cut's feature is, applied where only the rows
// are.
//
//     rows of a node   [4 7 9 12 | ...]      bits   1 0 0 1 ...   (1: left; lowest bit first)
//     a node's bits start at a byte of their own, offsets[node]
#include "cut.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kPart = 8192;  // rows that a thread works on at a time; whole bytes of bits

struct Part {
    int64_t node, begin, end, lefts, left_to, right_to;
};

std::vector<Part> parts_of(const In1<int64_t>& starts, const In1<int64_t>& ends) {
    std::vector<Part> parts;
    for (int64_t k = 0; k < static_cast<int64_t>(starts.size()); ++k)
        for (int64_t begin = starts.data()[k]; begin < ends.data()[k]; begin += kPart)
            parts.push_back({k, begin, std::min(begin + kPart, ends.data()[k]), 0, 0, 0});
    return parts;
}

void require_bits(const In1<int64_t>& starts, const In1<int64_t>& ends, const In1<int64_t>& offsets,
                  size_t n_bytes) {
    require(offsets.size() == starts.size(), "offsets: one number a node");
    for (size_t k = 0; k < starts.size(); ++k)
        require(offsets.data()[k] >= 0 && offsets.data()[k] + (ends.data()[k] - starts.data()[k] + 7) / 8 <=
                                              static_cast<int64_t>(n_bytes),
                "offsets: beyond bits");
}

template <typename Bin>
void left_bits(In2<Bin> bins, In1<int32_t> rows, In1<int64_t> starts, In1<int64_t> ends, In1<int32_t> feature,
               In1<int32_t> cut, In1<int32_t> missing_bin, In1<uint8_t> missing_left, In1<int32_t> set_of,
               In2<uint8_t> sets, In1<int64_t> offsets, Out1<uint8_t> bits, int n_threads) {
    const int64_t n_features = static_cast<int64_t>(bins.shape(1));
    for (const auto size : {feature.size(), cut.size(), missing_bin.size(), missing_left.size()})
        require(size == starts.size(), "one number a node is wanted of every array");
    require_sets(set_of, sets, starts.size());
    require_ranges(starts, ends, rows.size());
    require_bits(starts, ends, offsets, bits.size());
    for (size_t k = 0; k < feature.size(); ++k)
        require(feature.data()[k] >= 0 && feature.data()[k] < n_features, "feature: beyond bins");
    GilRelease release;

    const std::vector<Part> parts = parts_of(starts, ends);
    parallel_tasks(static_cast<int64_t>(parts.size()), n_threads, [&](int64_t p, int) {
        const Part& part = parts[p];
        const int64_t k = part.node, f = feature.data()[k], at = cut.data()[k],
                      missing = missing_bin.data()[k];
        const bool missing_goes = missing_left.data()[k] != 0;
        const uint8_t* set = set_at(set_of, sets, k);
        uint8_t* out = bits.data() + offsets.data()[k] + (part.begin - starts.data()[k]) / 8;
        for (int64_t i = part.begin; i < part.end; i += 8) {
            uint8_t byte = 0;
            for (int64_t j = i; j < std::min(i + 8, part.end); ++j) {
                if (j + 16 < part.end)
                    __builtin_prefetch(bins.data() + static_cast<int64_t>(rows.data()[j + 16]) * n_features +
                                       f);
                const Bin bin = bins.data()[static_cast<int64_t>(rows.data()[j]) * n_features + f];
                byte |= static_cast<uint8_t>(goes_left(bin, at, missing, missing_goes, set) << (j - i));
            }
            *out++ = byte;
        }
    });
}

// Stable, as partition: rows = [lefts in old order | rights in old order] of every node.
void partition_by_bits(Out1<int32_t> rows, In1<int64_t> starts, In1<int64_t> ends, In1<int64_t> offsets,
                       In1<uint8_t> bits, Out1<int64_t> middles, int n_threads) {
    require(middles.size() == starts.size(), "middles: one number a node");
    require_ranges(starts, ends, rows.size());
    require_bits(starts, ends, offsets, bits.size());
    GilRelease release;

    std::vector<Part> parts = parts_of(starts, ends);
    // only as much room as the nodes' rows need
    const int64_t low = starts.size() ? *std::min_element(starts.data(), starts.data() + starts.size()) : 0;
    const int64_t high = starts.size() ? *std::max_element(ends.data(), ends.data() + ends.size()) : 0;
    const std::unique_ptr<int32_t[]> room(new int32_t[static_cast<size_t>(high - low)]);
    int32_t* old = room.get() - low;
    const auto n_parts = static_cast<int64_t>(parts.size());
    const auto bits_of = [&](const Part& part) {  // a part begins with a byte
        return bits.data() + offsets.data()[part.node] + (part.begin - starts.data()[part.node]) / 8;
    };
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        Part& part = parts[p];
        std::copy(rows.data() + part.begin, rows.data() + part.end, old + part.begin);
        const uint8_t* own = bits_of(part);
        const int64_t n = part.end - part.begin;
        for (int64_t byte = 0; byte < n / 8; ++byte) part.lefts += __builtin_popcount(own[byte]);
        if (n % 8) part.lefts += __builtin_popcount(own[n / 8] & ((1u << (n % 8)) - 1));
    });
    for (size_t k = 0; k < starts.size(); ++k) middles.data()[k] = starts.data()[k];
    for (const Part& part : parts) middles.data()[part.node] += part.lefts;
    for (int64_t p = 0; p < n_parts; ++p) {
        Part& part = parts[p];
        const bool first = part.begin == starts.data()[part.node];
        part.left_to = first ? part.begin : parts[p - 1].left_to + parts[p - 1].lefts;
        part.right_to =
            first ? middles.data()[part.node]
                  : parts[p - 1].right_to + parts[p - 1].end - parts[p - 1].begin - parts[p - 1].lefts;
    }
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        const Part& part = parts[p];
        const uint8_t* own = bits_of(part);
        int64_t left_to = part.left_to, right_to = part.right_to;
        for (int64_t i = part.begin; i < part.end; ++i) {
            const int64_t place = i - part.begin, left = (own[place >> 3] >> (place & 7)) & 1;
            // no branch: where rows go is not to be foreseen
            rows.data()[right_to + left * (left_to - right_to)] = old[i];
            left_to += left;
            right_to += 1 - left;
        }
    });
}

template <typename Bin>
void bind_for(nb::module_& m) {
    m.def("left_bits", &left_bits<Bin>, nb::arg("bins").noconvert(), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("feature"), nb::arg("cut"), nb::arg("missing_bin"),
          nb::arg("missing_left"), nb::arg("set_of"), nb::arg("sets"), nb::arg("offsets"),
          nb::arg("bits").noconvert(), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_bits(nb::module_& m) {
    using namespace sparseleaf;
    bind_for<uint8_t>(m);
    bind_for<uint32_t>(m);
    m.def("partition_by_bits", &partition_by_bits, nb::arg("rows").noconvert(), nb::arg("starts"),
          nb::arg("ends"), nb::arg("offsets"), nb::arg("bits"), nb::arg("middles").noconvert(),
          nb::arg("n_threads"));
}
