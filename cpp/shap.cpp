// Shapley values of trees with vector leaves, exact for the game whose unknown features are averaged by
// cover.
//
// A leaf is a box: for every feature of its path an interval or a set of categories. With unknown features a
// row comes to the leaf with probability Π share_i over the unknown ones, where share_i is the product of
// child rows / parent rows over the cuts on feature i, if it lies inside in all that are known. Owen's form
// of the Shapley value of feature i then is, with inside_j 1 or 0,
//
//     (inside_i - share_i) · ∫ Π_{j ≠ i} (share_j (1 - t) + inside_j t) dt,  t from 0 to 1,
//
// times the leaf's vector. The integrand is a polynomial whose degree is below the number of features of the
// path: Gauss's quadrature with half as many points gives it exactly, from positive terms only, so that deep
// trees lose no digits. One weight a leaf and feature serves all outputs: O(leaves · depth²) a row and tree,
// and O(leaves · depth · entries of a leaf) to add up.
#include <cmath>
#include <limits>

#include "common.hpp"
#include "interrupts.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kSetBytes = 32;
constexpr int64_t kBlock = 16;

// Levels of a tree, and sides of all its boxes, from which on nobody would wait for Shapley values, nor have
// the memory: no training makes such trees, a file from a stranger may hold them.
constexpr int32_t kMostLevels = 1000;
constexpr size_t kMostSides = size_t{1} << 23;

// What a feature must be for a row to come to a leaf.
struct Side {
    int32_t feature;
    float above, up_to;  // above < x <= up_to; NaN for no lower bound, which even -inf is above
    int32_t set;         // categories, in Boxes::sets; -1 for a feature with an order
    bool missing;        // whether NaN comes here
    double share;
};

// The boxes of a tree's leaves, in order of leaf.
struct Boxes {
    std::vector<Side> sides;
    std::vector<int64_t> offsets;  // the sides of every leaf
    std::vector<uint8_t> sets;
    int64_t deepest = 0;  // sides of the leaf that has most
};

struct Trees {
    const int64_t* tree_offsets;
    const int32_t* feature;
    const float* threshold;
    const uint8_t* missing_left;
    const int32_t* child;
    const uint32_t* cover;
    const uint8_t* categorical;  // null if no feature has categories
    const uint8_t* sets;
    int64_t n_sets, n_features, n_leaves;
};

// Points and weights on (0, 1), by Newton's method on Legendre polynomials, and powers of 1 - point.
struct Quadrature {
    int64_t size;
    std::vector<double> point, weight, powers;  // powers[n * size + q] = (1 - point[q])^n

    Quadrature(int64_t n_points, int64_t highest) : size(n_points) {
        const double pi = std::acos(-1.0);
        for (int64_t q = 0; q < size; ++q) {
            double x = std::cos(pi * (static_cast<double>(q) + 0.75) / (static_cast<double>(size) + 0.5));
            double slope = 1.0;
            for (int step = 0; step < 100; ++step) {
                double before = 1.0, now = x;
                for (int64_t k = 2; k <= size; ++k) {
                    const auto d = static_cast<double>(k);
                    const double next = ((2.0 * d - 1.0) * x * now - (d - 1.0) * before) / d;
                    before = now;
                    now = next;
                }
                slope = static_cast<double>(size) * (x * now - before) / (x * x - 1.0);
                const double move = now / slope;
                x -= move;
                if (std::abs(move) < 1e-15) break;
            }
            point.push_back((1.0 - x) / 2.0);
            weight.push_back(1.0 / ((1.0 - x * x) * slope * slope));
        }
        powers.assign(static_cast<size_t>(size), 1.0);
        for (int64_t n = 0; n < highest; ++n)
            for (int64_t q = 0; q < size; ++q)
                powers.push_back(powers[static_cast<size_t>(n * size + q)] *
                                 (1.0 - point[static_cast<size_t>(q)]));
    }
};

// Narrows the side of a leaf by one cut of its path.
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
        boxes.sides.push_back({feature, kNone, std::numeric_limits<float>::infinity(), set, true, 1.0});
        side = boxes.sides.end() - 1;
    }
    const float threshold = trees.threshold[node];
    if (unordered) {
        const uint8_t* cut = trees.sets + static_cast<int64_t>(threshold) * kSetBytes;
        uint8_t* own = boxes.sets.data() + side->set * kSetBytes;
        for (int64_t b = 0; b < kSetBytes; ++b) own[b] &= left ? cut[b] : static_cast<uint8_t>(~cut[b]);
    } else if (left) {
        side->up_to = std::min(side->up_to, threshold);
    } else if (!(side->above >= threshold)) {
        side->above = threshold;
    }
    side->missing = side->missing && left == static_cast<bool>(trees.missing_left[node]);
    side->share *= share;
}

