// A node of the tree that grows.
#pragma once

#include "split.hpp"

namespace sparseleaf {

// Features that may still split a node, of every kind. One that cannot part a node's rows into two sides of
// min_samples cannot part those of its children either, and is left out there, unless its bins have no order.
struct LiveFeatures {
    std::vector<int32_t> dense, sparse;                 // places in the feature set, increasing
    std::vector<int32_t> dense_columns, dense_offsets;  // their columns of the bins and first bins
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
    int64_t count;                           // rows of all workers
    uint64_t key;                            // of its random draws: depends on the path from the root alone
    int64_t start = 0, end = 0;              // the rows here
    int64_t aside_start = 0, aside_end = 0;  // of those that the tree does not learn from
    int32_t slot = -1;                       // its histogram, if kept
    int32_t child = -1;                      // the left one; the right one is the next
    Split split;                             // feature: its number in the table
    uint8_t set[kSetBytes] = {};
    std::vector<int32_t> total, left;  // Σ residuals, of the rows that go left; and zeros a vector may read
    std::vector<double> low, high;     // bounds of its leaves' values, where there are monotone constraints
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
    // Whether a node that was searched has a split to make.
    bool has_split(const Node& node) const { return node.split.feature >= 0 && node.split.gain > min_gain; }
    // Whether its children may be split in turn.
    bool may_split_children(const Node& node) const {
        return may_split(node.count - min_samples, node.depth + 1);
    }
};

// A node that is split, and its children.
struct Family {
    Node *parent, *left, *right;
    bool searched;  // whether splits of the children are wanted
};

// Partitions the rows of nodes and sets the ranges of their children.
class Partition {
  public:
    virtual ~Partition() = default;

    virtual void split(const std::vector<Family*>& families) = 0;

    // Whether nodes can be partitioned one by one, on any thread.
    virtual bool one_by_one() const { return false; }
    virtual void split_one(const Family&, std::vector<int32_t>& /*room*/) {}
};

// Finds the best splits of nodes: the strategy of the growing loop.
class SplitFinder {
  public:
    virtual ~SplitFinder() = default;

    virtual void find_root(Node& root) = 0;

    // Partitions the parents' rows and finds the best splits of the children that may be split.
    virtual void expand(std::vector<Family>& families, Partition& partition) = 0;
};

}  // namespace sparseleaf
