// Split finding on a GPU: see device_finder.hpp.
#include "device_finder.hpp"

#include <cstring>

namespace sparseleaf {
namespace {

constexpr int64_t kPadding = 16;  // numbers that the gain reads beyond the last column, with weight 0

// The chunks of ranges, and the index of the first chunk of every range.
struct Chunks {
    std::vector<int64_t> chunks, first{0}, several;

    // summed: by other chunks or workers in any case.
    void add(int64_t begin, int64_t end, int64_t size, bool summed = false) {
        const auto index = static_cast<int64_t>(first.size()) - 1;
        const bool alone = end - begin <= size && !summed;
        for (int64_t at = begin; at < end; at += size)
            chunks.insert(chunks.end(), {index, at, std::min(at + size, end), alone});
        if (!alone) several.push_back(index);
        first.push_back(n());
    }
    int64_t n() const { return static_cast<int64_t>(chunks.size()) / 4; }
};

}  // namespace

DeviceFinder::DeviceFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits,
                           const FeatureSet& features, const FeatureSampler& sampler, int64_t count_column,
                           int64_t first_output, int64_t n_slots, const DeviceChunks& chunks,
                           const nb::object& search, const nb::object& partition)
    : SlotFinder(table, scoring, limits, first_output, true, n_slots),
      features_(features),
      sampler_(sampler),
      width_(scoring.columns + (count_column < 0)),
      chunks_(chunks),
      search_(search),
      partition_(partition),
      several_workers_(!partition.is_none()) {}

void DeviceFinder::run(const std::vector<Siblings>& siblings, Partition*, std::vector<Family*>& others) {
    DeviceBatch batch;
    std::vector<Node*> nodes;
    for (const Siblings& search : siblings)
        for (Node* node : search.searched)
            if (node != nullptr) nodes.push_back(node);
    partition(siblings, others, batch);
    add_builds(siblings, batch);
    add_searches(nodes, batch);
    find(nodes, batch);
}

// The partitions of all families. With several workers they are made at once, since only the rows over all
// workers are known from the histograms.
void DeviceFinder::partition(const std::vector<Siblings>& siblings, const std::vector<Family*>& others,
                             DeviceBatch& batch) const {
    std::vector<Family*> families = others;
    for (const Siblings& search : siblings)
        if (search.family != nullptr && (families.empty() || families.back() != search.family))
            families.push_back(search.family);
    std::vector<int64_t> partitions;
    Chunks chunks;
    for (const Family* family : families) {
        const Node& parent = *family->parent;
        const int32_t f = parent.split.feature;
        family->left->start = parent.start;
        family->left->end = family->right->start = parent.start + family->left->count;
        family->right->end = parent.end;
        partitions.insert(partitions.end(), {parent.start, parent.end, f, parent.split.bin,
                                             table_.missing_bin.data()[f], parent.split.missing_left});
        chunks.add(parent.start, parent.end, chunks_.most);
    }
    const auto add = [&](DeviceBatch& to, const std::vector<int64_t>& of, const Chunks& divided) {
        to.add(of);
        to.add(divided.chunks);
        to.add(divided.first);
        to.n_partitions = static_cast<int64_t>(divided.first.size()) - 1;
        to.n_partition_chunks = divided.n();
    };
    if (!several_workers_ || families.empty()) return add(batch, partitions, chunks);
    DeviceBatch now;
    add(now, partitions, chunks);
    count_left(families, now);
    add(batch, {}, {});
}

void DeviceFinder::count_left(const std::vector<Family*>& families, DeviceBatch& batch) const {
    GilAcquire acquire;
    const auto n_left = nb::cast<In1<int64_t>>(partition_(nb::cast(&batch, nb::rv_policy::reference)));
    require(n_left.size() == families.size(), "partition: must return one number per partition");
    for (size_t i = 0; i < families.size(); ++i) {
        const Node& parent = *families[i]->parent;
        require(n_left.data()[i] >= 0 && n_left.data()[i] <= parent.end - parent.start,
                "partition: must return numbers of rows of the nodes");
        families[i]->left->end = families[i]->right->start = parent.start + n_left.data()[i];
    }
}

