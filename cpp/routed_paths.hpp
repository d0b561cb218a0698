// Path attribution of routed trees: why a row has its leaves, and what this does to a label's score.
//
// The value of a node for a label is the mean of the label's frequency over the leaves below it. A step from
// a node to a child adds the difference of their values; along a path the steps add up to the value of the
// leaf minus that of the root. A step is divided among the terms of the router's margin that are positive,
// those that sent the row to this child, in proportion to them. The margin is that of the child or, if rows
// go to the child of largest margin only, its margin minus the mean of the others. The bias is a term of no
// feature.
#pragma once

#include "pairs.hpp"
#include "routed_trees.hpp"
#include "vectors.hpp"

namespace sparseleaf::routed {

// Sums of a label's values over all leaves below a node, for every label and node.
//
// Leaves are numbered depth first, so that those below a node are a range. A label has the leaves that store
// it, in this order, with running sums of its values: the sum over a range is a difference of two.
class LeafIndex {
  public:
    template <typename Label, typename Value>
    LeafIndex(const int64_t* tree_offsets, int64_t n_trees, const int32_t* child, const int32_t* inner,
              int arity, const int64_t* leaf_indptr, int64_t n_leaves, const Label* labels,
              const Value* values, int64_t n_labels) {
        number_leaves(tree_offsets, n_trees, child, inner, arity, n_leaves);
        node_at_.resize(static_cast<size_t>(n_leaves));
        for (const int32_t node : node_of_leaf_)
            node_at_[static_cast<size_t>(first_[static_cast<size_t>(node)])] = node;
        starts_.assign(static_cast<size_t>(n_labels) + 1, 0);
        const int64_t n_entries = leaf_indptr[n_leaves];
        for (int64_t e = 0; e < n_entries; ++e)
            if (static_cast<int64_t>(labels[e]) < n_labels) ++starts_[static_cast<size_t>(labels[e]) + 1];
        for (size_t l = 1; l < starts_.size(); ++l) starts_[l] += starts_[l - 1];
        place_.resize(static_cast<size_t>(starts_.back()));
        sums_.resize(place_.size());
        std::vector<int64_t> next(starts_.begin(), starts_.end() - 1);
        for (int64_t place = 0; place < n_leaves; ++place) {
            const int32_t leaf = child[node_at_[static_cast<size_t>(place)]];
            for (int64_t e = leaf_indptr[leaf]; e < leaf_indptr[leaf + 1]; ++e) {
                const auto label = static_cast<size_t>(labels[e]);
                // the file may have changed since the labels were counted
                if (static_cast<int64_t>(label) >= n_labels || next[label] >= starts_[label + 1]) continue;
                const auto at = static_cast<size_t>(next[label]++);
                place_[at] = static_cast<int32_t>(place);
                const double before = static_cast<int64_t>(at) > starts_[label] ? sums_[at - 1] : 0.0;
                sums_[at] = before + static_cast<double>(static_cast<float>(values[e]));
            }
        }
    }

    // Absolute index of a node's parent; -1 for a root.
    int32_t parent(int32_t node) const { return parent_[static_cast<size_t>(node)]; }
    int32_t node_of_leaf(int32_t leaf) const { return node_of_leaf_[static_cast<size_t>(leaf)]; }
    int64_t n_leaves() const { return static_cast<int64_t>(node_of_leaf_.size()); }
    int64_t n_labels() const { return static_cast<int64_t>(starts_.size()) - 1; }

    double leaves_below(int32_t node) const { return static_cast<double>(size_[static_cast<size_t>(node)]); }

    // Calls use(node) for every leaf that stores the label.
    template <typename F>
    void each_leaf(int32_t label, F&& use) const {
        for (int64_t e = starts_[static_cast<size_t>(label)]; e < starts_[static_cast<size_t>(label) + 1];
             ++e)
            use(node_at_[static_cast<size_t>(place_[static_cast<size_t>(e)])]);
    }

