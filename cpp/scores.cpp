// Sparse scores: merging leaf vectors into rows, and the best labels of a row.
#include <cstring>

#include "rows.hpp"
#include "topk.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kStep = 16;  // labels that are compared at once
constexpr int64_t kCopied = 8;
constexpr float kNothing = 0.0f;
constexpr int64_t kTogether = 4;  // rows whose merge positions are found together
constexpr int64_t kPart = 32;     // rows per task

// Number of labels below `label` among the first min(n, kStep) of a sorted list.
[[gnu::always_inline]] inline int64_t count_below(const uint32_t* labels, int64_t n, uint32_t label) {
    if (n < kStep) {
        int64_t below = 0;
        while (below < n && (labels[below] & kLabelMask) < label) ++below;
        return below;
    }
    using Labels = int32_t __attribute__((vector_size(4 * kStep)));
    using Flags = int8_t __attribute__((vector_size(kStep)));
    Labels some;
    std::memcpy(&some, labels, sizeof(some));
    some &= static_cast<int32_t>(kLabelMask);
    const Flags below = __builtin_convertvector(some < static_cast<int32_t>(label), Flags);
    uint64_t ones[2];  // eight bits per label
    std::memcpy(ones, &below, sizeof(below));
    return (__builtin_popcountll(ones[0]) + __builtin_popcountll(ones[1])) / 8;
}

// A row, its leaf, and where the leaf's labels belong in the row. Both are sorted.
struct RowAndLeaf {
    const uint32_t* labels;
    int64_t size;
    const uint32_t* leaf_labels;
    int64_t leaf_size;
    uint32_t* places;
    int64_t at = 0, n_common = 0;  // of the labels so far

    // places[j]: the number of the row's labels below the leaf's j-th, with the top bit set if the row has
    // that label too. The labels are unpredictable, so there is no branch for them.
    [[gnu::always_inline]] inline void find(int64_t j) {
        const uint32_t label = leaf_labels[j];
        for (int64_t below = kStep; below == kStep; at += below)
            below = count_below(labels + at, size - at, label);
        const uint32_t next = size > 0 ? labels[std::min(at, size - 1)] & kLabelMask : 0;
        const bool known = (at < size) & (next == label);
        places[j] = static_cast<uint32_t>(at) | (known ? kTruth : 0);
        n_common += known;
    }
};

// The places of kTogether rows. One place depends on the one before it: several rows at once are faster.
SPARSELEAF_WIDE
void find_places(RowAndLeaf* rows) {
    RowAndLeaf a = rows[0], b = rows[1], c = rows[2], d = rows[3];  // copies stay in registers
    int64_t j = 0;
    for (; j < std::min({a.leaf_size, b.leaf_size, c.leaf_size, d.leaf_size}); ++j) {
        a.find(j);
        b.find(j);
        c.find(j);
        d.find(j);
    }
    rows[0] = a, rows[1] = b, rows[2] = c, rows[3] = d;
    for (RowAndLeaf* row = rows; row < rows + kTogether; ++row)
        for (int64_t i = j; i < row->leaf_size; ++i) row->find(i);
}

