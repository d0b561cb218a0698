// Prediction with boosted trees: sums of the leaf vectors of a row, and its best labels.
//
// The model is read-only, so any number of threads may share it. The cost per row is O(trees · (depth + k)),
// independent of the number of labels: sums are in a small table of the labels in the row's leaves. Rows are
// processed in blocks, tree by tree, so that a tree's nodes stay in cache.
#include <cmath>
#include <cstring>

#include "sums.hpp"

namespace sparseleaf {
namespace {

// The nodes of all trees, validated on loading.
struct Trees {
    const int64_t* tree_offsets;  // first node of every tree, and the end
    const int32_t* feature;       // -1: a leaf
    const float* threshold;       // x <= threshold goes left
    const uint8_t* missing_left;
    const int32_t*
        child;  // left child, relative to the tree's first node; in a leaf, its index over all trees
    const int64_t* leaf_indptr;
    int64_t n_trees;
    const uint8_t* categorical;  // whether a feature is categorical; null if none is
    const uint8_t* sets;         // categories that go left, 256 bits each; a threshold is the index of a set
};

constexpr int64_t kSetBytes = 32;

// The entries of all leaves in the model's types: labels of 16 or 32 bits, values as float32 or as 16-bit
// integers with a scale per tree.
template <typename Label, typename Value>
struct Entries {
    const Label* labels;
    const Value* values;
    const float* scale;  // for 16-bit values

    float scale_of(int64_t tree) const {
        if constexpr (std::is_same_v<Value, float>)
            return 1.0f;
        else
            return scale[tree];
    }
};

// The leaf (index over all trees) of every row of a block in one tree. Four rows are interleaved to hide the
// latency of comparisons.
template <bool kMissing, bool kCategories>
void walk(const Trees& trees, int64_t tree, const float* X, int64_t width, int64_t n, int32_t* leaves,
          int64_t stride) {
    const int64_t first = trees.tree_offsets[tree];
    const int32_t* feature = trees.feature + first;
    const float* threshold = trees.threshold + first;
    const uint8_t* missing_left = trees.missing_left + first;
    const int32_t* child = trees.child + first;
    const auto step = [&](int32_t v, const float* x) {
        const float value = x[feature[v]];
        bool right = !(value <= threshold[v]);
        if constexpr (kCategories)
            if (trees.categorical[feature[v]]) {
                // unknown categories are treated as missing
                const bool known = value >= 0.0f && value < 8.0f * kSetBytes;
                const auto category = static_cast<int64_t>(known ? value : 0.0f);
                const uint8_t* set = trees.sets + static_cast<int64_t>(threshold[v]) * kSetBytes;
                right = known ? !((set[category >> 3] >> (category & 7)) & 1) : !missing_left[v];
            }
        if constexpr (kMissing)
            if (std::isnan(value)) right = !missing_left[v];
        return child[v] + static_cast<int32_t>(right);
    };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float* x = X + i * width;
        int32_t v[4] = {0, 0, 0, 0};
        for (;;) {
            bool moving = false;
            for (int j = 0; j < 4; ++j)
                if (feature[v[j]] >= 0) {
                    v[j] = step(v[j], x + j * width);
                    moving = true;
                }
            if (!moving) break;
        }
        for (int j = 0; j < 4; ++j) leaves[(i + j) * stride] = child[v[j]];
    }
    for (; i < n; ++i) {
        int32_t v = 0;
        while (feature[v] >= 0) v = step(v, X + i * width);
        leaves[i * stride] = child[v];
    }
}

constexpr int64_t kBlock = 64;

// Source of blocks of dense feature rows: a dense array, or filled from CSR.
struct Source {
    const float* dense = nullptr;
    const int64_t* indptr = nullptr;
    const int32_t* indices = nullptr;
    const float* data = nullptr;
    int64_t n_rows = 0, width = 0;