    // Mean of the label's values over the leaves below a node.
    double mean(int32_t node, int32_t label) const {
        const int32_t *begin = place_.data() + starts_[static_cast<size_t>(label)],
                      *end = place_.data() + starts_[static_cast<size_t>(label) + 1];
        const int32_t first = first_[static_cast<size_t>(node)], size = size_[static_cast<size_t>(node)];
        const int32_t* low = std::lower_bound(begin, end, first);
        const int32_t* high = std::lower_bound(low, end, first + size);
        if (low == high) return 0.0;
        const double before = low > begin ? sums_[static_cast<size_t>(low - place_.data()) - 1] : 0.0;
        return (sums_[static_cast<size_t>(high - place_.data()) - 1] - before) / static_cast<double>(size);
    }

  private:
    // Nodes are in level order, so children come after their parents.
    void number_leaves(const int64_t* tree_offsets, int64_t n_trees, const int32_t* child,
                       const int32_t* inner, int arity, int64_t n_leaves) {
        const auto n_nodes = static_cast<size_t>(tree_offsets[n_trees]);
        parent_.assign(n_nodes, -1);
        first_.assign(n_nodes, 0);
        size_.assign(n_nodes, 0);
        node_of_leaf_.resize(static_cast<size_t>(n_leaves));
        int32_t next = 0;
        for (int64_t t = 0; t < n_trees; ++t) {
            const int64_t root = tree_offsets[t], end = tree_offsets[t + 1];
            for (int64_t v = end - 1; v >= root; --v) {
                if (inner[v] < 0) {
                    size_[v] = 1;
                    node_of_leaf_[static_cast<size_t>(child[v])] = static_cast<int32_t>(v);
                    continue;
                }
                for (int j = 0; j < arity; ++j) {
                    parent_[root + child[v] + j] = static_cast<int32_t>(v);
                    size_[v] += size_[root + child[v] + j];
                }
            }
            first_[root] = next;
            next += size_[root];
            for (int64_t v = root; v < end; ++v) {
                if (inner[v] < 0) continue;
                int32_t at = first_[v];
                for (int j = 0; j < arity; ++j) {
                    first_[root + child[v] + j] = at;
                    at += size_[root + child[v] + j];
                }
            }
        }
    }

    std::vector<int32_t> parent_, first_, size_, node_of_leaf_, node_at_;
    std::vector<int64_t> starts_;
    std::vector<int32_t> place_;
    std::vector<double> sums_;
};

// Attributes the scores of one row at a time. Buffers of one thread.
class PathWalker {
  public:
    // A feature, or an entry of a row, and a value.
    struct Term {
        int32_t number;
        double value;
    };

    PathWalker(const RoutedTrees& trees, const LeafIndex& index, int64_t n_features, int64_t n_trees)
        : trees_(trees),
          index_(index),
          x_(n_features),
          n_features_(static_cast<uint64_t>(n_features)),
          n_trees_(n_trees),
          largest_only_(trees.small_weights != nullptr ||
                        trees.threshold == std::numeric_limits<float>::infinity()) {}

    // leaves: those that the row reaches, in order of tree; base: one number per pair.
    void walk(const RowPairs& pairs, int64_t row, const int32_t* leaves, int64_t n_leaves, double* base) {
        const int64_t begin = pairs.indptr.data()[row], end = pairs.indptr.data()[row + 1];
        require(end - begin < int64_t{1} << 24, "rows: at most 2^24 entries each");
        values_.clear();
        const float scale = trees_.view.row_scale(pairs.indices.data(), pairs.data.data(), begin, end);
        for (int64_t e = begin; e < end; ++e) {
            const int32_t feature = pairs.indices.data()[e];
            values_.push_back(scale * trees_.view.weighted(feature, pairs.data.data()[e]));
            x_.set(feature, static_cast<float>(e - begin + 1));  // exact: below 2^24
        }
        for (int64_t p = pairs.starts.data()[row]; p < pairs.starts.data()[row + 1]; ++p) {
            base[p] = 0.0;
            std::fill(pairs.out.data() + pairs.offsets.data()[p],
                      pairs.out.data() + pairs.offsets.data()[p + 1], 0.0);
        }
        for (int64_t i = 0; i < n_leaves;) i = add_tree(pairs, row, leaves, i, n_leaves, base);
        x_.clear();
    }

