// Routing of single rows through trees with 8-bit routers, which are many and small.
//
// A row is scattered once into an array over all features, from which every router reads what it needs. For a
// router with a large part of all features, a bitmap tells which, and the row looks up only its own features.
// Both add by increasing feature.
#pragma once

#include <bit>

#include "routed_trees.hpp"
#include "vectors.hpp"

namespace sparseleaf::routed {

// Bitmaps of the features of 8-bit routers, with the number of features before every 64-bit word; only for
// routers with at least two features per word, so that maps are not much larger than the routers.
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
                // a mapped file may have changed since validation
                require(feature < static_cast<uint64_t>(n_features),
                        "router_steps: a column that does not exist");
                words[feature / 64].bits |= uint64_t{1} << (feature % 64);
            }
            for (int64_t w = 1; w < n_words; ++w)
                words[w].before =
                    words[w - 1].before + static_cast<uint32_t>(std::popcount(words[w - 1].bits));
        }
    }

    // Null if the router has no map.
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

// z += weights · x over the common features of row and router; C weights per feature.
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
        if (feature >= n_features) break;  // the file has changed
        const float value = x[feature];
        if (value == 0.0f) continue;  // the common case
        for (int c = 0; c < C; ++c) sums[c] += static_cast<float>(weights[e * C + c]) * value;
    }
    for (int c = 0; c < C; ++c) z[c] = sums[c];
}

// Loops over children are unrolled for common arities.
SPARSELEAF_WIDE inline void mapped_margins(const Entry* row, int64_t n, const FeatureMaps::Word* words,
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

// Routes rows through trees with 8-bit routers, one row at a time.
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
        // the table outlives the walker: it must be cleared even if an allocation fails
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

    // Every node is a cache miss: all trees are traversed together, level by level, and nodes are prefetched
    // while others are evaluated.
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

}  // namespace sparseleaf::routed
