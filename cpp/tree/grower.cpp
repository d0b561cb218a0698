// The growing loop: see grower.hpp.
#include "grower.hpp"

#include "interrupts.hpp"

namespace sparseleaf {

void Grower::grow(Node root, Frontier frontier) {
    nodes.push_back(std::move(root));
    if (!limits_.may_split(nodes[0]) || frontier.over()) return;
    Interrupts interrupts;
    finder_.find_root(nodes[0]);
    if (limits_.has_split(nodes[0])) frontier.push(0, nodes[0].split.gain, nodes[0].count, -1);
    for (std::vector<int32_t> batch; !(batch = frontier.pop()).empty();) {
        interrupts.look();
        split(batch, frontier);
    }
    for (const int32_t v : frontier.early())
        nodes[v].child = -1;  // a leaf again: its range of rows is unchanged
}

void Grower::split(const std::vector<int32_t>& batch, Frontier& frontier) {
    std::vector<Family> families;
    for (const int32_t v : batch) {
        Node& parent = nodes[v];
        parent.child = static_cast<int32_t>(nodes.size());
        const int64_t on_left = parent.split.left_count;
        nodes.emplace_back(parent.child, parent.depth + 1, on_left, mix64(parent.key));
        nodes.emplace_back(parent.child + 1, parent.depth + 1, parent.count - on_left, mix64(~parent.key));
        families.push_back({&parent, &nodes[parent.child], &nodes[parent.child + 1], frontier.more()});
    }
    finder_.expand(families, partition_);
    for (const Family& family : families)
        for (const Node* child : {family.left, family.right})
            if (limits_.has_split(*child))
                frontier.push(child->id, child->split.gain, child->count, family.parent->id);
}

}  // namespace sparseleaf
