// Trains nodes of LdSM trees: for each row in turn, finds the subset of children that minimises the
// objective, and takes a gradient step of one linear router per child towards it.
//
// No cost per node is O(features) or O(labels): features and labels of a node are numbered 0, 1, 2, … in
// order of first occurrence, through maps that are allocated once per thread. Nodes are independent, so
// results do not depend on threads.
//
// The objective is stored as sums instead of probabilities. With n the label occurrences so far,
// R_j = n P_j and Q_j^k = c_k P_j^k, eq. 1 of the paper times n is
//
//     n J = Σ_{j<l} |R_j - R_l| - λ1 Σ_k Σ_{j<l} |Q_j^k - Q_l^k| + λ2 |Σ_j R_j - n|,
//
// where the counts c_k have cancelled. Margins are rounded to multiples of 2^-20 before they are summed, so
// all sums are exact in double precision, whatever their order: two subsets tie if and only if their J is
// equal.
//
// With weights, an occurrence of a label counts as the weight of its row times that of the label, rounded to
// the same multiples; a row's gradient step is multiplied by the mean weight of its occurrences.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "common.hpp"
#include "ldsm_subset.hpp"
#include "router.hpp"

namespace sparseleaf {
namespace {

constexpr double kMarginUnit = 1048576.0;
constexpr float kStrong = 0.25f;  // fraction of a node's largest weight above which weights are not pruned

struct LdsmSettings {
    int arity, epochs;
    float learning_rate;
    double lambda_1, lambda_2, tolerance;
    float prune;
    int64_t min_samples_leaf;
    bool standardise;
    int64_t copy_entries;  // nodes up to this size are copied, larger ones read in place
};

// Numbers ids 0, 1, 2, … in order of first occurrence; reusable, since clearing costs only the ids seen.
class LocalIds {
  public:
    explicit LocalIds(int64_t n_ids) : local_(static_cast<size_t>(n_ids), -1) {}

    int32_t add(int32_t id) {
        if (local_[id] < 0) {
            local_[id] = static_cast<int32_t>(met_.size());
            met_.push_back(id);
        }
        return local_[id];
    }

    int32_t operator[](int32_t id) const { return local_[id]; }
    const std::vector<int32_t>& met() const { return met_; }
    int64_t size() const { return static_cast<int64_t>(met_.size()); }

    void forget() {
        for (const int32_t id : met_) local_[id] = -1;
        met_.clear();
    }

  private:
    std::vector<int32_t> local_, met_;
};

struct Data {
    const int64_t* x_indptr;
    const int32_t* x_indices;
    const float* x_data;
    const int64_t* y_indptr;
    const int32_t* y_indices;
    const float* row_weights;    // null: all 1
    const float* label_weights;  // null: all 1

    bool weighted() const { return row_weights || label_weights; }

    // The weight of a label of a row.
    double weight(int32_t row, int32_t label) const {
        const double product = (row_weights ? static_cast<double>(row_weights[row]) : 1.0) *
                               (label_weights ? static_cast<double>(label_weights[label]) : 1.0);
        return std::max(std::rint(product * kMarginUnit), 1.0) / kMarginUnit;
    }
};

// Result of a node.
struct TrainedNode {
    bool split = false;
    std::vector<int32_t> features;  // increasing
    std::vector<float> weights;     // (features, arity)
    std::vector<float> bias;        // (arity)
    std::vector<int32_t> rows;      // of all children, concatenated
    std::vector<int64_t> row_offsets;
    std::vector<int32_t> labels;  // of all children, increasing in each
    std::vector<double> counts;
    std::vector<int64_t> label_offsets;
    std::vector<double> objective;  // J after every epoch
    double balance = 0.0, purity = 0.0;
};

// Buffers of one thread, reused for all nodes.
struct Workspace {
    Workspace(int64_t n_features, int64_t n_labels, const LdsmSettings& settings)
        : features(n_features),
          labels(n_labels),
          search(settings.arity, settings.lambda_1, settings.lambda_2) {}