// Merges a row with its leaf at the places found. The row's entries in between are few and copied kCopied at
// a time: a copy may read up to `slack` entries past the row's end and write past the result's end within
// `room`.
SPARSELEAF_WIDE
void merge(const RowAndLeaf& row, const float* scores, int64_t slack, const float* leaf_values,
           uint32_t* out_labels, float* out_scores, int64_t room) {
    const uint32_t *labels = row.labels, *leaf_labels = row.leaf_labels, *places = row.places;
    const int64_t size = row.size, leaf_size = row.leaf_size;
    int64_t i = 0, n = 0;
    const int64_t readable = size + slack - kCopied, writable = room - kCopied;
    for (int64_t j = 0; j < leaf_size; ++j) {
        const int64_t until = places[j] & kLabelMask;
        for (; i < until && i <= readable && n <= writable; i += kCopied, n += kCopied) {
            for (int64_t c = 0; c < kCopied; ++c) out_labels[n + c] = labels[i + c];
            for (int64_t c = 0; c < kCopied; ++c) out_scores[n + c] = scores[i + c];
        }
        if (i > until) {  // undo the excess of the last copy
            n -= i - until;
            i = until;
        }
        for (; i < until; ++i, ++n) {
            out_labels[n] = labels[i];
            out_scores[n] = scores[i];
        }
        const bool known = places[j] & kTruth;
        // pointers are chosen without a branch
        out_labels[n] = *(known ? labels + i : leaf_labels + j);
        out_scores[n] = *(known ? scores + i : &kNothing) + leaf_values[j];
        i += known;
        ++n;
    }
    std::memcpy(out_labels + n, labels + i, static_cast<size_t>(size - i) * sizeof(uint32_t));
    std::memcpy(out_scores + n, scores + i, static_cast<size_t>(size - i) * sizeof(float));
}

struct Leaves {
    Leaves(const In1<int64_t>& indptr, const In1<uint32_t>& labels, const In1<int32_t>& leaf_of_row,
           int64_t n_rows)
        : indptr(indptr.data()), leaf_of_row(leaf_of_row.data()) {
        const int64_t n_leaves = static_cast<int64_t>(indptr.size()) - 1;
        require(static_cast<int64_t>(leaf_of_row.size()) == n_rows,
                "leaf_of_row: must have one entry per row of the block");
        require(n_leaves >= 0 && indptr.data()[n_leaves] == static_cast<int64_t>(labels.size()),
                "leaf_indptr: must end at the number of entries");
        for (int64_t i = 0; i < n_rows; ++i)
            require(leaf_of_row.data()[i] >= 0 && leaf_of_row.data()[i] < n_leaves,
                    "leaf_of_row: must be less than the number of leaves");
    }

    int64_t begin(int64_t row) const { return indptr[leaf_of_row[row]]; }
    int64_t size(int64_t row) const { return indptr[leaf_of_row[row] + 1] - begin(row); }

    const int64_t* indptr;
    const int32_t* leaf_of_row;
};

