// Split finding on a GPU: see device_finder.hpp.
#include "device_finder.hpp"

namespace sparseleaf {
namespace {

template <typename T>
nb::object as_array(std::vector<T> values, size_t n_columns) {
    require_room_for_handles();
    auto* held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    const size_t n_rows = n_columns == 0 ? 0 : held->size() / n_columns;
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(held->data(), {n_rows, n_columns}, owner));
}

}  // namespace

DeviceFinder::DeviceFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits,
                           const FeatureSet& features, const FeatureSampler& sampler, int64_t count_column,
                           int64_t first_output, int64_t n_slots, const nb::object& search)
    : SlotFinder(table, scoring, limits, first_output, true, n_slots),
      features_(features),
      sampler_(sampler),
      width_(scoring.columns + (count_column < 0)),
      search_(search) {}

void DeviceFinder::run(const std::vector<Siblings>& siblings, Partition*, std::vector<Family*>& others) {
    std::vector<int64_t> partitions = partition(siblings, others), builds;
    std::vector<Node*> nodes;
    for (const Siblings& search : siblings) {
        Node& built = *search.built;
        built.slot = slots_.take();
        const int64_t sibling = search.sibling ? search.sibling->slot : -1;
        builds.insert(builds.end(), {built.slot, built.start, built.end, sibling});
        for (Node* node : search.searched)
            if (node != nullptr) nodes.push_back(node);
    }
    find(nodes, std::move(partitions), std::move(builds));
}

// The partitions of all families, whose rows on the left are known from the histograms.
std::vector<int64_t> DeviceFinder::partition(const std::vector<Siblings>& siblings,
                                             const std::vector<Family*>& others) const {
    std::vector<Family*> families = others;
    for (const Siblings& search : siblings)
        if (search.family != nullptr && (families.empty() || families.back() != search.family))
            families.push_back(search.family);
    std::vector<int64_t> partitions;
    for (const Family* family : families) {
        const Node& parent = *family->parent;
        const int32_t f = parent.split.feature;
        family->left->start = parent.start;
        family->left->end = family->right->start = parent.start + family->left->count;
        family->right->end = parent.end;
        partitions.insert(partitions.end(), {parent.start, parent.end, family->left->end, f, parent.split.bin,
                                             table_.missing_bin.data()[f], parent.split.missing_left});
    }
    return partitions;
}

void DeviceFinder::find(const std::vector<Node*>& nodes, std::vector<int64_t> partitions,
                        std::vector<int64_t> builds) {
    const auto d = static_cast<size_t>(scoring_.outputs);
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
    GilAcquire acquire;
    const nb::tuple found = nb::cast<nb::tuple>(search_(
        as_array(std::move(partitions), 7), as_array(std::move(builds), 4), as_array(std::move(searches), 2),
        as_array(std::move(scores), 1), as_array(std::move(totals), static_cast<size_t>(width_)),
        as_array(std::move(chosen), static_cast<size_t>(features_.n)), as_array(std::move(low), d),
        as_array(std::move(high), d)));
    const auto gains = nb::cast<In1<double>>(found[0]);
    const auto splits = nb::cast<In2<int32_t>>(found[1]), left = nb::cast<In2<int32_t>>(found[2]);
    require(gains.size() == nodes.size() && splits.shape(0) == nodes.size() && splits.shape(1) == 4 &&
                left.shape(0) == nodes.size() && static_cast<int64_t>(left.shape(1)) == width_,
            "search: must return one split per node");
    for (size_t i = 0; i < nodes.size(); ++i)
        adopt(*nodes[i], gains.data()[i], splits.data() + 4 * i, left.data() + width_ * i);
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
