// The order in which nodes are split: depth-wise and best-first growth differ only here.
//
// Depth-wise growth splits one level at a time; if max_splits does not allow all of a level, the nodes of
// highest gain. Best-first growth splits the node of highest gain and, speculatively, the next few small
// ones, since the overhead of a small node exceeds its work. The result is that of splitting one node at a
// time: the children of a speculatively split node stay back until its turn comes; if it never does, the node
// becomes a leaf again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace sparseleaf {

// A node with a split above min_gain, ordered by higher gain, then longer wait, then lower id.
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
    // Best-first growth considers the next most_at_once nodes and returns those that are not split yet and
    // have at most rows_at_once rows in total; at most most_early nodes are split speculatively, which limits
    // the histograms of children that one-at-a-time growth would not have built.
    Frontier(int64_t max_splits, bool best_first, int64_t most_at_once, int64_t rows_at_once,
             int64_t most_early)
        : left_(max_splits),
          best_first_(best_first),
          most_at_once_(most_at_once),
          rows_at_once_(rows_at_once),
          most_early_(most_early) {}

    // parent: -1 for the root.
    void push(int32_t node, double gain, int64_t rows, int32_t parent) {
        const Candidate candidate{gain, turn_, node, rows};
        if (best_first_ && parent >= 0)
            behind_[parent].push_back(candidate);
        else
            waiting_.insert(candidate);
    }

    // The nodes to split next; empty when growth is complete.
    std::vector<int32_t> pop() { return best_first_ ? pop_best() : pop_level(); }

    // Whether no more splits are allowed.
    bool over() const { return left_ <= 0; }

    // Whether children of the nodes popped last may be split as well.
    bool more() const { return left_ > (best_first_ ? 1 : 0); }

    // Nodes that were split speculatively and whose turn did not come.
    std::vector<int32_t> early() const {
        std::vector<int32_t> nodes;
        for (const auto& [node, _] : behind_) nodes.push_back(node);
        return nodes;
    }

  private:
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
            if (!batch.empty() &&
                (rows > rows_at_once_ || static_cast<int64_t>(behind_.size()) >= most_early_))
                break;
            batch.push_back(candidate.node);
            behind_[candidate.node];
        }
        return batch;
    }

    int64_t left_;
    bool best_first_;
    int64_t most_at_once_, rows_at_once_, most_early_;
    int64_t turn_ = 0;
    std::set<Candidate> waiting_;
    std::map<int32_t, std::vector<Candidate>> behind_;  // children of the nodes split speculatively
};

}  // namespace sparseleaf
