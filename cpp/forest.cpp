// Splits nodes of SketchForest trees: k-means clusters the rows by a sketch of their labels, and a linear
// router separates the clusters' mean rows.
//
// The labels of a node's rows are hashed with signs into a few columns (a count sketch), and balanced k-means
// clusters the rows' sketches (of a sample, in a large node). The router of child j is the difference of the
// mean rows of clusters j and 0, on the features with the largest differences; its bias is the midpoint, so
// that a row goes to the nearest mean. Rows are then routed with exactly the sums of prediction.
//
// With row weights, clusters have equal weight instead of equal size, and means are weighted.
//
// No cost per node is O(features) or O(labels): tables are allocated once per thread, and only touched
// entries are cleared. Nodes are independent, so results do not depend on threads.
#include <nanobind/stl/optional.h>

#include <cmath>
#include <numeric>

#include "common.hpp"
#include "router.hpp"

namespace sparseleaf {
namespace {

constexpr int kMaxArity = 16;
constexpr int kStarts = 8;  // candidate rows for another initial centre, of which the farthest is taken
constexpr float kLargest = 127.0f;  // of an 8-bit weight
constexpr uint64_t kStartDraw = 1, kFeatureDraw = 2;

struct ForestSettings {
    int arity, sketch_dim, rounds;
    int64_t sample_rows;     // maximum number of rows for k-means
    int64_t router_weights;  // maximum number of features of a router
    double weights_per_row;  // maximum number of weights per row of the node
    double max_features;     // fraction of the features sampled for a node
    int64_t min_samples_leaf;
};

struct Data {
    const int64_t* x_indptr;
    const int32_t* x_indices;
    const float* x_data;
    RowView view;
    const int64_t* y_indptr;
    const int32_t* y_indices;
    const float* label_weights;
    const float* row_weights;  // null: all 1

    float weight(int32_t row) const { return row_weights ? row_weights[row] : 1.0f; }
};

struct SplitNode {
    bool split = false;
    std::vector<int32_t> features;  // increasing
    std::vector<int8_t> weights;    // (features, arity - 1)
    float scale = 1.0f;
    std::vector<float> bias;      // (arity - 1)
    std::vector<int32_t> rows;    // in order of child
    std::vector<int64_t> counts;  // rows of every child
};

// Buffers of one thread, reused for all nodes.
struct Workspace {
    Workspace(int64_t n_features, int arity)
        : table(static_cast<size_t>(n_features * arity), 0.0f), seen(static_cast<size_t>(n_features), 0) {}

    std::vector<float> table;  // (features, arity): sums of the clusters' rows, then the router's weights
    std::vector<uint8_t> seen;
    std::vector<int32_t> touched;
    std::vector<float> sketches, centres, closeness, margins;
    std::vector<double> cumulative;
    std::vector<int32_t> sample, order;
    std::vector<uint8_t> sample_part, part;
    std::vector<std::pair<float, int32_t>> kept;
};

class NodeSplitter {
  public:
    NodeSplitter(const Data& data, const ForestSettings& settings, Workspace& work)
        : data_(data), settings_(settings), work_(work), M_(settings.arity), C_(settings.arity - 1) {}

    SplitNode run(const int32_t* rows, int64_t n, uint64_t key) {
        rows_ = rows;
        n_ = n;
        key_ = key;
        SplitNode out;
        if (part_rows() && learn(out)) assign(out);
        return out;
    }

  private:
    // The normalised label sketch of a row.
    void sketch(int32_t row, float* out) const {
        const int m = settings_.sketch_dim;
        std::fill_n(out, m, 0.0f);
        for (int64_t e = data_.y_indptr[row]; e < data_.y_indptr[row + 1]; ++e) {
            const int32_t label = data_.y_indices[e];
            const uint64_t hash = mix64(key_ ^ static_cast<uint64_t>(label));
            const float weight = data_.label_weights[label];
            out[(hash >> 1) % static_cast<uint64_t>(m)] += hash & 1 ? weight : -weight;
        }
        shorten(out, m);
    }

