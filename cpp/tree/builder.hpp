// Tree builders: objects that live as long as a training and grow one tree per call.
#pragma once

#include <optional>

#include "exact_finder.hpp"
#include "grown_tree.hpp"
#include "histogram_finder.hpp"

namespace sparseleaf {

constexpr int64_t kMinSlots = 4;    // two families at a time, even if no parent has kept its histogram
constexpr int64_t kMoreSlots = 16;  // for the children of nodes that are split ahead of their turn

// How far a tree grows.
struct GrowthRules {
    bool best_first;
    int64_t max_leaves;  // -1 for none
    int64_t max_depth;   // -1 for none
    int64_t min_samples;
    double min_gain;
};

// What makes a split of a histogram good, and how much memory histograms may take.
struct HistogramRules {
    double l2;
    int64_t top;  // count only so many outputs of each side, 0 for all
    bool shared;  // the same ones of both
    double min_hessian;
    int64_t budget;     // bytes for histograms
    int64_t max_nodes;  // that can wait to be split at once
};

// The integer gradients of one tree, and the scales by which they become gains.
struct GradientColumns {
    In2<int16_t> values;
    int64_t count_column;
    int hessian;
    In1<double> weight, lambda, step;
    int64_t first_output;
};

// Sparse residuals in full.
struct ResidualBlocks {
    std::vector<Block> blocks;
    int64_t n_labels;
    int loss;
};

// The rows and features of one tree.
struct TreeSample {
    Out1<int32_t> rows;       // those it learns from; afterwards by leaf
    Out1<int32_t> aside;      // others that take the same way, where workers have some of the features each
    In1<int32_t> features;    // numbers in the table, increasing
    int64_t n_node_features;  // drawn for every node
    uint64_t key;             // of those draws
};

class HistogramTreeBuilder {
  public:
    HistogramTreeBuilder(In2<uint8_t> bins, In1<int32_t> common, std::shared_ptr<const FeatureTable> table,
                         GrowthRules growth, HistogramRules rules, int64_t first_held, int64_t held_step,
                         int n_threads);

    GrownTree build(const GradientColumns& gradients, const TreeSample& sample,
                    const nb::object& communicator, bool by_rows);

  private:
    Node make_root(const GradientColumns& gradients, const TreeSample& sample, const Workers& workers) const;

    In2<uint8_t> bins_;
    std::shared_ptr<const FeatureTable> table_;
    GrowthRules growth_;
    HistogramRules rules_;
    int64_t first_held_, held_step_;
    int n_threads_;
    std::unique_ptr<SparseColumns> sparse_;
    HistogramMemory memory_;
};

class ExactTreeBuilder {
  public:
    ExactTreeBuilder(In2<uint32_t> bins, std::shared_ptr<const FeatureTable> table, GrowthRules growth,
                     ExactRules rules, int64_t first_held, int64_t held_step, int n_threads);

    GrownTree build(const ResidualBlocks& residuals, const TreeSample& sample, const nb::object& communicator,
                    bool by_rows);

  private:
    In2<uint32_t> bins_;
    std::shared_ptr<const FeatureTable> table_;
    GrowthRules growth_;
    ExactRules rules_;
    int64_t first_held_, held_step_;
    int n_threads_;
};

}  // namespace sparseleaf
