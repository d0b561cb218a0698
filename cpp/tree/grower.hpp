// The growth loop, for depth-wise and best-first growth, every split finder and any number of workers.
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

    // Grows the tree from a root whose rows and sums are set.
    void grow(Node root, Frontier frontier);

    std::deque<Node> nodes;  // in order of creation

  private:
    void split(const std::vector<int32_t>& batch, Frontier& frontier);

    Limits limits_;
    SplitFinder& finder_;
    Partition& partition_;
};

// Partition where every worker has all features of its rows.
template <typename Bin>
class LocalPartition final : public Partition {
  public:
    LocalPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows, bool alone, int n_threads);

    void split(const std::vector<Family*>& families) override;
    bool one_by_one() const override { return alone_; }
    void split_one(const Family& family, std::vector<int32_t>& room) override;

  private:
    SplitRows rows_of(const Node& node) const;

    const FeatureTable& table_;
    BinMatrix<Bin> bins_;
    int32_t* rows_;
    bool alone_;
    int n_threads_;
};

// Partition where every worker has all rows of some features: the owner of a split's feature broadcasts which
// rows go left. Feature f is column f / size of worker f % size.
template <typename Bin>
class SharedPartition final : public Partition {
  public:
    SharedPartition(const FeatureTable& table, BinMatrix<Bin> bins, int32_t* rows, int32_t* oob_rows,
                    const Workers& workers, int n_threads);

    void split(const std::vector<Family*>& families) override;

  private:
    std::vector<uint8_t> encode_own(const std::vector<Family*>& families) const;

    const FeatureTable& table_;
    BinMatrix<Bin> bins_;
    int32_t *rows_, *oob_rows_;
    const Workers& workers_;
    int n_threads_;
};

}  // namespace sparseleaf
