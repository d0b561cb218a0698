// Exact Shapley values (path-dependent TreeSHAP) of trees with vector leaves: unknown features are averaged
// by cover.
//
// A leaf is a box: for every feature of its path an interval or a set of categories. If it is inside for all
// known features, a row reaches the leaf with probability Π share_i over the unknown ones, where share_i is
// the product of child rows / parent rows over the splits on feature i. Owen's form of the Shapley value of
// feature i is then, with inside_j 1 or 0,
//
//     (inside_i - share_i) · ∫ Π_{j ≠ i} (share_j (1 - t) + inside_j t) dt,  t from 0 to 1,
//
// times the leaf's vector. The integrand is a polynomial whose degree is below the number of features of the
// path: Gauss-Legendre quadrature with half as many points is exact, with positive terms only, so that deep
// trees lose no precision. One weight per leaf and feature serves all outputs: O(leaves · depth²) per row and
// tree, plus O(leaves · depth · entries of a leaf) for the sums.
#include "shap.hpp"

#include <limits>

#include "interrupts.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kBlock = 32;  // rows that share the tables of a leaf
constexpr int64_t kRows = 8;    // rows that are weighed together, one per lane of a vector

// Limit of the total number of sides of a tree, beyond which time and memory would be prohibitive. Training
// does not produce such trees, but an untrusted file may contain them.
constexpr size_t kMostSides = size_t{1} << 23;

// The condition on one feature for a row to reach a leaf.
struct Side {
    int32_t feature, column;  // the column is its place in Boxes::columns
    float above, up_to;       // above < x <= up_to; above is NaN for no lower bound
    int32_t set;              // index of the categories in Boxes::sets; -1 for an ordered feature
    bool missing;             // whether NaN reaches the leaf
    double share;
};

// The boxes of a tree's leaves, in order of leaf.
struct Boxes {
    std::vector<Side> sides;
    std::vector<int64_t> offsets;  // the sides of every leaf
    std::vector<uint8_t> sets;
    std::vector<int32_t> columns;  // features of the tree, increasing
    int64_t deepest = 0;           // largest number of sides of a leaf
};

// Narrows the side of a leaf by one split of its path.
void narrow(const Trees& trees, int64_t node, bool left, double share, Boxes& boxes, int64_t first) {
    const int32_t feature = trees.feature[node];
    const bool unordered = trees.categorical && trees.categorical[feature];
    auto side = std::find_if(boxes.sides.begin() + first, boxes.sides.end(),
                             [&](const Side& one) { return one.feature == feature; });
    if (side == boxes.sides.end()) {
        int32_t set = -1;
        if (unordered) {
            set = static_cast<int32_t>(boxes.sets.size() / kSetBytes);
            boxes.sets.insert(boxes.sets.end(), kSetBytes, 0xff);
        }
        constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
        boxes.sides.push_back({feature, -1, kNone, std::numeric_limits<float>::infinity(), set, true, 1.0});
        side = boxes.sides.end() - 1;
    }
    const float threshold = trees.threshold[node];
    if (unordered) {
        const uint8_t* split_set = trees.sets + static_cast<int64_t>(threshold) * kSetBytes;
        uint8_t* side_set = boxes.sets.data() + side->set * kSetBytes;
        for (int64_t b = 0; b < kSetBytes; ++b)
            side_set[b] &= left ? split_set[b] : static_cast<uint8_t>(~split_set[b]);
    } else if (left) {
        side->up_to = std::min(side->up_to, threshold);
    } else if (!(side->above >= threshold)) {
        side->above = threshold;
    }
    side->missing = side->missing && left == static_cast<bool>(trees.missing_left[node]);
    side->share *= share;
}

