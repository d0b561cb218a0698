// The nodes of a growing tree.
#pragma once

#include "split.hpp"

namespace sparseleaf {

// Features that may still split a node. An ordered feature that cannot split a node into two sides of
// min_samples rows cannot split its descendants either and is dropped for them.
struct LiveFeatures {
    std::vector<int32_t> dense, sparse;                 // indices into the feature set, increasing
    std::vector<int32_t> dense_columns, dense_offsets;  // bin matrix columns and first bins of the dense ones
    int64_t n_bins = 0;

    void clear() {
        for (std::vector<int32_t>* list : {&dense, &sparse, &dense_columns, &dense_offsets}) list->clear();
        n_bins = 0;
    }
    void add_dense(const FeatureSet& set, int32_t f) {
        dense.push_back(f);
        dense_columns.push_back(set.columns[f]);
        dense_offsets.push_back(set.offsets[f]);
        n_bins += set.n_bins_of(f);
    }
    void add_sparse(const FeatureSet& set, int32_t f) {
        sparse.push_back(f);
        n_bins += set.n_bins_of(f);
    }
};

struct Node {
    Node(int32_t id, int32_t depth, int64_t count, uint64_t key)
        : id(id), depth(depth), count(count), key(key) {}

    int32_t id, depth;
    int64_t count;                       // rows over all workers
    uint64_t key;                        // of random draws: depends only on the path from the root
    int64_t start = 0, end = 0;          // this worker's rows
    int64_t oob_start = 0, oob_end = 0;  // out-of-bag rows
    int32_t slot = -1;                   // of its histogram; -1 if none is kept
    int32_t child = -1;                  // the left child; the right child is child + 1
    Split split;                         // feature: its index in the table
    uint8_t set[kSetBytes] = {};
    std::vector<int32_t> total,
        left;  // Σ gradients, in total and of the left side; zero-padded for vector loads
    std::vector<double> low, high;  // bounds of its leaf values under monotone constraints
    std::shared_ptr<const LiveFeatures> live;
};

struct Limits {
    int64_t max_depth;  // -1 for none
    int64_t min_samples;
    double min_gain;

    bool may_split(int64_t count, int64_t depth) const {
        return count >= 2 * min_samples && (max_depth < 0 || depth < max_depth);
    }
    bool may_split(const Node& node) const { return may_split(node.count, node.depth); }
    // Whether a searched node has a split above min_gain.
    bool has_split(const Node& node) const { return node.split.feature >= 0 && node.split.gain > min_gain; }
    // Whether its children may be split.
    bool may_split_children(const Node& node) const {
        return may_split(node.count - min_samples, node.depth + 1);
    }
};

// A split node and its children.
struct Family {
    Node *parent, *left, *right;
    bool searched;  // whether the children may be split
};

// Partitions rows by their nodes' splits and sets the ranges of the children.
class Partition {
  public:
    virtual ~Partition() = default;

    virtual void split(const std::vector<Family*>& families) = 0;

    // Whether nodes can be partitioned independently, on any thread.
    virtual bool one_by_one() const { return false; }
    virtual void split_one(const Family&, std::vector<int32_t>& /*room*/) {}
};

// Finds the best splits of nodes.
class SplitFinder {
  public:
    virtual ~SplitFinder() = default;

    virtual void find_root(Node& root) = 0;

    // Partitions the parents' rows and finds the best splits of the children that may be split.
    virtual void expand(std::vector<Family>& families, Partition& partition) = 0;
};

}  // namespace sparseleaf