    LocalIds features, labels;
    SubsetSearch search;
    std::vector<int64_t> x_begin, y_begin;  // of the node's rows in the arrays below
    std::vector<int32_t> x_local, y_local;
    std::vector<double> y_weights;  // of y_local; empty: all 1
    std::vector<float> x_values;
    std::vector<float> state;              // per feature: largest |x|, then weight and Σ g² of every router
    std::vector<double> Q;                 // (labels, arity)
    std::vector<float> mean, inverse_std;  // of standardised features
};

class NodeTrainer {
  public:
    NodeTrainer(const Data& data, const LdsmSettings& settings, Workspace& work)
        : data_(data),
          settings_(settings),
          work_(work),
          M_(settings.arity),
          stride_(1 + 2 * settings.arity) {}

    TrainedNode run(const int32_t* rows, int64_t n, uint64_t key) {
        rows_ = rows;
        n_rows_ = n;
        key_ = key;
        TrainedNode out;
        number();
        if (copied_)
            M_ == 2 ? epochs<true, 2>(out) : epochs<true, 0>(out);
        else
            M_ == 2 ? epochs<false, 2>(out) : epochs<false, 0>(out);
        freeze(out);
        assign(out);
        if (!out.split && dominated()) {
            centre(out);
            assign(out);
        }
        work_.features.forget();
        work_.labels.forget();
        return out;
    }

  private:
    // Numbers the node's features and labels, and copies its rows unless there are too many.
    void number() {
        int64_t entries = 0;
        for (int64_t i = 0; i < n_rows_; ++i)
            entries += data_.x_indptr[rows_[i] + 1] - data_.x_indptr[rows_[i]];
        copied_ = settings_.standardise || entries <= settings_.copy_entries;
        auto& [features, labels, search, x_begin, y_begin, x_local, y_local, y_weights, x_values, state, Q,
               mean, inv] = work_;
        x_begin.assign(1, 0);
        y_begin.assign(1, 0);
        x_local.clear();
        x_values.clear();
        y_local.clear();
        y_weights.clear();
        if (copied_) {  // reserve: growing would take twice the memory
            x_local.reserve(static_cast<size_t>(entries));
            x_values.reserve(static_cast<size_t>(entries));
        }
        for (int64_t i = 0; i < n_rows_; ++i) {
            const int32_t row = rows_[i];
            for (int64_t e = data_.x_indptr[row]; e < data_.x_indptr[row + 1]; ++e) {
                const int32_t local = features.add(data_.x_indices[e]);
                if (copied_) {
                    x_local.push_back(local);
                    x_values.push_back(data_.x_data[e]);
                }
            }
            for (int64_t e = data_.y_indptr[row]; e < data_.y_indptr[row + 1]; ++e) {
                y_local.push_back(labels.add(data_.y_indices[e]));
                if (data_.weighted()) y_weights.push_back(data_.weight(row, data_.y_indices[e]));
            }
            x_begin.push_back(static_cast<int64_t>(x_local.size()));
            y_begin.push_back(static_cast<int64_t>(y_local.size()));
        }
        state.assign(static_cast<size_t>(features.size() * stride_), 0.0f);
        Q.assign(static_cast<size_t>(labels.size() * M_), 0.0);
        std::fill_n(bias_, 2 * kMaxArity, 0.0f);
        if (settings_.standardise) standardise();
    }

    // Standardises features over the node's rows; a constant feature is 0 and gets no weight.
    void standardise() {
        const auto size = static_cast<size_t>(work_.features.size());
        std::vector<double> sum(size, 0.0), squares(size, 0.0);
        for (size_t e = 0; e < work_.x_local.size(); ++e) sum[work_.x_local[e]] += work_.x_values[e];
        for (double& total : sum) total /= static_cast<double>(n_rows_);
        for (size_t e = 0; e < work_.x_local.size(); ++e) {
            const double d = work_.x_values[e] - sum[work_.x_local[e]];
            squares[work_.x_local[e]] += d * d;
        }
        work_.mean.resize(size);
        work_.inverse_std.resize(size);
        for (size_t f = 0; f < size; ++f) {
            const double deviation = std::sqrt(squares[f] / static_cast<double>(n_rows_));
            work_.mean[f] = static_cast<float>(sum[f]);
            // rounding noise of a constant, or too small for its inverse to fit a float
            const bool varies = deviation > 1e-6 * std::abs(sum[f]) && deviation > 1e-30 && deviation < 1e30;
            work_.inverse_std[f] = varies ? static_cast<float>(1.0 / deviation) : 0.0f;
        }
        for (size_t e = 0; e < work_.x_local.size(); ++e) {
            const int32_t f = work_.x_local[e];
            work_.x_values[e] = (work_.x_values[e] - work_.mean[f]) * work_.inverse_std[f];
        }
    }