    // The mean attribution of rows that reach each leaf of a tree equally often, with the value 1 for all
    // features: features and values, by increasing feature.
    const std::vector<Term>& average(int32_t label) {
        nodes_.clear();
        index_.each_leaf(label, [&](int32_t node) {
            for (; node >= 0; node = index_.parent(node)) nodes_.push_back(node);
        });
        std::sort(nodes_.begin(), nodes_.end());
        nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
        sums_.clear();
        int64_t tree = 0;
        for (const int32_t from : nodes_) {
            while (trees_.tree_offsets[tree + 1] <= from) ++tree;
            if (trees_.inner[from] < 0) continue;
            const auto root = static_cast<int32_t>(trees_.tree_offsets[tree]);
            for (int j = 0; j < trees_.arity; ++j) {
                const int32_t node = root + trees_.child[from] + j;
                const double step = (index_.mean(node, label) - index_.mean(from, label)) *
                                    index_.leaves_below(node) / index_.leaves_below(root);
                divide(root, from, node, [&](uint64_t feature) -> Term {
                    const auto number = static_cast<int32_t>(feature);
                    return {number, static_cast<double>(trees_.view.weighted(number, 1.0f))};
                });
                for (const Term& share : shares_) sums_.push_back({share.number, step * share.value});
            }
            if (sums_.size() > kMostSums) merge_sums();
        }
        merge_sums();
        return sums_;
    }

  private:
    static constexpr size_t kMostSums = size_t{1} << 21;

    struct Edge {
        int32_t node;  // the child
        double weight;
    };

