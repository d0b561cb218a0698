// Which histograms are built, kept and released: see histogram_finder.hpp.
#include "histogram_finder.hpp"

namespace sparseleaf {

HistogramFinder::HistogramFinder(const Data& data, const Scoring& scoring, const Limits& limits, bool direct,
                                 int64_t n_slots, int64_t n_scratch, HistogramMemory& memory,
                                 const Workers& workers, int n_threads)
    : data_(data),
      scoring_(scoring),
      limits_(limits),
      direct_(direct),
      n_scratch_(n_scratch),
      memory_(memory),
      workers_(workers),
      n_threads_(n_threads) {
    for (int thread = 0; thread < n_threads; ++thread) thread_states_.emplace_back(scoring);
    memory.start_tree(n_slots, n_scratch, data.searched.set().n_bins(), data.searched.columns(),
                      data.searched.counted_apart());
}

void HistogramFinder::find_root(Node& root) {
    root.live = data_.searched.all();
    if (data_.table.constrained()) {
        const auto d = static_cast<size_t>(scoring_.outputs);
        root.low.assign(d, -std::numeric_limits<double>::infinity());
        root.high.assign(d, std::numeric_limits<double>::infinity());
    }
    std::vector<Search> searches;
    searches.push_back(search_of(root, nullptr, nullptr));
    std::vector<Family*> none;
    run(searches, nullptr, none);
}

bool HistogramFinder::is_searched(const Family& family) const {
    return family.searched && (limits_.may_split(*family.left) || limits_.may_split(*family.right));
}

int64_t HistogramFinder::slots_needed(const Family& family) const {
    if (!is_searched(family)) return 0;
    if (family.parent->slot >= 0) return 1;
    return limits_.may_split(*family.left) + limits_.may_split(*family.right);
}

void HistogramFinder::expand(std::vector<Family>& families, Partition& partition) {
    std::vector<Family*> batch;
    int64_t reserved = 0;
    for (Family& family : families) {
        while (slots_needed(family) > memory_.n_free() - reserved) {
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
void HistogramFinder::evict() {
    require(!waiting_.empty(), "histograms: not enough slots");
    Node* smallest = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    release(*smallest);
}

void HistogramFinder::run_batch(std::vector<Family*>& batch, Partition& partition) {
    std::vector<Search> searches;
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
    run(searches, &partition, others);
    for (Family* family : batch) {  // only its children needed these
        Node& parent = *family->parent;
        parent.total = parent.left = {};
        parent.live = nullptr;
    }
    batch.clear();
}

void HistogramFinder::add_searches(Family& family, std::vector<Search>& searches) {
    Node &parent = *family.parent, &left = *family.left, &right = *family.right;
    left.total = std::move(parent.left);
    right.total = std::move(parent.total);
    for (size_t c = 0; c < right.total.size(); ++c) right.total[c] -= left.total[c];
    left.live = right.live = parent.live;
    if (parent.slot >= 0) {
        Node& small = left.count <= right.count ? left : right;
        Node& large = &small == &left ? right : left;
        large.slot = std::exchange(parent.slot, -1);
        searches.push_back(search_of(small, &large, &family));
        return;
    }
    for (Node* child : {&left, &right})
        if (limits_.may_split(*child)) searches.push_back(search_of(*child, nullptr, &family));
}

HistogramFinder::Search HistogramFinder::search_of(Node& built, Node* sibling, Family* family) const {
    Search search(&built, sibling, family);
    Node* both[2] = {&built, sibling};
    for (int which = 0; which < 2; ++which)
        if (both[which] != nullptr && limits_.may_split(*both[which])) search.searched[which] = both[which];
    const auto n_dense = static_cast<int64_t>(built.live->dense.size());
    const int64_t n_bins = built.live->n_bins;
    if (direct_) {
        const double share = static_cast<double>(data_.sampler.count()) /
                             std::max<double>(1.0, static_cast<double>(data_.sampler.n()));
        search.effort = data_.searched.effort(built.count, static_cast<int64_t>(share * n_dense) + 1,
                                              static_cast<int64_t>(share * n_bins) + 1);
    } else {
        search.effort = data_.searched.effort(built.count, n_dense, n_bins);
    }
    return search;
}

// Bounds of constrained outputs: the midpoint between the values of the two sides.
void HistogramFinder::set_bounds(const Family& family) const {
    const Node& parent = *family.parent;
    if (!data_.table.constrained()) return;
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
Constraint HistogramFinder::constraint(const Node& node, int32_t f) const {
    if (!data_.table.constrained()) return {};
    const In2<int8_t>& directions = data_.table.directions;
    return {directions.data() + f * static_cast<int64_t>(directions.shape(1)) + data_.first_output,
            node.low.data(), node.high.data()};
}

void HistogramFinder::release(Node& node) {
    if (node.slot < 0) return;
    memory_.give_back(node.slot);
    node.slot = -1;
}

// Keeps a searched node's histogram until the node is split, or releases it if its children will not be
// searched: about half of all nodes, so that the slots in use stay in cache.
void HistogramFinder::settle(Node* node) {
    if (node == nullptr || node->slot < 0) return;
    if (keeps(*node))
        waiting_.insert(node);
    else
        release(*node);
}

}  // namespace sparseleaf