    template <bool kCopied, int kArity>
    void epochs(TrainedNode& out) {
        const int M = kArity ? kArity : M_;
        const int stride = 1 + 2 * M;
        float* state = work_.state.data();
        double R[kMaxArity] = {}, n = 0.0, integrity = 0.0, norm = 0.0;
        uint64_t step = 0;
        for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
            for (int64_t i = 0; i < n_rows_; ++i) {
                const int32_t* y = work_.y_local.data() + work_.y_begin[i];
                const int64_t n_labels = work_.y_begin[i + 1] - work_.y_begin[i];
                if (n_labels == 0) continue;  // a row without labels does not matter
                const double* y_weights =
                    data_.weighted() ? work_.y_weights.data() + work_.y_begin[i] : nullptr;
                const double r = y_weights ? std::accumulate(y_weights, y_weights + n_labels, 0.0)
                                           : static_cast<double>(n_labels);
                const int64_t begin = kCopied ? work_.x_begin[i] : data_.x_indptr[rows_[i]];
                const int64_t end = kCopied ? work_.x_begin[i + 1] : data_.x_indptr[rows_[i] + 1];
                const float* values = kCopied ? work_.x_values.data() : data_.x_data;
                const auto feature = [&](int64_t e) -> float* {
                    const int32_t local = kCopied ? work_.x_local[e] : work_.features[data_.x_indices[e]];
                    return state + static_cast<int64_t>(local) * stride;
                };

                // margins; weights are rescaled when a larger feature value occurs
                float z[kMaxArity];
                for (int j = 0; j < M; ++j) z[j] = bias_[2 * j];
                double row_norm = 1.0;
                for (int64_t e = begin; e < end; ++e) {
                    const float x = values[e], size = std::abs(x);
                    if (size == 0.0f) continue;
                    float* f = feature(e);
                    if (size > f[0]) {
                        const float shrink = f[0] / size;
                        for (int j = 0; j < M; ++j) f[1 + 2 * j] *= shrink;
                        f[0] = size;
                    }
                    const float share = x / f[0];
                    row_norm += static_cast<double>(share * share);
                    for (int j = 0; j < M; ++j) z[j] += f[1 + 2 * j] * x;
                }
                norm += row_norm;
                ++step;
                const uint32_t subset = work_.search.best(R, work_.Q.data(), y, y_weights, n_labels, r, n + r,
                                                          mix64(key_ ^ step));

                // one step of normalised adaptive gradient descent on the logistic loss of every router
                const auto rate =
                    static_cast<float>(settings_.learning_rate * std::sqrt(static_cast<double>(step) / norm));
                const auto row_weight = static_cast<float>(r / static_cast<double>(n_labels));
                float g[kMaxArity];
                for (int j = 0; j < M; ++j) {
                    g[j] = 1.0f / (1.0f + std::exp(-z[j])) - static_cast<float>(subset >> j & 1u);
                    g[j] *= row_weight;
                    bias_[2 * j + 1] += g[j] * g[j];
                    if (bias_[2 * j + 1] > 0.0f) bias_[2 * j] -= rate * g[j] / std::sqrt(bias_[2 * j + 1]);
                    z[j] = bias_[2 * j];
                }
                for (int64_t e = begin; e < end; ++e) {
                    const float x = values[e];
                    if (x == 0.0f) continue;
                    float* f = feature(e);
                    for (int j = 0; j < M; ++j) {
                        const float gx = g[j] * x;
                        float& squares = f[2 + 2 * j];
                        squares += gx * gx;
                        if (squares > 0.0f) f[1 + 2 * j] -= rate * gx / (f[0] * std::sqrt(squares));
                        z[j] += f[1 + 2 * j] * x;
                    }
                }

                // the row contributes its margins after the step
                double q[kMaxArity];
                n += r;
                for (int j = 0; j < M; ++j) {
                    q[j] = std::rint(static_cast<double>(std::clamp(z[j], 0.0f, 1.0f)) * kMarginUnit) /
                           kMarginUnit;
                    if (!y_weights) R[j] += r * q[j];
                }
                double weighted_q[kMaxArity];
                for (int64_t k = 0; k < n_labels; ++k) {
                    const double* of_label = q;
                    if (y_weights) {
                        for (int j = 0; j < M; ++j) {
                            weighted_q[j] = std::rint(y_weights[k] * q[j] * kMarginUnit) / kMarginUnit;
                            R[j] += weighted_q[j];
                        }
                        of_label = weighted_q;
                    }
                    double* Q = work_.Q.data() + static_cast<int64_t>(y[k]) * M;
                    for (int j = 0; j < M; ++j)
                        for (int l = j + 1; l < M; ++l)
                            integrity +=
                                std::abs(Q[j] + of_label[j] - Q[l] - of_label[l]) - std::abs(Q[j] - Q[l]);
                    for (int j = 0; j < M; ++j) Q[j] += of_label[j];
                }
            }
            if (n == 0.0) return;
            double J = settings_.lambda_2 * std::abs(std::accumulate(R, R + M, 0.0) - n) -
                       settings_.lambda_1 * integrity;
            for (int j = 0; j < M; ++j)
                for (int l = j + 1; l < M; ++l) J += std::abs(R[j] - R[l]);
            out.objective.push_back(J / n);
            if (epoch > 0 && std::abs(out.objective[epoch] - out.objective[epoch - 1]) < settings_.tolerance)
                return;
        }
    }

