// Sending rows down: the partition of a node's rows by its cut, and the way of any row through a grown tree.
#include "cut.hpp"

namespace sparseleaf {
namespace {

// Stable, in parts of a node so that a lone root keeps all threads busy:
//     rows      = [c e f | a b d g h i]      (one node, "left" rows marked in `left`)
//     count     the left rows of every part, add up, and every part knows where to write
//     rows      = [lefts in old order | rights in old order]
template <typename Bin>
void partition(In2<Bin> bins, Out1<int32_t> rows, In1<int64_t> starts, In1<int64_t> ends,
               In1<int32_t> feature, In1<int32_t> cut, In1<int32_t> missing_bin, In1<uint8_t> missing_left,
               In1<int32_t> set_of, In2<uint8_t> sets, Out1<int64_t> middles, int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(starts.size()),
                  n_features = static_cast<int64_t>(bins.shape(1));
    for (const auto size :
         {ends.size(), feature.size(), cut.size(), missing_bin.size(), missing_left.size(), middles.size()})
        require(size == starts.size(), "one number a node is wanted of every array");
    require_sets(set_of, sets, starts.size());
    require_ranges(starts, ends, rows.size());
    for (int64_t k = 0; k < n_nodes; ++k) {
        require(feature.data()[k] >= 0 && feature.data()[k] < n_features, "feature: beyond bins");
    }
    nb::gil_scoped_release release;

    constexpr int64_t kPart = 8192;
    struct Part {
        int64_t node, begin, end, lefts, left_to, right_to;
    };
    std::vector<Part> parts;
    for (int64_t k = 0; k < n_nodes; ++k)
        for (int64_t begin = starts.data()[k]; begin < ends.data()[k]; begin += kPart)
            parts.push_back({k, begin, std::min(begin + kPart, ends.data()[k]), 0, 0, 0});
    // only as much room as the nodes' rows need, and none of it written twice: most calls are for small nodes
    const int64_t low = n_nodes ? *std::min_element(starts.data(), starts.data() + n_nodes) : 0;
    const int64_t high = n_nodes ? *std::max_element(ends.data(), ends.data() + n_nodes) : 0;
    const std::unique_ptr<uint8_t[]> left_room(new uint8_t[static_cast<size_t>(high - low)]);
    const std::unique_ptr<int32_t[]> old_room(new int32_t[static_cast<size_t>(high - low)]);
    uint8_t* left = left_room.get() - low;
    int32_t* old = old_room.get() - low;
    const auto n_parts = static_cast<int64_t>(parts.size());
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        Part& part = parts[p];
        const int64_t k = part.node, f = feature.data()[k], at = cut.data()[k],
                      missing = missing_bin.data()[k];
        const bool missing_goes = missing_left.data()[k] != 0;
        const uint8_t* set = set_at(set_of, sets, k);
        for (int64_t i = part.begin; i < part.end; ++i) {
            if (i + 16 < part.end)
                __builtin_prefetch(bins.data() + static_cast<int64_t>(rows.data()[i + 16]) * n_features + f);
            const int32_t row = rows.data()[i];
            old[i] = row;
            left[i] = goes_left(bins.data()[static_cast<int64_t>(row) * n_features + f], at, missing,
                                missing_goes, set);
            part.lefts += left[i];
        }
    });
    for (int64_t p = 0; p < n_parts;) {
        const int64_t k = parts[p].node;
        int64_t lefts = 0, end = p;
        for (; end < n_parts && parts[end].node == k; ++end) lefts += parts[end].lefts;
        int64_t left_to = starts.data()[k], right_to = starts.data()[k] + lefts;
        for (; p < end; ++p) {
            parts[p].left_to = left_to;
            parts[p].right_to = right_to;
            left_to += parts[p].lefts;
            right_to += parts[p].end - parts[p].begin - parts[p].lefts;
        }
        middles.data()[k] = starts.data()[k] + lefts;
    }
    for (int64_t k = 0; k < n_nodes; ++k)
        if (starts.data()[k] == ends.data()[k]) middles.data()[k] = starts.data()[k];
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        const Part& part = parts[p];
        int64_t left_to = part.left_to, right_to = part.right_to;
        for (int64_t i = part.begin; i < part.end; ++i) {
            // no branch: where rows go is not to be foreseen
            rows.data()[right_to + left[i] * (left_to - right_to)] = old[i];
            left_to += left[i];
            right_to += 1 - left[i];
        }
    });
}

// Leaf of the given rows in a tree with nodes in arrays: feature < 0 marks a leaf, children are child, child
// + 1, and a leaf's child is its number among the leaves.
template <typename Bin>
void route_binned(In2<Bin> bins, In1<int32_t> rows, In1<int32_t> feature, In1<int32_t> cut,
                  In1<int32_t> missing_bin, In1<uint8_t> missing_left, In1<int32_t> set_of, In2<uint8_t> sets,
                  In1<int32_t> child, Out1<int32_t> leaf_of_row, int n_threads) {
    const int64_t n = static_cast<int64_t>(rows.size()), n_features = static_cast<int64_t>(bins.shape(1));
    const auto n_nodes = static_cast<int32_t>(feature.size());
    for (const auto size : {cut.size(), missing_bin.size(), missing_left.size(), child.size()})
        require(size == feature.size(), "one number a node is wanted of every array");
    require_sets(set_of, sets, feature.size());
    require(leaf_of_row.size() == bins.shape(0), "leaf_of_row: one number a row of bins");
    for (int32_t v = 0; v < n_nodes; ++v) {
        require(feature.data()[v] < n_features, "feature: beyond bins");
        // children come after their parent, so every walk ends
        require(feature.data()[v] < 0 || (child.data()[v] > v && child.data()[v] < n_nodes - 1),
                "child: not a tree");
    }
    nb::gil_scoped_release release;
    constexpr int64_t kChunk = 4096;
    parallel_tasks((n + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
            const int32_t row = rows.data()[i];
            const Bin* own = bins.data() + static_cast<int64_t>(row) * n_features;
            int32_t v = 0;
            while (feature.data()[v] >= 0)
                v = child.data()[v] + !goes_left(own[feature.data()[v]], cut.data()[v], missing_bin.data()[v],
                                                 missing_left.data()[v] != 0, set_at(set_of, sets, v));
            leaf_of_row.data()[row] = child.data()[v];
        }
    });
}

template <typename Bin>
void bind_for(nb::module_& m) {
    m.def("partition", &partition<Bin>, nb::arg("bins").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("starts"), nb::arg("ends"), nb::arg("feature"), nb::arg("cut"), nb::arg("missing_bin"),
          nb::arg("missing_left"), nb::arg("set_of"), nb::arg("sets"), nb::arg("middles").noconvert(),
          nb::arg("n_threads"));
    m.def("route_binned", &route_binned<Bin>, nb::arg("bins").noconvert(), nb::arg("rows"),
          nb::arg("feature"), nb::arg("cut"), nb::arg("missing_bin"), nb::arg("missing_left"),
          nb::arg("set_of"), nb::arg("sets"), nb::arg("child"), nb::arg("leaf_of_row").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_partition(nb::module_& m) {
    sparseleaf::bind_for<uint8_t>(m);
    sparseleaf::bind_for<uint32_t>(m);
}