// The boxes of one tree; validates what it reads.
Boxes make_boxes(const Trees& trees, int64_t tree, int64_t first_leaf) {
    const int64_t root = trees.tree_offsets[tree], size = trees.tree_offsets[tree + 1] - root;
    const std::vector<int32_t> parent = parents_of(trees, tree);
    Boxes boxes;
    boxes.offsets.push_back(0);
    for (int64_t v = 0; v < size; ++v) {
        if (trees.feature[root + v] >= 0) continue;
        const auto leaf = first_leaf + static_cast<int64_t>(boxes.offsets.size()) - 1;
        require(trees.child[root + v] == leaf && leaf < trees.n_leaves,
                "child: leaves must be numbered 0, 1, 2, ...");
        const int64_t first = boxes.offsets.back();
        for (int64_t u = v; u > 0; u = parent[u]) {
            const int64_t above = root + parent[u];
            const double share =
                static_cast<double>(trees.cover[root + u]) / static_cast<double>(trees.cover[above]);
            narrow(trees, above, trees.child[above] == u, share, boxes, first);
        }
        require(
            boxes.sides.size() <= kMostSides,
            "trees whose paths to the leaves have more than 8,388,608 features in all have no Shapley values"
            " here");
        boxes.offsets.push_back(static_cast<int64_t>(boxes.sides.size()));
        boxes.deepest = std::max(boxes.deepest, boxes.offsets.back() - first);
    }
    std::vector<int32_t>& columns = boxes.columns;
    std::copy_if(trees.feature + root, trees.feature + root + size, std::back_inserter(columns),
                 [](int32_t feature) { return feature >= 0; });
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (Side& side : boxes.sides)
        side.column = static_cast<int32_t>(std::lower_bound(columns.begin(), columns.end(), side.feature) -
                                           columns.begin());
    return boxes;
}

bool in_set(const Side& side, const Boxes& boxes, float value) {
    // unknown categories are treated as missing
    if (!(value >= 0.0f && value < 8.0f * kSetBytes)) return side.missing;
    const auto category = static_cast<int64_t>(value);
    return (boxes.sets[static_cast<size_t>(side.set * kSetBytes + (category >> 3))] >> (category & 7)) & 1;
}

// Buffers of one thread.
struct Scratch {
    std::vector<float> x;                // of the rows of a block: (columns of the tree, kBlock)
    std::vector<double> inverse;         // (sides of a leaf, points)
    std::vector<double> product;         // (points, kRows)
    std::vector<double> inside, weight;  // (sides, kRows)

    void resize(int64_t deepest, const Quadrature& rule) {
        const auto n_points = static_cast<size_t>(rule.size), n_sides = static_cast<size_t>(deepest);
        inverse.resize(n_sides * n_points);
        product.resize(n_points * kRows);
        inside.resize(n_sides * kRows);
        weight.resize(n_sides * kRows);
    }

    void transpose(const float* rows, int64_t n_rows, int64_t n_features,
                   const std::vector<int32_t>& columns) {
        x.resize(columns.size() * kBlock);
        const int64_t n_lanes = (n_rows + kRows - 1) / kRows * kRows;
        for (size_t c = 0; c < columns.size(); ++c)
            for (int64_t r = 0; r < n_lanes; ++r)
                x[c * kBlock + static_cast<size_t>(r)] =
                    r < n_rows ? rows[r * n_features + columns[c]] : 0.0f;
    }
};

// The inverse of the factor share + (1 - share) t of a side that a row is inside of, at every point.
void tabulate(const Side* sides, int64_t n, const Quadrature& rule, Scratch& local) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t q = 0; q < rule.size; ++q)
            local.inverse[i * rule.size + q] =
                1.0 / (sides[i].share + (1.0 - sides[i].share) * rule.point[static_cast<size_t>(q)]);
}

