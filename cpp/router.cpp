// Prediction with routed trees: sparse rows through nodes with linear routers, label shares of the leaves
// averaged, the best labels out.
//
// Rows go in blocks, and a block goes through a tree node by node: all rows of the block that reach a node
// are scored there together. A node's weights are scattered once into a work array over all features, and
// every row then reads the few that it needs; where only few rows reach a node, they look their features up
// in its sorted list instead. Both add in the order of the row's features, so they give the same margins.
//
// Routers in 8 bits, of which a forest has many small ones, are walked row by row instead: a row is scattered
// once into a work array over all features, and every router then reads from it what it needs, tree after
// tree. Where a router has a good part of all features, a map of bits tells which: the row then asks for its
// own alone. Both add by rising feature.
//
// Reads the model, never writes it: any number of threads may share one.
#include "router.hpp"

#include <bit>
#include <cmath>

#include "sums.hpp"
#include "vectors.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kBlockRows = 2048;
constexpr int64_t kSmallBlockRows = 64;
constexpr int kMaxRouters = 16;

struct Rows {
    const int64_t* indptr;
    const int32_t* indices;
    const float* data;
    int64_t n;
};

struct RoutedTrees {
    const int64_t* tree_offsets;   // first node of every tree, and the end
    const int32_t* child;          // inner: first child, counted from the tree's first node; leaf: its number
    const int32_t* inner;          // number of an inner node, over all trees; -1 in a leaf
    const int64_t* router_indptr;  // entries of every inner node
    const int32_t* features;       // of the entries, rising within a node; null for small_weights
    const AnyIn1* steps;           // from one feature of a node to the next
    const float* weights;          // (entries, arity)
    const int16_t* short_weights;  // the same in 16 bits, in place of weights
    const float* bias;             // (inner nodes, arity)
    int arity;
    float threshold;
    const int8_t*
        small_weights;   // (entries, arity - 1), in place of weights; then bias has a column less, too
    const float* scale;  // (inner nodes) of weights in 8 or 16 bits
    RowView view;
};

struct Hit {
    int32_t row, leaf;
};

// A number in 16 bits. What a mapped file that has changed may hold, infinity or no number, is read as a
// large one.
struct Half {
    uint16_t bits;

    explicit operator float() const {
        const uint32_t size = bits & 0x7fffu;
        const float value = size >= 0x400u ? std::bit_cast<float>((size << 13) + 0x38000000u)
                                           : static_cast<float>(size) * 0x1p-24f;
        return bits & 0x8000u ? -value : value;
    }

    static nb::dlpack::dtype dtype() { return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1}; }
};

inline bool is_finite(float value) {
    return std::isfinite(value);
}
inline bool is_finite(Half value) {
    return (value.bits & 0x7c00u) != 0x7c00u;
}

// One thread's memory.
class Walker {
  public:
    Walker(const RoutedTrees& trees, const Rows& rows, int64_t n_features)
        : trees_(trees), rows_(rows), n_features_(n_features) {}

    // Appends the leaves that rows [begin, end) reach in a tree.
    void walk(int64_t tree, int64_t begin, int64_t end, std::vector<Hit>& hits) {
        const int64_t first = trees_.tree_offsets[tree];
        arena_.clear();
        for (int64_t row = begin; row < end; ++row) arena_.push_back(static_cast<int32_t>(row));
        stack_.assign(1, {0, 0, end - begin});
        while (!stack_.empty()) {
            const auto [node, from, to] = stack_.back();
            stack_.pop_back();
            arena_.resize(static_cast<size_t>(to));  // what lies behind belongs to nodes that are done
            const int32_t inner = trees_.inner[first + node], child = trees_.child[first + node];
            if (inner < 0) {
                for (int64_t i = from; i < to; ++i) hits.push_back({arena_[i], child});
                continue;
            }
            send(inner, from, to);
            for (int j = 0; j < trees_.arity; ++j) {
                const auto at = static_cast<int64_t>(arena_.size());
                arena_.insert(arena_.end(), sent_[j].begin(), sent_[j].end());
                if (!sent_[j].empty()) stack_.push_back({child + j, at, static_cast<int64_t>(arena_.size())});
            }
        }
    }

  private:
    struct Visit {
        int32_t node;
        int64_t from, to;
    };

    void send(int32_t inner, int64_t from, int64_t to) {
        const int64_t at = trees_.router_indptr[inner] * trees_.arity;
        if (trees_.weights) {
            send_by(inner, from, to, [w = trees_.weights + at](int64_t i) { return w[i]; });
        } else {
            const auto weight = [w = trees_.short_weights + at, scale = trees_.scale[inner]](int64_t i) {
                return static_cast<float>(w[i]) * scale;
            };
            send_by(inner, from, to, weight);
        }
    }