    // The routers on raw features, pruned, in order of feature.
    void freeze(TrainedNode& out) {
        std::vector<double> moved(static_cast<size_t>(M_), 0.0);
        std::vector<int32_t> kept;
        // the largest effect of a feature on a margin
        const auto reach_of = [&](const float* f) {
            float reach = 0.0f;
            for (int j = 0; j < M_; ++j) reach = std::max(reach, std::abs(f[1 + 2 * j]) * f[0]);
            return std::isfinite(reach) ? reach : 0.0f;
        };
        float least = 0.0f;
        for (int64_t local = 0; local < work_.features.size(); ++local)
            least = std::max(least, reach_of(work_.state.data() + local * stride_));
        // a node with few rows has only small weights, and needs the largest
        least = std::min(settings_.prune, kStrong * least);
        for (int64_t local = 0; local < work_.features.size(); ++local) {
            float* f = work_.state.data() + local * stride_;
            const float reach = reach_of(f);
            const bool keep = reach > 0.0f && reach >= least;
            for (int j = 0; j < M_; ++j) {
                float& w = f[1 + 2 * j];
                if (!keep) w = 0.0f;
                if (keep && settings_.standardise) {
                    w *= work_.inverse_std[local];
                    moved[j] += static_cast<double>(w) * work_.mean[local];
                }
            }
            if (keep) kept.push_back(work_.features.met()[local]);
        }
        std::sort(kept.begin(), kept.end());
        out.features = std::move(kept);
        for (const int32_t id : out.features)
            for (int j = 0; j < M_; ++j)
                out.weights.push_back(
                    work_.state[work_.features[id] * static_cast<int64_t>(stride_) + 1 + 2 * j]);
        for (int j = 0; j < M_; ++j) {
            out.bias.push_back(static_cast<float>(bias_[2 * j] - moved[j]));
            bias_[2 * j] = out.bias.back();
        }
    }