// The boxes of one tree; checks all that it walks.
Boxes make_boxes(const Trees& trees, int64_t tree, int64_t first_leaf) {
    const int64_t root = trees.tree_offsets[tree], size = trees.tree_offsets[tree + 1] - root;
    require(size > 0, "tree_offsets: every tree needs a node");
    std::vector<int32_t> parent(static_cast<size_t>(size), -1), level(static_cast<size_t>(size), 0);
    for (int64_t v = 0; v < size; ++v) {
        const int32_t feature = trees.feature[root + v], child = trees.child[root + v];
        const uint32_t* cover = trees.cover + root;
        require(cover[v] > 0, "cover: every node must have had a row");
        require(v == 0 || parent[v] >= 0, "child: every node but the first must be a child");
        if (feature < 0) continue;
        require(feature < trees.n_features, "feature: a column that does not exist");
        require(child > v && child < size - 1 && parent[child] < 0 && parent[child + 1] < 0,
                "child: must come after its parent, of which it has one");
        require(static_cast<uint64_t>(cover[child]) + cover[child + 1] == cover[v],
                "cover: a node must have the rows of its children");
        const float threshold = trees.threshold[root + v];
        require(!std::isnan(threshold), "threshold must be a number");
        if (trees.categorical && trees.categorical[feature])
            require(threshold >= 0.0f && threshold < static_cast<float>(trees.n_sets),
                    "threshold: no such set of categories");
        parent[child] = parent[child + 1] = static_cast<int32_t>(v);
        level[child] = level[child + 1] = level[v] + 1;
        require(level[child] <= kMostLevels, "trees of more than 1,000 levels have no Shapley values here");
    }
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
    return boxes;
}

bool inside(const Side& side, const Boxes& boxes, float value) {
    if (side.set >= 0) {
        // what is no known category is treated as missing
        if (!(value >= 0.0f && value < 8.0f * kSetBytes)) return side.missing;
        const auto category = static_cast<int64_t>(value);
        return (boxes.sets[static_cast<size_t>(side.set * kSetBytes + (category >> 3))] >> (category & 7)) &
               1;
    }
    if (std::isnan(value)) return side.missing;
    return !(value <= side.above) && value <= side.up_to;
}

// Room that a thread works in.
struct Scratch {
    std::vector<double> product, weight;
    std::vector<uint8_t> in;
};

// The weight of a leaf in the value of each feature of its path, for one row.
void weigh(const Side* sides, int64_t n, const Boxes& boxes, const Quadrature& rule, const float* x,
           Scratch& own) {
    const int64_t m = rule.size;
    double outside_share = 1.0;
    int64_t n_outside = 0;
    std::copy(rule.weight.begin(), rule.weight.end(), own.product.begin());
    for (int64_t i = 0; i < n; ++i) {
        own.in[i] = inside(sides[i], boxes, x[sides[i].feature]);
        if (own.in[i]) {
            const double share = sides[i].share;
            for (int64_t q = 0; q < m; ++q)
                own.product[q] *= share + (1.0 - share) * rule.point[static_cast<size_t>(q)];
        } else {
            outside_share *= sides[i].share;
            ++n_outside;
        }
    }
    // features that the row is outside of all have the same weight
    double outside = 0.0;
    if (n_outside > 0) {
        const double* power = rule.powers.data() + (n_outside - 1) * m;
        for (int64_t q = 0; q < m; ++q) outside -= own.product[q] * power[q];
        outside *= outside_share;
    }
    const double* power = rule.powers.data() + n_outside * m;
    for (int64_t q = 0; q < m; ++q) own.product[q] *= power[q];
    for (int64_t i = 0; i < n; ++i) {
        if (!own.in[i]) {
            own.weight[i] = outside;
            continue;
        }
        const double share = sides[i].share;
        double sum = 0.0;
        for (int64_t q = 0; q < m; ++q)
            sum += own.product[q] / (share + (1.0 - share) * rule.point[static_cast<size_t>(q)]);
        own.weight[i] = sum * outside_share * (1.0 - share);
    }
}

// out[feature of the path] += weight · the leaf's vector. Leaves without labels hold a value for every
// output.
SPARSELEAF_WIDE void add_leaf(const Side* sides, const double* weight, int64_t n, const int32_t* labels,
                              const float* values, int64_t size, double* out, int64_t n_outputs) {
    for (int64_t i = 0; i < n; ++i) {
        double* row = out + sides[i].feature * n_outputs;
        const double w = weight[i];
        if (labels)
            for (int64_t j = 0; j < size; ++j) row[labels[j]] += w * static_cast<double>(values[j]);
        else
            for (int64_t j = 0; j < size; ++j) row[j] += w * static_cast<double>(values[j]);
    }
}

}  // namespace

