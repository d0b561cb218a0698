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

// Which nodes best-first growth splits before their turn.
struct Early {
    int64_t most;     // limits the histograms of children that one-at-a-time growth would not have built
    int64_t rows;     // of nodes that are split together: more rows are split alone
    int64_t at_once;  // among so many nodes that wait
    bool deep;        // or among all known nodes, where the number of batches counts more than the work
};

class Frontier {
  public:
    Frontier(int64_t max_splits, bool best_first, const Early& early)
        : left_(max_splits), best_first_(best_first), early_(early) {}

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
        if (waiting_.empty() || left_ <= 0) return {};
        return early_.deep ? pop_known() : pop_waiting();
    }

    // The best node, and those that wait.
    std::vector<int32_t> pop_waiting() {
        std::vector<int32_t> batch;
        int64_t rows = 0, looked_at = 0;
        for (const Candidate& candidate : waiting_) {
            if (looked_at++ == std::min(left_, early_.at_once)) break;
            if (behind_.count(candidate.node)) continue;
            rows += candidate.rows;
            if (!batch.empty() && (rows > early_.rows || n_early() >= early_.most)) break;
            batch.push_back(candidate.node);
            behind_[candidate.node];
        }
        return batch;
    }

    // The best node, and others of high gain, whether they wait or their parent was split speculatively.
    std::vector<int32_t> pop_known() {
        const int32_t best = waiting_.begin()->node;
        std::vector<Candidate> known(waiting_.begin(), waiting_.end());
        for (const auto& [_, children] : behind_) known.insert(known.end(), children.begin(), children.end());
        std::sort(known.begin(), known.end());
        std::vector<int32_t> batch{best};
        behind_[best];
        int64_t rows = 0;
        for (const Candidate& candidate : known) {
            if (n_early() >= std::min(left_, early_.most) || rows > early_.rows) break;
            if (!behind_.try_emplace(candidate.node).second) continue;
            rows += candidate.rows;
            batch.push_back(candidate.node);
        }
        return batch;
    }

    int64_t n_early() const { return static_cast<int64_t>(behind_.size()); }

    int64_t left_;
    bool best_first_;
    Early early_;
    int64_t turn_ = 0;
    std::set<Candidate> waiting_;
    std::map<int32_t, std::vector<Candidate>> behind_;  // children of the nodes split speculatively
};

}  // namespace sparseleaf