    static void shorten(float* v, int m) {
        float squares = 0.0f;
        for (int c = 0; c < m; ++c) squares += v[c] * v[c];
        if (!(squares > 0.0f)) return;
        const float length = std::sqrt(squares);
        for (int c = 0; c < m; ++c) v[c] /= length;
    }

    float close(const float* a, const float* b) const {
        float sum = 0.0f;
        for (int c = 0; c < settings_.sketch_dim; ++c) sum += a[c] * b[c];
        return sum;
    }

    // Clusters the rows by balanced k-means; false if all sketches are equal.
    bool part_rows() {
        const int m = settings_.sketch_dim;
        const int64_t s = std::min(n_, settings_.sample_rows);
        draw_sample(s);
        work_.sketches.resize(static_cast<size_t>(s * m));
        bool same = true;
        for (int64_t i = 0; i < s; ++i) {
            float* row_sketch = work_.sketches.data() + i * m;
            sketch(work_.sample[i], row_sketch);
            same = same && std::equal(row_sketch, row_sketch + m, work_.sketches.data());
        }
        if (same) return false;
        start(s);
        work_.sample_part.resize(static_cast<size_t>(s));
        work_.part.resize(static_cast<size_t>(n_));
        float middle = 0.0f;
        for (int round = 0; round < settings_.rounds; ++round) {
            if (round) recentre(s);
            middle = M_ == 2 ? halve(s) : share_out(s);
        }
        if (s == n_) {
            std::copy(work_.sample_part.begin(), work_.sample_part.end(), work_.part.begin());
            return true;
        }
        std::vector<float> row_sketch(static_cast<size_t>(m));
        for (int64_t i = 0; i < n_; ++i) {
            sketch(rows_[i], row_sketch.data());
            work_.part[i] = static_cast<uint8_t>(nearest(row_sketch.data(), middle, i));
        }
        return true;
    }

    // The rows for k-means: all, or a sample with replacement, in proportion to the row weights. The rows of
    // a sample have equal weight.
    void draw_sample(int64_t s) {
        work_.sample.resize(static_cast<size_t>(s));
        weighted_ = data_.row_weights && s == n_;
        if (s == n_) {
            std::copy_n(rows_, n_, work_.sample.begin());
            return;
        }
        if (!data_.row_weights) {
            for (int64_t i = 0; i < s; ++i)
                work_.sample[i] = rows_[mix64(key_ ^ static_cast<uint64_t>(i)) % static_cast<uint64_t>(n_)];
            return;
        }
        work_.cumulative.resize(static_cast<size_t>(n_));
        double total = 0.0;
        for (int64_t i = 0; i < n_; ++i) work_.cumulative[i] = total += data_.weight(rows_[i]);
        for (int64_t i = 0; i < s; ++i) {
            const double at =
                static_cast<double>(mix64(key_ ^ static_cast<uint64_t>(i)) >> 11) * 0x1.0p-53 * total;
            const auto above = std::upper_bound(work_.cumulative.begin(), work_.cumulative.end(), at);
            work_.sample[i] = rows_[std::min<int64_t>(above - work_.cumulative.begin(), n_ - 1)];
        }
    }

    // The weight of a row of the sample.
    double sample_weight(int64_t i) const { return weighted_ ? data_.weight(work_.sample[i]) : 1.0; }

    double total_weight(int64_t s) const {
        if (!weighted_) return static_cast<double>(s);
        double total = 0.0;
        for (int64_t i = 0; i < s; ++i) total += sample_weight(i);
        return total;
    }

