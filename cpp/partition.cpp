// Sending rows down: the partition of a node's rows by its cut, and the way of any row through a grown tree.
#include "partition.hpp"

#include <limits>

namespace sparseleaf {

// In parts of a node, so that a lone root keeps all threads busy:
//     rows      = [c e f | a b d g h i]      (one node, "left" rows marked in `left`)
//     count     the left rows of every part, add up, and every part knows where to write
//     rows      = [lefts in old order | rights in old order]
template <typename Bin>
void part_rows(const Bin* bins, int64_t n_features, int32_t* rows, std::vector<RowsToPart>& nodes,
               int n_threads) {
    constexpr int64_t kPart = 2048;  // every row is a look into memory: worth a thread
    struct Part {
        RowsToPart* node;
        int64_t begin, end, lefts, left_to, right_to;
    };
    std::vector<Part> parts;
    int64_t low = std::numeric_limits<int64_t>::max(), high = 0, n_rows = 0;
    for (RowsToPart& node : nodes) {
        node.middle = node.start;
        for (int64_t begin = node.start; begin < node.end; begin += kPart)
            parts.push_back({&node, begin, std::min(begin + kPart, node.end), 0, 0, 0});
        low = std::min(low, node.start);
        high = std::max(high, node.end);
        n_rows += node.end - node.start;
    }
    if (parts.empty()) return;
    // only as much room as the nodes' rows need, and none of it written twice: most calls are for small nodes
    const std::unique_ptr<uint8_t[]> left_room(new uint8_t[static_cast<size_t>(high - low)]);
    const std::unique_ptr<int32_t[]> old_room(new int32_t[static_cast<size_t>(high - low)]);
    uint8_t* left = left_room.get() - low;
    int32_t* old = old_room.get() - low;
    const auto n_parts = static_cast<int64_t>(parts.size());
    n_threads = static_cast<int>(std::min<int64_t>(n_threads, n_rows / kPart + 1));
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        Part& part = parts[p];
        const RowsToPart& node = *part.node;
        int64_t lefts = 0;  // of its own: another thread counts beside part.lefts
        for (int64_t i = part.begin; i < part.end; ++i) {
            if (i + 16 < part.end)
                __builtin_prefetch(bins + static_cast<int64_t>(rows[i + 16]) * n_features + node.feature);
            const int32_t row = rows[i];
            old[i] = row;
            left[i] = goes_left(bins[static_cast<int64_t>(row) * n_features + node.feature], node.cut,
                                node.missing_bin, node.missing_left, node.set);
            lefts += left[i];
        }
        part.lefts = lefts;
    });
    for (const Part& part : parts) part.node->middle += part.lefts;
    int64_t left_to = 0, right_to = 0;
    for (Part& part : parts) {
        if (part.begin == part.node->start) left_to = part.begin, right_to = part.node->middle;
        part.left_to = left_to;
        part.right_to = right_to;
        left_to += part.lefts;
        right_to += part.end - part.begin - part.lefts;
    }
    parallel_tasks(n_parts, n_threads, [&](int64_t p, int) {
        const Part& part = parts[p];
        int64_t to_left = part.left_to, to_right = part.right_to;
        for (int64_t i = part.begin; i < part.end; ++i) {
            // no branch: where rows go is not to be foreseen
            rows[to_right + left[i] * (to_left - to_right)] = old[i];
            to_left += left[i];
            to_right += 1 - left[i];
        }
    });
}
template void part_rows(const uint8_t*, int64_t, int32_t*, std::vector<RowsToPart>&, int);
template void part_rows(const uint32_t*, int64_t, int32_t*, std::vector<RowsToPart>&, int);

namespace {

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
    std::vector<RowsToPart> nodes;
    for (int64_t k = 0; k < n_nodes; ++k) {
        require(feature.data()[k] >= 0 && feature.data()[k] < n_features, "feature: beyond bins");
        nodes.push_back({starts.data()[k], ends.data()[k], 0, feature.data()[k], cut.data()[k],
                         missing_bin.data()[k], missing_left.data()[k] != 0, set_at(set_of, sets, k)});
    }
    GilRelease release;
    part_rows(bins.data(), n_features, rows.data(), nodes, n_threads);
    for (int64_t k = 0; k < n_nodes; ++k) middles.data()[k] = nodes[k].middle;
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
    GilRelease release;
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