// Merges every row of a block with its leaf: one pass over the entries of a row. How many labels both have is
// not known before, so a row is followed by as many unused entries. Returns the new starts and ends of the
// rows.
nb::tuple merge_leaves(In1<int64_t> starts, In1<int64_t> ends, In1<uint32_t> labels, In1<float> scores,
                       In1<int32_t> leaf_of_row, In1<int64_t> leaf_indptr, In1<uint32_t> leaf_labels,
                       In1<float> leaf_values, Out1<uint32_t> out_labels, Out1<float> out_scores,
                       int n_threads) {
    const auto n = static_cast<int64_t>(starts.size()), readable = static_cast<int64_t>(labels.size());
    require(n >= 1 && ends.size() == starts.size() && ends.data()[n - 1] <= readable &&
                labels.size() == scores.size(),
            "starts, ends: must not exceed the number of entries");
    require(leaf_labels.size() == leaf_values.size(), "leaf_labels, leaf_values: must have equal sizes");
    const Leaves leaves(leaf_indptr, leaf_labels, leaf_of_row, n);
    std::unique_ptr<int64_t[]> begins(new int64_t[static_cast<size_t>(n)]);
    std::unique_ptr<int64_t[]> stops(new int64_t[static_cast<size_t>(n)]);
    int64_t room = 0, largest_leaf = 0;
    for (int64_t i = 0; i < n; ++i) {
        begins[i] = room;
        room += ends.data()[i] - starts.data()[i] + leaves.size(i);
        largest_leaf = std::max(largest_leaf, leaves.size(i));
    }
    require(out_labels.size() == out_scores.size() && room <= static_cast<int64_t>(out_labels.size()),
            "out: must have room for the entries of all rows and of their leaves");
    {
        GilRelease release;
        std::vector<std::vector<uint32_t>> room_of_thread(static_cast<size_t>(n_threads));
        const int64_t n_parts = (n + kPart - 1) / kPart, n_jumps = (n_parts + n_threads - 1) / n_threads;
        parallel_tasks(n_jumps * n_threads, n_threads, [&](int64_t task, int thread) {
            // threads are far from one another: they would wait for the system to clear the same large page
            const int64_t part = task % n_threads * n_jumps + task / n_threads;
            if (part >= n_parts) return;
            std::vector<uint32_t>& places = room_of_thread[thread];
            places.resize(static_cast<size_t>(kTogether * largest_leaf));
            const int64_t last = std::min(n, (part + 1) * kPart);
            // a copy may overrun into the next row, which is written later, but not into another task's rows
            const int64_t limit = last < n ? begins[last] : room;
            for (int64_t first = part * kPart; first < last; first += kTogether) {
                const int64_t n_rows = std::min(kTogether, last - first);
                RowAndLeaf rows[kTogether] = {};
                for (int64_t r = 0; r < n_rows; ++r) {
                    const int64_t begin = starts.data()[first + r], leaf = leaves.begin(first + r);
                    rows[r] = {labels.data() + begin, ends.data()[first + r] - begin,
                               leaf_labels.data() + leaf, leaves.size(first + r),
                               places.data() + r * largest_leaf};
                }
                find_places(rows);
                for (int64_t r = 0; r < n_rows; ++r) {
                    const int64_t i = first + r, to = begins[i];
                    merge(rows[r], scores.data() + starts.data()[i], readable - ends.data()[i],
                          leaf_values.data() + leaves.begin(i), out_labels.data() + to,
                          out_scores.data() + to, limit - to);
                    stops[i] = to + rows[r].size + rows[r].leaf_size - rows[r].n_common;
                }
            }
        });
    }
    return nb::make_tuple(to_numpy(std::move(begins), static_cast<size_t>(n)),
                          to_numpy(std::move(stops), static_cast<size_t>(n)));
}

// The k best labels of every row by score (ties: lower label), padded with -1 and -inf. Labels that no leaf
// has added to (score exactly 0) are not candidates. `names` maps labels to output ids.
void topk_scores(const std::vector<Block>& blocks, In1<int32_t> names, Out2<int32_t> out_labels,
                 Out2<float> out_scores, int n_threads) {
    const RowBlocks rows(blocks);
    const int64_t n = rows.n_rows(), k = static_cast<int64_t>(out_labels.shape(1));
    require(static_cast<int64_t>(out_labels.shape(0)) == n &&
                static_cast<int64_t>(out_scores.shape(0)) == n &&
                static_cast<int64_t>(out_scores.shape(1)) == k,
            "out: must have shape (rows, k)");
    GilRelease release;
    constexpr int64_t kChunk = 256;
    parallel_tasks((n + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int) {
        std::vector<Scored> candidates;
        for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
            const Row row = rows[i];
            candidates.clear();
            for (int64_t e = 0; e < row.size; ++e)
                if (row.scores[e] != 0.0f)
                    candidates.push_back({row.scores[e], names.data()[row.labels[e] & kLabelMask]});
            write_topk(candidates, k, out_labels.data() + i * k, out_scores.data() + i * k);
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_scores(nb::module_& m) {
    using namespace sparseleaf;
    m.def("merge_leaves", &merge_leaves, nb::arg("starts"), nb::arg("ends"), nb::arg("labels"),
          nb::arg("scores"), nb::arg("leaf_of_row"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"),
          nb::arg("leaf_values"), nb::arg("out_labels").noconvert(), nb::arg("out_scores").noconvert(),
          nb::arg("n_threads"));
    m.def("topk_scores", &topk_scores, nb::arg("blocks"), nb::arg("names"), nb::arg("out_labels").noconvert(),
          nb::arg("out_scores").noconvert(), nb::arg("n_threads"));
}