    // The cluster of a row outside the sample; `middle` is the boundary between the halves of the sample.
    int nearest(const float* row_sketch, float middle, int64_t i) const {
        const float* centres = work_.centres.data();
        const int m = settings_.sketch_dim;
        if (M_ == 2) {
            const float d = close(row_sketch, centres + m) - close(row_sketch, centres);
            return d > middle || (d == middle && (mix64(key_ ^ static_cast<uint64_t>(i)) & 1));
        }
        int best = 0;
        float most = close(row_sketch, centres);
        for (int j = 1; j < M_; ++j)
            if (const float d = close(row_sketch, centres + j * m); d > most) {
                most = d;
                best = j;
            }
        return best;
    }

    // Initial centres: a random row, then each time the farthest of a few random rows.
    void start(int64_t s) {
        const int m = settings_.sketch_dim;
        work_.centres.resize(static_cast<size_t>(M_ * m));
        uint64_t draw = mix64(key_ ^ kStartDraw);
        const auto pick = [&] {
            draw = mix64(draw);
            return static_cast<int64_t>(draw % static_cast<uint64_t>(s));
        };
        for (int j = 0; j < M_; ++j) {
            int64_t chosen = pick();
            float least = 0.0f;
            for (int t = 0; j > 0 && t < kStarts; ++t) {
                const int64_t i = pick();
                float most = -2.0f;
                for (int l = 0; l < j; ++l)
                    most = std::max(most, close(work_.sketches.data() + i * m, work_.centres.data() + l * m));
                if (t == 0 || most < least) {
                    least = most;
                    chosen = i;
                }
            }
            std::copy_n(work_.sketches.data() + chosen * m, m, work_.centres.data() + j * m);
        }
    }

    // Two halves by difference of the similarities to two centres (ties: random); returns the boundary.
    float halve(int64_t s) {
        const int m = settings_.sketch_dim;
        work_.closeness.resize(static_cast<size_t>(s));
        work_.order.resize(static_cast<size_t>(s));
        std::iota(work_.order.begin(), work_.order.end(), 0);
        for (int64_t i = 0; i < s; ++i) {
            const float* row_sketch = work_.sketches.data() + i * m;
            work_.closeness[i] =
                close(row_sketch, work_.centres.data() + m) - close(row_sketch, work_.centres.data());
        }
        const auto before = [&](int32_t a, int32_t b) {
            const float x = work_.closeness[a], y = work_.closeness[b];
            return x != y ? x < y : shuffled(a) < shuffled(b);
        };
        int64_t half = s / 2;
        if (weighted_) {
            std::sort(work_.order.begin(), work_.order.end(), before);
            const double total = total_weight(s);
            double left = sample_weight(work_.order[0]);
            half = 1;
            while (half < s - 1 && 2.0 * left + sample_weight(work_.order[half]) < total)
                left += sample_weight(work_.order[half++]);
        } else {
            std::nth_element(work_.order.begin(), work_.order.begin() + half, work_.order.end(), before);
        }
        for (int64_t i = 0; i < s; ++i) work_.sample_part[work_.order[i]] = i >= half;
        return work_.closeness[work_.order[half]];
    }

    uint64_t shuffled(int32_t i) const { return mix64(key_ ^ static_cast<uint64_t>(i)); }

    // Clusters of equal size: rows with the most to lose are assigned first.
    float share_out(int64_t s) {
        const int m = settings_.sketch_dim;
        work_.closeness.resize(static_cast<size_t>(s * M_));
        work_.order.resize(static_cast<size_t>(s));
        std::iota(work_.order.begin(), work_.order.end(), 0);
        std::vector<float> urgency(static_cast<size_t>(s));
        for (int64_t i = 0; i < s; ++i) {
            float most = -2.0f, second = -2.0f;
            for (int j = 0; j < M_; ++j) {
                const float d = close(work_.sketches.data() + i * m, work_.centres.data() + j * m);
                work_.closeness[i * M_ + j] = d;
                second = std::max(second, std::min(most, d));
                most = std::max(most, d);
            }
            urgency[i] = most - second;
        }
        std::sort(work_.order.begin(), work_.order.end(), [&](int32_t a, int32_t b) {
            return urgency[a] != urgency[b] ? urgency[a] > urgency[b] : shuffled(a) < shuffled(b);
        });
        double room[kMaxArity];
        std::fill_n(room, M_, weighted_ ? total_weight(s) / M_ : static_cast<double>((s + M_ - 1) / M_));
        for (const int32_t i : work_.order) {
            const float* similarities = work_.closeness.data() + static_cast<int64_t>(i) * M_;
            int best = -1;
            for (int j = 0; j < M_; ++j)
                if (room[j] > 0.0 && (best < 0 || similarities[j] > similarities[best])) best = j;
            if (best < 0) best = static_cast<int>(std::max_element(room, room + M_) - room);  // rounding
            room[best] -= sample_weight(i);
            work_.sample_part[i] = static_cast<uint8_t>(best);
        }
        return 0.0f;
    }

