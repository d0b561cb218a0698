// Which nodes are split next: the two ways to grow differ only here.
//
// Depth-wise growth splits a level at a time; where max_splits allows only some of a level, those of highest
// gain. Best-first growth splits the node of highest gain, and with it the next few small ones, whose turn
// will probably come: a small node costs more to ask for than to work on. The tree is that of one node at a
// time: a node split early waits for its turn, its children wait behind it, and it is a leaf again if its
// turn does not come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace sparseleaf {

// A node that has a split above min_gain. Higher gain first, then that which waits longer, then the lower
// number.
struct Candidate {
    double gain;
    int64_t since;
    int32_t node;
    int64_t rows;

    bool operator<(const Candidate& other) const {
        if (gain != other.gain) return gain > other.gain;
        return since != other.since ? since < other.since : node < other.node;
    }
};

class Frontier {
  public:
    // Best-first growth looks at the next most_at_once nodes, and splits those at once that are not split yet
    // and have at most so many rows together.
    Frontier(int64_t max_splits, bool best_first, int64_t most_at_once, int64_t rows_at_once)
        : left_(max_splits),
          best_first_(best_first),
          most_at_once_(most_at_once),
          rows_at_once_(rows_at_once) {}

    // parent: -1 for the root.
    void push(int32_t node, double gain, int64_t rows, int32_t parent) {
        const Candidate candidate{gain, turn_, node, rows};
        if (best_first_ && parent >= 0)
            behind_[parent].push_back(candidate);
        else
            waiting_.insert(candidate);
    }

    // Nodes to split now; none when growth is over.
    std::vector<int32_t> pop() { return best_first_ ? pop_best() : pop_level(); }

    // Whether no node may be split.
    bool over() const { return left_ <= 0; }

    // Whether children of the nodes that were popped last may be split as well.
    bool more() const { return left_ > (best_first_ ? 1 : 0); }

    // Nodes that were split ahead of their turn, which then did not come.
    std::vector<int32_t> early() const {
        std::vector<int32_t> found;
        for (const auto& [node, _] : behind_) found.push_back(node);
        return found;
    }

  private:
    // Whose children have histograms that growth one at a time would not have made.
    static constexpr size_t kMostEarly = 16;

    std::vector<int32_t> pop_level() {
        std::vector<int32_t> level;
        for (const Candidate& candidate : waiting_) {
            if (left_ == 0) break;
            level.push_back(candidate.node);
            --left_;
        }
        waiting_.clear();
        std::sort(level.begin(), level.end());
        return level;
    }

    std::vector<int32_t> pop_best() {
        while (!waiting_.empty() && left_ > 0) {
            const auto split = behind_.find(waiting_.begin()->node);
            if (split == behind_.end()) break;
            waiting_.erase(waiting_.begin());
            --left_;
            ++turn_;
            for (Candidate child : split->second) {
                child.since = turn_;
                waiting_.insert(child);
            }
            behind_.erase(split);
        }
        std::vector<int32_t> batch;
        int64_t rows = 0, looked_at = 0;
        for (const Candidate& candidate : waiting_) {
            if (looked_at++ == std::min(left_, most_at_once_)) break;
            if (behind_.count(candidate.node)) continue;
            rows += candidate.rows;
            if (!batch.empty() && (rows > rows_at_once_ || behind_.size() >= kMostEarly)) break;
            batch.push_back(candidate.node);
            behind_[candidate.node];
        }
        return batch;
    }

    int64_t left_;
    bool best_first_;
    int64_t most_at_once_, rows_at_once_;
    int64_t turn_ = 0;
    std::set<Candidate> waiting_;
    std::map<int32_t, std::vector<Candidate>> behind_;  // children of the nodes split ahead of their turn
};

}  // namespace sparseleaf
