// How the rows of nodes are partitioned, by one worker or by several.
#include "grower.hpp"

namespace sparseleaf {
namespace {

RowsToPart to_part(const FeatureTable& table, const Node& node, int64_t start, int64_t end,
                   int64_t n_workers) {
    const int32_t f = node.split.feature;
    return {start,
            end,
            0,
            f / n_workers,
            node.split.bin,
            table.missing_bin.data()[f],
            node.split.missing_left,
            table.categorical.data()[f] ? node.set : nullptr};
}

void set_ranges(const Family& family, int64_t middle) {
    family.left->start = family.parent->start;
    family.left->end = family.right->start = middle;
    family.right->end = family.parent->end;
}

// Histograms and rows must agree on how many go left.
void require_left(const Family& family, int64_t middle) {
    require(middle - family.parent->start == family.left->count, "bins, residuals: other rows than counted");
}

// A partition travels as one bit per row, or as the places of the fewer rows where that takes less. How many
// rows go left is known to everyone, and with it which of the two it is and how long.
struct Encoding {
    Encoding(int64_t n, int64_t n_left)
        : n_bits((n + 7) / 8),
          few(std::min(n_left, n - n_left)),
          left_is_few(2 * n_left <= n),
          listed(kPlace * few < n_bits) {}

    static constexpr int64_t kPlace = 4;  // bytes of a row's place in its node
    int64_t size() const { return listed ? kPlace * few : n_bits; }

    int64_t n_bits, few;
    bool left_is_few, listed;
};

void append(const std::vector<uint8_t>& bits, int64_t n, const Encoding& encoding,
            std::vector<uint8_t>& out) {
    if (!encoding.listed) {
        out.insert(out.end(), bits.begin(), bits.end());
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        if (((bits[i >> 3] >> (i & 7)) & 1) != encoding.left_is_few) continue;
        for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<uint8_t>(i >> shift));
    }
}

std::vector<uint8_t> decode(const uint8_t* bytes, int64_t n, const Encoding& encoding) {
    if (!encoding.listed) return {bytes, bytes + encoding.n_bits};
    std::vector<uint8_t> bits(static_cast<size_t>(encoding.n_bits), encoding.left_is_few ? 0 : 0xff);
    for (int64_t k = 0; k < encoding.few; ++k) {
        uint32_t place = 0;
        for (int b = 0; b < 4; ++b) place |= static_cast<uint32_t>(bytes[4 * k + b]) << (8 * b);
        require(place < n, "partition: no such row");
        bits[place >> 3] = static_cast<uint8_t>(bits[place >> 3] ^ (1u << (place & 7)));
    }
    return bits;
}

}  // namespace

template <typename Bin>
LocalPartition<Bin>::LocalPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows, bool alone,
                                    int n_threads)
    : table_(table), bins_(bins), rows_(rows), alone_(alone), n_threads_(n_threads) {}

template <typename Bin>
RowsToPart LocalPartition<Bin>::rows_of(const Node& node) const {
    return to_part(table_, node, node.start, node.end, 1);
}

template <typename Bin>
void LocalPartition<Bin>::split(const std::vector<Family*>& families) {
    std::vector<RowsToPart> parts;
    for (const Family* family : families) parts.push_back(rows_of(*family->parent));
    part_rows(bins_, rows_, parts, n_threads_);
    for (size_t i = 0; i < parts.size(); ++i) {
        if (alone_) require_left(*families[i], parts[i].middle);
        set_ranges(*families[i], parts[i].middle);
    }
}

template <typename Bin>
void LocalPartition<Bin>::split_one(const Family& family, std::vector<int32_t>& room) {
    RowsToPart part = rows_of(*family.parent);
    part_node(bins_, rows_, part, room);
    require_left(family, part.middle);
    set_ranges(family, part.middle);
}

template <typename Bin>
SharedPartition<Bin>::SharedPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows,
                                      int32_t* aside, const Workers& workers, int n_threads)
    : table_(table), bins_(bins), rows_(rows), aside_(aside), workers_(workers), n_threads_(n_threads) {}

template <typename Bin>
std::vector<uint8_t> SharedPartition<Bin>::own_ways(const std::vector<Family*>& families) const {
    std::vector<uint8_t> ways, bits;
    for (const Family* family : families) {
        const Node& node = *family->parent;
        if (node.split.feature % workers_.size() != workers_.rank()) continue;
        const int64_t n = node.end - node.start;
        const Encoding encoding(n, family->left->count);
        bits.resize(static_cast<size_t>(encoding.n_bits));
        left_bits(bins_, rows_, to_part(table_, node, node.start, node.end, workers_.size()), bits.data(),
                  n_threads_);
        append(bits, n, encoding, ways);
        const size_t at = ways.size();
        ways.resize(at + static_cast<size_t>((node.aside_end - node.aside_start + 7) / 8));
        left_bits(bins_, aside_, to_part(table_, node, node.aside_start, node.aside_end, workers_.size()),
                  ways.data() + at, n_threads_);
    }
    return ways;
}

template <typename Bin>
void SharedPartition<Bin>::split(const std::vector<Family*>& families) {
    const std::vector<std::vector<uint8_t>> ways = workers_.allgather(own_ways(families));
    std::vector<size_t> at(ways.size(), 0);
    std::vector<std::vector<uint8_t>> bits(families.size());
    std::vector<RowsByBits> rows, aside;
    for (size_t i = 0; i < families.size(); ++i) {
        const Node& node = *families[i]->parent;
        const auto owner = static_cast<size_t>(node.split.feature % workers_.size());
        const Encoding encoding(node.end - node.start, families[i]->left->count);
        const int64_t n_aside = (node.aside_end - node.aside_start + 7) / 8;
        require(at[owner] + encoding.size() + n_aside <= ways[owner].size(), "partition: too few bytes");
        bits[i] = decode(ways[owner].data() + at[owner], node.end - node.start, encoding);
        at[owner] += static_cast<size_t>(encoding.size());
        rows.push_back({node.start, node.end, 0, bits[i].data()});
        aside.push_back({node.aside_start, node.aside_end, 0, ways[owner].data() + at[owner]});
        at[owner] += static_cast<size_t>(n_aside);
    }
    part_rows_by_bits(rows_, rows, n_threads_);
    part_rows_by_bits(aside_, aside, n_threads_);
    for (size_t i = 0; i < families.size(); ++i) {
        const Family& family = *families[i];
        require_left(family, rows[i].middle);
        set_ranges(family, rows[i].middle);
        family.left->aside_start = family.parent->aside_start;
        family.left->aside_end = family.right->aside_start = aside[i].middle;
        family.right->aside_end = family.parent->aside_end;
    }
}

template class LocalPartition<uint8_t>;
template class LocalPartition<uint32_t>;
template class SharedPartition<uint8_t>;
template class SharedPartition<uint32_t>;

}  // namespace sparseleaf
