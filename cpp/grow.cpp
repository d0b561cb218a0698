// A whole tree in one call.
//
// The tree is, to the bit, that of the growing loop in Python, which asks the kernels for histograms, cuts
// and partitions one after the other; the pieces of those kernels do the work here too. Of the children of a
// node each task makes the histogram of the smaller one for some of the features, takes it away from the
// parent's, and looks for the cuts of both among these features while they are in its cache.
//
//     parent's slot   [ ........ ]  becomes the larger child's
//     another slot    [ ........ ]  the smaller child's, from its rows
//
// A feature that cannot part a node's rows into two sides of min_samples cannot part those of its children
// either, and is left out there, unless its bins have no order. A node whose children cannot be split gives
// its slot back as soon as its cut is known: about half of all nodes, so that the slots in use stay in cache.
#include <deque>

#include "frontier.hpp"
#include "histogram.hpp"
#include "interrupts.hpp"
#include "partition.hpp"
#include "split.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kEffortOfABin = 5;  // to fill, take away and look at, in numbers added: as measured

struct Node {
    Node(int64_t start, int64_t end, int32_t depth) : start(start), end(end), depth(depth) {}

    int64_t start, end;  // its rows
    int32_t depth;
    int32_t slot = -1;   // its histogram
    int32_t child = -1;  // the left one; the right one is the next
    Cut cut;
    uint8_t set[kSetBytes] = {};
    std::vector<int32_t> total, left;  // Σ residuals, of the rows that go left; and zeros a vector may read
    std::vector<uint8_t> live;         // which features may part it

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
    const PlacesOfATree* places;
    const int32_t* groups;     // features where the entries' groups begin, and the end of the last
    const int64_t* n_entries;  // of every group
    int64_t n_rows;            // of the set
    const int32_t *common, *features, *missing_bin;
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
          works_(static_cast<size_t>(n_threads), Work(scoring)) {
        for (auto slot = static_cast<int32_t>(hist.shape(0)); slot-- > 0;) free_.push_back(slot);
        for (int64_t f = 0; f < active.n; ++f)
            (data.common[data.features[f]] >= 0 ? sparse_ : dense_).push_back(static_cast<int32_t>(f));
        for (int64_t g = 0; g <= data.entries.n_groups; ++g)
            group_begins_.push_back(static_cast<int32_t>(
                std::partition_point(sparse_.begin(), sparse_.end(),
                                     [&](int32_t f) { return data.features[f] < data.groups[g]; }) -
                sparse_.begin()));
    }

    void grow(int64_t n_rows, Frontier frontier) {
        nodes.emplace_back(0, n_rows, 0);
        nodes[0].total = total_of(n_rows);
        nodes[0].live.assign(static_cast<size_t>(active_.n), 1);
        if (!may_split(nodes[0]) || frontier.over()) return;
        Interrupts interrupts;
        nodes[0].slot = take_slot();
        std::vector<Search> searches;
        searches.push_back(search_of(nodes[0], nullptr));
        run(searches);
        settle(0, -1, frontier);
        for (std::vector<int32_t> batch; !(batch = frontier.pop()).empty();) {
            // a node for every thread at a time: slots that are given back are used again while in cache
            for (size_t begin = 0, end; begin < batch.size(); begin = end) {
                end = std::min(batch.size(), begin + static_cast<size_t>(n_threads_));
                split({batch.begin() + begin, batch.begin() + end}, frontier);
                interrupts.look();
            }
        }
        for (const int32_t v : frontier.early()) nodes[v].child = -1;  // a leaf: its rows are still its own
    }

    std::deque<Node> nodes;  // in the order they were made

  private:
    // What a task does: some of the dense features, or some groups of sparse ones.
    struct Part {
        bool sparse;
        int32_t begin, end;
        int64_t effort;
        Cut best[2];                   // of either node
        std::vector<uint8_t> live[2];  // which of the features may part it
    };

    // Cuts to find of a node whose histogram is made from its rows, and of its sibling (may be null), whose
    // slot has the parent's.
    struct Search {
        Search(Node* built, Node* sibling) : built(built), sibling(sibling) {}

        Node *built, *sibling;
        Node* searched[2] = {};  // the two, null where no cut is wanted
        double worth[2] = {};
        std::vector<int32_t> dense, numbers, first_bin;  // the dense features that are live
        // what they and those before them take, in numbers added, and the same of the groups of sparse ones
        std::vector<int64_t> dense_effort{0}, sparse_effort{0};
        int64_t n_dense_bins = 0, n_sparse_bins = 0;  // live ones
        std::vector<Part> parts;

        int64_t effort() const { return dense_effort.back() + sparse_effort.back(); }
    };

