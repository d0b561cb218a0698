// Exact Shapley values of some outputs of every row: the same values as in shap.cpp, by one walk of each
// tree.
//
// At a point t of the quadrature, the factor of a feature after a split of a path is share (1 - t) + inside
// t; the product of the factors of a path is that of its parent times the new factor over the old one. With G
// the sum of weight of the point · product · value over the leaves below a node, a split on feature i changes
// its value by
//
//     Σ_t G(t) ((inside - share) / factor  after the split  -  the same before it),
//
// since these differences telescope to the term of the last split on i above every leaf. A row takes
// O(nodes · (points + points · outputs)), whatever the depth.
#include <array>

#include "interrupts.hpp"
#include "shap.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kPairs = 8;    // outputs of a row that are summed together, one per lane of a vector
constexpr int64_t kPoints = 8;   // numbers of points are multiples of this, one per lane of a vector
constexpr int64_t kRows = 1024;  // rows between looks for Ctrl-C

// A node, without what depends on the row.
struct Node {
    int32_t feature;  // -1 for a leaf
    int32_t child;    // the left one, or the leaf of the tree
    float threshold;  // or the index of a set of categories
    int32_t before;  // level of the node below the last split on the feature its parent splits on; 0 for none
    double share;    // product of child rows / parent rows over the splits on that feature
    bool missing_left, unordered;
};

struct Tree {
    std::vector<Node> nodes;
    int64_t first_leaf, n_leaves, n_levels;
    int64_t rule;  // index of the quadrature
};

Tree make_tree(const Trees& trees, int64_t number, int64_t first_leaf, int64_t& deepest) {
    const std::vector<int32_t> parent = parents_of(trees, number);
    const int64_t root = trees.tree_offsets[number], size = static_cast<int64_t>(parent.size());
    Tree tree{std::vector<Node>(static_cast<size_t>(size)), first_leaf, 0, 1, 0};
    std::vector<int32_t> level(static_cast<size_t>(size), 0), n_features(static_cast<size_t>(size), 0);
    deepest = 0;
    for (int64_t v = 0; v < size; ++v) {
        Node& node = tree.nodes[static_cast<size_t>(v)];
        const int32_t feature = trees.feature[root + v];
        const bool unordered = feature >= 0 && trees.categorical && trees.categorical[feature];
        node = {feature,
                trees.child[root + v],
                trees.threshold[root + v],
                0,
                1.0,
                static_cast<bool>(trees.missing_left[root + v]),
                unordered};
        if (feature < 0) {
            require(node.child == first_leaf + tree.n_leaves && node.child < trees.n_leaves,
                    "child: leaves must be numbered 0, 1, 2, ...");
            node.child = static_cast<int32_t>(tree.n_leaves++);
        }
        if (v == 0) continue;
        const int32_t above = parent[v];
        level[v] = level[above] + 1;
        int64_t u = above;  // the last node below a split on the same feature
        while (u > 0 && trees.feature[root + parent[u]] != trees.feature[root + above]) u = parent[u];
        node.before = level[u];
        node.share = tree.nodes[static_cast<size_t>(u)].share * static_cast<double>(trees.cover[root + v]) /
                     static_cast<double>(trees.cover[root + above]);
        n_features[v] = n_features[above] + (u == 0);
        tree.n_levels = std::max<int64_t>(tree.n_levels, level[v] + 1);
        deepest = std::max<int64_t>(deepest, n_features[v]);
    }
    return tree;
}

// Values of labels in the leaves: by label, sorted by leaf; without `leaf`, every leaf has a value for each
// label.
struct LabelValues {
    const int64_t* starts;
    const int32_t* leaf;
    const float* values;
    int64_t n_labels;
};

// Walks a tree for one row and up to kPairs outputs. Arrays have one part per level of the path.
struct Walker {
    std::vector<double> product, inverse, change;  // (levels, points)
    std::vector<double> sums;                      // (levels, points, kPairs)
    std::vector<double> inside, share;             // (levels,)
    std::vector<float> values;                     // (leaves of the tree, kPairs)
    std::vector<uint8_t> used;                     // (leaves of the tree,): whether it has a value
    std::vector<std::array<double, kPairs>> out;   // of every feature