    // Whether one label is in more than half of the rows.
    bool dominated() const {
        std::vector<int64_t> rows(static_cast<size_t>(work_.labels.size()), 0);
        for (const int32_t label : work_.y_local)
            if (2 * ++rows[label] > n_rows_) return true;
        return false;
    }

    // The routers' margins of a row of the node.
    void margins(int32_t row, float* z) const {
        for (int j = 0; j < M_; ++j) z[j] = bias_[2 * j];
        for (int64_t e = data_.x_indptr[row]; e < data_.x_indptr[row + 1]; ++e) {
            const float* f =
                work_.state.data() + work_.features[data_.x_indices[e]] * static_cast<int64_t>(stride_);
            for (int j = 0; j < M_; ++j) z[j] += f[1 + 2 * j] * data_.x_data[e];
        }
    }

    // Shifts the biases so that all routers have equal median margins, none above the threshold.
    //
    // J favours the rows of a frequent label in one child. Routers then send all rows there although their
    // weights separate the labels: shifted biases divide the rows by relative margin.
    void centre(TrainedNode& out) {
        std::vector<float> z(static_cast<size_t>(n_rows_ * M_));
        for (int64_t i = 0; i < n_rows_; ++i) margins(rows_[i], z.data() + i * M_);
        std::vector<float> of_child(static_cast<size_t>(n_rows_));
        float highest = 0.0f, median[kMaxArity];
        for (int j = 0; j < M_; ++j) {
            for (int64_t i = 0; i < n_rows_; ++i) of_child[i] = z[i * M_ + j];
            const auto middle = of_child.begin() + n_rows_ / 2;
            std::nth_element(of_child.begin(), middle, of_child.end());
            median[j] = *middle;
            for (const float margin : of_child) highest = std::max(highest, margin - median[j]);
        }
        for (int j = 0; j < M_; ++j) {
            out.bias[j] = static_cast<float>(bias_[2 * j] - median[j] - highest);
            bias_[2 * j] = out.bias[j];
        }
    }

    double y_weight(int64_t e) const { return work_.y_weights.empty() ? 1.0 : work_.y_weights[e]; }

    // Routes every row as prediction would, and computes the children's label histograms.
    void assign(TrainedNode& out) {
        out.rows.clear();
        out.row_offsets.clear();
        out.labels.clear();
        out.counts.clear();
        out.label_offsets.clear();
        out.balance = out.purity = 0.0;
        std::vector<std::vector<int32_t>> children(static_cast<size_t>(M_));
        std::vector<double> counts(static_cast<size_t>(work_.labels.size() * M_), 0.0);
        float z[kMaxArity];
        for (int64_t i = 0; i < n_rows_; ++i) {
            const int32_t row = rows_[i];
            margins(row, z);
            each_child(z, M_, kSendAbove, [&](int j) {
                children[j].push_back(row);
                for (int64_t e = work_.y_begin[i]; e < work_.y_begin[i + 1]; ++e)
                    counts[work_.y_local[e] * static_cast<int64_t>(M_) + j] += y_weight(e);
            });
        }
        out.split = true;
        out.row_offsets.push_back(0);
        for (const auto& child : children) {
            const auto size = static_cast<int64_t>(child.size());
            out.split &= size >= std::max<int64_t>(1, settings_.min_samples_leaf) && size < n_rows_;
            out.rows.insert(out.rows.end(), child.begin(), child.end());
            out.row_offsets.push_back(static_cast<int64_t>(out.rows.size()));
        }
        measure(counts, out);
        std::vector<std::pair<int32_t, int64_t>> order;
        for (int64_t local = 0; local < work_.labels.size(); ++local)
            order.emplace_back(work_.labels.met()[local], local);
        std::sort(order.begin(), order.end());
        out.label_offsets.push_back(0);
        for (int j = 0; j < M_; ++j) {
            for (const auto& [label, local] : order)
                if (const double count = counts[local * M_ + j]; count > 0.0) {
                    out.labels.push_back(label);
                    out.counts.push_back(count);
                }
            out.label_offsets.push_back(static_cast<int64_t>(out.labels.size()));
        }
    }

