// Tree builders: created once per training, they grow one tree per call.
#pragma once

#include <optional>

#include "device_finder.hpp"
#include "exact_finder.hpp"
#include "grown_tree.hpp"
#include "histogram_finder.hpp"
#include "row_finder.hpp"

namespace sparseleaf {

constexpr int64_t kMinSlots = 4;     // the children of two nodes whose histograms were not kept
constexpr int64_t kExtraSlots = 32;  // for the children of nodes that are split speculatively
constexpr int64_t kExtraDeviceSlots = 64;

// Growth limits of a tree.
struct GrowthRules {
    bool best_first;
    int64_t max_leaves;  // -1 for none
    int64_t max_depth;   // -1 for none
    int64_t min_samples;
    double min_gain;
};

// Split scoring on histograms, and the memory limit of the histograms.
struct HistogramRules {
    double l2;
    int64_t top;  // score only the best `top` outputs of each side; 0 for all
    bool shared;  // the same outputs on both sides
    double min_hessian;
    int64_t budget;     // bytes for histograms
    int64_t max_nodes;  // nodes that can wait to be split at the same time
};

// The quantised gradients of one tree, and the scales that convert their sums to gains.
struct GradientColumns {
    In2<int16_t> values;
    int64_t count_column;
    int hessian;
    In1<double> weight, lambda, step;
    int64_t first_output;
};

// The full sparse residuals.
struct ResidualBlocks {
    std::vector<Block> blocks;
    int64_t n_labels;
    int loss;
    std::optional<LossWeights> weights;
};

// The rows and features of one tree.
struct TreeSample {
    Out1<int32_t> rows;  // the tree's sample; sorted by leaf when the tree has grown
    Out1<int32_t>
        oob_rows;  // rows outside the sample, routed along; only where features are divided among workers
    In1<int32_t> features;    // indices into the table, increasing
    int64_t n_node_features;  // sampled for every node
    uint64_t key;             // seed of the node samples
};

class HistogramTreeBuilder {
  public:
    HistogramTreeBuilder(In2<uint8_t> bins, In1<int32_t> common, std::shared_ptr<const FeatureTable> table,
                         GrowthRules growth, HistogramRules rules, int64_t first_feature,
                         int64_t feature_stride, int n_threads);

    GrownTree build(const GradientColumns& gradients, const TreeSample& sample,
                    const nb::object& communicator, bool by_rows);

  private:
    In2<uint8_t> bins_;
    std::shared_ptr<const FeatureTable> table_;
    GrowthRules growth_;
    HistogramRules rules_;
    int64_t first_feature_, feature_stride_;
    int n_threads_;
    std::unique_ptr<SparseColumns> sparse_;
    HistogramMemory memory_;
};

// Trees whose rows and histograms are on a GPU.
class DeviceTreeBuilder {
  public:
    DeviceTreeBuilder(std::shared_ptr<const FeatureTable> table, GrowthRules growth, HistogramRules rules);

    // n_sample, totals: rows of all workers' samples, and the sums of all columns over them; n_here: rows of
    // this worker's. They are on the device, as are the values of the gradients. search, partition: see
    // DeviceFinder.
    GrownTree build(const GradientColumns& gradients, int64_t n_sample, int64_t n_here,
                    const In1<int64_t>& totals, const In1<int32_t>& features, int64_t n_node_features,
                    uint64_t key, const DeviceChunks& chunks, const nb::object& search,
                    const nb::object& partition);

  private:
    std::shared_ptr<const FeatureTable> table_;
    GrowthRules growth_;
    HistogramRules rules_;
};

class ExactTreeBuilder {
  public:
    ExactTreeBuilder(In2<uint32_t> bins, std::shared_ptr<const FeatureTable> table, GrowthRules growth,
                     ExactRules rules, int64_t first_feature, int64_t feature_stride, int n_threads);

    GrownTree build(const ResidualBlocks& residuals, const TreeSample& sample, const nb::object& communicator,
                    bool by_rows);

  private:
    In2<uint32_t> bins_;
    std::shared_ptr<const FeatureTable> table_;
    GrowthRules growth_;
    ExactRules rules_;
    int64_t first_feature_, feature_stride_;
    int n_threads_;
};

// Trees of a forest, each grown by one thread with all rows and features: several can be built at a time.
class RowTreeBuilder {
  public:
    RowTreeBuilder(In2<uint8_t> bins, std::shared_ptr<const FeatureTable> table, BinPositions positions,
                   GrowthRules growth, double l2, bool random);

    GrownTree build(const GradientColumns& gradients, const TreeSample& sample,
                    const nb::object& communicator, bool by_rows) const;

  private:
    int64_t n_rows_;
    std::vector<uint8_t> columns_;  // bins by feature
    std::shared_ptr<const FeatureTable> table_;
    BinPositions positions_;
    GrowthRules growth_;
    double l2_;
    bool random_;
};

}  // namespace sparseleaf