// The weight of a leaf in the value of each feature of its path, for kRows rows: (sides, rows).
SPARSELEAF_WIDE void weigh(const Side* sides, int64_t n, const Boxes& boxes, const Quadrature& rule,
                           const float* x, Scratch& local) {
    const int64_t m = rule.size;
    double *product = local.product.data(), *inside = local.inside.data(), *weight = local.weight.data();
    for (int64_t q = 0; q < m; ++q)
        for (int64_t r = 0; r < kRows; ++r) product[q * kRows + r] = rule.weight[static_cast<size_t>(q)];
    for (int64_t i = 0; i < n; ++i) {
        const Side side = sides[i];
        const float* value = x + side.column * kBlock;
        double* in = inside + i * kRows;
        if (side.set >= 0)
            for (int64_t r = 0; r < kRows; ++r) in[r] = in_set(side, boxes, value[r]);
        else
            for (int64_t r = 0; r < kRows; ++r) {
                const bool within = !(value[r] <= side.above) & (value[r] <= side.up_to);
                in[r] = value[r] != value[r] ? side.missing : within;
            }
        for (int64_t q = 0; q < m; ++q) {
            const double t = rule.point[static_cast<size_t>(q)], unknown = side.share * (1.0 - t);
            for (int64_t r = 0; r < kRows; ++r) product[q * kRows + r] *= unknown + in[r] * t;
        }
    }
    // all features for which a row is outside have the same weight
    double outside[kRows] = {};
    for (int64_t q = 0; q < m; ++q) {
        const double inverse = 1.0 / (1.0 - rule.point[static_cast<size_t>(q)]);
        for (int64_t r = 0; r < kRows; ++r) outside[r] -= product[q * kRows + r] * inverse;
    }
    for (int64_t i = 0; i < n; ++i) {
        double sum[kRows] = {};
        for (int64_t q = 0; q < m; ++q)
            for (int64_t r = 0; r < kRows; ++r)
                sum[r] += product[q * kRows + r] * local.inverse[static_cast<size_t>(i * m + q)];
        for (int64_t r = 0; r < kRows; ++r)
            weight[i * kRows + r] =
                inside[i * kRows + r] != 0.0 ? sum[r] * (1.0 - sides[i].share) : outside[r];
    }
}

// out[feature of the path] += weight · the leaf's vector. Leaves without labels have a value for every
// output.
SPARSELEAF_WIDE void add_leaf(const Side* sides, const double* weights, int64_t n, const int32_t* labels,
                              const float* values, int64_t size, double* out, int64_t n_outputs) {
    for (int64_t i = 0; i < n; ++i) {
        double* row = out + sides[i].feature * n_outputs;
        const double w = weights[i * kRows];
        if (labels)
            for (int64_t j = 0; j < size; ++j) row[labels[j]] += w * static_cast<double>(values[j]);
        else
            for (int64_t j = 0; j < size; ++j) row[j] += w * static_cast<double>(values[j]);
    }
}

// Vectors of the leaves; without labels, every leaf has a value for each output.
struct Leaves {
    const int64_t* indptr;
    const int32_t* labels;
    const float* values;
    int64_t n_leaves;
};

struct Block {
    int64_t begin, end;  // rows
};

// n_outputs is the number of values in a leaf without labels.
Leaves checked_leaves(const In1<int64_t>& leaf_indptr, const In1<int32_t>& leaf_labels,
                      const In1<float>& leaf_values, int64_t n_leaves, int64_t n_outputs) {
    require_indptr(leaf_indptr, leaf_values.size());
    const bool all_outputs = leaf_labels.size() == 0 && leaf_values.size() > 0;
    require(all_outputs || leaf_labels.size() == leaf_values.size(), "leaf_labels: one for every value");
    require(static_cast<int64_t>(leaf_indptr.size()) - 1 == n_leaves, "leaf_indptr: a leaf that no node has");
    const int64_t* indptr = leaf_indptr.data();
    if (all_outputs)
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
            require(indptr[leaf + 1] - indptr[leaf] == n_outputs,
                    "leaf_indptr: without labels, leaves must have a value per output");
    for (size_t e = 0; e < leaf_labels.size(); ++e)
        require(leaf_labels.data()[e] >= 0 && leaf_labels.data()[e] < n_outputs,
                "leaf_labels: no such output");
    return {indptr, all_outputs ? nullptr : leaf_labels.data(), leaf_values.data(), n_leaves};
}