    void recentre(int64_t s) {
        const int m = settings_.sketch_dim;
        std::fill(work_.centres.begin(), work_.centres.end(), 0.0f);
        for (int64_t i = 0; i < s; ++i) {
            const auto weight = static_cast<float>(sample_weight(i));
            for (int c = 0; c < m; ++c)
                work_.centres[work_.sample_part[i] * m + c] += weight * work_.sketches[i * m + c];
        }
        for (int j = 0; j < M_; ++j) shorten(work_.centres.data() + j * m, m);
    }

    // The router between the clusters' mean rows; false if these are equal.
    bool learn(SplitNode& out) {
        add_up();
        auto& kept = work_.kept;
        kept.clear();
        const bool all = settings_.max_features >= 1.0;
        // 2^64 is no number of 64 bits; the largest double below it is
        const auto limit = static_cast<uint64_t>(settings_.max_features * 18446744073709549568.0);
        for (const int32_t f : work_.touched) {
            const float* mean = line(f);
            const auto [low, high] = std::minmax_element(mean, mean + M_);
            const float spread = *high - *low;
            if (spread > 0.0f && std::isfinite(spread) &&
                (all || mix64(mix64(key_ ^ kFeatureDraw) ^ static_cast<uint64_t>(f)) < limit))
                kept.push_back({spread, f});
        }
        const double most = std::min(static_cast<double>(settings_.router_weights),
                                     std::ceil(settings_.weights_per_row * static_cast<double>(n_)));
        if (static_cast<double>(kept.size()) > most) {
            const auto end = kept.begin() + static_cast<int64_t>(most);
            std::nth_element(kept.begin(), end, kept.end(), [](const auto& a, const auto& b) {
                return a.first != b.first ? a.first > b.first : a.second < b.second;
            });
            kept.erase(end, kept.end());
        }
        std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
        float largest = 0.0f;
        for (const auto& [spread, f] : kept)
            for (int j = 1; j < M_; ++j) largest = std::max(largest, std::abs(line(f)[j] - line(f)[0]));
        out.scale = largest / kLargest;
        std::vector<double> bias(static_cast<size_t>(C_), 0.0);
        if (out.scale > 0.0f && std::isfinite(out.scale))
            for (const auto& [spread, f] : kept) {
                const float* mean = line(f);
                out.features.push_back(f);
                for (int c = 0; c < C_; ++c) {
                    const float weight =
                        std::clamp(std::rint((mean[c + 1] - mean[0]) / out.scale), -kLargest, kLargest);
                    out.weights.push_back(static_cast<int8_t>(weight));
                    bias[c] -= 0.5 * static_cast<double>(weight) *
                               (static_cast<double>(mean[c + 1]) + static_cast<double>(mean[0]));
                }
            }
        for (const int32_t f : work_.touched) {
            std::fill_n(line(f), M_, 0.0f);
            work_.seen[f] = 0;
        }
        for (const double b : bias) out.bias.push_back(static_cast<float>(b * out.scale));
        return !out.features.empty();
    }