    // The leaves of one tree, of which leaves[i] is the first; returns the end of them.
    int64_t add_tree(const RowPairs& pairs, int64_t row, const int32_t* leaves, int64_t i, int64_t n_leaves,
                     double* base) {
        edges_.clear();
        int32_t root = -1;
        int64_t count = 0;
        for (; i < n_leaves; ++i, ++count) {
            const size_t before = edges_.size();
            int32_t node = index_.node_of_leaf(leaves[i]);
            for (; index_.parent(node) >= 0; node = index_.parent(node)) edges_.push_back({node, 1.0});
            if (root >= 0 && node != root) {
                edges_.resize(before);
                break;
            }
            root = node;
        }
        // several leaves of a tree share the first steps of their paths
        std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.node < b.node; });
        size_t kept = 0;
        for (const Edge& edge : edges_) {
            if (kept > 0 && edges_[kept - 1].node == edge.node)
                edges_[kept - 1].weight += 1.0;
            else
                edges_[kept++] = edge;
        }
        edges_.resize(kept);
        const int64_t first = pairs.starts.data()[row], last = pairs.starts.data()[row + 1];
        for (int64_t p = first; p < last; ++p)
            base[p] += index_.mean(root, pairs.labels.data()[p]) / static_cast<double>(n_trees_);
        const double unit = 1.0 / (static_cast<double>(n_trees_) * static_cast<double>(count));
        for (const Edge& edge : edges_)
            add_step(pairs, first, last, root, edge.node, unit * edge.weight, base);
        return i;
    }

    void add_step(const RowPairs& pairs, int64_t first, int64_t last, int32_t root, int32_t node,
                  double weight, double* base) {
        const int32_t from = index_.parent(node);
        bool divided = false;
        double bias = 0.0;
        for (int64_t p = first; p < last; ++p) {
            const int32_t label = pairs.labels.data()[p];
            const double step = weight * (index_.mean(node, label) - index_.mean(from, label));
            if (step == 0.0) continue;
            if (!divided)
                bias = divide(root, from, node, [&](uint64_t feature) -> Term {
                    const auto at = static_cast<int32_t>(x_[feature]) - 1;
                    return {at, at < 0 ? 0.0 : static_cast<double>(values_[static_cast<size_t>(at)])};
                });
            divided = true;
            base[p] += step * bias;
            double* out = pairs.out.data() + pairs.offsets.data()[p];
            for (const Term& share : shares_) out[share.number] += step * share.value;
        }
    }

    // Fills shares_, by the numbers and values that entry(feature) has for features, -1 for none; returns the
    // share of the bias, 1 if no feature sends the row to the node.
    template <typename F>
    double divide(int32_t root, int32_t from, int32_t node, const F& entry) {
        const int32_t inner = trees_.inner[from];
        // siblings follow each other; the first is stored relative to the root
        const int j = static_cast<int>(node - root - trees_.child[from]);
        const int skipped = trees_.small_weights ? 1 : 0, columns = trees_.arity - skipped;
        const int64_t begin = trees_.router_indptr[inner], end = trees_.router_indptr[inner + 1];
        const double scale = trees_.weights ? 1.0 : static_cast<double>(trees_.scale[inner]);
        shares_.clear();
        double sum = 0.0;
        const auto add = [&](uint64_t feature, int64_t e) {
            const auto [number, value] = entry(feature);
            if (number < 0) return;
            const double term = scale * value * relative(j - skipped, columns, [&](int c) {
                                    return weight(e * columns + c);
                                });
            if (!(term > 0.0)) return;
            shares_.push_back({number, term});
            sum += term;
        };
        if (trees_.features) {
            for (int64_t e = begin; e < end; ++e) add(static_cast<uint64_t>(trees_.features[e]), e);
        } else {
            with_unsigned(*trees_.steps, [&](const auto* steps) {
                uint64_t feature = 0;
                for (int64_t e = begin; e < end; ++e) {
                    feature += steps[e];
                    if (feature >= n_features_) break;  // the file has changed
                    add(feature, e);
                }
            });
        }
        const float* biases = trees_.bias + static_cast<int64_t>(inner) * columns;
        const double bias = std::max(
            0.0, relative(j - skipped, columns, [&](int c) { return static_cast<double>(biases[c]); }));
        sum += bias;
        if (!(sum > 0.0) || !std::isfinite(sum)) {
            shares_.clear();
            return 1.0;
        }
        for (Term& share : shares_) share.value /= sum;
        return bias / sum;
    }

    double weight(int64_t at) const {
        if (trees_.small_weights) return static_cast<double>(trees_.small_weights[at]);
        return trees_.weights ? static_cast<double>(trees_.weights[at])
                              : static_cast<double>(trees_.short_weights[at]);
    }

    // Of column c, -1 for a child whose weights are 0: itself, or minus the mean of the other children.
    template <typename F>
    double relative(int c, int columns, const F& of) const {
        const double itself = c < 0 ? 0.0 : of(c);
        if (!largest_only_) return itself;
        double sum = 0.0;
        for (int other = 0; other < columns; ++other) sum += of(other);
        return itself - (sum - itself) / static_cast<double>(trees_.arity - 1);
    }

    // Adds the values of equal features, in their order.
    void merge_sums() {
        std::stable_sort(sums_.begin(), sums_.end(),
                         [](const Term& a, const Term& b) { return a.number < b.number; });
        size_t kept = 0;
        for (const Term& term : sums_) {
            if (kept > 0 && sums_[kept - 1].number == term.number)
                sums_[kept - 1].value += term.value;
            else
                sums_[kept++] = term;
        }
        sums_.resize(kept);
    }

    const RoutedTrees& trees_;
    const LeafIndex& index_;
    SpreadRow x_;
    uint64_t n_features_;
    int64_t n_trees_;
    bool largest_only_;
    std::vector<float> values_;
    std::vector<Edge> edges_;
    std::vector<Term> shares_, sums_;
    std::vector<int32_t> nodes_;
};

}  // namespace sparseleaf::routed