    // weight(e * arity + j): that of entry e of the node for child j
    template <typename Weight>
    void send_by(int32_t inner, int64_t from, int64_t to, const Weight& weight) {
        const int M = trees_.arity;
        const int64_t begin = trees_.router_indptr[inner], size = trees_.router_indptr[inner + 1] - begin;
        const int32_t* features = trees_.features + begin;
        for (int j = 0; j < M; ++j) sent_[j].clear();
        int64_t entries = 0;
        for (int64_t i = from; i < to; ++i) entries += rows_.indptr[arena_[i] + 1] - rows_.indptr[arena_[i]];
        const int steps = 64 - __builtin_clzll(static_cast<uint64_t>(size + 1));
        // a look-up waits for memory at every step; scattering and clearing run through it
        const bool scatter = 2 * size < entries * steps;
        if (scatter) {
            table_.make(static_cast<size_t>(n_features_ * M));
            for (int64_t e = 0; e < size; ++e)
                for (int j = 0; j < M; ++j)
                    table_[static_cast<size_t>(features[e] * static_cast<int64_t>(M) + j)] =
                        weight(e * M + j);
        }
        if (M == 2)
            scatter ? margins<true, 2>(inner, features, weight, size, from, to)
                    : margins<false, 2>(inner, features, weight, size, from, to);
        else
            scatter ? margins<true, 0>(inner, features, weight, size, from, to)
                    : margins<false, 0>(inner, features, weight, size, from, to);
        if (scatter)
            for (int64_t e = 0; e < size; ++e)
                for (int j = 0; j < M; ++j)
                    table_[static_cast<size_t>(features[e] * static_cast<int64_t>(M) + j)] = 0.0f;
    }

    template <bool kScatter, int kArity, typename Weight>
    void margins(int32_t inner, const int32_t* features, const Weight& weight, int64_t size, int64_t from,
                 int64_t to) {
        const int M = kArity ? kArity : trees_.arity;
        const float* bias = trees_.bias + static_cast<int64_t>(inner) * M;
        float z[kMaxRouters];
        for (int64_t i = from; i < to; ++i) {
            const int32_t row = arena_[i];
            for (int j = 0; j < M; ++j) z[j] = bias[j];
            for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e) {
                const int32_t feature = rows_.indices[e];
                if constexpr (kScatter) {
                    const float* w = table_.data() + feature * static_cast<int64_t>(M);
                    for (int j = 0; j < M; ++j) z[j] += w[j] * rows_.data[e];
                } else {
                    const int32_t* at = std::lower_bound(features, features + size, feature);
                    if (at == features + size || *at != feature) continue;
                    for (int j = 0; j < M; ++j) z[j] += weight((at - features) * M + j) * rows_.data[e];
                }
            }
            each_child(z, M, trees_.threshold, [&](int j) { sent_[j].push_back(row); });
        }
    }

    const RoutedTrees& trees_;
    const Rows& rows_;
    int64_t n_features_;
    ZeroTable table_;
    std::vector<int32_t> arena_;
    std::vector<Visit> stack_;
    std::vector<int32_t> sent_[kMaxRouters];
};

// Which features the routers in 8 bits have, as bits, and how many come before every word of 64; only of
// those that have at least two features for each word, so that maps are hardly larger than what they are of.
class FeatureMaps {
  public:
    struct Word {
        uint64_t bits;
        uint32_t before;
    };

    template <typename Step>
    void build(const int64_t* indptr, int64_t n_routers, const Step* steps, int64_t n_features) {
        const int64_t n_words = (n_features + 63) / 64;
        n_words_ = n_words;
        first_.assign(static_cast<size_t>(n_routers), -1);
        for (int64_t router = 0; router < n_routers; ++router) {
            const int64_t begin = indptr[router], end = indptr[router + 1];
            if (end - begin < 2 * n_words) continue;
            first_[router] = static_cast<int64_t>(words_.size());
            words_.resize(words_.size() + static_cast<size_t>(n_words), {0, 0});
            Word* words = words_.data() + first_[router];
            uint64_t feature = 0;
            for (int64_t e = begin; e < end; ++e) {
                feature += steps[e];
                // a mapped file may have changed since it was checked
                require(feature < static_cast<uint64_t>(n_features),
                        "router_steps: a column that does not exist");
                words[feature / 64].bits |= uint64_t{1} << (feature % 64);
            }
            for (int64_t w = 1; w < n_words; ++w)
                words[w].before =
                    words[w - 1].before + static_cast<uint32_t>(std::popcount(words[w - 1].bits));
        }
    }

    // Null where the router has none.
    const Word* of(int64_t router) const {
        return first_[router] < 0 ? nullptr : words_.data() + first_[router];
    }

