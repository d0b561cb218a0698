// Row partitioning: see partition.hpp.
#include "partition.hpp"

#include <limits>

namespace sparseleaf {
namespace {

constexpr int64_t kBlockRows = 2048;      // rows per task: every row is a cache miss
constexpr int64_t kRowsPerThread = 4096;  // fewer take less time than waking a thread
constexpr int64_t kAhead = 16;

template <typename Bin>
void prefetch(const BinMatrix<Bin>& bins, int64_t row, int64_t column) {
    __builtin_prefetch(bins.data + row * bins.n_columns + column);
}

template <typename Bin>
bool row_goes_left(const BinMatrix<Bin>& bins, int64_t row, const SplitRows& node) {
    return goes_left(bins.data[row * bins.n_columns + node.column], node.bin, node.missing_bin,
                     node.missing_left, node.set);
}

int threads_for_rows(int64_t n_rows, int n_threads) {
    return static_cast<int>(std::min<int64_t>(n_threads, n_rows / kRowsPerThread + 1));
}

// Nodes are processed in blocks of rows, so that a lone root keeps all threads busy:
//     1. mark the rows that go left in `left` and count them per block
//     2. prefix sums of the counts give every block its output positions
//     3. write rows = [left rows in old order | right rows in old order]
// look(node, begin, end, left) marks the left rows among rows[begin:end].
template <typename Node, typename Look>
void partition_by(int32_t* rows, const std::vector<Node*>& nodes, int n_threads, Look&& look) {
    struct Part {
        Node* node;
        int64_t begin, end, lefts, left_to, right_to;
    };
    std::vector<Part> parts;
    int64_t low = std::numeric_limits<int64_t>::max(), high = 0, n_rows = 0;
    for (Node* node : nodes) {
        node->middle = node->start;
        for (int64_t begin = node->start; begin < node->end; begin += kBlockRows)
            parts.push_back({node, begin, std::min(begin + kBlockRows, node->end), 0, 0, 0});
        low = std::min(low, node->start);
        high = std::max(high, node->end);
        n_rows += node->end - node->start;
    }
    if (parts.empty()) return;
    // no larger than the nodes' rows and not initialised: most calls are for small nodes
    const std::unique_ptr<uint8_t[]> left_room(new uint8_t[static_cast<size_t>(high - low)]);
    const std::unique_ptr<int32_t[]> old_room(new int32_t[static_cast<size_t>(high - low)]);
    uint8_t* left = left_room.get() - low;
    int32_t* old = old_room.get() - low;
    const auto n_parts = static_cast<int64_t>(parts.size());
    n_threads = threads_for_rows(n_rows, n_threads);
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        Part& part = parts[p];
        std::copy(rows + part.begin, rows + part.end, old + part.begin);
        look(*part.node, part.begin, part.end, left);
        int64_t lefts = 0;  // a local count, to avoid false sharing of parts
        for (int64_t i = part.begin; i < part.end; ++i) lefts += left[i];
        part.lefts = lefts;
    });
    for (const Part& part : parts) part.node->middle += part.lefts;
    int64_t left_to = 0, right_to = 0;
    for (Part& part : parts) {
        if (part.begin == part.node->start) left_to = part.begin, right_to = part.node->middle;
        part.left_to = left_to;
        part.right_to = right_to;
        left_to += part.lefts;
        right_to += part.end - part.begin - part.lefts;
    }
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        const Part& part = parts[p];
        int64_t to_left = part.left_to, to_right = part.right_to;
        for (int64_t i = part.begin; i < part.end; ++i) {
            // branchless: the direction is unpredictable
            rows[to_right + left[i] * (to_left - to_right)] = old[i];
            to_left += left[i];
            to_right += 1 - left[i];
        }
    });
}

}  // namespace