    void resize(const Tree& tree, const Quadrature& rule) {
        const auto levels = static_cast<size_t>(tree.n_levels), m = static_cast<size_t>(rule.size);
        if (product.size() < levels * m) {
            for (auto* one : {&product, &inverse, &change}) one->resize(levels * m);
            sums.resize(levels * m * kPairs);
        }
        if (inside.size() < levels) {
            inside.resize(levels);
            share.resize(levels);
        }
        std::fill_n(product.begin(), m, 1.0);
        std::fill_n(inverse.begin(), m, 1.0);
        inside[0] = share[0] = 1.0;
    }

    // Reads the values of labels[0, n) in the leaves of a tree; false if there are none. at: where the values
    // of every label continue.
    bool read(const Tree& tree, const LabelValues& leaves, const int32_t* labels, int64_t n,
              std::array<int64_t, kPairs>& at) {
        values.assign(static_cast<size_t>(tree.n_leaves * kPairs), 0.0f);
        used.assign(static_cast<size_t>(tree.n_leaves), 0);
        bool any = false;
        for (int64_t p = 0; p < n; ++p) {
            const auto take = [&](int64_t leaf, float value) {
                values[static_cast<size_t>(leaf * kPairs + p)] = value;
                used[static_cast<size_t>(leaf)] |= value != 0.0f;
                any = any || value != 0.0f;
            };
            if (leaves.leaf) {
                int64_t e = at[p];
                const int64_t end = leaves.starts[labels[p] + 1], last = tree.first_leaf + tree.n_leaves;
                for (; e < end && leaves.leaf[e] < last; ++e)
                    take(leaves.leaf[e] - tree.first_leaf, leaves.values[e]);
                at[p] = e;
            } else {
                for (int64_t leaf = 0; leaf < tree.n_leaves; ++leaf)
                    take(leaf, leaves.values[(tree.first_leaf + leaf) * leaves.n_labels + labels[p]]);
            }
        }
        return any;
    }

    // Adds the sums of the leaves below a node, whose level is `level`; false if they have no values.
    bool visit(const Tree& tree, const Quadrature& rule, const uint8_t* sets, const float* x, int64_t v,
               int64_t level) {
        const Node& node = tree.nodes[static_cast<size_t>(v)];
        if (node.feature < 0) {
            if (used[static_cast<size_t>(node.child)]) start_sums(rule, node.child, level);
            return used[static_cast<size_t>(node.child)];
        }
        const bool left = goes_left(node, sets, x[node.feature]);
        bool any = false;
        for (int64_t c = node.child; c < node.child + 2; ++c) {
            const Node& child = tree.nodes[static_cast<size_t>(c)];
            if (child.feature < 0 && !used[static_cast<size_t>(child.child)]) continue;
            split(rule, child, level + 1, (c == node.child) == left);
            if (!visit(tree, rule, sets, x, c, level + 1)) continue;
            add_sums(rule, level, any, out[static_cast<size_t>(node.feature)].data());
            any = true;
        }
        return any;
    }

    static bool goes_left(const Node& node, const uint8_t* sets, float value) {
        if (!node.unordered) return value != value ? node.missing_left : value <= node.threshold;
        // unknown categories are treated as missing
        if (!(value >= 0.0f && value < 8.0f * kSetBytes)) return node.missing_left;
        const auto category = static_cast<int64_t>(value);
        return (sets[static_cast<int64_t>(node.threshold) * kSetBytes + (category >> 3)] >> (category & 7)) &
               1;
    }

    // Product, inverse factor and change of the term at a node below a split, which the row takes or not.
    SPARSELEAF_WIDE void split(const Quadrature& rule, const Node& node, int64_t level, bool taken) {
        const int64_t m = rule.size, before = node.before;
        const double in = taken ? inside[static_cast<size_t>(before)] : 0.0;
        inside[static_cast<size_t>(level)] = in;
        share[static_cast<size_t>(level)] = node.share;
        const double now = in - node.share;
        const double then = inside[static_cast<size_t>(before)] - share[static_cast<size_t>(before)];
        const double *above = product.data() + (level - 1) * m, *old = inverse.data() + before * m;
        const double* point = rule.point.data();
        double *p = product.data() + level * m, *inv = inverse.data() + level * m,
               *by = change.data() + level * m;
        for (int64_t q = 0; q < m; q += kPoints)
            for (int64_t r = q; r < q + kPoints; ++r) {
                const double factor = node.share * (1.0 - point[r]) + in * point[r];
                const double last = old[r], next = 1.0 / factor;
                p[r] = above[r] * last * factor;
                inv[r] = next;
                by[r] = now * next - then * last;
            }
    }