    std::vector<int32_t> total_of(int64_t n_rows) const {
        constexpr int64_t kChunk = 8192;
        const int64_t n_chunks = (n_rows + kChunk - 1) / kChunk, room = works_[0].room;
        std::vector<int32_t> sums(static_cast<size_t>((n_chunks + 1) * room), 0);
        parallel_tasks(n_chunks, n_threads_, [&](int64_t chunk, int) {
            add_up(data_.residuals, data_.columns, data_.rows + chunk * kChunk,
                   std::min(kChunk, n_rows - chunk * kChunk), sums.data() + (chunk + 1) * room);
        });
        for (int64_t i = room; i < (n_chunks + 1) * room; ++i) sums[i % room] += sums[i];
        sums.resize(static_cast<size_t>(room));
        return sums;
    }

    bool may_split(int64_t count, int64_t depth) const {
        return count >= 2 * scoring_.min_samples && (limits_.max_depth < 0 || depth < limits_.max_depth);
    }
    bool may_split(const Node& node) const { return may_split(node.count(), node.depth); }

    int32_t take_slot() {
        require(!free_.empty(), "hist: too few slots");
        const int32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }

    void give_back(Node& node) {
        if (node.slot >= 0) free_.push_back(node.slot);
        node.slot = -1;
        node.total = node.left = {};
        node.live = {};
    }

    void split(const std::vector<int32_t>& batch, Frontier& frontier) {
        part(batch);
        std::vector<Search> searches;
        if (frontier.more())
            for (const int32_t v : batch) look_into(nodes[v], searches);
        run(searches);
        for (const int32_t v : batch) {
            for (const int32_t child : {nodes[v].child, nodes[v].child + 1}) settle(child, v, frontier);
            give_back(nodes[v]);
        }
    }

    // Makes the children of nodes.
    void part(const std::vector<int32_t>& batch) {
        std::vector<RowsToPart> rows;
        for (const int32_t v : batch) {
            const Node& node = nodes[v];
            const int32_t f = node.cut.feature;
            rows.push_back({node.start, node.end, 0, data_.features[f], node.cut.bin, data_.missing_bin[f],
                            node.cut.missing_left, active_.categorical[f] ? node.set : nullptr});
        }
        part_rows(data_.bins, data_.n_features, data_.rows, rows, n_threads_);
        for (size_t i = 0; i < batch.size(); ++i) {
            Node& node = nodes[batch[i]];
            node.child = static_cast<int32_t>(nodes.size());
            nodes.emplace_back(node.start, rows[i].middle, node.depth + 1);
            nodes.emplace_back(rows[i].middle, node.end, node.depth + 1);
        }
    }

    // Adds the search for cuts of a node's children, if they may have any.
    void look_into(Node& parent, std::vector<Search>& searches) {
        Node &left = nodes[parent.child], &right = nodes[parent.child + 1];
        if (!may_split(left) && !may_split(right)) return;
        Node& small = left.count() <= right.count() ? left : right;
        Node& large = &small == &left ? right : left;
        left.total = std::move(parent.left);
        right.total = std::move(parent.total);
        for (size_t c = 0; c < right.total.size(); ++c) right.total[c] -= left.total[c];
        large.slot = std::exchange(parent.slot, -1);
        small.slot = take_slot();
        small.live = large.live = std::move(parent.live);
        searches.push_back(search_of(small, &large));
    }

    // A node that was looked into waits, or is a leaf. The children of one with fewer rows than three leaves
    // have are leaves.
    void settle(int32_t v, int32_t parent, Frontier& frontier) {
        Node& node = nodes[v];
        const bool waits = node.cut.feature >= 0 && node.cut.gain > limits_.min_gain;
        if (waits) frontier.push(v, node.cut.gain, node.count(), parent);
        if (!waits || !may_split(node.count() - scoring_.min_samples, node.depth + 1)) give_back(node);
    }

    int32_t* hist_of(const Node& node) const { return hist_ + node.slot * n_bins_ * data_.columns; }
    bool counted_apart() const { return data_.count_column < 0; }
    int32_t* counts_of(const Node& node) const {
        return counted_apart() ? counts_ + node.slot * n_bins_ : hist_of(node) + data_.count_column;
    }
    int64_t count_step() const { return counted_apart() ? 1 : data_.columns; }
    int64_t bins_of(int32_t f) const { return active_.offsets[f + 1] - active_.offsets[f]; }
    NodeSums sums_of(const Node& node) const {
        return {hist_of(node), counts_of(node), count_step(), node.total.data(), node.count()};
    }

