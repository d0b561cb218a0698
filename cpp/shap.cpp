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
#include <cmath>
#include <limits>

#include "common.hpp"
#include "interrupts.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kSetBytes = 32;
constexpr int64_t kBlock = 32;  // rows that share the tables of a leaf
constexpr int64_t kRows = 8;    // rows that are weighed together, one per lane of a vector

// Limits of depth and of the total number of sides, beyond which time and memory would be prohibitive.
// Training does not produce such trees, but an untrusted file may contain them.
constexpr int32_t kMostLevels = 1000;
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

struct Trees {
    const int64_t* tree_offsets;
    const int32_t* feature;
    const float* threshold;
    const uint8_t* missing_left;
    const int32_t* child;
    const uint32_t* cover;
    const uint8_t* categorical;  // null if no feature is categorical
    const uint8_t* sets;
    int64_t n_sets, n_features, n_leaves;
};

// Points and weights on (0, 1), by Newton's method on Legendre polynomials.
struct Quadrature {
    int64_t size;
    std::vector<double> point, weight;

    explicit Quadrature(int64_t n_points) : size(n_points) {
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
    }
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
    std::vector<int32_t> place;          // of an output among those of the block; -1 for others
    std::vector<double> values;          // of the leaf, for the outputs of the block
    std::vector<double> pair_values;     // of the leaf, for the pairs of the block
    std::vector<double> sums;            // of the tree: (columns, pairs of the block)

    void resize(int64_t deepest, const Quadrature& rule) {
        const auto n_points = static_cast<size_t>(rule.size), n_sides = static_cast<size_t>(deepest);
        inverse.resize(n_sides * n_points);
        product.resize(n_points * kRows);
        inside.resize(n_sides * kRows);
        weight.resize(n_sides * kRows);
    }

