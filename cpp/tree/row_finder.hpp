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

class RowFinder final : public SplitFinder {
  public:
    struct Data {
        const FeatureTable& table;
        BinMatrix<uint8_t> bins;
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

    void find(Node& node);
    bool collect(const Node& node);
    void gather(const Node& node, int64_t first, int64_t n);
    bool search(Node& node, int32_t feature, const uint8_t* bins, double parent);
    bool occupied_bins(int32_t feature, const uint8_t* bins, int64_t n);
    void add_up_slots(const uint8_t* bins, int64_t n, int64_t n_slots);
    bool search_best(Node& node, int32_t feature, double parent);
    bool search_random(Node& node, int32_t feature, const uint8_t* bins, double parent);
    void divide_at_random(const Node& node, int32_t feature);
    int32_t middle_bin(int32_t feature, int64_t last_left) const;
    void swap_feature(uint64_t key, int64_t at);

    Data data_;
    const Scoring& scoring_;
    Limits limits_;
    Work work_;
    AddRows add_rows_;
    std::vector<int16_t> gradients_;  // of the node's rows
    std::vector<int32_t> numbers_;    // 0, 1, 2, …
    std::vector<uint8_t> bins_;       // of the node's rows, by feature
    std::vector<uint8_t> slot_of_row_;
    std::vector<int32_t> sums_, counts_;  // by slot
    std::vector<int32_t> total_;
    std::vector<int64_t> swapped_;  // positions of `features` that the current node exchanged
    std::vector<int32_t> room_;
    Occupied occupied_;
    uint8_t set_[kSetBytes] = {};
};

}  // namespace sparseleaf