    void fetch(int64_t router) const { __builtin_prefetch(first_.data() + router); }
    int64_t bytes() const { return n_words_ * static_cast<int64_t>(sizeof(Word)); }

  private:
    int64_t n_words_ = 0;
    std::vector<int64_t> first_;
    std::vector<Word> words_;
};

struct Entry {
    int32_t feature;
    float value;
};

// z += weights · x over the features that row and router have in common; C weights a feature.
template <int kC>
inline __attribute__((always_inline)) void add_mapped(const Entry* row, int64_t n,
                                                      const FeatureMaps::Word* words, const int8_t* weights,
                                                      int wide, float* z) {
    const int C = kC ? kC : wide;
    float sums[kC ? kC : kMaxRouters] = {};
    for (int64_t i = 0; i < n; ++i) {
        const auto feature = static_cast<uint32_t>(row[i].feature);
        const FeatureMaps::Word word = words[feature / 64];
        const uint64_t bit = uint64_t{1} << (feature % 64);
        if (!(word.bits & bit)) continue;
        const int8_t* w = weights + (word.before + std::popcount(word.bits & (bit - 1))) * C;
        for (int c = 0; c < C; ++c) sums[c] += static_cast<float>(w[c]) * row[i].value;
    }
    for (int c = 0; c < C; ++c) z[c] = sums[c];
}

template <int kC, typename Step>
inline __attribute__((always_inline)) void add_listed(const SpreadRow& x, uint64_t n_features,
                                                      const Step* steps, int64_t size, const int8_t* weights,
                                                      int wide, float* z) {
    const int C = kC ? kC : wide;
    float sums[kC ? kC : kMaxRouters] = {};
    uint64_t feature = 0;
    for (int64_t e = 0; e < size; ++e) {
        feature += steps[e];
        if (feature >= n_features) break;  // of a file that has changed
        const float value = x[feature];
        if (value == 0.0f) continue;  // most are
        for (int c = 0; c < C; ++c) sums[c] += static_cast<float>(weights[e * C + c]) * value;
    }
    for (int c = 0; c < C; ++c) z[c] = sums[c];
}

// Of the arities that are common the loops over children are unrolled.
SPARSELEAF_WIDE void mapped_margins(const Entry* row, int64_t n, const FeatureMaps::Word* words,
                                    const int8_t* weights, int C, float* z) {
    if (C == 3)
        add_mapped<3>(row, n, words, weights, C, z);
    else if (C == 1)
        add_mapped<1>(row, n, words, weights, C, z);
    else
        add_mapped<0>(row, n, words, weights, C, z);
}

template <typename Step>
void listed_margins(const SpreadRow& x, uint64_t n_features, const Step* steps, int64_t size,
                    const int8_t* weights, int C, float* z) {
    if (C == 3)
        add_listed<3>(x, n_features, steps, size, weights, C, z);
    else if (C == 1)
        add_listed<1>(x, n_features, steps, size, weights, C, z);
    else
        add_listed<0>(x, n_features, steps, size, weights, C, z);
}

inline void fetch(const void* begin, int64_t bytes) {
    constexpr int64_t kLine = 64, kMost = 16 * kLine;
    for (int64_t at = 0; at < std::min(bytes, kMost); at += kLine)
        __builtin_prefetch(static_cast<const char*>(begin) + at);
}

// Walks rows through trees of small routers, one row at a time.
class RowWalker {
  public:
    RowWalker(const RoutedTrees& trees, const FeatureMaps& maps, const Rows& rows, int64_t n_features)
        : trees_(trees),
          maps_(maps),
          rows_(rows),
          n_features_(static_cast<uint64_t>(n_features)),
          step_bytes_(static_cast<int64_t>(trees.steps->itemsize())),
          x_(n_features) {}

    // The leaf that a row reaches in each of the first trees.
    void walk(int64_t row, int64_t n_trees, int32_t* leaves) {
        const int64_t begin = rows_.indptr[row], end = rows_.indptr[row + 1];
        const float scale = trees_.view.row_scale(rows_.indices, rows_.data, begin, end);
        // the table is the thread's, the walker is not: it must be clean even if memory runs out
        struct Clean {
            SpreadRow& x;
            ~Clean() { x.clear(); }
        } clean{x_};
        entries_.clear();
        for (int64_t e = begin; e < end; ++e) {
            const int32_t feature = rows_.indices[e];
            entries_.push_back({feature, scale * trees_.view.weighted(feature, rows_.data[e])});
            x_.set(feature, entries_.back().value);
        }
        for (int64_t tree = 0; tree < n_trees; tree += kGroup)
            walk_group(tree, std::min(n_trees, tree + kGroup), leaves);
    }

  private:
    static constexpr int64_t kGroup = 16;

    struct Step {
        int64_t tree, node;
        int64_t begin, end;  // entries of its router
        const FeatureMaps::Word* words;
    };