    void transpose(const float* rows, int64_t n_rows, int64_t n_features,
                   const std::vector<int32_t>& columns) {
        x.assign(columns.size() * kBlock, 0.0f);
        for (size_t c = 0; c < columns.size(); ++c)
            for (int64_t r = 0; r < n_rows; ++r)
                x[c * kBlock + static_cast<size_t>(r)] = rows[r * n_features + columns[c]];
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

// The distinct outputs that a block of rows asks for: a leaf's vector is read once for all its rows.
struct BlockOutputs {
    std::vector<int32_t> outputs;  // of all blocks, increasing within one
    std::vector<int64_t> offsets;
    std::vector<int32_t> place;  // of every pair among the outputs of its block

    BlockOutputs(const int64_t* starts, int64_t n_rows, const int32_t* labels)
        : offsets(1, 0), place(static_cast<size_t>(starts[n_rows])) {
        for (int64_t begin = 0; begin < n_rows; begin += kBlock) {
            const int64_t first = starts[begin], end = starts[std::min(n_rows, begin + kBlock)];
            std::vector<int32_t> own(labels + first, labels + end);
            std::sort(own.begin(), own.end());
            own.erase(std::unique(own.begin(), own.end()), own.end());
            for (int64_t p = first; p < end; ++p)
                place[static_cast<size_t>(p)] =
                    static_cast<int32_t>(std::lower_bound(own.begin(), own.end(), labels[p]) - own.begin());
            outputs.insert(outputs.end(), own.begin(), own.end());
            offsets.push_back(static_cast<int64_t>(outputs.size()));
        }
    }

    // Sets local.values to those of the leaf; false if all are 0.
    bool look_up(const Block& rows, const Leaves& leaves, int64_t leaf, int64_t n_outputs,
                 Scratch& local) const {
        const auto block = static_cast<size_t>(rows.begin / kBlock);
        const int32_t* block_outputs = outputs.data() + offsets[block];
        const auto n = static_cast<size_t>(offsets[block + 1] - offsets[block]);
        const int64_t begin = leaves.indptr[leaf], end = leaves.indptr[leaf + 1];
        local.values.assign(n, 0.0);
        bool any = false;
        if (!leaves.labels) {
            for (size_t j = 0; j < n; ++j) {
                local.values[j] = static_cast<double>(leaves.values[begin + block_outputs[j]]);
                any = any || local.values[j] != 0.0;
            }
            return any;
        }
        local.place.resize(static_cast<size_t>(n_outputs), -1);
        for (size_t j = 0; j < n; ++j)
            local.place[static_cast<size_t>(block_outputs[j])] = static_cast<int32_t>(j);
        for (int64_t e = begin; e < end; ++e) {
            const int32_t at = local.place[static_cast<size_t>(leaves.labels[e])];
            if (at < 0) continue;
            local.values[static_cast<size_t>(at)] = static_cast<double>(leaves.values[e]);
            any = any || leaves.values[e] != 0.0f;
        }
        for (size_t j = 0; j < n; ++j) local.place[static_cast<size_t>(block_outputs[j])] = -1;
        return any;
    }
};

struct Model {
    Trees trees;
    Leaves leaves;
};

// Validates what does not depend on single nodes; n_outputs is the number of values in a leaf without labels.
Model checked_model(const In1<int64_t>& tree_offsets, const In1<int32_t>& feature,
                    const In1<float>& threshold, const In1<uint8_t>& missing_left, const In1<int32_t>& child,
                    const In1<uint32_t>& cover, const In1<uint8_t>& categorical, const In2<uint8_t>& sets,
                    const In1<int64_t>& leaf_indptr, const In1<int32_t>& leaf_labels,
                    const In1<float>& leaf_values, int64_t n_features, int64_t n_outputs) {
    const int64_t n_trees = static_cast<int64_t>(tree_offsets.size()) - 1;
    const auto n_nodes = static_cast<int64_t>(feature.size());
    require(n_trees >= 0 && tree_offsets.data()[0] == 0 && tree_offsets.data()[n_trees] == n_nodes &&
                std::is_sorted(tree_offsets.data(), tree_offsets.data() + n_trees + 1),
            "tree_offsets must rise from 0 to the number of nodes");
    require(threshold.size() == feature.size() && missing_left.size() == feature.size() &&
                child.size() == feature.size() && cover.size() == feature.size(),
            "feature, threshold, missing_left, child and cover must have one entry per node");
    require(categorical.size() == 0 || static_cast<int64_t>(categorical.size()) == n_features,
            "categorical must be empty or have one entry per feature");
    require(static_cast<int64_t>(sets.shape(1)) == kSetBytes, "sets must have 32 bytes each");
    require_indptr(leaf_indptr, leaf_values.size());
    const bool all_outputs = leaf_labels.size() == 0 && leaf_values.size() > 0;
    require(all_outputs || leaf_labels.size() == leaf_values.size(), "leaf_labels: one for every value");
    const int64_t n_leaves = static_cast<int64_t>(leaf_indptr.size()) - 1;
    const int64_t* indptr = leaf_indptr.data();
    if (all_outputs)
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
            require(indptr[leaf + 1] - indptr[leaf] == n_outputs,
                    "leaf_indptr: without labels, leaves must have a value per output");
    for (size_t e = 0; e < leaf_labels.size(); ++e)
        require(leaf_labels.data()[e] >= 0 && leaf_labels.data()[e] < n_outputs,
                "leaf_labels: no such output");
    return {{tree_offsets.data(), feature.data(), threshold.data(), missing_left.data(), child.data(),
             cover.data(), categorical.size() ? categorical.data() : nullptr, sets.data(),
             static_cast<int64_t>(sets.shape(0)), n_features, n_leaves},
            {indptr, all_outputs ? nullptr : leaf_labels.data(), leaf_values.data(), n_leaves}};
}

// For every tree and block of rows, by one thread each: sums.begin(block, boxes, buffers), then
// sums.add(block, leaf, sides, n, weights, buffers) for every leaf with a path, then
// sums.end(block, boxes, buffers). weights(row)[i * kRows] is the weight of the leaf in the value of the i-th
// of the n features of its path.
template <typename Sums>
void each_leaf(const Model& model, int64_t n_trees, const In2<float>& X, int n_threads, const Sums& sums) {
    const auto n_rows = static_cast<int64_t>(X.shape(0)), n_features = static_cast<int64_t>(X.shape(1));
    std::vector<Scratch> scratch(static_cast<size_t>(std::max(n_threads, 1)));
    int64_t first_leaf = 0;
    Interrupts interrupts;
    for (int64_t t = 0; t < n_trees; ++t) {
        interrupts.look();
        const Boxes boxes = make_boxes(model.trees, t, first_leaf);
        const auto n_tree_leaves = static_cast<int64_t>(boxes.offsets.size()) - 1;
        const Quadrature rule(std::max<int64_t>(1, (boxes.deepest + 1) / 2));
        for (Scratch& local : scratch) local.resize(boxes.deepest, rule);
        parallel_tasks((n_rows + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int thread) {
            Scratch& local = scratch[static_cast<size_t>(thread)];
            const Block rows{block * kBlock, std::min(n_rows, (block + 1) * kBlock)};
            local.transpose(X.data() + rows.begin * n_features, rows.end - rows.begin, n_features,
                            boxes.columns);
            sums.begin(rows, boxes, local);
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
                sums.add(rows, first_leaf + leaf, sides, n, weights, local);
            }
            sums.end(rows, boxes, local);
        });
        first_leaf += n_tree_leaves;
    }
    require(first_leaf == model.leaves.n_leaves, "leaf_indptr: a leaf that no node has");
}

// Shapley values of all outputs: out (rows, features, outputs).
struct AllSums {
    const Leaves& leaves;
    double* out;
    int64_t n_features, n_outputs;

    void begin(const Block&, const Boxes&, Scratch&) const {}

    template <typename W>
    void add(const Block& rows, int64_t leaf, const Side* sides, int64_t n, W&& weights, Scratch&) const {
        const int64_t first = leaves.indptr[leaf], size = leaves.indptr[leaf + 1] - first;
        if (size == 0) return;
        for (int64_t row = rows.begin; row < rows.end; ++row)
            add_leaf(sides, weights(row), n, leaves.labels ? leaves.labels + first : nullptr,
                     leaves.values + first, size, out + row * n_features * n_outputs, n_outputs);
    }

