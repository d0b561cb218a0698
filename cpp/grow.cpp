// A whole tree in one call: for sets so small that asking for a node takes longer than the work on it.
//
// The tree is, to the bit, that of the growing loop in Python, which asks the kernels for histograms, cuts
// and partitions one after the other; the pieces of those kernels do the work here too. One split takes one
// round of tasks: each makes the histogram of the smaller child for some of the features, takes it away from
// the parent's, and looks for the cuts of both children among these features while they are in its cache.
//
//     parent's slot   [ ........ ]  becomes the larger child's
//     another slot    [ ........ ]  the smaller child's, from its rows
//
// A feature that cannot part a node's rows into two sides of min_samples cannot part those of its children
// either, and is left out there, unless its bins have no order.
#include <deque>

#include "histogram.hpp"
#include "split.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kEffortOfABin = 5;  // to fill, take away and look at, in numbers added: as measured

struct Node {
    int64_t start, end;  // its rows
    int32_t depth;
    int32_t slot = -1;   // its histogram
    int32_t child = -1;  // the left one; the right one is the next
    Cut cut;
    uint8_t set[kSetBytes] = {};
    std::vector<int32_t> total;  // Σ residuals, and zeros that a vector may read
    std::vector<uint8_t> live;   // which features may part it

    int64_t count() const { return end - start; }
};

// Rows, the tree's features, and what they add up to.
template <typename Place>
struct Rows {
    const uint8_t* bins;
    int64_t n_features;
    const int16_t* residuals;
    int64_t columns, count_column;
    int32_t* rows;
    Entries<Place> entries;
    const int64_t* n_entries;  // of every feature
    int64_t n_rows;            // of the set
    const int32_t *first, *common, *features, *missing_bin;
};

struct Limits {
    int64_t max_depth;  // -1 for none
    double min_gain;
};

template <typename Place>
class Tree {
  public:
    Tree(const Rows<Place>& data, const Scoring& scoring, const ActiveFeatures& active, const Limits& limits,
         Out3<int32_t>& hist, Out2<int32_t>& counts, int n_threads)
        : data_(data),
          scoring_(scoring),
          active_(active),
          limits_(limits),
          hist_(hist.data()),
          counts_(counts.data()),
          n_bins_(static_cast<int64_t>(hist.shape(1))),
          n_threads_(n_threads),
          add_rows_(add_rows_of(data.columns)),
          add_entries_(add_entries_of<Place>(data.columns)),
          works_(static_cast<size_t>(n_threads), Work(scoring)),
          effort_(static_cast<size_t>(active.n) + 1, 0) {
        for (auto slot = static_cast<int32_t>(hist.shape(0)); slot-- > 0;) free_.push_back(slot);
        for (int64_t f = 0; f < active.n; ++f)
            (data.common[data.features[f]] >= 0 ? sparse_ : dense_).push_back(static_cast<int32_t>(f));
    }

    void grow(int64_t n_rows, int64_t max_splits, bool best_first) {
        nodes.push_back({0, n_rows, 0});
        nodes[0].live.assign(static_cast<size_t>(active_.n), 1);
        old_.resize(static_cast<size_t>(n_rows));
        int64_t left = max_splits;
        if (left > 0 && may_split(nodes[0])) {
            nodes[0].slot = take_slot();
            search(nodes[0], nullptr);
            settle(0);
        }
        while (left > 0 && !waiting_.empty()) {
            const std::vector<int32_t> batch = best_first ? pop_best() : pop_level(left);
            left -= static_cast<int64_t>(batch.size());
            for (const int32_t v : batch) split(v, left > 0);
        }
    }

    std::deque<Node> nodes;  // in the order they were made

  private:
    // Higher gain, then lower node.
    bool before(int32_t a, int32_t b) const {
        const double of_a = nodes[a].cut.gain, of_b = nodes[b].cut.gain;
        return of_a != of_b ? of_a > of_b : a < b;
    }

    std::vector<int32_t> pop_best() {
        const auto best = std::min_element(waiting_.begin(), waiting_.end(),
                                           [&](int32_t a, int32_t b) { return before(a, b); });
        const int32_t v = *best;
        waiting_.erase(best);
        return {v};
    }

    std::vector<int32_t> pop_level(int64_t most) {
        std::vector<int32_t> level = std::move(waiting_);
        waiting_.clear();
        if (static_cast<int64_t>(level.size()) > most) {
            std::sort(level.begin(), level.end(), [&](int32_t a, int32_t b) { return before(a, b); });
            level.resize(static_cast<size_t>(most));
            std::sort(level.begin(), level.end());
        }
        return level;
    }

