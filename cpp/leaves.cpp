// Leaf vectors: exact sums of the full residuals of a leaf's rows, cut to the entries worth keeping.
//
// Eq. 18-19 of the paper: p = Σ residuals; keep the k labels of largest |p| (ties: lower label), each with
// the value rate · p / (n + λ). An entry saves p²/(n + λ) of the loss; one that saves less than min_gain is
// dropped.
#include <cmath>

#include "rows.hpp"

namespace sparseleaf {
namespace {

struct Entry {
    uint32_t label;
    int64_t sum;
};

bool larger(const Entry& a, const Entry& b) {
    const int64_t x = std::abs(a.sum), y = std::abs(b.sum);
    return x != y ? x > y : a.label < b.label;
}

// Adds up the residuals of every leaf's rows: then(leaf, touched, n_touched, sums) finds what it touched in
// `sums`, a label perhaps twice, and must leave zeros there.
template <typename Then>
void sum_leaves(const std::vector<Block>& blocks, const In1<int32_t>& rows, const In1<int64_t>& starts,
                const In1<int64_t>& ends, int64_t n_labels, int loss, int n_threads, Then&& then) {
    const RowBlocks state(blocks);
    const auto n_leaves = static_cast<int64_t>(starts.size());
    // the largest leaves first: what is handed out last is small, and threads end together
    std::vector<int64_t> order(static_cast<size_t>(n_leaves));
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf) order[leaf] = leaf;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return ends.data()[a] - starts.data()[a] > ends.data()[b] - starts.data()[b];
    });
    struct Scratch {
        std::vector<int64_t> sums;
        std::vector<uint32_t> touched;
        std::vector<int32_t> residuals;
    };
    std::vector<Scratch> scratch(static_cast<size_t>(n_threads));
    with_loss(loss, [&](auto kind) {
        parallel_tasks(n_leaves, n_threads, [&](int64_t task, int thread) {
            const int64_t leaf = order[task];
            auto& [sums, touched, buffer] = scratch[thread];
            if (sums.empty()) sums.assign(static_cast<size_t>(n_labels), 0);
            size_t n_touched = 0;
            for (int64_t i = starts.data()[leaf]; i < ends.data()[leaf]; ++i) {
                const Row row = state[rows.data()[i]];
                const int32_t* residuals = fixed_residuals<kind()>(row, buffer);
                if (touched.size() < n_touched + static_cast<size_t>(row.size))
                    touched.resize(2 * (n_touched + static_cast<size_t>(row.size)));
                for (int64_t e = 0; e < row.size; ++e) {
                    const uint32_t label = row.labels[e] & kLabelMask;
                    int64_t& sum = sums[label];
                    // written always, kept if the label is new: a branch would be guessed wrong too often
                    touched[n_touched] = label;
                    n_touched += (sum == 0) & (residuals[e] != 0);
                    sum += residuals[e];
                }
            }
            then(leaf, touched.data(), n_touched, sums);
        });
        return 0;
    });
}

bool by_label(const Entry& a, const Entry& b) {
    return a.label < b.label;
}

// Entries of all leaves as CSR: (indptr int64 (leaves + 1), labels uint32, values), values made by
// value(leaf, sum).
template <typename Value, typename ValueOf>
nb::tuple as_csr(const std::vector<std::vector<Entry>>& kept, ValueOf&& value) {
    const size_t n_leaves = kept.size();
    std::unique_ptr<int64_t[]> indptr(new int64_t[n_leaves + 1]);
    indptr[0] = 0;
    for (size_t leaf = 0; leaf < n_leaves; ++leaf)
        indptr[leaf + 1] = indptr[leaf] + static_cast<int64_t>(kept[leaf].size());
    const auto size = static_cast<size_t>(indptr[n_leaves]);
    std::unique_ptr<uint32_t[]> labels(new uint32_t[size]);
    std::unique_ptr<Value[]> values(new Value[size]);
    int64_t at = 0;
    for (size_t leaf = 0; leaf < n_leaves; ++leaf)
        for (const Entry& entry : kept[leaf]) {
            labels[at] = entry.label;
            values[at++] = value(leaf, entry.sum);
        }
    return nb::make_tuple(to_numpy(std::move(indptr), n_leaves + 1), to_numpy(std::move(labels), size),
                          to_numpy(std::move(values), size));
}