    // Sums of a single leaf.
    SPARSELEAF_WIDE void start_sums(const Quadrature& rule, int64_t leaf, int64_t level) {
        const float* value = values.data() + leaf * kPairs;
        const double* p = product.data() + level * rule.size;
        double* sum = sums.data() + level * rule.size * kPairs;
        for (int64_t q = 0; q < rule.size; ++q) {
            const double weight = rule.weight[static_cast<size_t>(q)] * p[q];
            for (int64_t r = 0; r < kPairs; ++r) sum[q * kPairs + r] = weight * static_cast<double>(value[r]);
        }
    }

    // Adds the sums of a child to those of its parent at `level`, if they have begun, and to the feature's
    // values.
    SPARSELEAF_WIDE void add_sums(const Quadrature& rule, int64_t level, bool begun, double* feature) {
        const int64_t m = rule.size;
        double *sum = sums.data() + level * m * kPairs, total[kPairs] = {};
        const double *below = sum + m * kPairs, *by = change.data() + (level + 1) * m;
        for (int64_t q = 0; q < m; ++q)
            for (int64_t r = 0; r < kPairs; ++r) {
                total[r] += by[q] * below[q * kPairs + r];
                sum[q * kPairs + r] = (begun ? sum[q * kPairs + r] : 0.0) + below[q * kPairs + r];
            }
        for (int64_t r = 0; r < kPairs; ++r) feature[r] += total[r];
    }
};

}  // namespace

// Trees prepared for Shapley values of some outputs of every row: preparing takes longer than explaining a
// row.
class ShapTrees {
  public:
    // starts, leaf and values: the values of every label, sorted by leaf; with an empty `starts`, values are
    // (leaves, labels).
    ShapTrees(In1<int64_t> tree_offsets, In1<int32_t> feature, In1<float> threshold,
              In1<uint8_t> missing_left, In1<int32_t> child, In1<uint32_t> cover, In1<uint8_t> categorical,
              In2<uint8_t> sets, int64_t n_features, In1<int64_t> starts, In1<int32_t> leaf,
              In1<float> values, int64_t n_labels)
        : n_features_(n_features),
          sets_(sets.data(), sets.data() + sets.size()),
          starts_(starts),
          leaf_(leaf),
          values_(values) {
        const Trees trees = checked_trees(tree_offsets, feature, threshold, missing_left, child, cover,
                                          categorical, sets, n_features);
        leaves_ = checked_values(trees.n_leaves, n_labels);
        GilRelease release;
        Interrupts interrupts;
        int64_t n_leaves = 0;
        for (int64_t t = 0; t < trees.n_trees; ++t) {
            interrupts.look();
            int64_t deepest = 0;
            trees_.push_back(make_tree(trees, t, n_leaves, deepest));
            n_leaves += trees_.back().n_leaves;
            trees_.back().rule = (std::max<int64_t>(1, (deepest + 1) / 2) - 1) / kPoints;
            while (static_cast<int64_t>(rules_.size()) <= trees_.back().rule)
                rules_.emplace_back(static_cast<int64_t>(rules_.size() + 1) * kPoints);
        }
    }