    bool may_split(const Node& node) const {
        return node.count() >= 2 * scoring_.min_samples &&
               (limits_.max_depth < 0 || node.depth < limits_.max_depth);
    }

    int32_t take_slot() {
        require(!free_.empty(), "hist: too few slots");
        const int32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }

    void give_back(Node& node) {
        if (node.slot >= 0) free_.push_back(node.slot);
        node.slot = -1;
    }

    void split(int32_t v, bool search_children) {
        Node& parent = nodes[v];
        const int64_t middle = part_rows(parent);
        parent.child = static_cast<int32_t>(nodes.size());
        nodes.push_back({parent.start, middle, parent.depth + 1});
        nodes.push_back({middle, parent.end, parent.depth + 1});
        Node &left = nodes[parent.child], &right = nodes[parent.child + 1];
        if (search_children && (may_split(left) || may_split(right))) {
            Node& small = left.count() <= right.count() ? left : right;
            Node& large = &small == &left ? right : left;
            large.slot = std::exchange(parent.slot, -1);
            small.slot = take_slot();
            large.total = std::move(parent.total);
            small.live = large.live = std::move(parent.live);
            search(small, &large);
            settle(parent.child);
            settle(parent.child + 1);
        }
        give_back(parent);
        parent.total.clear();
        parent.live.clear();
    }

    // A node that was looked into waits, or is a leaf.
    void settle(int32_t v) {
        Node& node = nodes[v];
        if (node.cut.feature >= 0 && node.cut.gain > limits_.min_gain)
            waiting_.push_back(v);
        else
            give_back(node);
    }

    // Stable: where the right rows begin.
    int64_t part_rows(const Node& node) {
        const int64_t f = data_.features[node.cut.feature];
        const int32_t missing = data_.missing_bin[node.cut.feature];
        const uint8_t* set = active_.categorical[node.cut.feature] ? node.set : nullptr;
        int64_t left = node.start, n_right = 0;
        for (int64_t i = node.start; i < node.end; ++i) {
            const int32_t row = data_.rows[i];
            const bool goes = goes_left(data_.bins[row * data_.n_features + f], node.cut.bin, missing,
                                        node.cut.missing_left, set);
            data_.rows[left] = row;
            old_[n_right] = row;
            left += goes;
            n_right += !goes;
        }
        std::copy_n(old_.begin(), n_right, data_.rows + left);
        return left;
    }

    int32_t* hist_of(const Node& node) const { return hist_ + node.slot * n_bins_ * data_.columns; }
    bool counted_apart() const { return data_.count_column < 0; }
    int32_t* counts_of(const Node& node) const {
        return counted_apart() ? counts_ + node.slot * n_bins_ : hist_of(node) + data_.count_column;
    }
    int64_t count_step() const { return counted_apart() ? 1 : data_.columns; }
    int64_t bins_of(int32_t f) const { return active_.offsets[f + 1] - active_.offsets[f]; }

    // What a task has to do: features that follow each other, the dense ones of them that are live, the
    // sparse ones.
    struct Part {
        const std::vector<int32_t>&numbers, &first_bin;
        int32_t begin, end;
        int64_t dense_begin, dense_end, sparse_begin, sparse_end;
    };

    // What every feature and those before it take, in numbers added. Sparse features are walked over even
    // where they are not live.
    void estimate_effort(const Node& node) {
        const double share = static_cast<double>(node.count()) / static_cast<double>(data_.n_rows);
        for (int32_t f = 0; f < active_.n; ++f) {
            const int32_t number = data_.features[f];
            const bool live = node.live[f] != 0;
            int64_t adds = live ? node.count() : 0;
            if (data_.common[number] >= 0)
                adds = static_cast<int64_t>(share * static_cast<double>(data_.n_entries[number]));
            effort_[f + 1] = effort_[f] + adds + (live ? kEffortOfABin * bins_of(f) : 0);
        }
    }

    // Where parts of about the same effort begin, and the last one's end.
    std::vector<int32_t> part_features(int64_t parts) const {
        std::vector<int32_t> borders;
        for (int64_t p = 0; p < parts; ++p)
            borders.push_back(static_cast<int32_t>(
                std::lower_bound(effort_.begin(), effort_.end(), effort_.back() * p / parts) -
                effort_.begin()));
        borders.push_back(static_cast<int32_t>(active_.n));
        return borders;
    }

