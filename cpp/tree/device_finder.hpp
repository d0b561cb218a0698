// Split finding on histograms that are on a GPU: the growth loop and the choice of histograms are those of
// the CPU, rows, histograms and scans are the device's.
#pragma once

#include "grown_tree.hpp"
#include "slot_finder.hpp"

namespace sparseleaf {

// How rows are divided into chunks, one per block of threads.
struct DeviceChunks {
    int64_t most, fewest;      // rows
    int64_t blocks_per_chunk;  // of the histogram kernel
    int64_t n_blocks;          // to aim at
};

// What the device does for a batch of nodes: partitions rows, builds histograms, searches splits.
//
// Arrays are in one buffer, which is copied at once; `places` are their offsets in bytes, in this order:
// - partitions: start, end, feature, bin, missing bin, whether missing rows go left;
// - partition_chunks: index of the partition, begin, end, whether there is no other chunk;
// - first_chunks: the first chunk of every partition, and the end;
// - builds: slot, start and end of the rows, slot of the sibling with the parent's histogram or -1;
// - build_chunks: as those of partitions;
// - several: the builds of several chunks; with several workers all, whose histograms they sum;
// - searches: slot and number of rows of every searched node;
// - node_scores, totals: of these, the score of the unsplit node and its sums;
// - chosen: the sampled features; -1 for all;
// - low, high: the bounds of its values; -1 without constraints.
struct DeviceBatch {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> places;
    std::vector<int64_t> built_slots;
    int64_t n_partitions = 0, n_partition_chunks = 0, n_builds = 0, n_build_chunks = 0, n_several = 0,
            n_searches = 0;
    int64_t n_slots = 0;  // that must exist

    template <typename T>
    void add(const std::vector<T>& values) {
        constexpr size_t kAlign = 16;
        places.push_back(static_cast<int64_t>(bytes.size()));
        const auto* from = reinterpret_cast<const uint8_t*>(values.data());
        bytes.insert(bytes.end(), from, from + values.size() * sizeof(T));
        bytes.resize((bytes.size() + kAlign - 1) / kAlign * kAlign);
    }
    template <typename T>
    void add_if_any(const std::vector<T>& values) {
        values.empty() ? places.push_back(-1) : add(values);
    }
};

class DeviceFinder final : public SlotFinder {
  public:
    // search(batch) → bytes, partition(batch) → rows on the left: see sparseleaf/cuda/builder.py. partition
    // is None with one worker, whose rows on the left are known from the histograms.
    DeviceFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits,
                 const FeatureSet& features, const FeatureSampler& sampler, int64_t count_column,
                 int64_t first_output, int64_t n_slots, const DeviceChunks& chunks, const nb::object& search,
                 const nb::object& partition);

  private:
    void run(const std::vector<Siblings>& siblings, Partition* partition,
             std::vector<Family*>& others) override;
    void partition(const std::vector<Siblings>& siblings, const std::vector<Family*>& others,
                   DeviceBatch& batch) const;
    void count_left(const std::vector<Family*>& families, DeviceBatch& batch) const;
    void add_builds(const std::vector<Siblings>& siblings, DeviceBatch& batch);
    void add_searches(const std::vector<Node*>& nodes, DeviceBatch& batch) const;
    void find(const std::vector<Node*>& nodes, const DeviceBatch& batch) const;
    void adopt(Node& node, double gain, const int32_t* split, const int32_t* left) const;

    const FeatureSet& features_;
    const FeatureSampler& sampler_;
    int64_t width_;  // columns of a histogram, with the number of rows
    DeviceChunks chunks_;
    const nb::object &search_, &partition_;
    bool several_workers_;
};

}  // namespace sparseleaf