    // Balance and purity of the split (definitions 1 and 2 of the paper).
    void measure(const std::vector<double>& counts, TrainedNode& out) const {
        double n = 0.0;
        for (size_t e = 0; e < work_.y_local.size(); ++e) n += y_weight(static_cast<int64_t>(e));
        if (n == 0.0) return;
        double total[kMaxArity] = {}, impure = 0.0;
        for (int64_t k = 0; k < work_.labels.size(); ++k) {
            const double* of_label = counts.data() + k * M_;
            const double sent = std::accumulate(of_label, of_label + M_, 0.0);
            for (int j = 0; j < M_; ++j) {
                total[j] += of_label[j];
                impure += std::min(of_label[j], sent - of_label[j]);
            }
        }
        out.purity = impure / (static_cast<double>(M_) * n);
        const double mean = std::accumulate(total, total + M_, 0.0) / static_cast<double>(M_);
        for (int j = 0; j < M_; ++j) out.balance = std::max(out.balance, std::abs(total[j] - mean) / n);
    }

    const Data& data_;
    const LdsmSettings& settings_;
    Workspace& work_;
    const int M_, stride_;
    const int32_t* rows_ = nullptr;
    int64_t n_rows_ = 0;
    uint64_t key_ = 0;
    bool copied_ = true;
    float bias_[2 * kMaxArity];  // per router: bias, Σ g²
};

template <typename T>
Numpy1<T> as_array(const std::vector<T>& values) {
    std::unique_ptr<T[]> data(new T[values.size()]);
    std::copy(values.begin(), values.end(), data.get());
    return to_numpy(std::move(data), values.size());
}

}  // namespace

// The training rows, and the buffers of every thread.
class LdsmTrainer {
  public:
    LdsmTrainer(In1<int64_t> x_indptr, In1<int32_t> x_indices, In1<float> x_data, In1<int64_t> y_indptr,
                In1<int32_t> y_indices, int64_t n_features, int64_t n_labels, int arity, int epochs,
                float learning_rate, double lambda_1, double lambda_2, double tolerance, float prune,
                int64_t min_samples_leaf, bool standardise, int64_t copy_entries, int n_threads,
                std::optional<In1<float>> row_weights, std::optional<In1<float>> label_weights)
        : x_indptr_(x_indptr),
          x_indices_(x_indices),
          x_data_(x_data),
          y_indptr_(y_indptr),
          y_indices_(y_indices),
          row_weights_(std::move(row_weights)),
          label_weights_(std::move(label_weights)),
          n_features_(n_features),
          n_labels_(n_labels),
          settings_{arity,     epochs, learning_rate,    lambda_1,    lambda_2,
                    tolerance, prune,  min_samples_leaf, standardise, copy_entries} {
        require(arity >= 2 && arity <= kMaxArity, "arity: 2 to 16");
        require(epochs >= 1 && n_threads >= 1, "epochs, n_threads: at least 1");
        require_labelled_rows(x_indptr, x_indices, x_data, n_features, y_indptr, y_indices, n_labels);
        if (row_weights_)
            require_weights(*row_weights_, static_cast<int64_t>(x_indptr.size()) - 1,
                            "row_weights: must be one positive number per row");
        if (label_weights_)
            require_weights(*label_weights_, n_labels,
                            "label_weights: must be one positive number per label");
        work_.resize(static_cast<size_t>(n_threads));
    }
    LdsmTrainer(const LdsmTrainer&) = delete;