    void end(const Block&, const Boxes&, Scratch&) const {}
};

// Shapley values of pairs: out (pairs, features). They are first summed over a tree, pairs of a row side by
// side.
struct PairSums {
    const Leaves& leaves;
    const BlockOutputs& outputs;
    const int64_t* starts;
    double* out;
    int64_t n_features, n_outputs;

    int64_t n_pairs(const Block& rows) const { return starts[rows.end] - starts[rows.begin]; }

    void begin(const Block& rows, const Boxes& boxes, Scratch& local) const {
        local.sums.assign(boxes.columns.size() * static_cast<size_t>(n_pairs(rows)), 0.0);
        local.pair_values.resize(static_cast<size_t>(n_pairs(rows)));
    }

    template <typename W>
    void add(const Block& rows, int64_t leaf, const Side* sides, int64_t n, W&& weights,
             Scratch& local) const {
        if (!outputs.look_up(rows, leaves, leaf, n_outputs, local)) return;
        const int64_t first = starts[rows.begin], size = n_pairs(rows);
        for (int64_t p = 0; p < size; ++p)
            local.pair_values[p] = local.values[static_cast<size_t>(outputs.place[first + p])];
        const double* values = local.pair_values.data();
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            const int64_t from = starts[row] - first, to = starts[row + 1] - first;
            if (std::all_of(values + from, values + to, [](double value) { return value == 0.0; })) continue;
            const double* weight = weights(row);
            for (int64_t i = 0; i < n; ++i) {
                double* sums = local.sums.data() + sides[i].column * size;
                for (int64_t p = from; p < to; ++p) sums[p] += weight[i * kRows] * values[p];
            }
        }
    }

    void end(const Block& rows, const Boxes& boxes, Scratch& local) const {
        const int64_t first = starts[rows.begin], size = n_pairs(rows);
        for (size_t c = 0; c < boxes.columns.size(); ++c)
            for (int64_t p = 0; p < size; ++p)
                out[(first + p) * n_features + boxes.columns[c]] +=
                    local.sums[c * static_cast<size_t>(size) + static_cast<size_t>(p)];
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
    const Model model =
        checked_model(tree_offsets, feature, threshold, missing_left, child, cover, categorical, sets,
                      leaf_indptr, leaf_labels, leaf_values, n_features, n_outputs);
    const Leaves& leaves = model.leaves;
    GilRelease release;
    each_leaf(model, static_cast<int64_t>(tree_offsets.size()) - 1, X, n_threads,
              AllSums{leaves, out.data(), n_features, n_outputs});
}

// The same for some outputs of every row: out (pairs, features) += the Shapley values of outputs
// labels[starts[i]:starts[i + 1]] of row i.
void shap_pairs(In1<int64_t> tree_offsets, In1<int32_t> feature, In1<float> threshold,
                In1<uint8_t> missing_left, In1<int32_t> child, In1<uint32_t> cover, In1<uint8_t> categorical,
                In2<uint8_t> sets, In1<int64_t> leaf_indptr, In1<int32_t> leaf_labels, In1<float> leaf_values,
                int64_t n_outputs, In2<float> X, In1<int64_t> starts, In1<int32_t> labels, Out2<double> out,
                int n_threads) {
    const auto n_features = static_cast<int64_t>(X.shape(1));
    const Model model =
        checked_model(tree_offsets, feature, threshold, missing_left, child, cover, categorical, sets,
                      leaf_indptr, leaf_labels, leaf_values, n_features, n_outputs);
    require_indptr(starts, labels.size());
    require(starts.size() == X.shape(0) + 1, "starts: one more than rows");
    require(out.shape(0) == labels.size() && out.shape(1) == X.shape(1),
            "out: must have the pairs and the features of X");
    for (size_t p = 0; p < labels.size(); ++p)
        require(labels.data()[p] >= 0 && labels.data()[p] < n_outputs, "labels: no such output");
    const Leaves& leaves = model.leaves;
    GilRelease release;
    const BlockOutputs outputs(starts.data(), static_cast<int64_t>(X.shape(0)), labels.data());
    each_leaf(model, static_cast<int64_t>(tree_offsets.size()) - 1, X, n_threads,
              PairSums{leaves, outputs, starts.data(), out.data(), n_features, n_outputs});
}

}  // namespace sparseleaf

void bind_shap(nb::module_& m) {
    using namespace sparseleaf;
    m.def("shap_values", &shap_values, nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"),
          nb::arg("missing_left"), nb::arg("child"), nb::arg("cover"), nb::arg("categorical"),
          nb::arg("sets"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
          nb::arg("X"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("shap_pairs", &shap_pairs, nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"),
          nb::arg("missing_left"), nb::arg("child"), nb::arg("cover"), nb::arg("categorical"),
          nb::arg("sets"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
          nb::arg("n_outputs"), nb::arg("X"), nb::arg("starts"), nb::arg("labels"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
}