    const float* block(int64_t begin, int64_t n, std::vector<float>& buffer) const {
        if (dense) return dense + begin * width;
        if (buffer.empty()) buffer.assign(static_cast<size_t>(std::min(kBlock, n_rows) * width), 0.0f);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t e = indptr[begin + i]; e < indptr[begin + i + 1]; ++e) {
                require(indices[e] >= 0 && indices[e] < width,
                        "indices: a feature that the model does not have");
                buffer[i * width + indices[e]] += data[e];
            }
        return buffer.data();
    }

    void clear(int64_t begin, int64_t n, std::vector<float>& buffer) const {
        if (dense) return;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t e = indptr[begin + i]; e < indptr[begin + i + 1]; ++e)
                buffer[i * width + indices[e]] = 0.0f;
    }
};

// Calls use(first row, rows, leaves) for every block of rows, with leaves (rows, trees).
template <typename Use>
void each_block(const Trees& trees, const Source& source, bool missing, int n_threads, Use&& use) {
    struct Scratch {
        std::vector<int32_t> leaves;
        std::vector<float> buffer;
    };
    std::vector<Scratch> scratch(static_cast<size_t>(n_threads));
    auto* walk_tree = trees.categorical ? (missing ? walk<true, true> : walk<false, true>)
                                        : (missing ? walk<true, false> : walk<false, false>);
    const int64_t n_blocks = (source.n_rows + kBlock - 1) / kBlock;
    parallel_tasks(n_blocks, n_threads, [&](int64_t block, int thread) {
        Scratch& local = scratch[thread];
        const int64_t begin = block * kBlock, n = std::min(kBlock, source.n_rows - begin);
        const float* X = source.block(begin, n, local.buffer);
        local.leaves.resize(static_cast<size_t>(n * trees.n_trees));
        for (int64_t t = 0; t < trees.n_trees; ++t)
            walk_tree(trees, t, X, source.width, n, local.leaves.data() + t, trees.n_trees);
        source.clear(begin, n, local.buffer);
        use(begin, n, local.leaves.data(), thread);
    });
}

// Calls use(row, candidates) with the summed labels of every row, for trees [0, n_trees).
template <typename Label, typename Value, typename F>
void each_row(const Trees& trees, const Entries<Label, Value>& entries, const Source& source,
              int64_t n_labels, bool missing, int n_threads, F&& use) {
    struct Scratch {
        explicit Scratch(int64_t labels) : sums(labels) {}
        Sums sums;
        std::vector<Scored> candidates;
    };
    std::vector<std::unique_ptr<Scratch>> scratch(static_cast<size_t>(n_threads));
    each_block(trees, source, missing, n_threads,
               [&](int64_t begin, int64_t n, const int32_t* leaves, int thread) {
                   if (!scratch[thread]) scratch[thread] = std::make_unique<Scratch>(n_labels);
                   Scratch& local = *scratch[thread];
                   for (int64_t i = 0; i < n; ++i, leaves += trees.n_trees) {
                       for (int64_t t = 0; t < trees.n_trees; ++t) {
                           const int64_t first = trees.leaf_indptr[leaves[t]],
                                         last = trees.leaf_indptr[leaves[t] + 1];
                           local.sums.add(entries.labels + first, entries.values + first, entries.scale_of(t),
                                          last - first);
                       }
                       local.sums.take(local.candidates);
                       use(begin + i, local.candidates);
                   }
               });
}

// out[row] += the leaf vectors of the row, tree by tree. Leaves without labels have a value for each label.
template <typename Label, typename Value>
void add_dense(const Trees& trees, const Entries<Label, Value>& entries, const Source& source,
               bool all_labels, int64_t n_labels, bool missing, float* out, int n_threads) {
    each_block(trees, source, missing, n_threads, [&](int64_t begin, int64_t n, const int32_t* leaves, int) {
        for (int64_t i = 0; i < n; ++i, leaves += trees.n_trees) {
            float* row = out + (begin + i) * n_labels;
            for (int64_t t = 0; t < trees.n_trees; ++t) {
                const int64_t first = trees.leaf_indptr[leaves[t]],
                              size = trees.leaf_indptr[leaves[t] + 1] - first;
                const Value* values = entries.values + first;
                const float scale = entries.scale_of(t);
                if (all_labels)
                    for (int64_t j = 0; j < size; ++j) row[j] += scale * static_cast<float>(values[j]);
                else
                    for (int64_t j = 0; j < size; ++j) {
                        const auto label = static_cast<int64_t>(entries.labels[first + j]);
                        if (label < n_labels)  // a mapped file may have changed since validation
                            row[label] += scale * static_cast<float>(values[j]);
                    }
            }
        }
    });
}

}  // namespace