// k < 0 keeps every label. Returns (indptr int64 (leaves + 1), labels uint32, values float32), labels sorted.
nb::tuple leaf_vectors(const std::vector<Block>& blocks, In1<int32_t> rows, In1<int64_t> starts,
                       In1<int64_t> ends, int64_t n_labels, int loss, int64_t k, double l2, double min_gain,
                       double rate, int n_threads) {
    require_ranges(starts, ends, rows.size());
    std::vector<std::vector<Entry>> kept(starts.size());
    const auto below = [&](size_t leaf) {
        return static_cast<double>(ends.data()[leaf] - starts.data()[leaf]) + l2;
    };
    {
        GilRelease release;
        sum_leaves(blocks, rows, starts, ends, n_labels, loss, n_threads,
                   [&](int64_t leaf, const uint32_t* touched, size_t n_touched, std::vector<int64_t>& sums) {
                       auto& entries = kept[leaf];
                       const double n = below(static_cast<size_t>(leaf));
                       for (size_t t = 0; t < n_touched; ++t) {
                           // a sum that came back to zero is in `touched` twice, but is found here only once
                           const uint32_t label = touched[t];
                           const int64_t sum = std::exchange(sums[label], 0);
                           const double p = static_cast<double>(sum) / kResidualScale;
                           if (sum != 0 && p * p / n >= min_gain) entries.push_back({label, sum});
                       }
                       if (k >= 0 && static_cast<int64_t>(entries.size()) > k) {
                           std::nth_element(entries.begin(), entries.begin() + k, entries.end(), larger);
                           entries.resize(static_cast<size_t>(k));
                       }
                       std::sort(entries.begin(), entries.end(), by_label);
                       entries.shrink_to_fit();
                   });
    }
    return as_csr<float>(kept, [&](size_t leaf, int64_t sum) {
        return static_cast<float>(rate * (static_cast<double>(sum) / kResidualScale) / below(leaf));
    });
}

// What leaf_vectors starts from, for rows that are only some of a leaf's: (indptr, labels uint32, sums
// int64), in units of 1 / kResidualScale.
nb::tuple leaf_label_sums(const std::vector<Block>& blocks, In1<int32_t> rows, In1<int64_t> starts,
                          In1<int64_t> ends, int64_t n_labels, int loss, int n_threads) {
    require_ranges(starts, ends, rows.size());
    std::vector<std::vector<Entry>> kept(starts.size());
    {
        GilRelease release;
        sum_leaves(blocks, rows, starts, ends, n_labels, loss, n_threads,
                   [&](int64_t leaf, const uint32_t* touched, size_t n_touched, std::vector<int64_t>& sums) {
                       auto& entries = kept[leaf];
                       for (size_t t = 0; t < n_touched; ++t) {
                           const int64_t sum = std::exchange(sums[touched[t]], 0);
                           if (sum != 0) entries.push_back({touched[t], sum});
                       }
                       std::sort(entries.begin(), entries.end(), by_label);
                   });
    }
    return as_csr<int64_t>(kept, [](size_t, int64_t sum) { return sum; });
}

}  // namespace
}  // namespace sparseleaf

void bind_leaves(nb::module_& m) {
    using namespace sparseleaf;
    m.def("leaf_vectors", &leaf_vectors, nb::arg("blocks"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("k"), nb::arg("l2"),
          nb::arg("min_gain"), nb::arg("rate"), nb::arg("n_threads"));
    m.def("leaf_label_sums", &leaf_label_sums, nb::arg("blocks"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("n_threads"));
    m.attr("RESIDUAL_SCALE") = kResidualScale;
}