    nb::list train(In1<int32_t> rows, In1<int64_t> offsets, In1<uint64_t> keys) {
        require_nodes(rows, offsets, keys, static_cast<int64_t>(x_indptr_.size()) - 1);
        const auto n = static_cast<int64_t>(keys.size());
        std::vector<TrainedNode> nodes(static_cast<size_t>(n));
        {
            GilRelease release;
            // largest first, for an even load
            std::vector<int64_t> order(static_cast<size_t>(n));
            std::iota(order.begin(), order.end(), 0);
            const int64_t* at = offsets.data();
            std::stable_sort(order.begin(), order.end(),
                             [&](int64_t a, int64_t b) { return at[a + 1] - at[a] > at[b + 1] - at[b]; });
            const Data data{x_indptr_.data(),
                            x_indices_.data(),
                            x_data_.data(),
                            y_indptr_.data(),
                            y_indices_.data(),
                            row_weights_ ? row_weights_->data() : nullptr,
                            label_weights_ ? label_weights_->data() : nullptr};
            parallel_tasks(n, static_cast<int>(work_.size()), [&](int64_t task, int thread) {
                auto& work = work_[thread];
                if (!work) work = std::make_unique<Workspace>(n_features_, n_labels_, settings_);
                const int64_t node = order[task];
                nodes[node] = NodeTrainer(data, settings_, *work)
                                  .run(rows.data() + at[node], at[node + 1] - at[node], keys.data()[node]);
            });
        }
        nb::list out;
        for (const TrainedNode& node : nodes)
            out.append(nb::make_tuple(
                node.split, as_array(node.features), as_array(node.weights), as_array(node.bias),
                as_array(node.rows), as_array(node.row_offsets), as_array(node.labels), as_array(node.counts),
                as_array(node.label_offsets), as_array(node.objective), node.balance, node.purity));
        return out;
    }

  private:
    In1<int64_t> x_indptr_;
    In1<int32_t> x_indices_;
    In1<float> x_data_;
    In1<int64_t> y_indptr_;
    In1<int32_t> y_indices_;
    std::optional<In1<float>> row_weights_, label_weights_;
    int64_t n_features_, n_labels_;
    LdsmSettings settings_;
    std::vector<std::unique_ptr<Workspace>> work_;
};

// For tests: the chosen subset (as bits) of one row, and n J there, from sums R (arity) and Q (labels,
// arity).
std::pair<uint32_t, double> ldsm_best_subset(In1<double> R, In2<double> Q, In1<int32_t> labels, double n,
                                             double lambda_1, double lambda_2, uint64_t draw) {
    const int arity = static_cast<int>(R.size());
    require(arity >= 2 && arity <= kMaxArity && Q.shape(1) == R.size(), "R, Q: 2 to 16 children");
    for (size_t i = 0; i < labels.size(); ++i)
        require(labels.data()[i] >= 0 && labels.data()[i] < static_cast<int64_t>(Q.shape(0)),
                "labels: no such label");
    SubsetSearch search(arity, lambda_1, lambda_2);
    const uint32_t best =
        search.best(R.data(), Q.data(), labels.data(), nullptr, static_cast<int64_t>(labels.size()),
                    static_cast<double>(labels.size()), n, draw);
    return {best, search.value()};
}

}  // namespace sparseleaf

void bind_ldsm(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<LdsmTrainer>(m, "LdsmTrainer")
        .def(nb::init<In1<int64_t>, In1<int32_t>, In1<float>, In1<int64_t>, In1<int32_t>, int64_t, int64_t,
                      int, int, float, double, double, double, float, int64_t, bool, int64_t, int,
                      std::optional<In1<float>>, std::optional<In1<float>>>(),
             nb::arg("x_indptr"), nb::arg("x_indices"), nb::arg("x_data"), nb::arg("y_indptr"),
             nb::arg("y_indices"), nb::arg("n_features"), nb::arg("n_labels"), nb::arg("arity"),
             nb::arg("epochs"), nb::arg("learning_rate"), nb::arg("lambda_1"), nb::arg("lambda_2"),
             nb::arg("tolerance"), nb::arg("prune"), nb::arg("min_samples_leaf"), nb::arg("standardise"),
             nb::arg("copy_entries"), nb::arg("n_threads"), nb::arg("row_weights") = nb::none(),
             nb::arg("label_weights") = nb::none())
        .def("train", &LdsmTrainer::train, nb::arg("rows"), nb::arg("offsets"), nb::arg("keys"));
    m.def("ldsm_best_subset", &ldsm_best_subset, nb::arg("R"), nb::arg("Q"), nb::arg("labels"), nb::arg("n"),
          nb::arg("lambda_1"), nb::arg("lambda_2"), nb::arg("draw"));
}
