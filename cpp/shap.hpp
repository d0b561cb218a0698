// Trees with the numbers of training rows of their nodes, and quadrature: what Shapley values have in common.
#pragma once

#include <cmath>

#include "common.hpp"

namespace sparseleaf {

constexpr int64_t kSetBytes = 32;

// Limit of depth: training does not produce deeper trees, but an untrusted file may contain them.
constexpr int32_t kMostLevels = 1000;

struct Trees {
    const int64_t* tree_offsets;
    int64_t n_trees;
    const int32_t* feature;
    const float* threshold;
    const uint8_t* missing_left;
    const int32_t* child;
    const uint32_t* cover;
    const uint8_t* categorical;  // null if no feature is categorical
    const uint8_t* sets;
    int64_t n_sets, n_features, n_leaves;
};

// Gauss-Legendre points and weights on (0, 1), by Newton's method on Legendre polynomials.
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

// Validates what does not depend on single nodes.
inline Trees checked_trees(const In1<int64_t>& tree_offsets, const In1<int32_t>& feature,
                           const In1<float>& threshold, const In1<uint8_t>& missing_left,
                           const In1<int32_t>& child, const In1<uint32_t>& cover,
                           const In1<uint8_t>& categorical, const In2<uint8_t>& sets, int64_t n_features) {
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
    const int64_t n_leaves =
        std::count_if(feature.data(), feature.data() + n_nodes, [](int32_t one) { return one < 0; });
    return {tree_offsets.data(), n_trees,
            feature.data(),      threshold.data(),
            missing_left.data(), child.data(),
            cover.data(),        categorical.size() ? categorical.data() : nullptr,
            sets.data(),         static_cast<int64_t>(sets.shape(0)),
            n_features,          n_leaves};
}

// The parent of every node of a tree, -1 for the root; validates the nodes.
inline std::vector<int32_t> parents_of(const Trees& trees, int64_t tree) {
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
    return parent;
}

}  // namespace sparseleaf
