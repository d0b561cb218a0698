// The growing loop: one for both ways to grow, every split search and any number of workers.
#pragma once

#include <deque>

#include "frontier.hpp"
#include "node.hpp"
#include "partition.hpp"
#include "workers.hpp"

namespace sparseleaf {

class Grower {
  public:
    Grower(const Limits& limits, SplitFinder& finder, Partition& partition)
        : limits_(limits), finder_(finder), partition_(partition) {}

    // Grows the tree of a root whose rows and totals are known.
    void grow(Node root, Frontier frontier);

    std::deque<Node> nodes;  // in the order they were made

  private:
    void split(const std::vector<int32_t>& batch, Frontier& frontier);

    Limits limits_;
    SplitFinder& finder_;
    Partition& partition_;
};

// Where all features of a node's split are: in every worker that has rows of the node.
template <typename Bin>
class LocalPartition final : public Partition {
  public:
    LocalPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows, bool alone, int n_threads);

    void split(const std::vector<Family*>& families) override;
    bool one_by_one() const override { return alone_; }
    void split_one(const Family& family, std::vector<int32_t>& room) override;

  private:
    RowsToPart rows_of(const Node& node) const;

    const FeatureTable& table_;
    BinMatrix<Bin> bins_;
    int32_t* rows_;
    bool alone_;
    int n_threads_;
};

// Where every worker has all rows of some features: the owner of a split's feature tells the others which
// rows go left. Feature f is column f / size of worker f % size.
template <typename Bin>
class SharedPartition final : public Partition {
  public:
    SharedPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows, int32_t* aside,
                    const Workers& workers, int n_threads);

    void split(const std::vector<Family*>& families) override;

  private:
    std::vector<uint8_t> own_ways(const std::vector<Family*>& families) const;

    const FeatureTable& table_;
    BinMatrix<Bin> bins_;
    int32_t *rows_, *aside_;
    const Workers& workers_;
    int n_threads_;
};

}  // namespace sparseleaf