    Search search_of(Node& built, Node* sibling) {
        Search search(&built, sibling);
        Node* both[2] = {&built, sibling};
        for (int which = 0; which < 2; ++which) {
            const Node* node = both[which];
            if (node == nullptr || !may_split(*node)) continue;
            search.searched[which] = both[which];
            search.worth[which] = worth_whole(scoring_, {}, node->total.data(), node->count(), works_[0]);
        }
        for (const int32_t f : dense_) {
            if (!built.live[f]) continue;
            search.dense.push_back(f);
            search.numbers.push_back(data_.features[f]);
            search.first_bin.push_back(active_.offsets[f]);
            search.dense_effort.push_back(search.dense_effort.back() + built.count() +
                                          kEffortOfABin * bins_of(f));
            search.n_dense_bins += bins_of(f);
        }
        // sparse features are walked over even where they are not live
        const double share = static_cast<double>(built.count()) / static_cast<double>(data_.n_rows);
        for (size_t g = 0; g + 1 < group_begins_.size(); ++g) {
            int64_t n_bins = 0;
            for (int32_t i = group_begins_[g]; i < group_begins_[g + 1]; ++i)
                n_bins += built.live[sparse_[i]] ? bins_of(sparse_[i]) : 0;
            const double adds = n_bins > 0 ? share * static_cast<double>(data_.n_entries[g]) : 0.0;
            search.sparse_effort.push_back(search.sparse_effort.back() + static_cast<int64_t>(adds) +
                                           kEffortOfABin * n_bins);
            search.n_sparse_bins += n_bins;
        }
        return search;
    }

    // Parts of about the same effort, of features of one kind: so many that none is much above `enough`, and
    // as many as caches ask for.
    void add_parts(Search& search, bool sparse, int64_t enough) const {
        const std::vector<int64_t>& effort = sparse ? search.sparse_effort : search.dense_effort;
        const int64_t n_bins = sparse ? search.n_sparse_bins : search.n_dense_bins;
        const int64_t by_threads = n_threads_ > 1 ? (effort.back() + enough - 1) / enough : 1;
        const int64_t parts = std::max(by_threads, n_bins * data_.columns * 4 / kCacheBytes + 1);
        int32_t begin = 0;
        for (int64_t p = 1; p <= parts; ++p) {
            const auto end = static_cast<int32_t>(
                std::lower_bound(effort.begin(), effort.end(), effort.back() * p / parts) - effort.begin());
            if (begin < end)
                search.parts.push_back({sparse, begin, end, effort[end] - effort[begin], {}, {}});
            begin = std::max(begin, end);
        }
    }

    // Two parts for every thread in all, unless they would be too small to wake a thread for; or, in a large
    // node, less than a line of a row's bins, which every part of dense features reads from memory.
    void part_features(Search& search, int64_t whole_effort) const {
        constexpr int64_t kLine = 64, kManyRows = 4096;
        const bool in_lines = search.built->count() < kManyRows ||
                              static_cast<int64_t>(search.dense.size()) >= 2 * n_threads_ * kLine;
        const auto enough = [&](int64_t parts) { return std::max(whole_effort / parts, kWorthAThread); };
        add_parts(search, false, enough(in_lines ? 2 * n_threads_ : n_threads_));
        add_parts(search, true, enough(2 * n_threads_));
    }

    void run(std::vector<Search>& searches) {
        int64_t effort = 0;
        for (const Search& search : searches) effort += search.effort();
        struct Task {
            Search* search;
            Part* part;
        };
        std::vector<Task> tasks;
        for (Search& search : searches) {
            part_features(search, effort);
            for (Part& part : search.parts) tasks.push_back({&search, &part});
        }
        std::stable_sort(tasks.begin(), tasks.end(),
                         [](const Task& a, const Task& b) { return a.part->effort > b.part->effort; });
        parallel_tasks(
            static_cast<int64_t>(tasks.size()), worth_threads(effort, n_threads_),
            [&](int64_t t, int thread) { find_cuts(*tasks[t].search, *tasks[t].part, works_[thread]); });
        for (Search& search : searches) finish(search);
    }

    // Active features of a part; those of groups also where they are not live.
    struct Range {
        const int32_t *first, *last;
        const int32_t* begin() const { return first; }
        const int32_t* end() const { return last; }
    };
    Range features_of(const Search& search, const Part& part) const {
        if (!part.sparse) return {search.dense.data() + part.begin, search.dense.data() + part.end};
        return {sparse_.data() + group_begins_[part.begin], sparse_.data() + group_begins_[part.end]};
    }

