// Row partitioning with one or several workers: see grower.hpp.
#include "grower.hpp"

namespace sparseleaf {
namespace {

SplitRows split_rows(const FeatureTable& table, const Node& node, int64_t start, int64_t end,
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

// The histogram and the partition must agree on the number of rows on the left.
void require_left(const Family& family, int64_t middle) {
    require(middle - family.parent->start == family.left->count,
            "bins, gradients: the partition must match the histogram");
}

// A partition is sent as one bit per row, or as the positions of the rows of the smaller side if that is
// shorter. All workers know the number of rows on the left, hence the encoding and its length.
struct Encoding {
    Encoding(int64_t n, int64_t n_left)
        : n_bits((n + 7) / 8),
          few(std::min(n_left, n - n_left)),
          left_is_few(2 * n_left <= n),
          listed(kPlace * few < n_bits) {}

    static constexpr int64_t kPlace = 4;  // bytes of a row's position in its node
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
        require(place < n, "partition: positions must be less than the number of rows");
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
SplitRows LocalPartition<Bin>::rows_of(const Node& node) const {
    return split_rows(table_, node, node.start, node.end, 1);
}

template <typename Bin>
void LocalPartition<Bin>::split(const std::vector<Family*>& families) {
    std::vector<SplitRows> parts;
    for (const Family* family : families) parts.push_back(rows_of(*family->parent));
    partition_rows(bins_, rows_, parts, n_threads_);
    for (size_t i = 0; i < parts.size(); ++i) {
        if (alone_) require_left(*families[i], parts[i].middle);
        set_ranges(*families[i], parts[i].middle);
    }
}

template <typename Bin>
void LocalPartition<Bin>::split_one(const Family& family, std::vector<int32_t>& room) {
    SplitRows part = rows_of(*family.parent);
    partition_node(bins_, rows_, part, room);
    require_left(family, part.middle);
    set_ranges(family, part.middle);
}

template <typename Bin>
SharedPartition<Bin>::SharedPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows,
                                      int32_t* oob_rows, const Workers& workers, int n_threads)
    : table_(table),
      bins_(bins),
      rows_(rows),
      oob_rows_(oob_rows),
      workers_(workers),
      n_threads_(n_threads) {}

template <typename Bin>
std::vector<uint8_t> SharedPartition<Bin>::encode_own(const std::vector<Family*>& families) const {
    std::vector<uint8_t> encoded, bits;
    for (const Family* family : families) {
        const Node& node = *family->parent;
        if (node.split.feature % workers_.size() != workers_.rank()) continue;
        const int64_t n = node.end - node.start;
        const Encoding encoding(n, family->left->count);
        bits.resize(static_cast<size_t>(encoding.n_bits));
        left_bits(bins_, rows_, split_rows(table_, node, node.start, node.end, workers_.size()), bits.data(),
                  n_threads_);
        append(bits, n, encoding, encoded);
        const size_t at = encoded.size();
        encoded.resize(at + static_cast<size_t>((node.oob_end - node.oob_start + 7) / 8));
        left_bits(bins_, oob_rows_, split_rows(table_, node, node.oob_start, node.oob_end, workers_.size()),
                  encoded.data() + at, n_threads_);
    }
    return encoded;
}

template <typename Bin>
void SharedPartition<Bin>::split(const std::vector<Family*>& families) {
    const std::vector<std::vector<uint8_t>> encoded = workers_.allgather(encode_own(families));
    std::vector<size_t> at(encoded.size(), 0);
    std::vector<std::vector<uint8_t>> bits(families.size());
    std::vector<RowsByBits> rows, oob_rows;
    for (size_t i = 0; i < families.size(); ++i) {
        const Node& node = *families[i]->parent;
        const auto owner = static_cast<size_t>(node.split.feature % workers_.size());
        const Encoding encoding(node.end - node.start, families[i]->left->count);
        const int64_t n_oob = (node.oob_end - node.oob_start + 7) / 8;
        require(at[owner] + encoding.size() + n_oob <= encoded[owner].size(),
                "partition: received too few bytes");
        bits[i] = decode(encoded[owner].data() + at[owner], node.end - node.start, encoding);
        at[owner] += static_cast<size_t>(encoding.size());
        rows.push_back({node.start, node.end, 0, bits[i].data()});
        oob_rows.push_back({node.oob_start, node.oob_end, 0, encoded[owner].data() + at[owner]});
        at[owner] += static_cast<size_t>(n_oob);
    }
    partition_by_bits(rows_, rows, n_threads_);
    partition_by_bits(oob_rows_, oob_rows, n_threads_);
    for (size_t i = 0; i < families.size(); ++i) {
        const Family& family = *families[i];
        require_left(family, rows[i].middle);
        set_ranges(family, rows[i].middle);
        family.left->oob_start = family.parent->oob_start;
        family.left->oob_end = family.right->oob_start = oob_rows[i].middle;
        family.right->oob_end = family.parent->oob_end;
    }
}

template class LocalPartition<uint8_t>;
template class LocalPartition<uint32_t>;
template class SharedPartition<uint8_t>;
template class SharedPartition<uint32_t>;

}  // namespace sparseleaf
