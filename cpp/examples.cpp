// Training examples of one-vs-rest classifiers, from the candidate labels of every row.
#include <limits>

#include "common.hpp"

namespace sparseleaf {

// Training examples of every label: the rows with the label, and rows that it is a false candidate of, at
// most about base + per_positive · positives of these, a random sample. Candidates of row i are
// labels[starts[i]:starts[i + 1]], increasing, like those of Y. Labels without a row get no examples.
//
// Returns (indptr, examples, sides, seen): the first seen[l] examples of label l are not of held-out rows,
// or none are if only held-out rows have the label.
nb::tuple label_examples(In1<int64_t> starts, In1<int32_t> labels, In1<int64_t> y_indptr,
                         In1<int32_t> y_indices, In1<uint8_t> held_out, int64_t n_labels, double base,
                         double per_positive, uint64_t seed) {
    const auto n_rows = static_cast<int64_t>(starts.size()) - 1;
    require_indptr(starts, labels.size());
    require_indptr(y_indptr, y_indices.size());
    require(y_indptr.size() == starts.size() && static_cast<int64_t>(held_out.size()) == n_rows,
            "starts, y_indptr, held_out: same rows");
    require(base >= 0.0 && per_positive >= 0.0 && n_labels >= 0, "base, per_positive: not negative");
    for (const auto& list : {labels, y_indices})
        for (size_t e = 0; e < list.size(); ++e)
            require(list.data()[e] >= 0 && list.data()[e] < n_labels, "labels: no such label");
    std::unique_ptr<int64_t[]> indptr, seen;
    std::unique_ptr<int32_t[]> examples;
    std::unique_ptr<int8_t[]> sides;
    {
        GilRelease release;
        const auto n = static_cast<size_t>(n_labels);
        // use(label, whether the row has it), by increasing label
        const auto each = [&](int64_t row, auto&& use) {
            int64_t y = y_indptr.data()[row], c = starts.data()[row];
            const int64_t y_end = y_indptr.data()[row + 1], end = starts.data()[row + 1];
            while (y < y_end || c < end) {
                if (c == end || (y < y_end && y_indices.data()[y] <= labels.data()[c])) {
                    if (c < end && y_indices.data()[y] == labels.data()[c]) ++c;
                    use(y_indices.data()[y++], true);
                } else {
                    use(labels.data()[c++], false);
                }
            }
        };
        std::vector<int64_t> positives(n, 0), seen_positives(n, 0), negatives(n, 0);
        for (int64_t row = 0; row < n_rows; ++row)
            each(row, [&](int32_t label, bool has) {
                ++(has ? positives : negatives)[label];
                seen_positives[label] += has && !held_out.data()[row];
            });
        std::vector<uint64_t> limit(n);  // of the hash of a negative example
        for (size_t l = 0; l < n; ++l) {
            const double most = base + per_positive * static_cast<double>(positives[l]);
            const double share = most / std::max(1.0, static_cast<double>(negatives[l]));
            limit[l] = positives[l] == 0 ? 0
                       : share >= 1.0    ? std::numeric_limits<uint64_t>::max()
                                         : static_cast<uint64_t>(share * 18446744073709549568.0);
        }
        const auto kept = [&](int64_t row, int32_t label, bool has) {
            return has || mix64(mix64(seed ^ static_cast<uint64_t>(row)) ^ static_cast<uint64_t>(label)) <
                              limit[label];
        };
        indptr = std::make_unique<int64_t[]>(n + 1);
        seen = std::make_unique<int64_t[]>(n);
        for (int64_t row = 0; row < n_rows; ++row)
            each(row, [&](int32_t label, bool has) {
                if (!kept(row, label, has)) return;
                ++indptr[label + 1];
                seen[label] += !held_out.data()[row];
            });
        for (size_t l = 0; l < n; ++l) {
            indptr[l + 1] += indptr[l];
            if (seen_positives[l] == 0) seen[l] = 0;
        }
        examples.reset(new int32_t[static_cast<size_t>(indptr[n])]);
        sides.reset(new int8_t[static_cast<size_t>(indptr[n])]);
        std::vector<int64_t> at(indptr.get(), indptr.get() + n);
        for (const bool later : {false, true})
            for (int64_t row = 0; row < n_rows; ++row)
                if (static_cast<bool>(held_out.data()[row]) == later)
                    each(row, [&](int32_t label, bool has) {
                        if (!kept(row, label, has)) return;
                        examples[at[label]] = static_cast<int32_t>(row);
                        sides[at[label]++] = has ? 1 : -1;
                    });
    }
    const int64_t total = indptr[n_labels];
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n_labels) + 1),
                          to_numpy(std::move(examples), static_cast<size_t>(total)),
                          to_numpy(std::move(sides), static_cast<size_t>(total)),
                          to_numpy(std::move(seen), static_cast<size_t>(n_labels)));
}

}  // namespace sparseleaf

void bind_examples(nb::module_& m) {
    using namespace sparseleaf;
    m.def("label_examples", &label_examples, nb::arg("starts"), nb::arg("labels"), nb::arg("y_indptr"),
          nb::arg("y_indices"), nb::arg("held_out"), nb::arg("n_labels"), nb::arg("base"),
          nb::arg("per_positive"), nb::arg("seed"));
}