// out (rows, features, outputs) += the Shapley values of every row. Leaves have a value for every output
// where leaf_labels is empty. Trees one after the other, and a row's by one thread: the order of adding is
// fixed.
void shap_values(In1<int64_t> tree_offsets, In1<int32_t> feature, In1<float> threshold,
                 In1<uint8_t> missing_left, In1<int32_t> child, In1<uint32_t> cover, In1<uint8_t> categorical,
                 In2<uint8_t> sets, In1<int64_t> leaf_indptr, In1<int32_t> leaf_labels,
                 In1<float> leaf_values, In2<float> X, Out3<double> out, int n_threads) {
    const int64_t n_trees = static_cast<int64_t>(tree_offsets.size()) - 1;
    const auto n_nodes = static_cast<int64_t>(feature.size());
    const auto n_rows = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    const auto n_outputs = static_cast<int64_t>(out.shape(2));
    require(n_trees >= 0 && tree_offsets.data()[0] == 0 && tree_offsets.data()[n_trees] == n_nodes &&
                std::is_sorted(tree_offsets.data(), tree_offsets.data() + n_trees + 1),
            "tree_offsets must rise from 0 to the number of nodes");
    require(threshold.size() == feature.size() && missing_left.size() == feature.size() &&
                child.size() == feature.size() && cover.size() == feature.size(),
            "feature, threshold, missing_left, child and cover must have one number a node");
    require(categorical.size() == 0 || categorical.size() == X.shape(1),
            "categorical must have one number a feature, or none");
    require(static_cast<int64_t>(sets.shape(1)) == kSetBytes, "sets must have 32 bytes each");
    require_indptr(leaf_indptr, leaf_values.size());
    const bool all_outputs = leaf_labels.size() == 0 && leaf_values.size() > 0;
    require(all_outputs || leaf_labels.size() == leaf_values.size(), "leaf_labels: one for every value");
    require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1),
            "out: must have the rows and features of X");
    const int64_t n_leaves = static_cast<int64_t>(leaf_indptr.size()) - 1;
    const Trees trees{tree_offsets.data(),
                      feature.data(),
                      threshold.data(),
                      missing_left.data(),
                      child.data(),
                      cover.data(),
                      categorical.size() ? categorical.data() : nullptr,
                      sets.data(),
                      static_cast<int64_t>(sets.shape(0)),
                      n_features,
                      n_leaves};
    const int64_t* indptr = leaf_indptr.data();
    const int32_t* labels = all_outputs ? nullptr : leaf_labels.data();
    const float* values = leaf_values.data();
    GilRelease release;
    if (all_outputs)
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
            require(indptr[leaf + 1] - indptr[leaf] == n_outputs,
                    "leaf_indptr: without labels a leaf must have a value for each output");
    for (size_t e = 0; e < leaf_labels.size(); ++e)
        require(labels[e] >= 0 && labels[e] < n_outputs, "leaf_labels: no such output");
    std::vector<Scratch> scratch(static_cast<size_t>(std::max(n_threads, 1)));
    int64_t first_leaf = 0;
    Interrupts interrupts;
    for (int64_t t = 0; t < n_trees; ++t) {
        interrupts.look();
        const Boxes boxes = make_boxes(trees, t, first_leaf);
        const auto own_leaves = static_cast<int64_t>(boxes.offsets.size()) - 1;
        const Quadrature rule(std::max<int64_t>(1, (boxes.deepest + 1) / 2), boxes.deepest);
        for (Scratch& own : scratch) {
            own.product.resize(static_cast<size_t>(rule.size));
            own.weight.resize(static_cast<size_t>(boxes.deepest));
            own.in.resize(static_cast<size_t>(boxes.deepest));
        }
        parallel_tasks((n_rows + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            Scratch& own = scratch[static_cast<size_t>(thread)];
            for (int64_t row = block * kBlock; row < std::min(n_rows, (block + 1) * kBlock); ++row)
                for (int64_t leaf = 0; leaf < own_leaves; ++leaf) {
                    const int64_t begin = indptr[first_leaf + leaf],
                                  size = indptr[first_leaf + leaf + 1] - begin;
                    const Side* sides = boxes.sides.data() + boxes.offsets[leaf];
                    const int64_t n = boxes.offsets[leaf + 1] - boxes.offsets[leaf];
                    if (n == 0 || size == 0) continue;
                    weigh(sides, n, boxes, rule, X.data() + row * n_features, own);
                    add_leaf(sides, own.weight.data(), n, labels ? labels + begin : nullptr, values + begin,
                             size, out.data() + row * n_features * n_outputs, n_outputs);
                }
        });
        first_leaf += own_leaves;
    }
    require(first_leaf == n_leaves, "leaf_indptr: a leaf that no node has");
}

}  // namespace sparseleaf

void bind_shap(nb::module_& m) {
    using namespace sparseleaf;
    m.def("shap_values", &shap_values, nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"),
          nb::arg("missing_left"), nb::arg("child"), nb::arg("cover"), nb::arg("categorical"),
          nb::arg("sets"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
          nb::arg("X"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
