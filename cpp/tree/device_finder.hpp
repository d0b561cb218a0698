// Split finding on histograms that are on a GPU: the growth loop and the choice of histograms are those of
// the CPU, rows, histograms and scans are the device's.
#pragma once

#include "grown_tree.hpp"
#include "slot_finder.hpp"

namespace sparseleaf {

class DeviceFinder final : public SlotFinder {
  public:
    // search(partitions, builds, searches, node_scores, totals, chosen, low, high) → (gains, splits, left):
    // see sparseleaf/cuda/builder.py.
    DeviceFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits,
                 const FeatureSet& features, const FeatureSampler& sampler, int64_t count_column,
                 int64_t first_output, int64_t n_slots, const nb::object& search);

  private:
    void run(const std::vector<Siblings>& siblings, Partition* partition,
             std::vector<Family*>& others) override;
    std::vector<int64_t> partition(const std::vector<Siblings>& siblings,
                                   const std::vector<Family*>& others) const;
    void find(const std::vector<Node*>& nodes, std::vector<int64_t> partitions, std::vector<int64_t> builds);
    void adopt(Node& node, double gain, const int32_t* split, const int32_t* left) const;

    const FeatureSet& features_;
    const FeatureSampler& sampler_;
    int64_t width_;  // columns of a histogram, with the number of rows
    const nb::object& search_;
};

}  // namespace sparseleaf
