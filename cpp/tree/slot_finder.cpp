// Which histograms are built, kept and released: see slot_finder.hpp.
#include "slot_finder.hpp"

#include <limits>

namespace sparseleaf {

SlotFinder::SlotFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits,
                       int64_t first_output, bool keeps_histograms, int64_t n_slots)
    : table_(table),
      scoring_(scoring),
      limits_(limits),
      slots_(n_slots),
      first_output_(first_output),
      keeps_histograms_(keeps_histograms) {}

void SlotFinder::find_root(Node& root) {
    if (table_.constrained()) {
        const auto d = static_cast<size_t>(scoring_.outputs);
        root.low.assign(d, -std::numeric_limits<double>::infinity());
        root.high.assign(d, std::numeric_limits<double>::infinity());
    }
    std::vector<Family*> none;
    run_and_settle({siblings_of(root, nullptr, nullptr)}, nullptr, none);
}

bool SlotFinder::is_searched(const Family& family) const {
    return family.searched && (limits_.may_split(*family.left) || limits_.may_split(*family.right));
}

int64_t SlotFinder::slots_needed(const Family& family) const {
    if (!is_searched(family)) return 0;
    if (family.parent->slot >= 0) return 1;
    return limits_.may_split(*family.left) + limits_.may_split(*family.right);
}

void SlotFinder::expand(std::vector<Family>& families, Partition& partition) {
    std::vector<Family*> batch;
    int64_t reserved = 0;
    for (Family& family : families) {
        while (slots_needed(family) > slots_.n_free() - reserved) {
            if (batch.empty()) {
                evict();
                continue;
            }
            run_batch(batch, partition);
            reserved = 0;
        }
        reserved += slots_needed(family);
        waiting_.erase(family.parent);
        batch.push_back(&family);
    }
    run_batch(batch, partition);
}

// Releases the histogram of the smallest waiting node.
void SlotFinder::evict() {
    require(!waiting_.empty(), "histograms: not enough slots");
    Node* smallest = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    release(*smallest);
}

void SlotFinder::run_batch(std::vector<Family*>& batch, Partition& partition) {
    std::vector<Siblings> searches;
    std::vector<Family*> others;  // only partitioned, not searched
    searches.reserve(2 * batch.size());
    for (Family* family : batch) {
        set_bounds(*family);
        if (is_searched(*family))
            add_searches(*family, searches);
        else
            others.push_back(family);
        release(*family->parent);
    }
    run_and_settle(searches, &partition, others);
    for (Family* family : batch) {  // only its children needed these
        Node& parent = *family->parent;
        parent.total = parent.left = {};
        parent.live = nullptr;
    }
    batch.clear();
}

void SlotFinder::run_and_settle(const std::vector<Siblings>& siblings, Partition* partition,
                                std::vector<Family*>& others) {
    run(siblings, partition, others);
    for (const Siblings& search : siblings) {
        settle(search.built);
        settle(search.sibling);
    }
}

void SlotFinder::add_searches(Family& family, std::vector<Siblings>& searches) {
    Node &parent = *family.parent, &left = *family.left, &right = *family.right;
    left.total = std::move(parent.left);
    right.total = std::move(parent.total);
    for (size_t c = 0; c < right.total.size(); ++c) right.total[c] -= left.total[c];
    left.live = right.live = parent.live;
    if (parent.slot >= 0) {
        Node& small = left.count <= right.count ? left : right;
        Node& large = &small == &left ? right : left;
        large.slot = std::exchange(parent.slot, -1);
        searches.push_back(siblings_of(small, &large, &family));
        return;
    }
    for (Node* child : {&left, &right})
        if (limits_.may_split(*child)) searches.push_back(siblings_of(*child, nullptr, &family));
}

SlotFinder::Siblings SlotFinder::siblings_of(Node& built, Node* sibling, Family* family) const {
    Siblings search{&built, sibling, family};
    Node* both[2] = {&built, sibling};
    for (int which = 0; which < 2; ++which)
        if (both[which] != nullptr && limits_.may_split(*both[which])) search.searched[which] = both[which];
    return search;
}

// Bounds of constrained outputs: the midpoint between the values of the two sides.
void SlotFinder::set_bounds(const Family& family) const {
    const Node& parent = *family.parent;
    if (!table_.constrained()) return;
    const auto d = static_cast<size_t>(scoring_.outputs);
    std::vector<double> middle(d);
    const Constraint limits = constraint(parent, parent.split.feature);
    middle_of(scoring_, limits, parent.left.data(), parent.total.data(), parent.split.left_count,
              parent.count, middle.data());
    for (Node* child : {family.left, family.right}) {
        child->low = parent.low;
        child->high = parent.high;
        const int way = child == family.left ? 1 : -1;
        for (size_t j = 0; j < d; ++j) {
            if (limits.direction[j] * way > 0) child->high[j] = std::min(child->high[j], middle[j]);
            if (limits.direction[j] * way < 0) child->low[j] = std::max(child->low[j], middle[j]);
        }
    }
}

// f: the feature's index in the table.
Constraint SlotFinder::constraint(const Node& node, int32_t f) const {
    if (!table_.constrained()) return {};
    const In2<int8_t>& directions = table_.directions;
    return {directions.data() + f * static_cast<int64_t>(directions.shape(1)) + first_output_,
            node.low.data(), node.high.data()};
}

void SlotFinder::release(Node& node) {
    if (node.slot < 0) return;
    slots_.give_back(node.slot);
    node.slot = -1;
}

// Keeps a searched node's histogram until the node is split, or releases it if its children will not be
// searched: about half of all nodes, so that the slots in use stay in cache.
void SlotFinder::settle(Node* node) {
    if (node == nullptr || node->slot < 0) return;
    if (keeps(*node))
        waiting_.insert(node);
    else
        release(*node);
}

}  // namespace sparseleaf