    // Nodes lie far apart, and a walk waits for each: trees go together, level by level, and what a node
    // needs is asked for while others are at work.
    void walk_group(int64_t from, int64_t to, int32_t* leaves) {
        const int C = trees_.arity - 1;
        steps_.clear();
        for (int64_t tree = from; tree < to; ++tree)
            steps_.push_back({tree, trees_.tree_offsets[tree], 0, 0, nullptr});
        while (!steps_.empty()) {
            size_t left = 0;
            for (const Step& step : steps_) {
                const int32_t inner = trees_.inner[step.node];
                if (inner < 0) {
                    leaves[step.tree] = trees_.child[step.node];
                    continue;
                }
                __builtin_prefetch(trees_.router_indptr + inner);
                __builtin_prefetch(trees_.scale + inner);
                __builtin_prefetch(trees_.bias + static_cast<int64_t>(inner) * C);
                maps_.fetch(inner);
                steps_[left++] = step;
            }
            steps_.resize(left);
            for (Step& step : steps_) {
                const int32_t inner = trees_.inner[step.node];
                step.begin = trees_.router_indptr[inner];
                step.end = trees_.router_indptr[inner + 1];
                step.words = maps_.of(inner);
                if (step.words)
                    fetch(step.words, maps_.bytes());
                else
                    fetch(static_cast<const char*>(trees_.steps->data()) + step.begin * step_bytes_,
                          (step.end - step.begin) * step_bytes_);
                fetch(trees_.small_weights + step.begin * C, (step.end - step.begin) * C);
            }
            for (Step& step : steps_) {
                step.node = trees_.tree_offsets[step.tree] + next(step);
                __builtin_prefetch(trees_.inner + step.node);
                __builtin_prefetch(trees_.child + step.node);
            }
        }
    }

    int32_t next(const Step& step) const {
        const int C = trees_.arity - 1;
        const int32_t inner = trees_.inner[step.node];
        const int8_t* weights = trees_.small_weights + step.begin * C;
        float z[kMaxRouters];
        if (step.words)
            mapped_margins(entries_.data(), static_cast<int64_t>(entries_.size()), step.words, weights, C, z);
        else
            with_unsigned(*trees_.steps, [&](const auto* steps) {
                listed_margins(x_, n_features_, steps + step.begin, step.end - step.begin, weights, C, z);
            });
        for (int c = 0; c < C; ++c)
            z[c] = z[c] * trees_.scale[inner] + trees_.bias[static_cast<int64_t>(inner) * C + c];
        return trees_.child[step.node] + best_child(z, C + 1);
    }

    const RoutedTrees& trees_;
    const FeatureMaps& maps_;
    const Rows& rows_;
    uint64_t n_features_;
    int64_t step_bytes_;
    SpreadRow x_;
    std::vector<Entry> entries_;
    std::vector<Step> steps_;
};

}  // namespace

