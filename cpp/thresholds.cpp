// Sums over the labels of each group for decreasing thresholds.
#include "common.hpp"

namespace sparseleaf {
namespace {

// What the entries of one step, those between two thresholds, add to the sums of each group: expected true
// labels, predicted labels and F1. Entries are of decreasing score; those of step s end at ends[s]. n_true:
// of every label. sums: (3, steps, groups).
void group_sums(In1<int32_t> labels, In1<double> hits, In1<int64_t> ends, In1<int64_t> group,
                In1<double> n_true, Out3<double> sums) {
    const auto n_steps = static_cast<int64_t>(ends.size()), n_groups = static_cast<int64_t>(sums.shape(2));
    const auto n_labels = static_cast<int64_t>(group.size());
    require(labels.size() == hits.size(), "labels, hits: must have equal sizes");
    require(n_true.size() == group.size(), "group, n_true: must have equal sizes");
    require(sums.shape(0) == 3 && static_cast<int64_t>(sums.shape(1)) == n_steps,
            "sums: must have shape (3, steps, groups)");
    require(std::is_sorted(ends.data(), ends.data() + n_steps) &&
                (n_steps == 0 ||
                 (ends.data()[0] >= 0 && ends.data()[n_steps - 1] <= static_cast<int64_t>(labels.size()))),
            "ends: must not decrease, nor exceed the number of entries");
    for (int64_t label = 0; label < n_labels; ++label)
        require(group.data()[label] >= 0 && group.data()[label] < n_groups, "group: no such group");
    struct Label {
        double correct = 0.0, predicted = 0.0, f1 = 0.0;
        double added_correct = 0.0, added_predicted = 0.0;  // by the step
    };
    GilRelease release;
    std::vector<Label> all(static_cast<size_t>(n_labels));
    std::vector<int32_t> changed;
    std::fill(sums.data(), sums.data() + 3 * n_steps * n_groups, 0.0);
    for (int64_t step = 0, e = 0; step < n_steps; ++step) {
        for (; e < ends.data()[step]; ++e) {
            const int32_t number = labels.data()[e];
            require(number >= 0 && number < n_labels, "labels: no such label");
            Label& label = all[static_cast<size_t>(number)];
            if (label.added_predicted == 0.0) changed.push_back(number);
            label.added_correct += hits.data()[e];
            label.added_predicted += 1.0;
        }
        double* out = sums.data() + step * n_groups;
        for (const int32_t number : changed) {
            Label& label = all[static_cast<size_t>(number)];
            const int64_t of_group = group.data()[number];
            out[of_group] += label.added_correct;
            out[n_steps * n_groups + of_group] += label.added_predicted;
            label.correct += std::exchange(label.added_correct, 0.0);
            label.predicted += std::exchange(label.added_predicted, 0.0);
            const double f1 = 2.0 * label.correct / std::max(label.predicted + n_true.data()[number], 1e-9);
            out[2 * n_steps * n_groups + of_group] += f1 - std::exchange(label.f1, f1);
        }
        changed.clear();
    }
}

}  // namespace
}  // namespace sparseleaf

void bind_thresholds(nb::module_& m) {
    m.def("group_sums", &sparseleaf::group_sums, nb::arg("labels"), nb::arg("hits"), nb::arg("ends"),
          nb::arg("group"), nb::arg("n_true"), nb::arg("sums").noconvert());
}