    // Writes the clusters' mean rows to the table.
    void add_up() {
        double sizes[kMaxArity] = {};
        work_.touched.clear();
        for (int64_t i = 0; i < n_; ++i) {
            const int j = work_.part[i];
            const float weight = data_.weight(rows_[i]);
            sizes[j] += weight;
            each_entry(rows_[i], [&](int32_t f, float x) {
                if (!work_.seen[f]) {
                    work_.seen[f] = 1;
                    work_.touched.push_back(f);
                }
                line(f)[j] += weight * x;
            });
        }
        for (const int32_t f : work_.touched)
            for (int j = 0; j < M_; ++j) line(f)[j] /= static_cast<float>(sizes[j] > 0.0 ? sizes[j] : 1.0);
    }

    template <typename F>
    void each_entry(int32_t row, F&& use) const {
        const int64_t begin = data_.x_indptr[row], end = data_.x_indptr[row + 1];
        const float scale = data_.view.row_scale(data_.x_indices, data_.x_data, begin, end);
        for (int64_t e = begin; e < end; ++e)
            use(data_.x_indices[e], scale * data_.view.weighted(data_.x_indices[e], data_.x_data[e]));
    }

    float* line(int32_t f) const { return work_.table.data() + static_cast<int64_t>(f) * M_; }

    // Routes every row as prediction would.
    void assign(SplitNode& out) {
        for (size_t e = 0; e < out.features.size(); ++e)
            for (int c = 0; c < C_; ++c) line(out.features[e])[c] = out.weights[e * C_ + c];
        work_.margins.resize(static_cast<size_t>(n_ * C_));
        for (int64_t i = 0; i < n_; ++i) {
            float* z = work_.margins.data() + i * C_;
            std::fill_n(z, C_, 0.0f);
            each_entry(rows_[i], [&](int32_t f, float x) {
                const float* weights = line(f);
                for (int c = 0; c < C_; ++c) z[c] += weights[c] * x;
            });
            for (int c = 0; c < C_; ++c) z[c] *= out.scale;
        }
        for (const int32_t f : out.features) std::fill_n(line(f), M_, 0.0f);
        if (send(out) || M_ > 2) return;
        // if the midpoint leaves a child too small, use the median
        auto& z = work_.closeness;
        z.assign(work_.margins.begin(), work_.margins.end());
        std::nth_element(z.begin(), z.begin() + n_ / 2, z.end());
        const float high = z[n_ / 2], low = *std::max_element(z.begin(), z.begin() + n_ / 2);
        out.bias[0] = -(low + 0.5f * (high - low));
        send(out);
    }

    bool send(SplitNode& out) {
        out.counts.assign(static_cast<size_t>(M_), 0);
        float z[kMaxArity];
        out.split = true;
        for (int c = 0; c < C_; ++c) out.split &= std::isfinite(out.bias[c]);
        for (int64_t i = 0; i < n_; ++i) {
            for (int c = 0; c < C_; ++c) z[c] = work_.margins[i * C_ + c] + out.bias[c];
            work_.part[i] = static_cast<uint8_t>(best_child(z, M_));
            ++out.counts[work_.part[i]];
        }
        for (const int64_t size : out.counts) out.split &= size >= settings_.min_samples_leaf;
        if (!out.split) return false;
        int64_t at[kMaxArity] = {};
        for (int j = 1; j < M_; ++j) at[j] = at[j - 1] + out.counts[j - 1];
        out.rows.resize(static_cast<size_t>(n_));
        for (int64_t i = 0; i < n_; ++i) out.rows[at[work_.part[i]]++] = rows_[i];
        return true;
    }