template <typename Bin>
void partition_node(const BinMatrix<Bin>& bins, int32_t* rows, SplitRows& node, std::vector<int32_t>& room) {
    const auto n = static_cast<size_t>(node.end - node.start);
    if (room.size() < n + 1) room.resize(2 * n + 1);
    int32_t *to_left = rows + node.start, *to_right = room.data();
    for (int64_t i = node.start; i < node.end; ++i) {
        if (i + kAhead < node.end) prefetch(bins, rows[i + kAhead], node.column);
        const int32_t row = rows[i];
        const bool left = row_goes_left(bins, row, node);
        // branchless, written to both sides: the direction is unpredictable
        *to_right = row;
        *to_left = row;
        to_left += left;
        to_right += 1 - left;
    }
    node.middle = to_left - rows;
    std::copy(room.data(), to_right, to_left);
}
template void partition_node(const BinMatrix<uint8_t>&, int32_t*, SplitRows&, std::vector<int32_t>&);
template void partition_node(const BinMatrix<uint32_t>&, int32_t*, SplitRows&, std::vector<int32_t>&);

// A node with few rows is one task, with a single pass over its rows.
template <typename Bin>
void partition_rows(const BinMatrix<Bin>& bins, int32_t* rows, std::vector<SplitRows>& nodes, int n_threads) {
    std::vector<SplitRows*> large, small;
    int64_t n_small_rows = 0;
    for (SplitRows& node : nodes) {
        const int64_t n = node.end - node.start;
        (n > kBlockRows ? large : small).push_back(&node);
        if (n <= kBlockRows) n_small_rows += n;
    }
    partition_by(rows, large, n_threads,
                 [&](const SplitRows& node, int64_t begin, int64_t end, uint8_t* left) {
                     for (int64_t i = begin; i < end; ++i) {
                         if (i + kAhead < end) prefetch(bins, rows[i + kAhead], node.column);
                         left[i] = row_goes_left(bins, rows[i], node);
                     }
                 });
    n_threads = threads_for_rows(n_small_rows, n_threads);
    std::vector<std::vector<int32_t>> rooms(static_cast<size_t>(n_threads));
    parallel_tasks(static_cast<int64_t>(small.size()), n_threads,
                   [&](int64_t i, int thread) { partition_node(bins, rows, *small[i], rooms[thread]); });
}
template void partition_rows(const BinMatrix<uint8_t>&, int32_t*, std::vector<SplitRows>&, int);
template void partition_rows(const BinMatrix<uint32_t>&, int32_t*, std::vector<SplitRows>&, int);

template <typename Bin>
void left_bits(const BinMatrix<Bin>& bins, const int32_t* rows, const SplitRows& node, uint8_t* bits,
               int n_threads) {
    constexpr int64_t kBytes = 1024;  // of bits per task
    const int64_t n = node.end - node.start, n_bytes = (n + 7) / 8;
    rows += node.start;
    parallel_tasks((n_bytes + kBytes - 1) / kBytes, n_threads, [&](int64_t part, int) {
        for (int64_t at = part * kBytes; at < std::min(n_bytes, (part + 1) * kBytes); ++at) {
            unsigned byte = 0;
            for (int64_t i = 8 * at; i < std::min(n, 8 * at + 8); ++i) {
                if (i + kAhead < n) prefetch(bins, rows[i + kAhead], node.column);
                byte |= static_cast<unsigned>(row_goes_left(bins, rows[i], node)) << (i - 8 * at);
            }
            bits[at] = static_cast<uint8_t>(byte);
        }
    });
}
template void left_bits(const BinMatrix<uint8_t>&, const int32_t*, const SplitRows&, uint8_t*, int);
template void left_bits(const BinMatrix<uint32_t>&, const int32_t*, const SplitRows&, uint8_t*, int);

void partition_by_bits(int32_t* rows, std::vector<RowsByBits>& nodes, int n_threads) {
    std::vector<RowsByBits*> all;
    for (RowsByBits& node : nodes) all.push_back(&node);
    partition_by(rows, all, n_threads,
                 [&](const RowsByBits& node, int64_t begin, int64_t end, uint8_t* left) {
                     for (int64_t i = begin; i < end; ++i) {
                         const int64_t place = i - node.start;
                         left[i] = (node.bits[place >> 3] >> (place & 7)) & 1;
                     }
                 });
}

}  // namespace sparseleaf
