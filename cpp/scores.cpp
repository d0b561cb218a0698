// Sparse scores: merging leaf vectors into rows, and the best labels of a row.
#include <cstring>

#include "rows.hpp"
#include "topk.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kStep = 16;
constexpr int64_t kPart = 128;  // rows per task

// Number of labels below `label` among the first min(n, kStep) of a sorted list. If kStep entries are
// readable, all are compared at once.
[[gnu::always_inline]] inline int32_t count_below(const uint32_t* labels, int64_t n, bool readable,
                                                  uint32_t label) {
    const auto valid = static_cast<int32_t>(std::min(kStep, n));
    int32_t below = 0;
    if (readable)
        for (int32_t c = 0; c < kStep; ++c) below += c < valid && (labels[c] & kLabelMask) < label;
    else
        while (below < valid && (labels[below] & kLabelMask) < label) ++below;
    return below;
}

// Merge positions of a sorted leaf in a sorted row: places[j] is the number of the row's labels below the
// leaf's j-th, with the top bit set if the row has that label too. Returns the number of common labels; up to
// `slack` entries may be read past the row's end.
SPARSELEAF_WIDE
int64_t find_places(const uint32_t* labels, int64_t size, int64_t slack, const uint32_t* leaf_labels,
                    int64_t leaf_size, uint32_t* places) {
    int64_t i = 0, shared = 0;
    for (int64_t j = 0; j < leaf_size; ++j) {
        for (;;) {
            const int32_t below =
                count_below(labels + i, size - i, i + kStep <= size + slack, leaf_labels[j]);
            i += below;
            if (below < kStep) break;
        }
        const bool known = i < size && (labels[i] & kLabelMask) == leaf_labels[j];
        places[j] = static_cast<uint32_t>(i) | (known ? kTruth : 0);
        shared += known;
    }
    return shared;
}