    const Data& data_;
    const ForestSettings& settings_;
    Workspace& work_;
    const int M_, C_;
    const int32_t* rows_ = nullptr;
    int64_t n_ = 0;
    uint64_t key_ = 0;
    bool weighted_ = false;  // whether the rows of the sample have weights
};

}  // namespace

// The training rows, and the buffers of every thread.
class SketchSplitter {
  public:
    SketchSplitter(In1<int64_t> x_indptr, In1<int32_t> x_indices, In1<float> x_data,
                   In1<float> feature_weights, bool unit_rows, In1<int64_t> y_indptr, In1<int32_t> y_indices,
                   In1<float> label_weights, int64_t n_features, int arity, int sketch_dim, int rounds,
                   int64_t sample_rows, int64_t router_weights, double weights_per_row, double max_features,
                   int64_t min_samples_leaf, int n_threads, std::optional<In1<float>> row_weights)
        : x_indptr_(x_indptr),
          x_indices_(x_indices),
          x_data_(x_data),
          feature_weights_(feature_weights),
          unit_rows_(unit_rows),
          y_indptr_(y_indptr),
          y_indices_(y_indices),
          label_weights_(label_weights),
          row_weights_(std::move(row_weights)),
          n_features_(n_features),
          settings_{arity,          sketch_dim,      rounds,       sample_rows,
                    router_weights, weights_per_row, max_features, min_samples_leaf} {
        require(arity >= 2 && arity <= kMaxArity, "arity: 2 to 16");
        require(sketch_dim >= 1 && rounds >= 1 && sample_rows >= 1 && router_weights >= 1 && n_threads >= 1,
                "sketch_dim, rounds, sample_rows, router_weights, n_threads: at least 1");
        require(weights_per_row > 0.0, "weights_per_row: more than 0");
        require(max_features > 0.0 && max_features <= 1.0, "max_features: more than 0, at most 1");
        require(min_samples_leaf >= 1, "min_samples_leaf: at least 1");
        require_labelled_rows(x_indptr, x_indices, x_data, n_features, y_indptr, y_indices,
                              static_cast<int64_t>(label_weights.size()));
        require(feature_weights.size() == 0 || static_cast<int64_t>(feature_weights.size()) == n_features,
                "feature_weights: must be empty or have one entry per feature");
        if (row_weights_)
            require_weights(*row_weights_, static_cast<int64_t>(x_indptr.size()) - 1,
                            "row_weights: must be one positive number per row");
        work_.resize(static_cast<size_t>(n_threads));
    }
    SketchSplitter(const SketchSplitter&) = delete;

    // Splits nodes. Returns, over all nodes: (split uint8, router sizes int64, features int32, weights int8
    // (entries × (arity
    // - 1)), scale float32, bias float32 (nodes × (arity - 1)), rows int32, counts int64 (nodes × arity)). A
    // node that is not split has no router and keeps its rows as they were.
    nb::tuple split(In1<int32_t> rows, In1<int64_t> offsets, In1<uint64_t> keys) {
        require_nodes(rows, offsets, keys, static_cast<int64_t>(x_indptr_.size()) - 1);
        const size_t n = keys.size(), M = static_cast<size_t>(settings_.arity), C = M - 1;
        std::unique_ptr<uint8_t[]> split(new uint8_t[n]);
        std::unique_ptr<int64_t[]> sizes(new int64_t[n]), counts(new int64_t[n * M]());
        std::unique_ptr<float[]> scale(new float[n]), bias(new float[n * C]());
        std::unique_ptr<int32_t[]> features, out_rows(new int32_t[rows.size()]);
        std::unique_ptr<int8_t[]> weights;
        size_t entries = 0;
        {
            GilRelease release;
            std::vector<SplitNode> nodes = split_all(rows.data(), offsets.data(), keys.data(), n);
            for (const SplitNode& node : nodes)
                if (node.split) entries += node.features.size();
            features.reset(new int32_t[entries]);
            weights.reset(new int8_t[entries * C]);
            size_t at = 0;
            for (size_t i = 0; i < n; ++i) {
                const SplitNode& node = nodes[i];
                const int64_t first = offsets.data()[i], last = offsets.data()[i + 1];
                split[i] = node.split;
                scale[i] = node.scale;
                sizes[i] = node.split ? static_cast<int64_t>(node.features.size()) : 0;
                if (!node.split) {
                    std::copy(rows.data() + first, rows.data() + last, out_rows.get() + first);
                    continue;
                }
                std::copy(node.rows.begin(), node.rows.end(), out_rows.get() + first);
                std::copy(node.counts.begin(), node.counts.end(), counts.get() + i * M);
                std::copy(node.bias.begin(), node.bias.end(), bias.get() + i * C);
                std::copy(node.features.begin(), node.features.end(), features.get() + at);
                std::copy(node.weights.begin(), node.weights.end(), weights.get() + at * C);
                at += node.features.size();
            }
        }
        return nb::make_tuple(to_numpy(std::move(split), n), to_numpy(std::move(sizes), n),
                              to_numpy(std::move(features), entries),
                              to_numpy(std::move(weights), entries * C), to_numpy(std::move(scale), n),
                              to_numpy(std::move(bias), n * C), to_numpy(std::move(out_rows), rows.size()),
                              to_numpy(std::move(counts), n * M));
    }