// Holds the model's arrays, so that calls pass only rows.
class Predictor {
  public:
    Predictor(In1<int64_t> tree_offsets, In1<int32_t> feature, In1<float> threshold,
              In1<uint8_t> missing_left, In1<int32_t> child, In1<int64_t> leaf_indptr, AnyIn1 leaf_labels,
              AnyIn1 leaf_values, In1<float> value_scale, In1<uint8_t> categorical, In2<uint8_t> sets,
              int64_t n_features, int64_t n_labels)
        : tree_offsets_(tree_offsets),
          feature_(feature),
          threshold_(threshold),
          missing_left_(missing_left),
          child_(child),
          leaf_indptr_(leaf_indptr),
          leaf_labels_(leaf_labels),
          leaf_values_(leaf_values),
          value_scale_(value_scale),
          categorical_(categorical),
          sets_(sets),
          n_features_(n_features),
          n_labels_(n_labels) {
        check();
    }

    void topk(In2<float> X, int64_t n_trees, bool missing, Out2<int32_t> labels, Out2<float> scores,
              int n_threads) const {
        run_topk(dense_source(X), n_trees, missing, labels, scores, n_threads);
    }

    void topk_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees, bool missing,
                  Out2<int32_t> labels, Out2<float> scores, int n_threads) const {
        run_topk(csr_source(indptr, indices, data), n_trees, missing, labels, scores, n_threads);
    }

    nb::tuple scores(In2<float> X, int64_t n_trees, bool missing, int n_threads) const {
        return run_scores(dense_source(X), n_trees, missing, n_threads);
    }

    nb::tuple scores_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees,
                         bool missing, int n_threads) const {
        return run_scores(csr_source(indptr, indices, data), n_trees, missing, n_threads);
    }

    // out (rows, labels) += the leaves of every row.
    void dense(In2<float> X, int64_t n_trees, bool missing, Out2<float> out, int n_threads) const {
        run_dense(dense_source(X), n_trees, missing, out, n_threads);
    }

    void dense_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees, bool missing,
                   Out2<float> out, int n_threads) const {
        run_dense(csr_source(indptr, indices, data), n_trees, missing, out, n_threads);
    }

    // out (rows, trees) = the leaf of every row in every tree, numbered over all trees.
    void apply(In2<float> X, int64_t n_trees, bool missing, Out2<int32_t> out, int n_threads) const {
        run_apply(dense_source(X), n_trees, missing, out, n_threads);
    }

    void apply_csr(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_trees, bool missing,
                   Out2<int32_t> out, int n_threads) const {
        run_apply(csr_source(indptr, indices, data), n_trees, missing, out, n_threads);
    }

  private:
    // Validates everything that traversal relies on: model files are untrusted.
    void check() const {
        const int64_t n_nodes = static_cast<int64_t>(feature_.size());
        const int64_t n_trees = static_cast<int64_t>(tree_offsets_.size()) - 1;
        const int64_t n_leaves = static_cast<int64_t>(leaf_indptr_.size()) - 1;
        require(n_trees >= 0 && tree_offsets_.data()[0] == 0 && tree_offsets_.data()[n_trees] == n_nodes,
                "tree_offsets must start at 0 and end at the number of nodes");
        require(threshold_.size() == feature_.size() && missing_left_.size() == feature_.size() &&
                    child_.size() == feature_.size(),
                "feature, threshold, missing_left and child must have one entry per node");
        require(n_leaves >= 0 && leaf_indptr_.data()[0] == 0 &&
                    leaf_indptr_.data()[n_leaves] == static_cast<int64_t>(leaf_values_.size()) &&
                    (all_labels() || leaf_labels_.size() == leaf_values_.size()),
                "leaf_indptr must start at 0 and end at the number of leaf entries");
        require(categorical_.size() == 0 || static_cast<int64_t>(categorical_.size()) == n_features_,
                "categorical must be empty or have one entry per feature");
        require(static_cast<int64_t>(sets_.shape(1)) == kSetBytes, "sets must have 32 bytes each");
        require(n_features_ >= 0 && n_labels_ >= 0 && n_labels_ <= 0x7fffffff, "sizes must not be negative");
        GilRelease release;
        for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
            require(leaf_indptr_.data()[leaf] <= leaf_indptr_.data()[leaf + 1],
                    "leaf_indptr must not decrease");
        if (all_labels())
            for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
                require(leaf_indptr_.data()[leaf + 1] - leaf_indptr_.data()[leaf] == n_labels_,
                        "leaf_indptr: without labels, leaves must have a value per label");
        with_entries([&](auto entries) {
            for (size_t e = 0; e < leaf_labels_.size(); ++e) {
                const auto label = static_cast<int64_t>(entries.labels[e]);
                require(label >= 0 && label < n_labels_, "leaf_labels: no such label");
            }
            for (size_t e = 0; e < leaf_values_.size(); ++e) {
                require(std::isfinite(static_cast<float>(entries.values[e])), "leaf_values must be finite");
            }
            if constexpr (!std::is_same_v<decltype(entries.values), const float*>)
                require(static_cast<int64_t>(value_scale_.size()) == n_trees,
                        "value_scale must have one entry per tree");
        });
        for (size_t t = 0; t < value_scale_.size(); ++t)
            require(std::isfinite(value_scale_.data()[t]), "value_scale must be finite");
        int64_t next_leaf = 0;
        for (int64_t t = 0; t < n_trees; ++t) {
            const int64_t first = tree_offsets_.data()[t], end = tree_offsets_.data()[t + 1];
            require(first < end && end <= n_nodes, "tree_offsets: every tree needs a node");
            const int64_t size = end - first;
            for (int64_t v = 0; v < size; ++v) {
                const int32_t f = feature_.data()[first + v], c = child_.data()[first + v];
                if (f < 0) {
                    // each leaf has one node, so that the cost per row is bounded by the model size
                    require(f == -1 && c == next_leaf && c < n_leaves,
                            "child: leaves must be numbered 0, 1, 2, ...");
                    ++next_leaf;
                } else {
                    require(f < n_features_, "feature: a column that does not exist");
                    // children come after their parent, so that traversal terminates
                    require(c > v && c < size - 1, "child: must come after its parent, within the tree");
                    const float threshold = threshold_.data()[first + v];
                    require(!std::isnan(threshold), "threshold must be a number");
                    const bool unordered = categorical_.size() > 0 && categorical_.data()[f];
                    require(
                        !unordered || (threshold >= 0.0f && threshold < static_cast<float>(sets_.shape(0)) &&
                                       threshold == std::floor(threshold)),
                        "threshold: no such set of categories");
                }
            }
        }
        require(next_leaf == n_leaves, "leaf_indptr: a leaf that no node has");
    }

    Source dense_source(const In2<float>& X) const {
        require(static_cast<int64_t>(X.shape(1)) == n_features_,
                "X: columns differ from the model's features");
        Source source;
        source.dense = X.data();
        source.n_rows = static_cast<int64_t>(X.shape(0));
        source.width = n_features_;
        return source;
    }

    Source csr_source(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data) const {
        require(indices.size() == data.size(), "indices, data: same size");
        require_indptr(indptr, data.size());
        Source source;
        source.indptr = indptr.data();
        source.indices = indices.data();
        source.data = data.data();
        source.n_rows = static_cast<int64_t>(indptr.size()) - 1;
        source.width = n_features_;
        return source;
    }

    Trees trees(int64_t n_trees) const {
        require(n_trees >= 0 && n_trees < static_cast<int64_t>(tree_offsets_.size()),
                "n_trees: more than the model has");
        return {tree_offsets_.data(),
                feature_.data(),
                threshold_.data(),
                missing_left_.data(),
                child_.data(),
                leaf_indptr_.data(),
                n_trees,
                categorical_.size() ? categorical_.data() : nullptr,
                sets_.data()};
    }

    // Whether leaves have a value for every label, so that labels are not stored.
    bool all_labels() const { return leaf_labels_.size() == 0 && leaf_values_.size() > 0; }

    void run_dense(const Source& source, int64_t n_trees, bool missing, const Out2<float>& out,
                   int n_threads) const {
        require(static_cast<int64_t>(out.shape(0)) == source.n_rows &&
                    static_cast<int64_t>(out.shape(1)) == n_labels_,
                "out: (rows, labels)");
        const Trees used = trees(n_trees);
        GilRelease release;
        with_entries([&](auto entries) {
            add_dense(used, entries, source, all_labels(), n_labels_, missing, out.data(), n_threads);
        });
    }

    void run_apply(const Source& source, int64_t n_trees, bool missing, const Out2<int32_t>& out,
                   int n_threads) const {
        require(static_cast<int64_t>(out.shape(0)) == source.n_rows &&
                    static_cast<int64_t>(out.shape(1)) == n_trees,
                "out: (rows, trees)");
        const Trees used = trees(n_trees);
        GilRelease release;
        each_block(used, source, missing, n_threads,
                   [&](int64_t begin, int64_t n, const int32_t* leaves, int) {
                       std::copy(leaves, leaves + n * n_trees, out.data() + begin * n_trees);
                   });
    }

    // Calls f with the entries in the model's types.
    template <typename F>
    void with_entries(F&& f) const {
        const auto with_labels = [&](auto label) {
            using Label = decltype(label);
            const auto* labels = static_cast<const Label*>(leaf_labels_.data());
            if (leaf_values_.dtype() == nb::dtype<float>())
                f(Entries<Label, float>{labels, static_cast<const float*>(leaf_values_.data()), nullptr});
            else if (leaf_values_.dtype() == nb::dtype<int16_t>())
                f(Entries<Label, int16_t>{labels, static_cast<const int16_t*>(leaf_values_.data()),
                                          value_scale_.data()});
            else
                throw std::invalid_argument("leaf_values must be float32 or int16");
        };
        if (leaf_labels_.dtype() == nb::dtype<uint16_t>())
            with_labels(uint16_t{});
        else if (leaf_labels_.dtype() == nb::dtype<uint32_t>())
            with_labels(uint32_t{});
        else
            throw std::invalid_argument("leaf_labels must be uint16 or uint32");
    }

    void run_topk(const Source& source, int64_t n_trees, bool missing, const Out2<int32_t>& labels,
                  const Out2<float>& scores, int n_threads) const {
        const int64_t k = static_cast<int64_t>(labels.shape(1));
        require(!all_labels(), "leaves without labels have dense scores only");
        require(static_cast<int64_t>(labels.shape(0)) == source.n_rows &&
                    labels.shape(0) == scores.shape(0) && labels.shape(1) == scores.shape(1),
                "labels, scores: (rows, k)");
        const Trees used = trees(n_trees);
        GilRelease release;
        with_entries([&](auto entries) {
            each_row(used, entries, source, n_labels_, missing, n_threads,
                     [&](int64_t row, std::vector<Scored>& candidates) {
                         write_topk(candidates, k, labels.data() + row * k, scores.data() + row * k);
                     });
        });
    }

    // All sums as CSR: (indptr int64, labels int32 sorted in every row, scores float32).
    nb::tuple run_scores(const Source& source, int64_t n_trees, bool missing, int n_threads) const {
        require(!all_labels(), "leaves without labels have dense scores only");
        const Trees used = trees(n_trees);
        const auto n = static_cast<size_t>(source.n_rows);
        std::unique_ptr<int64_t[]> indptr(new int64_t[n + 1]);
        std::unique_ptr<int32_t[]> labels;
        std::unique_ptr<float[]> values;
        {
            GilRelease release;
            std::vector<std::vector<Scored>> rows(n);
            with_entries([&](auto entries) {
                each_row(used, entries, source, n_labels_, missing, n_threads,
                         [&](int64_t row, std::vector<Scored>& candidates) {
                             rows[row] = candidates;
                             std::sort(rows[row].begin(), rows[row].end(),
                                       [](const Scored& a, const Scored& b) { return a.label < b.label; });
                         });
            });
            indptr[0] = 0;
            for (size_t i = 0; i < n; ++i) indptr[i + 1] = indptr[i] + static_cast<int64_t>(rows[i].size());
            labels.reset(new int32_t[static_cast<size_t>(indptr[n])]);
            values.reset(new float[static_cast<size_t>(indptr[n])]);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < rows[i].size(); ++j) {
                    labels[indptr[i] + static_cast<int64_t>(j)] = rows[i][j].label;
                    values[indptr[i] + static_cast<int64_t>(j)] = rows[i][j].score;
                }
        }
        const auto size = static_cast<size_t>(indptr[n]);
        return nb::make_tuple(to_numpy(std::move(indptr), n + 1), to_numpy(std::move(labels), size),
                              to_numpy(std::move(values), size));
    }

    In1<int64_t> tree_offsets_;
    In1<int32_t> feature_;
    In1<float> threshold_;
    In1<uint8_t> missing_left_;
    In1<int32_t> child_;
    In1<int64_t> leaf_indptr_;
    AnyIn1 leaf_labels_, leaf_values_;
    In1<float> value_scale_;
    In1<uint8_t> categorical_;
    In2<uint8_t> sets_;
    int64_t n_features_, n_labels_;
};

}  // namespace sparseleaf

