// Prediction with routed trees: rows are routed by linear routers, and the label frequencies of their leaves
// averaged. Rows are routed in blocks (block_walker.hpp) or, with 8-bit routers, one by one (row_walker.hpp).
//
// The model is read-only, so any number of threads may share it.
#include "router.hpp"

#include <bit>
#include <cmath>
#include <optional>

#include "block_walker.hpp"
#include "routed_paths.hpp"
#include "row_walker.hpp"
#include "sums.hpp"

namespace sparseleaf {
namespace {

using namespace routed;

constexpr int64_t kBlockRows = 2048;
constexpr int64_t kSmallBlockRows = 64;

// A float16. Infinity and NaN, which a mapped file may contain after a change, are read as large numbers.
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

    // All scores as CSR: (indptr int64, labels int32 sorted in every row, scores float32).
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

    // See routed_paths.hpp.
    LeafIndex leaf_index() const {
        GilRelease release;
        std::optional<LeafIndex> index;
        with_leaves([&](auto* labels, auto* values) {
            index.emplace(tree_offsets_.data(), static_cast<int64_t>(tree_offsets_.size()) - 1, child_.data(),
                          inner_.data(), static_cast<int>(weights_.shape(1)) + small_, leaf_indptr_.data(),
                          static_cast<int64_t>(leaf_indptr_.size()) - 1, labels, values, n_labels_);
        });
        return std::move(*index);
    }

    // Attributes the scores of pairs to the entries of their rows (see pairs.hpp), and to base. Row i reaches
    // leaves[leaf_starts[i]:leaf_starts[i + 1]], in order of tree.
    void explain(const LeafIndex& index, In1<int64_t> indptr, In1<int32_t> indices, In1<float> data,
                 In1<int64_t> leaf_starts, In1<int32_t> leaves, In1<int64_t> starts, In1<int32_t> labels,
                 In1<int64_t> offsets, Out1<double> out, Out1<double> base, int n_threads) const {
        const RowPairs pairs{indptr, indices, data, starts, labels, offsets, out};
        pairs.check(n_features_, n_labels_);
        require_indptr(leaf_starts, leaves.size());
        require(leaf_starts.size() == indptr.size(), "leaf_starts: one more than rows");
        require(base.size() == labels.size(), "base: one for every pair");
        require(index.n_leaves() == static_cast<int64_t>(leaf_indptr_.size()) - 1 &&
                    index.n_labels() == n_labels_,
                "index: of another model");
        for (size_t i = 0; i < leaves.size(); ++i)
            require(leaves.data()[i] >= 0 && leaves.data()[i] < index.n_leaves(), "leaves: no such leaf");
        const auto n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
        GilRelease release;
        const RoutedTrees trees = arrays();
        std::vector<std::unique_ptr<PathWalker>> walkers(static_cast<size_t>(std::max(n_threads, 1)));
        pairs.each_row(n_threads, [&](int64_t row, int thread) {
            auto& walker = walkers[static_cast<size_t>(thread)];
            if (!walker) walker = std::make_unique<PathWalker>(trees, index, n_features_, n_trees);
            const int64_t first = leaf_starts.data()[row];
            walker->walk(pairs, row, leaves.data() + first, leaf_starts.data()[row + 1] - first, base.data());
        });
    }

    // Importances of features for labels as CSR: (indptr int64, features int32, values float64).
    nb::tuple label_importances(const LeafIndex& index, In1<int32_t> labels, int n_threads) const {
        require(index.n_leaves() == static_cast<int64_t>(leaf_indptr_.size()) - 1 &&
                    index.n_labels() == n_labels_,
                "index: of another model");
        for (size_t i = 0; i < labels.size(); ++i)
            require(labels.data()[i] >= 0 && labels.data()[i] < n_labels_, "labels: no such label");
        const size_t n = labels.size();
        std::unique_ptr<int64_t[]> indptr(new int64_t[n + 1]);
        std::unique_ptr<int32_t[]> features;
        std::unique_ptr<double[]> values;
        {
            GilRelease release;
            const RoutedTrees trees = arrays();
            const auto n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
            std::vector<std::vector<PathWalker::Term>> all(n);
            std::vector<std::unique_ptr<PathWalker>> walkers(static_cast<size_t>(std::max(n_threads, 1)));
            parallel_tasks(static_cast<int64_t>(n), n_threads, [&](int64_t i, int thread) {
                auto& walker = walkers[static_cast<size_t>(thread)];
                if (!walker) walker = std::make_unique<PathWalker>(trees, index, n_features_, n_trees);
                all[static_cast<size_t>(i)] = walker->average(labels.data()[i]);
            });
            indptr[0] = 0;
            for (size_t i = 0; i < n; ++i) indptr[i + 1] = indptr[i] + static_cast<int64_t>(all[i].size());
            features.reset(new int32_t[static_cast<size_t>(indptr[n])]);
            values.reset(new double[static_cast<size_t>(indptr[n])]);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < all[i].size(); ++j) {
                    features[indptr[i] + static_cast<int64_t>(j)] = all[i][j].number;
                    values[indptr[i] + static_cast<int64_t>(j)] = all[i][j].value;
                }
        }
        const auto size = static_cast<size_t>(indptr[n]);
        return nb::make_tuple(to_numpy(std::move(indptr), n + 1), to_numpy(std::move(features), size),
                              to_numpy(std::move(values), size));
    }