    // out (pairs, features) += the Shapley values of labels[starts[i]:starts[i + 1]] of row i.
    void pairs(In2<float> X, In1<int64_t> starts, In1<int32_t> labels, Out2<double> out,
               int n_threads) const {
        require_indptr(starts, labels.size());
        require(static_cast<int64_t>(X.shape(1)) == n_features_, "X: must have n_features columns");
        require(starts.size() == X.shape(0) + 1, "starts: one more than rows");
        require(out.shape(0) == labels.size() && out.shape(1) == X.shape(1),
                "out: must have the pairs and the features of X");
        for (size_t p = 0; p < labels.size(); ++p)
            require(labels.data()[p] >= 0 && labels.data()[p] < leaves_.n_labels, "labels: no such output");
        GilRelease release;
        Interrupts interrupts;
        std::vector<Walker> walkers(static_cast<size_t>(std::max(n_threads, 1)));
        const auto n_rows = static_cast<int64_t>(X.shape(0));
        for (int64_t begin = 0; begin < n_rows; begin += kRows) {
            interrupts.look();
            parallel_tasks(std::min(kRows, n_rows - begin), n_threads, [&](int64_t number, int thread) {
                const int64_t row = begin + number, end = starts.data()[row + 1];
                for (int64_t first = starts.data()[row]; first < end; first += kPairs)
                    explain(X.data() + row * n_features_, labels.data() + first,
                            std::min(kPairs, end - first), out.data() + first * n_features_,
                            walkers[static_cast<size_t>(thread)]);
            });
        }
    }

  private:
    LabelValues checked_values(int64_t n_leaves, int64_t n_labels) const {
        if (starts_.size() == 0) {
            require(leaf_.size() == 0 && static_cast<int64_t>(values_.size()) == n_leaves * n_labels,
                    "values: without starts, one for every leaf and label");
            return {nullptr, nullptr, values_.data(), n_labels};
        }
        require_indptr(starts_, values_.size());
        require(static_cast<int64_t>(starts_.size()) == n_labels + 1, "starts: one more than labels");
        require(leaf_.size() == values_.size(), "leaf: one for every value");
        for (int64_t label = 0; label < n_labels; ++label)
            for (int64_t e = starts_.data()[label]; e < starts_.data()[label + 1]; ++e) {
                const int64_t before = e > starts_.data()[label] ? leaf_.data()[e - 1] : -1;
                require(leaf_.data()[e] > before && leaf_.data()[e] < n_leaves,
                        "leaf: must increase within a label");
            }
        return {starts_.data(), leaf_.data(), values_.data(), n_labels};
    }

    // Adds the values of one row and up to kPairs labels.
    void explain(const float* x, const int32_t* labels, int64_t n, double* out, Walker& walker) const {
        walker.out.assign(static_cast<size_t>(n_features_), {});
        std::array<int64_t, kPairs> at{};
        if (leaves_.leaf)
            for (int64_t p = 0; p < n; ++p) at[p] = leaves_.starts[labels[p]];
        for (const Tree& tree : trees_) {
            if (!walker.read(tree, leaves_, labels, n, at)) continue;
            const Quadrature& rule = rules_[static_cast<size_t>(tree.rule)];
            walker.resize(tree, rule);
            walker.visit(tree, rule, sets_.data(), x, 0, 0);
        }
        for (int64_t feature = 0; feature < n_features_; ++feature)
            for (int64_t p = 0; p < n; ++p)
                out[p * n_features_ + feature] += walker.out[static_cast<size_t>(feature)][p];
    }

    int64_t n_features_;
    std::vector<uint8_t> sets_;
    In1<int64_t> starts_;  // keep the memory of leaves_ alive
    In1<int32_t> leaf_;
    In1<float> values_;
    LabelValues leaves_{};
    std::vector<Tree> trees_;
    std::vector<Quadrature> rules_;  // of kPoints, 2 kPoints, ... points
};

}  // namespace sparseleaf

void bind_shap_pairs(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<ShapTrees>(m, "ShapTrees")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, In1<uint8_t>, In1<int32_t>, In1<uint32_t>,
                      In1<uint8_t>, In2<uint8_t>, int64_t, In1<int64_t>, In1<int32_t>, In1<float>, int64_t>(),
             nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"), nb::arg("missing_left"),
             nb::arg("child"), nb::arg("cover"), nb::arg("categorical"), nb::arg("sets"),
             nb::arg("n_features"), nb::arg("starts"), nb::arg("leaf"), nb::arg("values"),
             nb::arg("n_labels"))
        .def("pairs", &ShapTrees::pairs, nb::arg("X"), nb::arg("starts"), nb::arg("labels"),
             nb::arg("out").noconvert(), nb::arg("n_threads"));
}
