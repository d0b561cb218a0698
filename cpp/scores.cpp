// Scores: every row takes its leaf's vector, and the best labels of a row so far.
#include <cstring>

#include "rows.hpp"
#include "topk.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kStep = 16;

// Merge the sorted entries of a row and of its leaf; returns how many came out. A leaf has few entries and a row
// many, so the row is copied kStep entries at a time up to the next label of the leaf: up to kStep entries are
// read past the row's end (where `slack` says that they exist) and written past the result's.
SPARSELEAF_WIDE
int64_t merge(const Row* row, int64_t slack, const uint32_t* leaf_labels, const float* leaf_values, int64_t leaf_size,
              uint32_t* out_labels, float* out_scores) {
    const uint32_t* labels = row->labels;
    const float* scores = row->scores;
    const int64_t size = row->size, readable = size + slack - kStep;
    int64_t i = 0, n = 0;
    for (int64_t j = 0; j < leaf_size; ++j) {
        const uint32_t wanted = leaf_labels[j];
        for (;;) {
            const auto valid = static_cast<int32_t>(std::min(kStep, size - i));
            int32_t before = 0;
            if (i <= readable) {
                for (int32_t c = 0; c < kStep; ++c) {
                    out_labels[n + c] = labels[i + c];
                    out_scores[n + c] = scores[i + c];
                    before += c < valid && (labels[i + c] & kLabelMask) < wanted;
                }
            } else {
                for (; before < valid && (labels[i + before] & kLabelMask) < wanted; ++before) {
                    out_labels[n + before] = labels[i + before];
                    out_scores[n + before] = scores[i + before];
                }
            }
            i += before;
            n += before;
            if (before < kStep) break;
        }
        const bool known = i < size && (labels[i] & kLabelMask) == wanted;
        out_labels[n] = known ? labels[i] : wanted;
        out_scores[n] = (known ? scores[i] : 0.0f) + leaf_values[j];
        i += known;
        ++n;
    }
    std::memcpy(out_labels + n, labels + i, static_cast<size_t>(size - i) * sizeof(uint32_t));
    std::memcpy(out_scores + n, scores + i, static_cast<size_t>(size - i) * sizeof(float));
    return n + size - i;
}

// One block after every row has taken its leaf: a new (indptr, labels, scores).
nb::tuple add_leaves(In1<int64_t> indptr, In1<uint32_t> labels, In1<float> scores, In1<int32_t> leaf_of_row,
                     In1<int64_t> leaf_indptr, In1<uint32_t> leaf_labels, In1<float> leaf_values, int n_threads) {
    const RowBlocks rows({Block{indptr, labels, scores}});
    const int64_t n = rows.n_rows(), n_leaves = static_cast<int64_t>(leaf_indptr.size()) - 1;
    require(static_cast<int64_t>(leaf_of_row.size()) == n, "leaf_of_row: one number a row of the block");
    require(n_leaves >= 0 && leaf_indptr.data()[n_leaves] == static_cast<int64_t>(leaf_labels.size()) &&
                leaf_labels.size() == leaf_values.size(),
            "leaf_indptr: must end at the number of entries");
    for (int64_t i = 0; i < n; ++i)
        require(leaf_of_row.data()[i] >= 0 && leaf_of_row.data()[i] < n_leaves, "leaf_of_row: no such leaf");

    std::unique_ptr<int64_t[]> out_indptr(new int64_t[static_cast<size_t>(n) + 1]);
    std::unique_ptr<uint32_t[]> out_labels;
    std::unique_ptr<float[]> out_scores;
    {
        nb::gil_scoped_release release;
        // Every part of the block is merged into its own buffer; once all sizes are known it is copied out.
        constexpr int64_t kPart = 128;
        const int64_t n_parts = (n + kPart - 1) / kPart;
        struct Merged {
            std::unique_ptr<uint32_t[]> labels;
            std::unique_ptr<float[]> scores;
            int64_t size = 0;
        };
        std::vector<Merged> merged(static_cast<size_t>(n_parts));
        out_indptr[0] = 0;
        parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
            const int64_t begin = p * kPart, end = std::min(n, begin + kPart);
            int64_t most = indptr.data()[end] - indptr.data()[begin];
            for (int64_t i = begin; i < end; ++i) {
                const int32_t leaf = leaf_of_row.data()[i];
                most += leaf_indptr.data()[leaf + 1] - leaf_indptr.data()[leaf];
            }
            Merged& part = merged[p];
            part.labels.reset(new uint32_t[static_cast<size_t>(most + kStep)]);
            part.scores.reset(new float[static_cast<size_t>(most + kStep)]);
            for (int64_t i = begin; i < end; ++i) {
                const int64_t first = leaf_indptr.data()[leaf_of_row.data()[i]];
                const Row row = rows[i];
                const int64_t size =
                    merge(&row, static_cast<int64_t>(labels.size()) - indptr.data()[i + 1], leaf_labels.data() + first,
                          leaf_values.data() + first, leaf_indptr.data()[leaf_of_row.data()[i] + 1] - first,
                          part.labels.get() + part.size, part.scores.get() + part.size);
                part.size += size;
                out_indptr[i + 1] = size;
            }
        });
        for (int64_t i = 0; i < n; ++i) out_indptr[i + 1] += out_indptr[i];
        out_labels.reset(new uint32_t[static_cast<size_t>(out_indptr[n])]);
        out_scores.reset(new float[static_cast<size_t>(out_indptr[n])]);
        parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
            const int64_t at = out_indptr[p * kPart];
            std::copy_n(merged[p].labels.get(), merged[p].size, out_labels.get() + at);
            std::copy_n(merged[p].scores.get(), merged[p].size, out_scores.get() + at);
            merged[p] = {};
        });
    }
    const auto size = static_cast<size_t>(out_indptr[n]);
    return nb::make_tuple(to_numpy(std::move(out_indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(out_labels), size), to_numpy(std::move(out_scores), size));
}

// The k best labels of every row by score so far (ties: lower label); -1 and -inf where a row has fewer.
// Labels no leaf has touched (score exactly 0) are no candidates. `names` maps a label to the id to write.
void topk_scores(const std::vector<Block>& blocks, In1<int32_t> names, Out2<int32_t> out_labels, Out2<float> out_scores, int n_threads) {
    const RowBlocks rows(blocks);
    const int64_t n = rows.n_rows(), k = static_cast<int64_t>(out_labels.shape(1));
    require(static_cast<int64_t>(out_labels.shape(0)) == n && static_cast<int64_t>(out_scores.shape(0)) == n &&
                static_cast<int64_t>(out_scores.shape(1)) == k,
            "out: (rows, k)");
    nb::gil_scoped_release release;
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
    m.def("add_leaves", &add_leaves, nb::arg("indptr"), nb::arg("labels"), nb::arg("scores"), nb::arg("leaf_of_row"),
          nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"), nb::arg("n_threads"));
    m.def("topk_scores", &topk_scores, nb::arg("blocks"), nb::arg("names"), nb::arg("out_labels").noconvert(),
          nb::arg("out_scores").noconvert(), nb::arg("n_threads"));
}