    // Cuts of a node whose histogram is made from its rows, and of its sibling, whose slot has the parent's.
    void search(Node& built, Node* sibling) {
        const int64_t m = data_.columns;
        built.total.assign(static_cast<size_t>(works_[0].room), 0);
        add_up(data_.residuals, m, data_.rows + built.start, built.count(), built.total.data());
        Node* nodes_of[2] = {&built, sibling};
        double worth[2] = {};
        for (int which = 0; which < 2; ++which) {
            Node* node = nodes_of[which];
            if (node == nullptr) continue;
            if (node == sibling)
                for (int64_t c = 0; c < m; ++c) sibling->total[c] -= built.total[c];
            if (may_split(*node))
                worth[which] = worth_whole(scoring_, {}, node->total.data(), node->count(), works_[0]);
            else
                nodes_of[which] = nullptr;
        }

        std::vector<int32_t> dense, numbers, first_bin;
        int64_t n_live_bins = 0;
        for (const int32_t f : dense_)
            if (built.live[f]) {
                dense.push_back(f);
                numbers.push_back(data_.features[f]);
                first_bin.push_back(active_.offsets[f]);
                n_live_bins += bins_of(f);
            }
        for (const int32_t f : sparse_) n_live_bins += built.live[f] ? bins_of(f) : 0;
        estimate_effort(built);
        const int64_t by_threads = worth_threads(effort_.back(), n_threads_);
        const int64_t by_cache = n_live_bins * m * 4 / kCacheBytes + 1;
        const int64_t parts = (by_cache + by_threads - 1) / by_threads * by_threads;

        const std::vector<int32_t> borders = part_features(parts);
        const auto place = [](const std::vector<int32_t>& among, int32_t f) {
            return std::lower_bound(among.begin(), among.end(), f) - among.begin();
        };

        std::vector<Cut> best(static_cast<size_t>(2 * parts));
        std::vector<uint8_t> live[2];
        for (auto& of_node : live) of_node.assign(static_cast<size_t>(active_.n), 0);
        parallel_tasks(parts, n_threads_, [&](int64_t p, int thread) {
            const int32_t begin = borders[p], end = borders[p + 1];
            const Part part{numbers,
                            first_bin,
                            begin,
                            end,
                            place(dense, begin),
                            place(dense, end),
                            place(sparse_, begin),
                            place(sparse_, end)};
            build(built, part);
            const auto each_feature = [&](auto&& use) {
                for (int32_t f = begin; f < end; ++f)
                    if (built.live[f]) use(f);
            };
            if (sibling) each_feature([&](int32_t f) { subtract(*sibling, built, f); });
            for (int which = 0; which < 2; ++which) {
                const Node* node = nodes_of[which];
                if (node == nullptr) continue;
                const NodeSums sums{hist_of(*node), counts_of(*node), count_step(), node->total.data(),
                                    node->count()};
                each_feature([&](int32_t f) {
                    live[which][f] = search_feature(scoring_, {}, active_, sums, f, worth[which],
                                                    works_[thread], &best[2 * p + which]) ||
                                     active_.categorical[f];
                });
            }
        });
        for (int which = 0; which < 2; ++which) {
            Node* node = nodes_of[which];
            if (node == nullptr) continue;
            for (int64_t p = 0; p < parts; ++p)
                if (better(best[2 * p + which], node->cut)) node->cut = best[2 * p + which];
            node->live = std::move(live[which]);
            if (node->cut.feature < 0 || !active_.categorical[node->cut.feature]) continue;
            const NodeSums sums{hist_of(*node), counts_of(*node), count_step(), node->total.data(),
                                node->count()};
            left_side(scoring_, active_, sums, node->cut, works_[0], works_[0].sums.data() + works_[0].room,
                      node->set);
        }
    }