    // Cuts of both nodes among the features of a part.
    void find_cuts(Search& search, Part& part, Work& work) {
        build(search, part);
        const Node &built = *search.built, *sibling = search.sibling;
        const Range features = features_of(search, part);
        if (sibling)
            for (const int32_t f : features)
                if (built.live[f]) subtract(*sibling, built, f);
        for (int which = 0; which < 2; ++which) {
            const Node* node = search.searched[which];
            if (node == nullptr) continue;
            const NodeSums sums = sums_of(*node);
            // of the thread's own until they are known: others write beside them
            Cut best;
            std::vector<uint8_t> live;
            for (const int32_t f : features)
                live.push_back(built.live[f] && (search_feature(scoring_, {}, active_, sums, f,
                                                                search.worth[which], work, &best) ||
                                                 active_.categorical[f]));
            part.best[which] = best;
            part.live[which] = std::move(live);
        }
    }

    // The best cut of all parts.
    void finish(Search& search) {
        for (int which = 0; which < 2; ++which) {
            Node* node = search.searched[which];
            if (node == nullptr) continue;
            node->live.assign(static_cast<size_t>(active_.n), 0);
            for (const Part& part : search.parts) {
                if (better(part.best[which], node->cut)) node->cut = part.best[which];
                const Range features = features_of(search, part);
                for (size_t i = 0; i < part.live[which].size(); ++i)
                    node->live[features.first[i]] = part.live[which][i];
            }
            if (node->cut.feature < 0) continue;
            node->left.assign(static_cast<size_t>(works_[0].room), 0);
            left_side(scoring_, active_, sums_of(*node), node->cut, works_[0], node->left.data(), node->set);
        }
    }

    void build(const Search& search, const Part& part) const {
        const Node& node = *search.built;
        const int64_t m = data_.columns;
        const int32_t* rows = data_.rows + node.start;
        int32_t *hist = hist_of(node), *counts = counts_of(node), *apart = counted_apart() ? counts : nullptr;
        const Range features = features_of(search, part);
        for (const int32_t *f = features.first, *next; f < features.last; f = next) {
            for (next = f + 1; next < features.last && next[0] == next[-1] + 1;) ++next;
            const int64_t first = active_.offsets[*f], last = active_.offsets[next[-1] + 1];
            std::fill(hist + first * m, hist + last * m, 0);
            if (apart) std::fill(apart + first, apart + last, 0);
        }
        if (!part.sparse) {
            add_rows_(data_.bins, data_.n_features, data_.residuals, m, rows, node.count(),
                      search.numbers.data(), search.first_bin.data(), part.begin, part.end, hist, apart);
            return;
        }
        data_.places->each_run(part.begin, part.end, [&](int64_t group, int64_t last_group) {
            add_entries_(data_.entries, data_.residuals, m, rows, node.count(), group, last_group, hist,
                         apart);
        });
        for (const int32_t f : features)
            if (node.live[f])
                fill_common(hist, counts, count_step(), m, active_.offsets[f], active_.offsets[f + 1],
                            data_.common[data_.features[f]], node.total.data(), node.count());
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
    std::vector<int32_t> free_, dense_, sparse_;
    std::vector<int32_t> group_begins_;  // in sparse_
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
                    In1<int64_t> indptr, In1<Place> place, In1<int32_t> groups, In1<int64_t> n_entries,
                    In1<int32_t> first, In1<int32_t> common, In1<int32_t> features, In1<int32_t> offsets,
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
    require(static_cast<int64_t>(common.size()) == n_features, "common: one number a feature");
    require(static_cast<int64_t>(features.size()) == active.n && missing_bin.size() == features.size(),
            "features, missing_bin: one number an active feature");
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n, "rows: no such row");
    const PlacesOfATree places(groups, first, common, features, offsets);
    const auto n_groups = static_cast<int64_t>(places.walked.size());
    require_entries(indptr, place.size(), has_sparse(common) ? n * n_groups : 0);
    require(static_cast<int64_t>(n_entries.size()) == n_groups, "n_entries: one number a group");

    size_t n_nodes = 0, n_leaves = 0;
    std::vector<const Node*> order;
    const Rows<Place> data{
        bins.data(),
        n_features,
        residuals.data(),
        m,
        count_column,
        rows.data(),
        {indptr.data(), place.data(), n_groups, places.bin_at.empty() ? nullptr : places.bin_at.data()},
        &places,
        groups.data(),
        n_entries.data(),
        std::max<int64_t>(n, 1),
        common.data(),
        features.data(),
        missing_bin.data()};
    Tree<Place> tree(data, scoring, active, {max_depth, min_gain}, hist, counts, n_threads);
    {
        GilRelease release;
        tree.grow(static_cast<int64_t>(rows.size()), Frontier(max_splits, best_first, n_threads));
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
          nb::arg("rows").noconvert(), nb::arg("indptr"), nb::arg("place").noconvert(), nb::arg("groups"),
          nb::arg("n_entries"), nb::arg("first"), nb::arg("common"), nb::arg("features"), nb::arg("offsets"),
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