using WeightsIn2 = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class RoutedPredictor {
  public:
    RoutedPredictor(In1<int64_t> tree_offsets, In1<int32_t> child, In1<int32_t> inner,
                    In1<int64_t> router_indptr, AnyIn1 steps, WeightsIn2 weights, In1<float> scale,
                    In2<float> bias, float threshold, In1<float> feature_weights, bool unit_rows,
                    In1<int64_t> leaf_indptr, AnyIn1 leaf_labels, AnyIn1 leaf_values, int64_t n_features,
                    int64_t n_labels)
        : tree_offsets_(tree_offsets),
          child_(child),
          inner_(inner),
          router_indptr_(router_indptr),
          steps_(steps),
          weights_(weights),
          scale_(scale),
          bias_(bias),
          feature_weights_(feature_weights),
          unit_rows_(unit_rows),
          small_(weights.dtype() == nb::dtype<int8_t>()),
          short_(weights.dtype() == nb::dtype<int16_t>()),
          threshold_(threshold),
          leaf_indptr_(leaf_indptr),
          leaf_labels_(leaf_labels),
          leaf_values_(leaf_values),
          n_features_(n_features),
          n_labels_(n_labels) {
        check();
        const auto n_inner = static_cast<int64_t>(router_indptr_.size()) - 1;
        with_unsigned(steps_, [&](const auto* steps) {
            if (small_)
                maps_.build(router_indptr_.data(), n_inner, steps, n_features_);
            else
                read_features(steps);
        });
    }

    void topk(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees,
              Out2<int32_t> labels, Out2<float> scores, int n_threads) const {
        const Rows rows = checked_rows(indptr, indices, data);
        const auto k = static_cast<int64_t>(labels.shape(1));
        require(static_cast<int64_t>(labels.shape(0)) == rows.n && labels.shape(0) == scores.shape(0) &&
                    labels.shape(1) == scores.shape(1),
                "labels, scores: (rows, k)");
        require_trees(n_trees);
        GilRelease release;
        with_leaves([&](auto* leaf_labels, auto* leaf_values) {
            each_row(rows, leaf_labels, leaf_values, n_trees, n_threads,
                     [&](int64_t row, std::vector<Scored>& found) {
                         write_topk(found, k, labels.data() + row * k, scores.data() + row * k);
                     });
        });
    }

    // CSR of all scores: (indptr int64, labels int32 sorted in every row, scores float32).
    nb::tuple scores(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees,
                     int n_threads) const {
        const Rows rows = checked_rows(indptr, indices, data);
        require_trees(n_trees);
        const auto n = static_cast<size_t>(rows.n);
        std::unique_ptr<int64_t[]> out_indptr(new int64_t[n + 1]);
        std::unique_ptr<int32_t[]> out_labels;
        std::unique_ptr<float[]> out_scores;
        {
            GilRelease release;
            std::vector<std::vector<Scored>> all(n);
            with_leaves([&](auto* leaf_labels, auto* leaf_values) {
                each_row(rows, leaf_labels, leaf_values, n_trees, n_threads,
                         [&](int64_t row, std::vector<Scored>& found) {
                             all[row] = found;
                             std::sort(all[row].begin(), all[row].end(),
                                       [](const Scored& a, const Scored& b) { return a.label < b.label; });
                         });
            });
            out_indptr[0] = 0;
            for (size_t i = 0; i < n; ++i)
                out_indptr[i + 1] = out_indptr[i] + static_cast<int64_t>(all[i].size());
            out_labels.reset(new int32_t[static_cast<size_t>(out_indptr[n])]);
            out_scores.reset(new float[static_cast<size_t>(out_indptr[n])]);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < all[i].size(); ++j) {
                    out_labels[out_indptr[i] + static_cast<int64_t>(j)] = all[i][j].label;
                    out_scores[out_indptr[i] + static_cast<int64_t>(j)] = all[i][j].score;
                }
        }
        const auto size = static_cast<size_t>(out_indptr[n]);
        return nb::make_tuple(to_numpy(std::move(out_indptr), n + 1), to_numpy(std::move(out_labels), size),
                              to_numpy(std::move(out_scores), size));
    }

    // The leaves that rows reach: (indptr int64, leaves int32), in order of tree.
    nb::tuple leaves(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int n_threads) const {
        const Rows rows = checked_rows(indptr, indices, data);
        const auto n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
        std::vector<std::vector<int32_t>> all(static_cast<size_t>(rows.n));
        const auto n = static_cast<size_t>(rows.n);
        std::unique_ptr<int64_t[]> out_indptr(new int64_t[n + 1]);
        std::unique_ptr<int32_t[]> out;
        {
            GilRelease release;
            each_block(rows, n_trees, n_threads, [&](int64_t, const std::vector<Hit>& hits, int) {
                for (const Hit& hit : hits) all[hit.row].push_back(hit.leaf);
            });
            out_indptr[0] = 0;
            for (size_t i = 0; i < n; ++i)
                out_indptr[i + 1] = out_indptr[i] + static_cast<int64_t>(all[i].size());
            out.reset(new int32_t[static_cast<size_t>(out_indptr[n])]);
            for (size_t i = 0; i < n; ++i) std::copy(all[i].begin(), all[i].end(), out.get() + out_indptr[i]);
        }
        const auto size = static_cast<size_t>(out_indptr[n]);
        return nb::make_tuple(to_numpy(std::move(out_indptr), n + 1), to_numpy(std::move(out), size));
    }

  private:
    // Everything a walk relies on; a file from a stranger comes through here before any row does.
    void check() const {
        const auto n_nodes = static_cast<int64_t>(child_.size());
        const auto n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
        const auto n_leaves = static_cast<int64_t>(leaf_indptr_.size()) - 1;
        const auto n_inner = static_cast<int64_t>(router_indptr_.size()) - 1;
        const auto columns = static_cast<int64_t>(weights_.shape(1)), arity = columns + small_;
        require(n_trees >= 0 && tree_offsets_.data()[0] == 0 && tree_offsets_.data()[n_trees] == n_nodes,
                "tree_offsets must start at 0 and end at the number of nodes");
        require(inner_.size() == child_.size(), "child and inner must have one number a node");
        require(arity >= 2 && arity <= kMaxRouters, "weights: 2 to 16 routers a node");
        require_indptr(router_indptr_, steps_.size());
        require(weights_.shape(0) == steps_.size(), "weights: a line for every feature of a node");
        require(static_cast<int64_t>(bias_.shape(0)) == n_inner &&
                    static_cast<int64_t>(bias_.shape(1)) == columns,
                "bias: a line for every inner node");
        require(small_ || short_ || weights_.dtype() == nb::dtype<float>(),
                "weights: float32, int16 or int8");
        require(static_cast<int64_t>(scale_.size()) == (small_ || short_ ? n_inner : 0),
                "router_scale: one for every inner node, of weights in 8 or 16 bits only");
        require(feature_weights_.size() == 0 || static_cast<int64_t>(feature_weights_.size()) == n_features_,
                "feature_weights: one a feature, or none");
        require(small_ || (feature_weights_.size() == 0 && !unit_rows_),
                "feature_weights, unit_rows: of routers in 8 bits only");
        require_indptr(leaf_indptr_, leaf_labels_.size());
        require(leaf_labels_.size() == leaf_values_.size(), "leaf_labels, leaf_values: same size");
        require(
            n_features_ >= 0 && n_features_ <= int64_t{1} << 31 && n_labels_ >= 0 && n_labels_ <= 0x7fffffff,
            "sizes must not be negative, nor pass 31 bits");
        require(!std::isnan(threshold_), "threshold must be a number");
        GilRelease release;
        with_unsigned(steps_, [&](const auto* steps) {
            for (int64_t node = 0; node < n_inner; ++node) {
                const int64_t begin = router_indptr_.data()[node], end = router_indptr_.data()[node + 1];
                uint64_t feature = 0;
                for (int64_t e = begin; e < end; ++e) {
                    require(e == begin || steps[e] > 0, "router_steps: features must rise within a node");
                    feature += steps[e];
                }
                require(begin == end || feature < static_cast<uint64_t>(n_features_),
                        "router_steps: a column that does not exist");
            }
        });
        const auto finite = [](const float* values, size_t size) {
            for (size_t i = 0; i < size; ++i)
                if (!std::isfinite(values[i])) return false;
            return true;
        };
        if (!small_ && !short_)
            require(finite(static_cast<const float*>(weights_.data()), weights_.size()),
                    "router_weights must be finite");
        require(finite(scale_.data(), scale_.size()), "router_scale must be finite");
        if (short_)
            for (size_t i = 0; i < scale_.size(); ++i)
                require(std::isfinite(scale_.data()[i] * 32768.0f), "router_weights must be finite");
        require(finite(feature_weights_.data(), feature_weights_.size()), "feature_weights must be finite");
        require(finite(bias_.data(), bias_.size()), "router_bias must be finite");
        with_leaves([&](auto* labels, auto* values) {
            for (size_t e = 0; e < leaf_labels_.size(); ++e) {
                require(static_cast<int64_t>(labels[e]) < n_labels_, "leaf_labels: no such label");
                require(is_finite(values[e]), "leaf_values must be finite");
            }
        });
        int64_t next_leaf = 0, next_inner = 0;
        for (int64_t t = 0; t < n_trees; ++t) {
            const int64_t first = tree_offsets_.data()[t], end = tree_offsets_.data()[t + 1];
            require(first < end && end <= n_nodes, "tree_offsets: every tree needs a node");
            int64_t next_child = 1;
            for (int64_t v = first; v < end; ++v) {
                if (inner_.data()[v] < 0) {
                    require(inner_.data()[v] == -1 && child_.data()[v] == next_leaf && next_leaf < n_leaves,
                            "child: leaves must be numbered 0, 1, 2, ...");
                    ++next_leaf;
                } else {
                    require(inner_.data()[v] == next_inner && next_inner < n_inner,
                            "inner: inner nodes must be numbered 0, 1, 2, ...");
                    // each node has one parent, before it: every walk ends, and none meets a node twice
                    require(child_.data()[v] == next_child && first + next_child > v &&
                                first + next_child + arity <= end,
                            "child: children must follow each other in level order");
                    ++next_inner;
                    next_child += arity;
                }
            }
            require(first + next_child == end, "child: a node that no parent has");
        }
        require(next_leaf == n_leaves && next_inner == n_inner, "leaves or routers that no node has");
    }

    void require_trees(int64_t n_trees) const {
        require(n_trees >= 0 && n_trees < static_cast<int64_t>(tree_offsets_.size()),
                "n_trees: more than the model has");
    }

    Rows checked_rows(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data) const {
        require(indices.size() == data.size(), "indices, data: same size");
        require_indptr(indptr, data.size());
        require(indptr.size() <= 0x7fffffff, "indptr: too many rows");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        return {indptr.data(), indices.data(), data.data(), static_cast<int64_t>(indptr.size()) - 1};
    }

    // Routers that are not in 8 bits are looked up by feature.
    template <typename Step>
    void read_features(const Step* steps) {
        features_.resize(steps_.size());
        for (size_t node = 0; node + 1 < router_indptr_.size(); ++node) {
            uint64_t feature = 0;
            for (int64_t e = router_indptr_.data()[node]; e < router_indptr_.data()[node + 1]; ++e) {
                feature += steps[e];
                // a mapped file may have changed since it was checked
                require(feature < static_cast<uint64_t>(n_features_),
                        "router_steps: a column that does not exist");
                features_[static_cast<size_t>(e)] = static_cast<int32_t>(feature);
            }
        }
    }

    // Calls f(labels, values) of all leaves, in the types that they have.
    template <typename F>
    void with_leaves(F&& f) const {
        const auto with_values = [&](const auto* labels) {
            if (leaf_values_.dtype() == nb::dtype<float>())
                f(labels, static_cast<const float*>(leaf_values_.data()));
            else
                f(labels, static_cast<const Half*>(leaf_values_.data()));
        };
        require(leaf_values_.dtype() == nb::dtype<float>() || leaf_values_.dtype() == Half::dtype(),
                "leaf_values must be float32 or float16");
        if (leaf_labels_.dtype() == nb::dtype<uint16_t>())
            with_values(static_cast<const uint16_t*>(leaf_labels_.data()));
        else if (leaf_labels_.dtype() == nb::dtype<uint32_t>())
            with_values(static_cast<const uint32_t*>(leaf_labels_.data()));
        else
            throw std::invalid_argument("leaf_labels must be uint16 or uint32");
    }

    // Calls use(first row, hits, thread) for every tree of every block, the trees of a block in order, and
    // done(first row, end, thread) after the last.
    template <typename F>
    void each_block(const Rows& rows, int64_t n_trees, int n_threads, F&& use,
                    const std::function<void(int64_t, int64_t, int)>& done = {}) const {
        const auto* weights = weights_.data();
        const bool whole = !small_ && !short_;
        const RoutedTrees trees{tree_offsets_.data(),
                                child_.data(),
                                inner_.data(),
                                router_indptr_.data(),
                                features_.data(),
                                &steps_,
                                whole ? static_cast<const float*>(weights) : nullptr,
                                short_ ? static_cast<const int16_t*>(weights) : nullptr,
                                bias_.data(),
                                static_cast<int>(weights_.shape(1)) + small_,
                                threshold_,
                                small_ ? static_cast<const int8_t*>(weights) : nullptr,
                                scale_.data(),
                                {feature_weights_.size() ? feature_weights_.data() : nullptr, unit_rows_}};
        // enough blocks for all threads, unless they become so small that nodes are visited for single rows
        const int64_t block = std::clamp<int64_t>((rows.n + n_threads - 1) / n_threads, 1, kBlockRows);
        std::vector<std::unique_ptr<Walker>> walkers(static_cast<size_t>(n_threads));
        std::vector<std::vector<Hit>> hits(static_cast<size_t>(n_threads));
        if (small_) {
            each_small_block(trees, rows, n_trees, n_threads, std::min(block, kSmallBlockRows), use, done);
            return;
        }
        parallel_tasks((rows.n + block - 1) / block, n_threads, [&](int64_t task, int thread) {
            auto& walker = walkers[thread];
            if (!walker) walker = std::make_unique<Walker>(trees, rows, n_features_);
            const int64_t begin = task * block, end = std::min(rows.n, begin + block);
            for (int64_t tree = 0; tree < n_trees; ++tree) {
                hits[thread].clear();
                walker->walk(tree, begin, end, hits[thread]);
                use(begin, hits[thread], thread);
            }
            if (done) done(begin, end, thread);
        });
    }

    // The same by rows: a row's leaves in all trees come at once, and are handed out tree by tree.
    template <typename F>
    void each_small_block(const RoutedTrees& trees, const Rows& rows, int64_t n_trees, int n_threads,
                          int64_t block, F&& use,
                          const std::function<void(int64_t, int64_t, int)>& done) const {
        struct Own {
            Own(const RoutedTrees& trees, const FeatureMaps& maps, const Rows& rows, int64_t n_features)
                : walker(trees, maps, rows, n_features) {}
            RowWalker walker;
            std::vector<int32_t> leaves;
            std::vector<Hit> hits;
        };
        std::vector<std::unique_ptr<Own>> scratch(static_cast<size_t>(n_threads));
        parallel_tasks((rows.n + block - 1) / block, n_threads, [&](int64_t task, int thread) {
            if (!scratch[thread]) scratch[thread] = std::make_unique<Own>(trees, maps_, rows, n_features_);
            Own& own = *scratch[thread];
            const int64_t begin = task * block, end = std::min(rows.n, begin + block);
            own.leaves.resize(static_cast<size_t>((end - begin) * n_trees));
            for (int64_t row = begin; row < end; ++row)
                own.walker.walk(row, n_trees, own.leaves.data() + (row - begin) * n_trees);
            for (int64_t tree = 0; tree < n_trees; ++tree) {
                own.hits.clear();
                for (int64_t row = begin; row < end; ++row)
                    own.hits.push_back(
                        {static_cast<int32_t>(row), own.leaves[(row - begin) * n_trees + tree]});
                use(begin, own.hits, thread);
            }
            if (done) done(begin, end, thread);
        });
    }

    // Calls use(row, candidates): a label's score is the mean over trees of its mean share in the leaves
    // reached.
    template <typename Label, typename Value, typename F>
    void each_row(const Rows& rows, const Label* labels, const Value* values, int64_t n_trees, int n_threads,
                  F&& use) const {
        struct Reached {
            int32_t row, leaf;
            float weight;
        };
        struct Own {
            explicit Own(int64_t n_labels) : sums(n_labels) {}
            Sums sums;
            std::vector<Reached> reached;
            std::vector<int32_t> n_leaves;  // of a row of the block in the tree
            std::vector<int64_t> place;
            std::vector<Reached> by_row;
            std::vector<Scored> found;
        };
        std::vector<std::unique_ptr<Own>> scratch(static_cast<size_t>(n_threads));
        const auto own_of = [&](int thread) -> Own& {
            if (!scratch[thread]) scratch[thread] = std::make_unique<Own>(n_labels_);
            return *scratch[thread];
        };
        each_block(
            rows, n_trees, n_threads,
            [&](int64_t begin, const std::vector<Hit>& hits, int thread) {
                Own& own = own_of(thread);
                own.n_leaves.resize(static_cast<size_t>(kBlockRows), 0);
                for (const Hit& hit : hits) ++own.n_leaves[hit.row - begin];
                for (const Hit& hit : hits)
                    own.reached.push_back({hit.row, hit.leaf,
                                           1.0f / (static_cast<float>(n_trees) *
                                                   static_cast<float>(own.n_leaves[hit.row - begin]))});
                for (const Hit& hit : hits) own.n_leaves[hit.row - begin] = 0;
            },
            [&](int64_t begin, int64_t end, int thread) {
                Own& own = own_of(thread);
                // in order of row; trees stay in order, so that sums are the same for any block
                own.place.assign(static_cast<size_t>(end - begin + 1), 0);
                for (const Reached& reached : own.reached) ++own.place[reached.row - begin + 1];
                for (size_t i = 1; i < own.place.size(); ++i) own.place[i] += own.place[i - 1];
                own.by_row.resize(own.reached.size());
                for (const Reached& reached : own.reached)
                    own.by_row[own.place[reached.row - begin]++] = reached;
                own.reached.clear();
                size_t at = 0;
                for (int64_t row = begin; row < end; ++row) {
                    for (; at < own.by_row.size() && own.by_row[at].row == row; ++at) {
                        const int64_t first = leaf_indptr_.data()[own.by_row[at].leaf];
                        const int64_t last = leaf_indptr_.data()[own.by_row[at].leaf + 1];
                        own.sums.add(labels + first, values + first, own.by_row[at].weight, last - first);
                    }
                    own.sums.take(own.found);
                    use(row, own.found);
                }
            });
    }

    In1<int64_t> tree_offsets_;
    In1<int32_t> child_, inner_;
    In1<int64_t> router_indptr_;
    AnyIn1 steps_;
    std::vector<int32_t> features_;  // of routers that are not in 8 bits
    WeightsIn2 weights_;
    In1<float> scale_;
    In2<float> bias_;
    In1<float> feature_weights_;
    bool unit_rows_, small_, short_;
    float threshold_;
    In1<int64_t> leaf_indptr_;
    AnyIn1 leaf_labels_, leaf_values_;
    int64_t n_features_, n_labels_;
    FeatureMaps maps_;
};

}  // namespace sparseleaf

void bind_router(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<RoutedPredictor>(m, "RoutedPredictor")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<int32_t>, In1<int64_t>, AnyIn1, WeightsIn2, In1<float>,
                      In2<float>, float, In1<float>, bool, In1<int64_t>, AnyIn1, AnyIn1, int64_t, int64_t>(),
             nb::arg("tree_offsets"), nb::arg("child"), nb::arg("inner"), nb::arg("router_indptr"),
             nb::arg("router_steps"), nb::arg("router_weights"), nb::arg("router_scale"),
             nb::arg("router_bias"), nb::arg("threshold"), nb::arg("feature_weights"), nb::arg("unit_rows"),
             nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"), nb::arg("n_features"),
             nb::arg("n_labels"))
        .def("topk", &RoutedPredictor::topk, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("labels").noconvert(), nb::arg("scores").noconvert(),
             nb::arg("n_threads"))
        .def("scores", &RoutedPredictor::scores, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("n_threads"))
        .def("leaves", &RoutedPredictor::leaves, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_threads"));
}