// For every tree and block of rows, by one thread each: sums.add(block, leaf, sides, n, weights) for every
// leaf with a path. weights(row)[i * kRows] is the weight of the leaf in the value of the i-th of the n
// features of its path.
template <typename Sums>
void each_leaf(const Trees& trees, const In2<float>& X, int n_threads, const Sums& sums) {
    const auto n_rows = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    std::vector<Scratch> scratch(static_cast<size_t>(std::max(n_threads, 1)));
    int64_t first_leaf = 0;
    Interrupts interrupts;
    for (int64_t t = 0; t < trees.n_trees; ++t) {
        interrupts.look();
        const Boxes boxes = make_boxes(trees, t, first_leaf);
        const auto n_tree_leaves = static_cast<int64_t>(boxes.offsets.size()) - 1;
        const Quadrature rule(std::max<int64_t>(1, (boxes.deepest + 1) / 2));
        for (Scratch& local : scratch) local.resize(boxes.deepest, rule);
        parallel_tasks((n_rows + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            Scratch& local = scratch[static_cast<size_t>(thread)];
            const Block rows{block * kBlock, std::min(n_rows, (block + 1) * kBlock)};
            local.transpose(X.data() + rows.begin * n_features, rows.end - rows.begin, n_features,
                            boxes.columns);
            for (int64_t leaf = 0; leaf < n_tree_leaves; ++leaf) {
                const Side* sides = boxes.sides.data() + boxes.offsets[leaf];
                const int64_t n = boxes.offsets[leaf + 1] - boxes.offsets[leaf];
                if (n == 0) continue;
                int64_t weighed = -1;  // the first of the rows that local.weight is of
                const auto weights = [&](int64_t row) -> const double* {
                    const int64_t lane = (row - rows.begin) % kRows;
                    if (weighed < 0) tabulate(sides, n, rule, local);
                    if (weighed != row - lane)
                        weigh(sides, n, boxes, rule, local.x.data() + (row - rows.begin - lane), local);
                    weighed = row - lane;
                    return local.weight.data() + lane;
                };
                sums.add(rows, first_leaf + leaf, sides, n, weights);
            }
        });
        first_leaf += n_tree_leaves;
    }
}

// Shapley values of all outputs: out (rows, features, outputs).
struct AllSums {
    const Leaves& leaves;
    double* out;
    int64_t n_features, n_outputs;

    template <typename W>
    void add(const Block& rows, int64_t leaf, const Side* sides, int64_t n, W&& weights) const {
        const int64_t first = leaves.indptr[leaf], size = leaves.indptr[leaf + 1] - first;
        if (size == 0) return;
        for (int64_t row = rows.begin; row < rows.end; ++row)
            add_leaf(sides, weights(row), n, leaves.labels ? leaves.labels + first : nullptr,
                     leaves.values + first, size, out + row * n_features * n_outputs, n_outputs);
    }
};

}  // namespace

// out (rows, features, outputs) += the Shapley values of every row. If leaf_labels is empty, leaves have a
// value for every output. Sums are in the order of trees, by one thread per row, hence deterministic.
void shap_values(In1<int64_t> tree_offsets, In1<int32_t> feature, In1<float> threshold,
                 In1<uint8_t> missing_left, In1<int32_t> child, In1<uint32_t> cover, In1<uint8_t> categorical,
                 In2<uint8_t> sets, In1<int64_t> leaf_indptr, In1<int32_t> leaf_labels,
                 In1<float> leaf_values, In2<float> X, Out3<double> out, int n_threads) {
    const auto n_features = static_cast<int64_t>(X.shape(1)), n_outputs = static_cast<int64_t>(out.shape(2));
    require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1),
            "out: must have the rows and features of X");
    const Trees trees = checked_trees(tree_offsets, feature, threshold, missing_left, child, cover,
                                      categorical, sets, n_features);
    const Leaves leaves = checked_leaves(leaf_indptr, leaf_labels, leaf_values, trees.n_leaves, n_outputs);
    GilRelease release;
    each_leaf(trees, X, n_threads, AllSums{leaves, out.data(), n_features, n_outputs});
}

}  // namespace sparseleaf

void bind_shap(nb::module_& m) {
    using namespace sparseleaf;
    m.def("shap_values", &shap_values, nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"),
          nb::arg("missing_left"), nb::arg("child"), nb::arg("cover"), nb::arg("categorical"),
          nb::arg("sets"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
          nb::arg("X"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