    void build(const Node& node, const Part& part) const {
        const int64_t m = data_.columns;
        const int32_t* rows = data_.rows + node.start;
        int32_t *hist = hist_of(node), *counts = counts_of(node), *apart = counted_apart() ? counts : nullptr;
        const int64_t first = active_.offsets[part.begin], last = active_.offsets[part.end];
        std::fill(hist + first * m, hist + last * m, 0);
        if (apart) std::fill(apart + first, apart + last, 0);
        if (part.dense_begin < part.dense_end)
            add_rows_(data_.bins, data_.n_features, data_.residuals, m, rows, node.count(),
                      part.numbers.data(), part.first_bin.data(), part.dense_begin, part.dense_end, hist,
                      apart);
        if (part.sparse_begin == part.sparse_end) return;
        const int32_t begin =
            part.sparse_begin == 0 ? 0 : data_.first[data_.features[sparse_[part.sparse_begin]]];
        const bool last_part = part.sparse_end == static_cast<int64_t>(sparse_.size());
        const int32_t end =
            last_part ? kToTheEnd : data_.first[data_.features[sparse_[part.sparse_end - 1]] + 1];
        add_entries_(data_.entries, data_.residuals, m, rows, node.count(), begin, end, hist, apart);
        for (int64_t i = part.sparse_begin; i < part.sparse_end; ++i) {
            const int32_t f = sparse_[i];
            if (node.live[f])
                fill_common(hist, counts, count_step(), m, active_.offsets[f], active_.offsets[f + 1],
                            data_.common[data_.features[f]], node.total.data(), node.count());
        }
    }

    // A parent's histogram becomes that of its larger child.
    void subtract(const Node& from, const Node& node, int32_t f) const {
        const int64_t first = active_.offsets[f], n = bins_of(f), m = data_.columns;
        subtract_sums(hist_of(from) + first * m, hist_of(node) + first * m, n * m);
        if (!counted_apart()) return;
        int32_t* counts = counts_of(from) + first;
        const int32_t* less = counts_of(node) + first;
        for (int64_t b = 0; b < n; ++b) counts[b] -= less[b];
    }

    Rows<Place> data_;
    const Scoring& scoring_;
    const ActiveFeatures& active_;
    Limits limits_;
    int32_t *hist_, *counts_;
    int64_t n_bins_;
    int n_threads_;
    AddRows add_rows_;
    AddEntries<Place> add_entries_;
    std::vector<Work> works_;
    std::vector<int64_t> effort_;
    std::vector<int32_t> free_, waiting_, dense_, sparse_, old_;
};

template <typename T>
struct Column {
    explicit Column(size_t n) : size(n), data(new T[n]) {}
    Numpy1<T> numpy() { return to_numpy(std::move(data), size); }
    T& operator[](size_t i) { return data[i]; }

    size_t size;
    std::unique_ptr<T[]> data;
};

