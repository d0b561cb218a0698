// A grown tree as arrays: see grown_tree.hpp.
#include "grown_tree.hpp"

#include <limits>

namespace sparseleaf {

GrownTree::GrownTree(const std::deque<Node>& nodes, const FeatureTable& table, int64_t n_outputs) {
    std::vector<const Node*> order{&nodes[0]};
    for (size_t i = 0; i < order.size(); ++i) {
        const Node& node = *order[i];
        const bool inner = node.child >= 0;
        const Split split = inner ? node.split : Split{0.0, -1, 0, 0, false};
        feature.push_back(split.feature);
        bin.push_back(split.bin);
        gain.push_back(split.gain);
        missing_left.push_back(split.missing_left);
        count.push_back(node.count);
        child.push_back(static_cast<int32_t>(inner ? order.size() : starts.size()));
        if (inner) {
            if (table.categorical.data()[split.feature]) {
                categorical.push_back(static_cast<int32_t>(i));
                sets.insert(sets.end(), node.set, node.set + kSetBytes);
            }
            order.push_back(&nodes[node.child]);
            order.push_back(&nodes[node.child + 1]);
            continue;
        }
        starts.push_back(node.start);
        ends.push_back(node.end);
        oob_starts.push_back(node.oob_start);
        oob_ends.push_back(node.oob_end);
        if (!table.constrained()) continue;
        const auto d = static_cast<size_t>(n_outputs);
        low.insert(low.end(), node.low.begin(), node.low.end());
        high.insert(high.end(), node.high.begin(), node.high.end());
        // a root that was never searched has no bounds yet
        low.resize(starts.size() * d, -std::numeric_limits<double>::infinity());
        high.resize(starts.size() * d, std::numeric_limits<double>::infinity());
    }
}

}  // namespace sparseleaf