  private:
    // Validates everything that traversal relies on: model files are untrusted.
    void check() const {
        const auto n_nodes = static_cast<int64_t>(child_.size());
        const auto n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
        const auto n_leaves = static_cast<int64_t>(leaf_indptr_.size()) - 1;
        const auto n_inner = static_cast<int64_t>(router_indptr_.size()) - 1;
        const auto columns = static_cast<int64_t>(weights_.shape(1)), arity = columns + small_;
        require(n_trees >= 0 && tree_offsets_.data()[0] == 0 && tree_offsets_.data()[n_trees] == n_nodes,
                "tree_offsets must start at 0 and end at the number of nodes");
        require(inner_.size() == child_.size(), "child and inner must have one entry per node");
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
                "feature_weights: must be empty or have one entry per feature");
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
                    // each node has one parent, before it: traversal terminates and visits no node twice
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

    // Decodes the features of routers other than 8-bit ones.
    template <typename Step>
    void read_features(const Step* steps) {
        features_.resize(steps_.size());
        for (size_t node = 0; node + 1 < router_indptr_.size(); ++node) {
            uint64_t feature = 0;
            for (int64_t e = router_indptr_.data()[node]; e < router_indptr_.data()[node + 1]; ++e) {
                feature += steps[e];
                // a mapped file may have changed since validation
                require(feature < static_cast<uint64_t>(n_features_),
                        "router_steps: a column that does not exist");
                features_[static_cast<size_t>(e)] = static_cast<int32_t>(feature);
            }
        }
    }

    // Calls f(labels, values) of all leaves in the model's types.
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

    RoutedTrees arrays() const {
        const auto* weights = weights_.data();
        const bool whole = !small_ && !short_;
        return {tree_offsets_.data(),
                child_.data(),
                inner_.data(),
                router_indptr_.data(),
                small_ ? nullptr : features_.data(),
                &steps_,
                whole ? static_cast<const float*>(weights) : nullptr,
                short_ ? static_cast<const int16_t*>(weights) : nullptr,
                bias_.data(),
                static_cast<int>(weights_.shape(1)) + small_,
                threshold_,
                small_ ? static_cast<const int8_t*>(weights) : nullptr,
                scale_.data(),
                {feature_weights_.size() ? feature_weights_.data() : nullptr, unit_rows_}};
    }

    // Calls use(first row, hits, thread) for every tree of every block, the trees of a block in order, and
    // done(first row, end, thread) after the last.
    template <typename F>
    void each_block(const Rows& rows, int64_t n_trees, int n_threads, F&& use,
                    const std::function<void(int64_t, int64_t, int)>& done = {}) const {
        const RoutedTrees trees = arrays();
        // enough blocks for all threads, but not so small that nodes are visited for single rows
        const int64_t block = std::clamp<int64_t>((rows.n + n_threads - 1) / n_threads, 1, kBlockRows);
        std::vector<std::unique_ptr<BlockWalker>> walkers(static_cast<size_t>(n_threads));
        std::vector<std::vector<Hit>> hits(static_cast<size_t>(n_threads));
        if (small_) {
            each_small_block(trees, rows, n_trees, n_threads, std::min(block, kSmallBlockRows), use, done);
            return;
        }
        parallel_tasks((rows.n + block - 1) / block, n_threads, [&](int64_t task, int thread) {
            auto& walker = walkers[thread];
            if (!walker) walker = std::make_unique<BlockWalker>(trees, rows, n_features_);
            const int64_t begin = task * block, end = std::min(rows.n, begin + block);
            for (int64_t tree = 0; tree < n_trees; ++tree) {
                hits[thread].clear();
                walker->walk(tree, begin, end, hits[thread]);
                use(begin, hits[thread], thread);
            }
            if (done) done(begin, end, thread);
        });
    }

