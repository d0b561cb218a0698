// Split finding for the deep trees of a forest: from the rows of a node, without a histogram that is kept.
//
// Most nodes of a fully grown tree have fewer rows than a feature has bins. Sums are therefore kept for the
// bins that occur in the node only, for a few sampled features. With `random` (extremely randomised trees,
// Geurts et al. 2006), a feature has a single candidate: a threshold drawn uniformly between the smallest and
// the largest position of the node's bins, or for a category feature a random subset.
//
// A split between two bins that occur in the node is moved to the middle between their positions.
#pragma once

#include "categories.hpp"
#include "histogram.hpp"
#include "node.hpp"
#include "partition.hpp"

namespace sparseleaf {

constexpr int64_t kByteBins = 256;

// Where bins lie on the axis of their feature; random thresholds are uniform on it.
struct BinPositions {
    In1<int64_t> offsets;  // first bin of every feature, and the end; without bins of missing values
    In1<double> values;    // increasing within a feature

    const double* of(int64_t feature) const { return values.data() + offsets.data()[feature]; }
};

// Bins of all rows, feature by feature: the rows of a node are in increasing order, so that reading one
// feature of them is nearly sequential.
struct BinColumns {
    const uint8_t* data;
    int64_t n_rows;

    const uint8_t* of(int64_t feature) const { return data + feature * n_rows; }
};

class ColumnPartition final : public Partition {
  public:
    ColumnPartition(const FeatureTable& table, BinColumns bins, int32_t* rows)
        : table_(table), bins_(bins), rows_(rows) {}

    void split(const std::vector<Family*>& families) override;
    bool one_by_one() const override { return true; }
    void split_one(const Family& family, std::vector<int32_t>& room) override;

  private:
    const FeatureTable& table_;
    BinColumns bins_;
    int32_t* rows_;
};

// The smallest bin, the largest but that of missing values, whether any value is missing, and whether all
// bins are equal.
struct BinRange {
    uint8_t low, high;
    bool missing, constant;
};

class RowFinder final : public SplitFinder {
  public:
    struct Data {
        const FeatureTable& table;
        BinColumns bins;
        const BinPositions& positions;
        const int16_t* gradients;
        std::vector<int32_t> features;
        int64_t n_node_features;
        const int32_t* rows;
        bool random;
    };

    RowFinder(Data data, const Scoring& scoring, const Limits& limits);

    void find_root(Node& root) override;
    void expand(std::vector<Family>& families, Partition& partition) override;

  private:
    // The bins of one feature that occur in the node.
    struct Occupied {
        int64_t n = 0;             // without the bin of missing values
        bool missing = false;      // whether any value is missing
        int32_t bins[kByteBins];   // increasing
        uint8_t slots[kByteBins];  // of every bin that occurs: which sum its rows are added to
    };

    void find(Node& node, const Node* parent);
    void search_all(Node& node, const Node* parent, double score);
    void search_sample(Node& node, double score);
    bool collect(const Node& node);
    bool gather(const Node& node, int32_t feature);
    bool search(Node& node, int32_t feature, double score);
    void find_occupied(int32_t feature, int64_t n);
    void add_up_slots(int64_t n);
    bool search_best(Node& node, int32_t feature, double score);
    bool search_random(Node& node, int32_t feature, double score);
    int32_t divide_bins(const Node& node, int32_t feature) const;
    void divide_categories(const Node& node, int32_t feature);
    int32_t middle_bin(int32_t feature, int64_t last_left) const;
    void swap_feature(uint64_t key, int64_t at);

    Data data_;
    const Scoring& scoring_;
    Limits limits_;
    Work work_;
    AddRows add_rows_;
    std::vector<int16_t> gradients_;  // of the node's rows
    std::vector<int16_t> columns_;    // the same by column, if there are few
    int64_t n_used_;                  // columns without padding
    bool by_column_;
    std::vector<int32_t> numbers_;  // 0, 1, 2, …
    std::vector<uint8_t> bins_;     // of the node's rows
    std::vector<uint8_t> slot_of_row_;
    std::vector<int32_t> sums_, counts_;  // by slot
    std::vector<int32_t> total_;
    std::vector<int64_t> swapped_;  // positions of `features` that the current node exchanged
    std::vector<int32_t> room_;
    Occupied occupied_;
    BinRange range_{};  // of bins_
    uint8_t set_[kSetBytes] = {};
};

}  // namespace sparseleaf
