// Label frequencies of leaves, from label counts.
#include <cmath>

#include "common.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kLeaves = 256;  // per task

// CSR (leaves, labels) with increasing labels.
struct Counts {
    In1<int64_t> indptr;
    In1<int32_t> labels;
    In1<double> values;

    void check() const {
        require(labels.size() == values.size(), "labels, counts: must have equal sizes");
        require_indptr(indptr, labels.size());
    }
};

struct Entry {
    int32_t label;
    double value;
};

// The counts of a leaf in both, by label.
void add_up(const Counts& first, const Counts& second, int64_t leaf, std::vector<Entry>& list) {
    list.clear();
    int64_t a = first.indptr.data()[leaf], b = second.indptr.data()[leaf];
    const int64_t a_end = first.indptr.data()[leaf + 1], b_end = second.indptr.data()[leaf + 1];
    const int32_t *in_first = first.labels.data(), *in_second = second.labels.data();
    while (a < a_end || b < b_end) {
        const bool of_a = a < a_end && (b == b_end || in_first[a] <= in_second[b]);
        const bool of_b = b < b_end && (a == a_end || in_second[b] <= in_first[a]);
        const int32_t label = of_a ? in_first[a] : in_second[b];
        const double from_a = of_a ? first.values.data()[a++] : 0.0;
        const double from_b = of_b ? second.values.data()[b++] : 0.0;
        list.push_back({label, from_a + from_b});
    }
}

// Keeps the `most` entries with the largest values (ties: lower label); the order of labels stays.
void keep_largest(std::vector<Entry>& list, int64_t most) {
    if (most < 0 || static_cast<int64_t>(list.size()) <= most) return;
    std::nth_element(list.begin(), list.begin() + most, list.end(), [](const Entry& a, const Entry& b) {
        return a.value != b.value ? a.value > b.value : a.label < b.label;
    });
    list.resize(static_cast<size_t>(most));
    std::sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.label < b.label; });
}

// Counts, plus those that are added to them, relative to the total of each leaf: the `most` highest
// frequencies (ties: lower label), or all for -1, by increasing label; CSR of float32. label_weights: empty
// if all are 1.
nb::tuple leaf_frequencies(In1<int64_t> indptr, In1<int32_t> labels, In1<double> counts,
                           In1<int64_t> added_indptr, In1<int32_t> added_labels, In1<double> added_counts,
                           In1<double> totals, In1<double> label_weights, int64_t most, int n_threads) {
    const Counts first{indptr, labels, counts}, second{added_indptr, added_labels, added_counts};
    first.check();
    second.check();
    const auto n = static_cast<int64_t>(totals.size());
    require(indptr.size() == totals.size() + 1 && added_indptr.size() == indptr.size(),
            "indptr, added_indptr, totals: must have the same leaves");
    if (label_weights.size())
        for (const Counts* one : {&first, &second})
            for (size_t e = 0; e < one->labels.size(); ++e)
                require(one->labels.data()[e] >= 0 &&
                            one->labels.data()[e] < static_cast<int64_t>(label_weights.size()),
                        "labels: must have weights");
    struct Leaves {
        std::vector<int32_t> labels;
        std::vector<float> values;
    };
    auto ends = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
    std::unique_ptr<int32_t[]> kept_labels;
    std::unique_ptr<float[]> frequencies;
    {
        GilRelease release;
        const int64_t n_tasks = (n + kLeaves - 1) / kLeaves;
        std::vector<Leaves> of_tasks(static_cast<size_t>(n_tasks));
        parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
            std::vector<Entry> list;
            Leaves& out = of_tasks[static_cast<size_t>(task)];
            for (int64_t leaf = task * kLeaves; leaf < std::min(n, (task + 1) * kLeaves); ++leaf) {
                add_up(first, second, leaf, list);
                const double total = totals.data()[leaf], factor = 1.0 / (total > 0.0 ? total : 1.0);
                for (Entry& entry : list) {
                    entry.value *= factor;
                    if (!label_weights.size()) continue;
                    const double positive = label_weights.data()[entry.label] * entry.value;
                    entry.value = positive / (positive + std::max(1.0 - entry.value, 0.0));
                }
                keep_largest(list, most);
                for (const Entry& entry : list) {
                    out.labels.push_back(entry.label);
                    out.values.push_back(static_cast<float>(entry.value));
                }
                ends[leaf + 1] = static_cast<int64_t>(list.size());
            }
        });
        for (int64_t leaf = 0; leaf < n; ++leaf) ends[leaf + 1] += ends[leaf];
        kept_labels.reset(new int32_t[static_cast<size_t>(ends[n])]);
        frequencies.reset(new float[static_cast<size_t>(ends[n])]);
        parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
            const Leaves& leaves = of_tasks[static_cast<size_t>(task)];
            const int64_t begin = ends[task * kLeaves];
            std::copy(leaves.labels.begin(), leaves.labels.end(), kept_labels.get() + begin);
            std::copy(leaves.values.begin(), leaves.values.end(), frequencies.get() + begin);
        });
    }
    const auto size = static_cast<size_t>(ends[n]);
    return nb::make_tuple(to_numpy(std::move(ends), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(kept_labels), size), to_numpy(std::move(frequencies), size));
}

}  // namespace
}  // namespace sparseleaf

void bind_frequencies(nb::module_& m) {
    m.def("leaf_frequencies", &sparseleaf::leaf_frequencies, nb::arg("indptr"), nb::arg("labels"),
          nb::arg("counts"), nb::arg("added_indptr"), nb::arg("added_labels"), nb::arg("added_counts"),
          nb::arg("totals"), nb::arg("label_weights"), nb::arg("most"), nb::arg("n_threads"));
}