// Answers the nodes in level order: feature (-1 for a leaf), bin, gain, missing_left, child (the left one, or
// a leaf's number), rows, 32 bytes of bins that go left; and where the rows of every leaf begin and end.
template <typename Place>
nb::tuple grow_tree(In2<uint8_t> bins, In2<int16_t> residuals, int64_t count_column, Out1<int32_t> rows,
                    In1<int64_t> indptr, In1<Place> place, In1<int64_t> n_entries, In1<int32_t> first,
                    In1<int32_t> common, In1<int32_t> features, In1<int32_t> offsets,
                    In1<uint8_t> has_missing, In1<uint8_t> categorical, In1<int32_t> missing_bin,
                    int curvature, In1<double> weight, In1<double> lambda, In1<double> step, double l2,
                    int64_t top, bool shared, int64_t min_samples, double min_curvature, double min_gain,
                    int64_t max_depth, int64_t max_splits, bool best_first, Out3<int32_t> hist,
                    Out2<int32_t> counts, int n_threads) {
    const int64_t n = static_cast<int64_t>(bins.shape(0)), n_features = static_cast<int64_t>(bins.shape(1)),
                  m = static_cast<int64_t>(residuals.shape(1)), n_bins = static_cast<int64_t>(hist.shape(1));
    const Scoring scoring(m, curvature, weight, lambda, step, l2, top, shared, min_samples, min_curvature);
    const ActiveFeatures active(offsets, has_missing, categorical, n_bins);
    require(static_cast<int64_t>(residuals.shape(0)) == n, "bins, residuals: same rows");
    require(static_cast<int64_t>(hist.shape(2)) == m && m % kLanes == 0,
            "hist: columns of the residuals, a multiple of 4");
    require(counts.shape(0) == hist.shape(0) && static_cast<int64_t>(counts.shape(1)) == n_bins,
            "counts: (slots, bins) of hist");
    require(count_column < m, "count_column: beyond the columns");
    require(n_threads >= 1, "n_threads: at least 1");
    require_indptr(indptr, place.size());
    require(static_cast<int64_t>(indptr.size()) == n + 1, "indptr: one more than the rows");
    require(static_cast<int64_t>(common.size()) == n_features && first.size() == common.size() + 1 &&
                n_entries.size() == common.size(),
            "common, n_entries, first: one number a feature, and one more");
    require(static_cast<int64_t>(features.size()) == active.n && missing_bin.size() == features.size(),
            "features, missing_bin: one number an active feature");
    for (size_t f = 0; f < n_entries.size(); ++f)
        require(n_entries.data()[f] >= 0 && n_entries.data()[f] <= n, "n_entries: from 0 to the rows");
    for (int64_t f = 0; f < active.n; ++f)
        require(features.data()[f] >= 0 && features.data()[f] < n_features, "features: beyond bins");
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n, "rows: no such row");

    const auto bin_at =
        bins_at_places(first.data(), common.data(), n_features, features.data(), active.n, offsets.data());
    require(!bin_at.empty() || first.data()[n_features] == n_bins, "first, offsets: other numbers of bins");
    size_t n_nodes = 0, n_leaves = 0;
    std::vector<const Node*> order;
    const Rows<Place> data{bins.data(),
                           n_features,
                           residuals.data(),
                           m,
                           count_column,
                           rows.data(),
                           {indptr.data(), place.data(), bin_at.empty() ? nullptr : bin_at.data()},
                           n_entries.data(),
                           std::max<int64_t>(n, 1),
                           first.data(),
                           common.data(),
                           features.data(),
                           missing_bin.data()};
    Tree<Place> tree(data, scoring, active, {max_depth, min_gain}, hist, counts, n_threads);
    {
        nb::gil_scoped_release release;
        tree.grow(static_cast<int64_t>(rows.size()), max_splits, best_first);
        order.push_back(&tree.nodes[0]);
        for (size_t i = 0; i < order.size(); ++i) {
            if (order[i]->child < 0) continue;
            order.push_back(&tree.nodes[order[i]->child]);
            order.push_back(&tree.nodes[order[i]->child + 1]);
        }
        n_nodes = order.size();
        n_leaves = n_nodes / 2 + 1;
    }
    Column<int32_t> feature(n_nodes), bin(n_nodes), child(n_nodes);
    Column<double> gain(n_nodes);
    Column<uint8_t> missing_left(n_nodes), sets(n_nodes * kSetBytes);
    Column<int64_t> count(n_nodes), starts(n_leaves), ends(n_leaves);
    int32_t next_child = 1, leaf = 0;
    for (size_t i = 0; i < n_nodes; ++i) {
        const Node& node = *order[i];
        const bool inner = node.child >= 0;
        const Cut cut = inner ? node.cut : Cut{0.0, -1, 0, 0, false};
        feature[i] = inner ? features.data()[cut.feature] : -1;
        bin[i] = cut.bin;
        gain[i] = cut.gain;
        missing_left[i] = cut.missing_left;
        count[i] = node.count();
        std::copy_n(node.set, kSetBytes, &sets[i * kSetBytes]);
        if (inner) {
            child[i] = next_child;
            next_child += 2;
        } else {
            starts[leaf] = node.start;
            ends[leaf] = node.end;
            child[i] = leaf++;
        }
    }
    return nb::make_tuple(feature.numpy(), bin.numpy(), gain.numpy(), missing_left.numpy(), child.numpy(),
                          count.numpy(), sets.numpy(), starts.numpy(), ends.numpy());
}

template <typename Place>
void bind_for(nb::module_& m) {
    m.def("grow_tree", &grow_tree<Place>, nb::arg("bins"), nb::arg("residuals"), nb::arg("count_column"),
          nb::arg("rows").noconvert(), nb::arg("indptr"), nb::arg("place").noconvert(), nb::arg("n_entries"),
          nb::arg("first"), nb::arg("common"), nb::arg("features"), nb::arg("offsets"),
          nb::arg("has_missing"), nb::arg("categorical"), nb::arg("missing_bin"), nb::arg("curvature"),
          nb::arg("weight"), nb::arg("lambda_"), nb::arg("step"), nb::arg("l2"), nb::arg("top"),
          nb::arg("shared"), nb::arg("min_samples"), nb::arg("min_curvature"), nb::arg("min_gain"),
          nb::arg("max_depth"), nb::arg("max_splits"), nb::arg("best_first"), nb::arg("hist").noconvert(),
          nb::arg("counts").noconvert(), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_grow(nb::module_& m) {
    sparseleaf::bind_for<uint16_t>(m);
    sparseleaf::bind_for<int32_t>(m);
}