// Merges a row with its leaf at the given places. The row's entries in between are few and copied kStep at a
// time: a copy may read up to `slack` entries past the row's end and write past the result's end within
// `room`.
SPARSELEAF_WIDE
void merge(const uint32_t* labels, const float* scores, int64_t size, int64_t slack, const uint32_t* places,
           const uint32_t* leaf_labels, const float* leaf_values, int64_t leaf_size, uint32_t* out_labels,
           float* out_scores, int64_t room) {
    int64_t i = 0, n = 0;
    const int64_t readable = size + slack - kStep, writable = room - kStep;
    for (int64_t j = 0; j < leaf_size; ++j) {
        const int64_t until = places[j] & kLabelMask;
        for (; i < until && i <= readable && n <= writable; i += kStep, n += kStep) {
            for (int64_t c = 0; c < kStep; ++c) out_labels[n + c] = labels[i + c];
            for (int64_t c = 0; c < kStep; ++c) out_scores[n + c] = scores[i + c];
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
        out_labels[n] = known ? labels[i] : leaf_labels[j];
        out_scores[n] = (known ? scores[i] : 0.0f) + leaf_values[j];
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

// First place of every row of a block, and the end.
std::vector<int64_t> place_offsets(const Leaves& leaves, int64_t n) {
    std::vector<int64_t> offsets(static_cast<size_t>(n) + 1, 0);
    for (int64_t i = 0; i < n; ++i) offsets[i + 1] = offsets[i] + leaves.size(i);
    return offsets;
}

// Writes the indptr of a block after merging every row with its leaf. Returns the merge positions for
// merge_leaves.
Numpy1<uint32_t> merged_indptr(In1<int64_t> indptr, In1<uint32_t> labels, In1<int32_t> leaf_of_row,
                               In1<int64_t> leaf_indptr, In1<uint32_t> leaf_labels, Out1<int64_t> out_indptr,
                               int n_threads) {
    const int64_t n = static_cast<int64_t>(indptr.size()) - 1, readable = static_cast<int64_t>(labels.size());
    require(n >= 1 && indptr.data()[n] <= readable, "indptr: must not exceed the number of entries");
    require(out_indptr.size() == indptr.size(), "out_indptr: must have the size of indptr");
    const Leaves leaves(leaf_indptr, leaf_labels, leaf_of_row, n);
    const std::vector<int64_t> offsets = place_offsets(leaves, n);
    std::unique_ptr<uint32_t[]> places(new uint32_t[static_cast<size_t>(offsets[n])]);
    {
        GilRelease release;
        out_indptr.data()[0] = 0;
        parallel_tasks((n + kPart - 1) / kPart, n_threads, [&](int64_t part, int) {
            for (int64_t i = part * kPart; i < std::min(n, (part + 1) * kPart); ++i) {
                const int64_t begin = indptr.data()[i], end = indptr.data()[i + 1];
                const int64_t shared = find_places(labels.data() + begin, end - begin, readable - end,
                                                   leaf_labels.data() + leaves.begin(i), leaves.size(i),
                                                   places.get() + offsets[i]);
                out_indptr.data()[i + 1] = end - begin + leaves.size(i) - shared;
            }
        });
        for (int64_t i = 0; i < n; ++i) out_indptr.data()[i + 1] += out_indptr.data()[i];
    }
    return to_numpy(std::move(places), static_cast<size_t>(offsets[n]));
}

// Merges every row of a block with its leaf; places and out_indptr are results of merged_indptr.
void merge_leaves(In1<int64_t> indptr, In1<uint32_t> labels, In1<float> scores, In1<int32_t> leaf_of_row,
                  In1<int64_t> leaf_indptr, In1<uint32_t> leaf_labels, In1<float> leaf_values,
                  In1<uint32_t> places, In1<int64_t> out_indptr, Out1<uint32_t> out_labels,
                  Out1<float> out_scores, int n_threads) {
    const int64_t n = static_cast<int64_t>(indptr.size()) - 1, readable = static_cast<int64_t>(labels.size());
    require(n >= 1 && indptr.data()[n] <= readable && labels.size() == scores.size(),
            "indptr: must not exceed the number of entries");
    require(out_indptr.size() == indptr.size() && out_labels.size() == out_scores.size() &&
                out_indptr.data()[n] <= static_cast<int64_t>(out_labels.size()),
            "out: must be at least as large as out_indptr requires");
    require(leaf_labels.size() == leaf_values.size(), "leaf_labels, leaf_values: must have equal sizes");
    const Leaves leaves(leaf_indptr, leaf_labels, leaf_of_row, n);
    const std::vector<int64_t> offsets = place_offsets(leaves, n);
    require(static_cast<int64_t>(places.size()) == offsets[n], "places: must be the result of merged_indptr");
    GilRelease release;
    parallel_tasks((n + kPart - 1) / kPart, n_threads, [&](int64_t part, int) {
        const int64_t last = std::min(n, (part + 1) * kPart);
        // a copy may overrun into the next row, which is written later, but not into another task's rows
        const int64_t limit = out_indptr.data()[last];
        for (int64_t i = part * kPart; i < last; ++i) {
            const int64_t begin = indptr.data()[i], end = indptr.data()[i + 1], to = out_indptr.data()[i];
            merge(labels.data() + begin, scores.data() + begin, end - begin, readable - end,
                  places.data() + offsets[i], leaf_labels.data() + leaves.begin(i),
                  leaf_values.data() + leaves.begin(i), leaves.size(i), out_labels.data() + to,
                  out_scores.data() + to, limit - to);
        }
    });
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
    m.def("merged_indptr", &merged_indptr, nb::arg("indptr"), nb::arg("labels"), nb::arg("leaf_of_row"),
          nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("out_indptr").noconvert(),
          nb::arg("n_threads"));
    m.def("merge_leaves", &merge_leaves, nb::arg("indptr"), nb::arg("labels"), nb::arg("scores"),
          nb::arg("leaf_of_row"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
          nb::arg("places"), nb::arg("out_indptr"), nb::arg("out_labels").noconvert(),
          nb::arg("out_scores").noconvert(), nb::arg("n_threads"));
    m.def("topk_scores", &topk_scores, nb::arg("blocks"), nb::arg("names"), nb::arg("out_labels").noconvert(),
          nb::arg("out_scores").noconvert(), nb::arg("n_threads"));
}
