// Algorithm 1 of GBDT-SPARSE: the best split of a node on the full sparse residuals, without a histogram.
//
// For every feature the node's rows are scanned in sorted order; after every `step` rows, at the next change
// of value, the split is scored with the k largest |p| of either side:
//     gain = Σ_{top k} pl²/(nl + λ) + Σ_{top k} pr²/(nr + λ) − Σ_{top k} p²/(n + λ)
// Missing values sort last, hence always go right. With weights of the loss, nl, nr and n are sums of row
// weights.
#pragma once

#include "node.hpp"
#include "partition.hpp"
#include "rows.hpp"
#include "workers.hpp"

namespace sparseleaf {

struct ExactRules {
    int64_t k;    // labels scored on each side; -1 for all
    double step;  // rows between candidate splits, or a fraction of the node's rows if below 1
    double l2;
};

// The residuals of a node's rows as a CSR over the labels that occur in it, numbered 0, 1, 2, …
struct NodeResiduals {
    std::vector<int64_t> indptr;
    std::vector<int32_t> labels;
    std::vector<int64_t> values;
    std::vector<int64_t> total;
    std::vector<int64_t> weights;  // of the rows, in units of 2^-20; empty if all are 1
    double weight = 0.0;           // of all rows
};

class ExactFinder final : public SplitFinder {
  public:
    struct Data {
        const FeatureTable& table;
        const FeatureSet& searched;  // the features that this worker searches
        BinMatrix<uint32_t> bins;
        const int32_t* rows;
        const RowBlocks& residuals;
        int64_t n_labels;
        int loss;
        WeightView weights;
        const FeatureSampler& sampler;
    };

    ExactFinder(const Data& data, const ExactRules& rules, const Limits& limits, const Workers& workers,
                int n_threads)
        : data_(data),
          rules_(rules),
          limits_(limits),
          workers_(workers),
          n_threads_(n_threads),
          local_of_(static_cast<size_t>(data.n_labels), -1) {}

    void find_root(Node& root) override;
    void expand(std::vector<Family>& families, Partition& partition) override;

  private:
    void find(const std::vector<Node*>& nodes);
    void find_here(Node& node);
    std::vector<int64_t> candidates(const std::vector<uint64_t>& order, int64_t missing) const;
    Split best_of_feature(const Node& node, int64_t f, double parent) const;

    Data data_;
    ExactRules rules_;
    Limits limits_;
    const Workers& workers_;
    int n_threads_;
    std::vector<int32_t> local_of_;
    NodeResiduals residuals_;  // of the current node
};

}  // namespace sparseleaf
