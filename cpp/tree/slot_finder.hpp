// Which histograms are built, kept and released, wherever they are: in memory or on a GPU.
//
// Of two siblings only the smaller is built from its rows; the larger is the parent minus the smaller:
//     parent's slot   [ ........ ]  becomes the larger child's
//     another slot    [ ........ ]  the smaller child's, from its rows
// Histograms of nodes that wait to be split are kept for this, within a memory budget: beyond it the smallest
// waiting node releases its slot, and both its children are built from their rows.
#pragma once

#include <mutex>
#include <set>

#include "node.hpp"

namespace sparseleaf {

// Indices of the histograms that are not in use.
class SlotPool {
  public:
    explicit SlotPool(int64_t n_slots) {
        for (auto slot = static_cast<int32_t>(n_slots); slot-- > 0;) free_.push_back(slot);
    }

    int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

    // Thread-safe. Last released, first taken: it is likely still in cache.
    int32_t take() {
        const std::lock_guard lock(mutex_);
        require(!free_.empty(), "histograms: not enough slots");
        const int32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    void give_back(int32_t slot) {
        const std::lock_guard lock(mutex_);
        free_.push_back(slot);
    }

  private:
    std::mutex mutex_;
    std::vector<int32_t> free_;
};

class SlotFinder : public SplitFinder {
  public:
    // first_output: of the table's directions. keeps_histograms: otherwise every histogram is built from
    // rows.
    SlotFinder(const FeatureTable& table, const Scoring& scoring, const Limits& limits, int64_t first_output,
               bool keeps_histograms, int64_t n_slots);

    void find_root(Node& root) override;
    void expand(std::vector<Family>& families, Partition& partition) override;

  protected:
    // The search of a node whose histogram is built from its rows, and of its sibling (or null), whose slot
    // holds the parent's histogram.
    struct Siblings {
        Node *built, *sibling;
        Family* family;          // its rows are partitioned first; null for the root
        Node* searched[2] = {};  // the two, null where no split is searched
    };

    // Partitions the rows of all families, `others` among them, whose children are not searched, and searches
    // the siblings. partition: null for the root.
    virtual void run(const std::vector<Siblings>& siblings, Partition* partition,
                     std::vector<Family*>& others) = 0;

    // f: the feature's index in the table.
    Constraint constraint(const Node& node, int32_t f) const;
    bool keeps(const Node& node) const {
        return keeps_histograms_ && limits_.has_split(node) && limits_.may_split_children(node);
    }
    void release(Node& node);

    const FeatureTable& table_;
    const Scoring& scoring_;
    Limits limits_;
    SlotPool slots_;

  private:
    int64_t slots_needed(const Family& family) const;
    bool is_searched(const Family& family) const;
    void run_batch(std::vector<Family*>& batch, Partition& partition);
    void run_and_settle(const std::vector<Siblings>& siblings, Partition* partition,
                        std::vector<Family*>& others);
    void add_searches(Family& family, std::vector<Siblings>& searches);
    Siblings siblings_of(Node& built, Node* sibling, Family* family) const;
    void set_bounds(const Family& family) const;
    void settle(Node* node);
    void evict();

    int64_t first_output_;
    bool keeps_histograms_;
    struct Smaller {
        bool operator()(const Node* a, const Node* b) const {
            return a->count != b->count ? a->count < b->count : a->id < b->id;
        }
    };
    std::set<Node*, Smaller> waiting_;  // nodes that keep a histogram
};

}  // namespace sparseleaf
