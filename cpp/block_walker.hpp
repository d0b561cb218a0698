// Routing of blocks of rows: all rows of a block that reach a node are scored together.
//
// A node's weights are scattered once into an array over all features, from which every row reads the few
// that it needs; if only few rows reach a node, they look their features up in its sorted list instead. Both
// add in the order of the row's features, so the margins are equal.
#pragma once

#include "routed_trees.hpp"
#include "vectors.hpp"

namespace sparseleaf::routed {

// Buffers of one thread.
class BlockWalker {
  public:
    BlockWalker(const RoutedTrees& trees, const Rows& rows, int64_t n_features)
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
            arena_.resize(static_cast<size_t>(to));  // the rest belongs to completed nodes
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
        // every step of a look-up is a cache miss; scattering and clearing are sequential
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

}  // namespace sparseleaf::routed