  private:
    std::vector<SplitNode> split_all(const int32_t* rows, const int64_t* at, const uint64_t* keys, size_t n) {
        std::vector<SplitNode> nodes(n);
        // largest first, for an even load
        std::vector<int64_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return at[a + 1] - at[a] > at[b + 1] - at[b]; });
        const float* feature_weights = feature_weights_.size() ? feature_weights_.data() : nullptr;
        const Data data{x_indptr_.data(),      x_indices_.data(),
                        x_data_.data(),        {feature_weights, unit_rows_},
                        y_indptr_.data(),      y_indices_.data(),
                        label_weights_.data(), row_weights_ ? row_weights_->data() : nullptr};
        // there may be 10^5 small nodes: a task is several of them, with the largest spread over the tasks
        const auto n_tasks = static_cast<int64_t>(std::min(n, kTasksPerThread * work_.size()));
        parallel_tasks(n_tasks, static_cast<int>(work_.size()), [&](int64_t task, int thread) {
            auto& work = work_[thread];
            if (!work) work = std::make_unique<Workspace>(n_features_, settings_.arity);
            NodeSplitter splitter(data, settings_, *work);
            for (auto i = static_cast<size_t>(task); i < n; i += static_cast<size_t>(n_tasks)) {
                const int64_t node = order[i];
                nodes[node] = splitter.run(rows + at[node], at[node + 1] - at[node], keys[node]);
            }
        });
        return nodes;
    }

    static constexpr size_t kTasksPerThread = 256;

    In1<int64_t> x_indptr_;
    In1<int32_t> x_indices_;
    In1<float> x_data_, feature_weights_;
    bool unit_rows_;
    In1<int64_t> y_indptr_;
    In1<int32_t> y_indices_;
    In1<float> label_weights_;
    std::optional<In1<float>> row_weights_;
    int64_t n_features_;
    ForestSettings settings_;
    std::vector<std::unique_ptr<Workspace>> work_;
};

}  // namespace sparseleaf

void bind_forest(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<SketchSplitter>(m, "SketchSplitter")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, In1<float>, bool, In1<int64_t>, In1<int32_t>,
                      In1<float>, int64_t, int, int, int, int64_t, int64_t, double, double, int64_t, int,
                      std::optional<In1<float>>>(),
             nb::arg("x_indptr"), nb::arg("x_indices"), nb::arg("x_data"), nb::arg("feature_weights"),
             nb::arg("unit_rows"), nb::arg("y_indptr"), nb::arg("y_indices"), nb::arg("label_weights"),
             nb::arg("n_features"), nb::arg("arity"), nb::arg("sketch_dim"), nb::arg("rounds"),
             nb::arg("sample_rows"), nb::arg("router_weights"), nb::arg("weights_per_row"),
             nb::arg("max_features"), nb::arg("min_samples_leaf"), nb::arg("n_threads"),
             nb::arg("row_weights") = nb::none())
        .def("split", &SketchSplitter::split, nb::arg("rows"), nb::arg("offsets"), nb::arg("keys"));
}
