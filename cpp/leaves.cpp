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

// k < 0 keeps every label. Returns (indptr int64 (leaves + 1), labels uint32, values float32), labels sorted.
nb::tuple leaf_vectors(const std::vector<Block>& blocks, In1<int32_t> rows, In1<int64_t> starts,
                       In1<int64_t> ends, int64_t n_labels, int loss, int64_t k, double l2, double min_gain,
                       double rate, int n_threads) {
    const RowBlocks state(blocks);
    const auto n_leaves = static_cast<int64_t>(starts.size());
    require_ranges(starts, ends, rows.size());
    std::vector<std::vector<Entry>> kept(static_cast<size_t>(n_leaves));
    std::unique_ptr<int64_t[]> indptr(new int64_t[static_cast<size_t>(n_leaves) + 1]);
    std::unique_ptr<uint32_t[]> labels;
    std::unique_ptr<float[]> values;
    {
        nb::gil_scoped_release release;
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
                auto& entries = kept[leaf];
                const double n = static_cast<double>(ends.data()[leaf] - starts.data()[leaf]) + l2;
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
                std::sort(entries.begin(), entries.end(),
                          [](const Entry& a, const Entry& b) { return a.label < b.label; });
                entries.shrink_to_fit();
            });
            return 0;
        });
        indptr[0] = 0;
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
            indptr[leaf + 1] = indptr[leaf] + static_cast<int64_t>(kept[leaf].size());
        labels.reset(new uint32_t[static_cast<size_t>(indptr[n_leaves])]);
        values.reset(new float[static_cast<size_t>(indptr[n_leaves])]);
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
            const double n = static_cast<double>(ends.data()[leaf] - starts.data()[leaf]) + l2;
            int64_t at = indptr[leaf];
            for (const Entry& entry : kept[leaf]) {
                labels[at] = entry.label;
                values[at++] =
                    static_cast<float>(rate * (static_cast<double>(entry.sum) / kResidualScale) / n);
            }
        }
    }
    const auto size = static_cast<size_t>(indptr[n_leaves]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n_leaves) + 1),
                          to_numpy(std::move(labels), size), to_numpy(std::move(values), size));
}

}  // namespace
}  // namespace sparseleaf

void bind_leaves(nb::module_& m) {
    using namespace sparseleaf;
    m.def("leaf_vectors", &leaf_vectors, nb::arg("blocks"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("k"), nb::arg("l2"),
          nb::arg("min_gain"), nb::arg("rate"), nb::arg("n_threads"));
}