void bind_predict(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<Predictor>(m, "Predictor")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, In1<uint8_t>, In1<int32_t>, In1<int64_t>,
                      AnyIn1, AnyIn1, In1<float>, In1<uint8_t>, In2<uint8_t>, int64_t, int64_t>(),
             nb::arg("tree_offsets"), nb::arg("feature"), nb::arg("threshold"), nb::arg("missing_left"),
             nb::arg("child"), nb::arg("leaf_indptr"), nb::arg("leaf_labels"), nb::arg("leaf_values"),
             nb::arg("value_scale"), nb::arg("categorical"), nb::arg("sets"), nb::arg("n_features"),
             nb::arg("n_labels"))
        .def("topk", &Predictor::topk, nb::arg("X"), nb::arg("n_trees"), nb::arg("missing"),
             nb::arg("labels").noconvert(), nb::arg("scores").noconvert(), nb::arg("n_threads"))
        .def("topk_csr", &Predictor::topk_csr, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("missing"), nb::arg("labels").noconvert(),
             nb::arg("scores").noconvert(), nb::arg("n_threads"))
        .def("dense", &Predictor::dense, nb::arg("X"), nb::arg("n_trees"), nb::arg("missing"),
             nb::arg("out").noconvert(), nb::arg("n_threads"))
        .def("dense_csr", &Predictor::dense_csr, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("missing"), nb::arg("out").noconvert(), nb::arg("n_threads"))
        .def("apply", &Predictor::apply, nb::arg("X"), nb::arg("n_trees"), nb::arg("missing"),
             nb::arg("out").noconvert(), nb::arg("n_threads"))
        .def("apply_csr", &Predictor::apply_csr, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("missing"), nb::arg("out").noconvert(), nb::arg("n_threads"))
        .def("scores", &Predictor::scores, nb::arg("X"), nb::arg("n_trees"), nb::arg("missing"),
             nb::arg("n_threads"))
        .def("scores_csr", &Predictor::scores_csr, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("n_trees"), nb::arg("missing"), nb::arg("n_threads"));
}