void DeviceFinder::add_builds(const std::vector<Siblings>& siblings, DeviceBatch& batch) {
    int64_t n_rows = 0;
    for (const Siblings& search : siblings) n_rows += search.built->end - search.built->start;
    const int64_t enough = n_rows * chunks_.blocks_per_chunk / chunks_.n_blocks;
    const int64_t size = std::min(chunks_.most, std::max(chunks_.fewest, enough));
    std::vector<int64_t> builds;
    Chunks chunks;
    for (const Siblings& search : siblings) {
        Node& built = *search.built;
        built.slot = slots_.take();
        const int64_t sibling = search.sibling ? search.sibling->slot : -1;
        builds.insert(builds.end(), {built.slot, built.start, built.end, sibling});
        batch.built_slots.push_back(built.slot);
        batch.n_slots = std::max<int64_t>(batch.n_slots, built.slot + 1);
        chunks.add(built.start, built.end, size, several_workers_);
    }
    batch.add(builds);
    batch.add(chunks.chunks);
    batch.add(chunks.several);
    batch.n_builds = static_cast<int64_t>(siblings.size());
    batch.n_build_chunks = chunks.n();
    batch.n_several = static_cast<int64_t>(chunks.several.size());
}

void DeviceFinder::add_searches(const std::vector<Node*>& nodes, DeviceBatch& batch) const {
    Work work(scoring_);
    std::vector<int64_t> searches;
    std::vector<double> scores, low, high;
    std::vector<int32_t> totals;
    std::vector<uint8_t> chosen, chosen_here;
    for (const Node* node : nodes) {
        searches.insert(searches.end(), {node->slot, node->count});
        scores.push_back(node_score(scoring_, constraint(*node, 0), node->total.data(), node->count, work));
        totals.insert(totals.end(), node->total.begin(), node->total.begin() + scoring_.columns);
        if (width_ > scoring_.columns) totals.push_back(static_cast<int32_t>(node->count));
        low.insert(low.end(), node->low.begin(), node->low.end());
        high.insert(high.end(), node->high.begin(), node->high.end());
        if (sampler_.all()) continue;
        sampler_.draw(node->key, features_, chosen_here);
        chosen.insert(chosen.end(), chosen_here.begin(), chosen_here.end());
    }
    totals.resize(totals.size() + kPadding);
    batch.add(searches);
    batch.add(scores);
    batch.add(totals);
    batch.add_if_any(chosen);
    batch.add_if_any(low);
    batch.add_if_any(high);
    batch.n_searches = static_cast<int64_t>(nodes.size());
}

// Results: the gains of all nodes, then their splits (feature, bin, rows on the left, whether missing rows go
// left), then the sums of their left sides.
void DeviceFinder::find(const std::vector<Node*>& nodes, const DeviceBatch& batch) const {
    const size_t n = nodes.size();
    GilAcquire acquire;
    const auto results = nb::cast<In1<uint8_t>>(search_(nb::cast(&batch, nb::rv_policy::reference)));
    require(results.size() == n * (sizeof(double) + 4 * sizeof(int32_t) + width_ * sizeof(int32_t)),
            "search: must return one split per node");
    const uint8_t* splits = results.data() + n * sizeof(double);
    const uint8_t* left = splits + n * 4 * sizeof(int32_t);
    std::vector<int32_t> sums(static_cast<size_t>(width_));
    for (size_t i = 0; i < n; ++i) {
        double gain;
        int32_t split[4];
        std::memcpy(&gain, results.data() + i * sizeof(gain), sizeof(gain));
        std::memcpy(split, splits + i * sizeof(split), sizeof(split));
        std::memcpy(sums.data(), left + i * width_ * sizeof(int32_t), width_ * sizeof(int32_t));
        adopt(*nodes[i], gain, split, sums.data());
    }
}

void DeviceFinder::adopt(Node& node, double gain, const int32_t* split, const int32_t* left) const {
    node.split = Split{};
    if (split[0] < 0) return;
    require(split[0] < features_.n && split[2] > 0 && split[2] < node.count,
            "search: must return features of the tree and rows on both sides");
    node.split = {gain, features_.numbers[split[0]], split[1], split[2], split[3] != 0};
    node.left.assign(node.total.size(), 0);
    std::copy(left, left + scoring_.columns, node.left.begin());
    // values missing only at prediction follow the majority of the rows
    if (!features_.has_missing[split[0]]) node.split.missing_left = 2 * split[2] > node.count;
}

}  // namespace sparseleaf