    // The same row by row: all leaves of a row are found at once, and passed on tree by tree.
    template <typename F>
    void each_small_block(const RoutedTrees& trees, const Rows& rows, int64_t n_trees, int n_threads,
                          int64_t block, F&& use,
                          const std::function<void(int64_t, int64_t, int)>& done) const {
        struct ThreadState {
            ThreadState(const RoutedTrees& trees, const FeatureMaps& maps, const Rows& rows,
                        int64_t n_features)
                : walker(trees, maps, rows, n_features) {}
            RowWalker walker;
            std::vector<int32_t> leaves;
            std::vector<Hit> hits;
        };
        std::vector<std::unique_ptr<ThreadState>> scratch(static_cast<size_t>(n_threads));
        parallel_tasks((rows.n + block - 1) / block, n_threads, [&](int64_t task, int thread) {
            if (!scratch[thread])
                scratch[thread] = std::make_unique<ThreadState>(trees, maps_, rows, n_features_);
            ThreadState& local = *scratch[thread];
            const int64_t begin = task * block, end = std::min(rows.n, begin + block);
            local.leaves.resize(static_cast<size_t>((end - begin) * n_trees));
            for (int64_t row = begin; row < end; ++row)
                local.walker.walk(row, n_trees, local.leaves.data() + (row - begin) * n_trees);
            for (int64_t tree = 0; tree < n_trees; ++tree) {
                local.hits.clear();
                for (int64_t row = begin; row < end; ++row)
                    local.hits.push_back(
                        {static_cast<int32_t>(row), local.leaves[(row - begin) * n_trees + tree]});
                use(begin, local.hits, thread);
            }
            if (done) done(begin, end, thread);
        });
    }

    // Calls use(row, candidates): a label's score is the mean over trees of its mean frequency in the leaves
    // reached.
    template <typename Label, typename Value, typename F>
    void each_row(const Rows& rows, const Label* labels, const Value* values, int64_t n_trees, int n_threads,
                  F&& use) const {
        struct Reached {
            int32_t row, leaf;
            float weight;
        };
        struct ThreadState {
            explicit ThreadState(int64_t n_labels) : sums(n_labels) {}
            Sums sums;
            std::vector<Reached> reached;
            std::vector<int32_t> n_leaves;  // of a row of the block in the tree
            std::vector<int64_t> place;
            std::vector<Reached> by_row;
            std::vector<Scored> found;
        };
        std::vector<std::unique_ptr<ThreadState>> scratch(static_cast<size_t>(n_threads));
        const auto state_of = [&](int thread) -> ThreadState& {
            if (!scratch[thread]) scratch[thread] = std::make_unique<ThreadState>(n_labels_);
            return *scratch[thread];
        };
        each_block(
            rows, n_trees, n_threads,
            [&](int64_t begin, const std::vector<Hit>& hits, int thread) {
                ThreadState& local = state_of(thread);
                local.n_leaves.resize(static_cast<size_t>(kBlockRows), 0);
                for (const Hit& hit : hits) ++local.n_leaves[hit.row - begin];
                for (const Hit& hit : hits)
                    local.reached.push_back({hit.row, hit.leaf,
                                             1.0f / (static_cast<float>(n_trees) *
                                                     static_cast<float>(local.n_leaves[hit.row - begin]))});
                for (const Hit& hit : hits) local.n_leaves[hit.row - begin] = 0;
            },
            [&](int64_t begin, int64_t end, int thread) {
                ThreadState& local = state_of(thread);
                // sorted by row, stably: sums are in the order of trees for any block size
                local.place.assign(static_cast<size_t>(end - begin + 1), 0);
                for (const Reached& reached : local.reached) ++local.place[reached.row - begin + 1];
                for (size_t i = 1; i < local.place.size(); ++i) local.place[i] += local.place[i - 1];
                local.by_row.resize(local.reached.size());
                for (const Reached& reached : local.reached)
                    local.by_row[local.place[reached.row - begin]++] = reached;
                local.reached.clear();
                size_t at = 0;
                for (int64_t row = begin; row < end; ++row) {
                    for (; at < local.by_row.size() && local.by_row[at].row == row; ++at) {
                        const int64_t first = leaf_indptr_.data()[local.by_row[at].leaf];
                        const int64_t last = leaf_indptr_.data()[local.by_row[at].leaf + 1];
                        local.sums.add(labels + first, values + first, local.by_row[at].weight, last - first);
                    }
                    local.sums.take(local.found);
                    use(row, local.found);
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
    nb::class_<routed::LeafIndex>(m, "LeafIndex");
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
             nb::arg("n_threads"))
        .def("leaf_index", &RoutedPredictor::leaf_index)
        .def("label_importances", &RoutedPredictor::label_importances, nb::arg("index"), nb::arg("labels"),
             nb::arg("n_threads"))
        .def("explain", &RoutedPredictor::explain, nb::arg("index"), nb::arg("indptr"), nb::arg("indices"),
             nb::arg("data"), nb::arg("leaf_starts"), nb::arg("leaves"), nb::arg("starts"), nb::arg("labels"),
             nb::arg("offsets"), nb::arg("out").noconvert(), nb::arg("base").noconvert(),
             nb::arg("n_threads"));
}
