// The leaf of every row: by routing binned rows through a grown tree, or from the rows of every leaf.
#include "goes_left.hpp"

namespace sparseleaf {
namespace {

// Writes the leaf of every given row. feature < 0 marks a leaf; the children of an inner node are child and
// child + 1, the child of a leaf is its index among the leaves.
template <typename Bin>
void route_binned(In2<Bin> bins, In1<int32_t> rows, In1<int32_t> feature, In1<int32_t> split_bin,
                  In1<int32_t> missing_bin, In1<uint8_t> missing_left, In1<int32_t> set_of, In2<uint8_t> sets,
                  In1<int32_t> child, Out1<int32_t> leaf_of_row, int n_threads) {
    const int64_t n = static_cast<int64_t>(rows.size()), n_features = static_cast<int64_t>(bins.shape(1));
    const auto n_nodes = static_cast<int32_t>(feature.size());
    for (const auto size : {split_bin.size(), missing_bin.size(), missing_left.size(), child.size()})
        require(size == feature.size(), "node arrays must have equal lengths");
    require_sets(set_of, sets, feature.size());
    require(leaf_of_row.size() == bins.shape(0), "leaf_of_row: must have one entry per row of bins");
    for (int32_t v = 0; v < n_nodes; ++v) {
        require(feature.data()[v] < n_features, "feature: must be columns of bins");
        // children come after their parent, so every path ends
        require(feature.data()[v] < 0 || (child.data()[v] > v && child.data()[v] < n_nodes - 1),
                "child: children must come after their parent");
    }
    GilRelease release;
    constexpr int64_t kChunk = 4096;
    parallel_tasks((n + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
            const int32_t row = rows.data()[i];
            const Bin* row_bins = bins.data() + static_cast<int64_t>(row) * n_features;
            int32_t v = 0;
            while (feature.data()[v] >= 0)
                v = child.data()[v] + !goes_left(row_bins[feature.data()[v]], split_bin.data()[v],
                                                 missing_bin.data()[v], missing_left.data()[v] != 0,
                                                 set_at(set_of, sets, v));
            leaf_of_row.data()[row] = child.data()[v];
        }
    });
}

// Writes the leaf of the rows of all leaves: leaf k has rows[starts[k]:ends[k]].
void write_leaves(In1<int32_t> rows, In1<int64_t> starts, In1<int64_t> ends, Out1<int32_t> leaf_of_row,
                  int n_threads) {
    require_ranges(starts, ends, rows.size());
    struct Part {
        int32_t leaf;
        int64_t begin, end;
    };
    constexpr int64_t kChunk = 8192;
    std::vector<Part> parts;  // a leaf may have most rows
    for (size_t leaf = 0; leaf < starts.size(); ++leaf)
        for (int64_t begin = starts.data()[leaf]; begin < ends.data()[leaf]; begin += kChunk)
            parts.push_back({static_cast<int32_t>(leaf), begin, std::min(ends.data()[leaf], begin + kChunk)});
    const auto n_rows = static_cast<int64_t>(leaf_of_row.size());
    GilRelease release;
    n_threads = threads_for(static_cast<int64_t>(rows.size()), n_threads);
    parallel_tasks(static_cast<int64_t>(parts.size()), n_threads, [&](int64_t task, int) {
        const Part& part = parts[static_cast<size_t>(task)];
        for (int64_t i = part.begin; i < part.end; ++i) {
            const int32_t row = rows.data()[i];
            require(row >= 0 && row < n_rows, "rows: must be less than the number of rows");
            leaf_of_row.data()[row] = part.leaf;
        }
    });
}

template <typename Bin>
void bind_for(nb::module_& m) {
    m.def("route_binned", &route_binned<Bin>, nb::arg("bins").noconvert(), nb::arg("rows"),
          nb::arg("feature"), nb::arg("split_bin"), nb::arg("missing_bin"), nb::arg("missing_left"),
          nb::arg("set_of"), nb::arg("sets"), nb::arg("child"), nb::arg("leaf_of_row").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_route(nb::module_& m) {
    sparseleaf::bind_for<uint8_t>(m);
    sparseleaf::bind_for<uint32_t>(m);
    m.def("write_leaves", &sparseleaf::write_leaves, nb::arg("rows"), nb::arg("starts"), nb::arg("ends"),
          nb::arg("leaf_of_row").noconvert(), nb::arg("n_threads"));
}
