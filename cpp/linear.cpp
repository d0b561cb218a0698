// One-vs-rest linear classifiers, each trained on the rows that the label is a candidate of.
//
// Every label is an L2-regularised squared-hinge problem, solved by dual coordinate descent, with sparse
// weights and a bias. Labels are distributed over threads; each is solved by one thread.
//
// A label may start from given weights w0: the regulariser is then ½‖w − w0‖², the passive-aggressive update
// of Crammer et al. (2006).
//
// Some examples may be held out: the label is solved without them first, and then, from that solution, with
// them. Both solutions together take little more time than one.
//
// The cost of an example is C, times the weight of its row, times that of the label for a row with the label.
#include <nanobind/stl/optional.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "common.hpp"

namespace sparseleaf {
namespace {

struct Rows {
    const int64_t* indptr;
    const int32_t* indices;
    const float* data;
    const double* squares;  // squared norm of every row, including the constant feature 1
    const float* weights;   // of the rows; null: all 1
};

struct Settings {
    double cost;       // C
    int epochs;        // maximum number of epochs
    int more_epochs;   // maximum number of epochs after the held-out examples are added
    double tolerance;  // stop when the range of projected gradients is smaller
    float prune;       // drop weights below this magnitude
    int64_t most;      // maximum number of weights per label, the largest
};

struct Weights {
    std::vector<int32_t> features;
    std::vector<float> values;
    float bias = 0.0f;
};

// Weights to start from, by label; none if indptr is null.
struct Start {
    const int64_t* indptr;
    const int32_t* features;
    const float* values;
    const float* bias;
};

// Solves one label at a time; work arrays are reused and zero between labels.
class LabelSolver {
  public:
    LabelSolver(const Rows& rows, const Start& start, int64_t n_features, const Settings& settings)
        : rows_(rows), start_(start), settings_(settings), w_(static_cast<size_t>(n_features), 0.0f) {}

    // The first `n_seen` of n examples are not held out; `seen` is null if that solution is not needed.
    void solve(int64_t label, const int32_t* examples, const int8_t* sides, int64_t n_seen, int64_t n,
               float label_weight, uint64_t key, Weights* seen, Weights& all) {
        examples_ = examples;
        sides_ = sides;
        ridge_ = 0.5 / settings_.cost;
        positive_ridge_ = ridge_ / label_weight;
        key_ = key;
        n_ = active_ = 0;
        touched_.clear();
        begin(label);
        include(n_seen);
        descend(settings_.epochs);
        if (seen) {
            take(label);
            *seen = largest(found_);
            if (n > n_seen)
                for (const auto& [weight, feature] : found_) w_[feature] = weight;
        }
        if (n > n_seen) {
            include(n);
            descend(n_seen > 0 ? settings_.more_epochs : settings_.epochs);
        }
        if (n > n_seen || !seen) take(label);
        all = largest(found_);
        bias_ = 0.0;
    }

  private:
    void begin(int64_t label) {
        if (start_.indptr == nullptr) return;
        for (int64_t e = start_.indptr[label]; e < start_.indptr[label + 1]; ++e)
            w_[start_.features[e]] = start_.values[e];
        bias_ = start_.bias[label];
    }

    // Adds the examples up to the n-th to the active ones.
    void include(int64_t n) {
        alpha_.resize(static_cast<size_t>(n));
        moved_.resize(static_cast<size_t>(n));
        order_.resize(static_cast<size_t>(n));
        for (; n_ < n; ++n_) {
            alpha_[n_] = 0.0;
            moved_[n_] = false;
            order_[n_] = order_[active_];
            order_[active_++] = n_;
        }
    }

    // minimise ½‖w − w0‖² + C Σ max(0, 1 − y (w·x + b))², with b the weight of a constant feature 1
    void descend(int epochs) {
        // Shrinking: epochs skip examples farther inside the margin than any that changed in the previous
        // epoch; the last epoch uses all examples.
        double limit = std::numeric_limits<double>::infinity();
        for (int epoch = 0; epoch < epochs; ++epoch) {
            for (int64_t i = active_ - 1; i > 0; --i) {
                key_ = mix64(key_);
                std::swap(order_[i], order_[static_cast<int64_t>(key_ % static_cast<uint64_t>(i + 1))]);
            }
            double highest = 0.0, lowest = 0.0;
            for (int64_t at = 0; at < active_; ++at) {
                if (at + kAhead < active_) fetch(examples_[order_[at + kAhead]]);
                const int64_t i = order_[at];
                const int32_t row = examples_[i];
                const double side = sides_[i];
                const double ridge = ridge_of(row, side);
                const double gradient = side * margin(row) - 1.0 + ridge * alpha_[i];
                if (alpha_[i] == 0.0 && gradient >= 0.0) {
                    if (gradient > limit) std::swap(order_[at--], order_[--active_]);
                    continue;
                }
                highest = std::max(highest, gradient);
                lowest = std::min(lowest, gradient);
                const double before = alpha_[i];
                alpha_[i] = std::max(before - gradient / (rows_.squares[row] + ridge), 0.0);
                add(row, side * (alpha_[i] - before));
                if (!moved_[i]) {
                    moved_[i] = true;
                    touched_.push_back(row);
                }
            }
            limit = highest > 0.0 ? highest : std::numeric_limits<double>::infinity();
            if (highest - lowest < settings_.tolerance) {
                if (active_ == n_) break;
                active_ = n_;
                limit = std::numeric_limits<double>::infinity();
            }
        }
    }

    // 1 / (2 C) of an example
    double ridge_of(int32_t row, double side) const {
        const double ridge = side > 0 ? positive_ridge_ : ridge_;
        return rows_.weights ? ridge / rows_.weights[row] : ridge;
    }

    // Rows are scattered in memory: prefetch one while others are processed.
    void fetch(int32_t row) const {
        const int64_t begin = rows_.indptr[row], end = rows_.indptr[row + 1];
        for (int64_t e = begin; e < end; e += 16) {
            __builtin_prefetch(rows_.indices + e);
            __builtin_prefetch(rows_.data + e);
        }
    }

    // Four lanes, for instruction-level parallelism.
    double margin(int32_t row) const {
        const int32_t* indices = rows_.indices;
        const float* data = rows_.data;
        float lanes[4] = {};
        int64_t e = rows_.indptr[row];
        const int64_t end = rows_.indptr[row + 1];
        for (; e + 4 <= end; e += 4)
            for (int j = 0; j < 4; ++j) lanes[j] += w_[indices[e + j]] * data[e + j];
        for (int j = 0; e < end; ++e, ++j) lanes[j] += w_[indices[e]] * data[e];
        return bias_ + static_cast<double>((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
    }

    void add(int32_t row, double step) {
        const auto narrow = static_cast<float>(step);
        for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e)
            w_[rows_.indices[e]] += narrow * rows_.data[e];
        bias_ += step;
    }

    // Moves all weights from w_ to found_.
    void take(int64_t label) {
        found_.clear();
        const auto take_one = [&](int32_t feature) {
            const float weight = w_[feature];
            w_[feature] = 0.0f;
            if (weight != 0.0f) found_.push_back({weight, feature});
        };
        for (int32_t row : touched_)
            for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e) take_one(rows_.indices[e]);
        if (start_.indptr != nullptr)
            for (int64_t e = start_.indptr[label]; e < start_.indptr[label + 1]; ++e)
                take_one(start_.features[e]);
    }

    // The largest weights, by feature.
    Weights largest(const std::vector<std::pair<float, int32_t>>& found) {
        auto& kept = kept_;
        kept.clear();
        for (const auto& one : found)
            if (std::abs(one.first) >= settings_.prune) kept.push_back(one);
        if (static_cast<int64_t>(kept.size()) > settings_.most) {
            const auto end = kept.begin() + settings_.most;
            std::nth_element(kept.begin(), end, kept.end(), [](const auto& a, const auto& b) {
                const float x = std::abs(a.first), y = std::abs(b.first);
                return x != y ? x > y : a.second < b.second;
            });
            kept.erase(end, kept.end());
        }
        std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
        Weights weights;
        weights.bias = static_cast<float>(bias_);
        weights.features.reserve(kept.size());
        weights.values.reserve(kept.size());
        for (const auto& [value, feature] : kept) {
            weights.features.push_back(feature);
            weights.values.push_back(value);
        }
        return weights;
    }

    static constexpr int64_t kAhead = 2;

    const Rows& rows_;
    const Start& start_;
    const Settings& settings_;
    const int32_t* examples_ = nullptr;
    const int8_t* sides_ = nullptr;
    uint64_t key_ = 0;
    int64_t n_ = 0, active_ = 0;  // examples, and those not skipped: the first of order_
    std::vector<float> w_;
    std::vector<double> alpha_;
    std::vector<int64_t> order_;
    std::vector<bool> moved_;
    std::vector<int32_t> touched_;  // rows whose features have weights
    std::vector<std::pair<float, int32_t>> found_, kept_;
    double bias_ = 0.0;
    double ridge_ = 0.0, positive_ridge_ = 0.0;
};

// Calls report(labels done) ten times per second from the calling thread, with the GIL, to show progress;
// Ctrl-C raises there and ends the loop.
class Reporter {
  public:
    explicit Reporter(const nb::callable& report) : report_(report) {}

    void done(int thread) {
        const int64_t count = done_.fetch_add(1, std::memory_order_relaxed) + 1;
        if (thread != 0) return;
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(100)) return;
        last_ = now;
        GilAcquire held;
        report_(count);
    }

  private:
    const nb::callable& report_;
    std::atomic<int64_t> done_{0};
    std::chrono::steady_clock::time_point last_{};  // the first label is always reported
};

}  // namespace

namespace {

// (indptr, features, weights, bias)
nb::tuple joined(const std::vector<Weights>& labels) {
    const size_t n = labels.size();
    auto sizes = std::make_unique<int64_t[]>(n + 1);
    auto bias = std::make_unique<float[]>(n);
    int64_t total = 0;
    for (size_t l = 0; l < n; ++l) {
        total += static_cast<int64_t>(labels[l].features.size());
        sizes[l + 1] = total;
        bias[l] = labels[l].bias;
    }
    auto features = std::make_unique<int32_t[]>(static_cast<size_t>(total));
    auto values = std::make_unique<float[]>(static_cast<size_t>(total));
    for (size_t l = 0; l < n; ++l) {
        std::copy(labels[l].features.begin(), labels[l].features.end(), features.get() + sizes[l]);
        std::copy(labels[l].values.begin(), labels[l].values.end(), values.get() + sizes[l]);
    }
    return nb::make_tuple(
        to_numpy(std::move(sizes), n + 1), to_numpy(std::move(features), static_cast<size_t>(total)),
        to_numpy(std::move(values), static_cast<size_t>(total)), to_numpy(std::move(bias), n));
}

}  // namespace

// Examples of label l are rows examples[starts[l]:starts[l + 1]]; the first seen[l] of them are not held out.
// Weights to start from are optional: an empty w0_indptr means 0.
//
// Returns (indptr, features, weights, bias) of the models without the held-out examples, unless `seen` is
// empty, and of those with all examples.
nb::tuple fit_linear(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_features,
                     In1<int64_t> starts, In1<int32_t> examples, In1<int8_t> sides, In1<int64_t> seen,
                     In1<int64_t> w0_indptr, In1<int32_t> w0_features, In1<float> w0_values,
                     In1<float> w0_bias, double cost, int epochs, int more_epochs, double tolerance,
                     float prune, int64_t most, uint64_t seed, int n_threads, const nb::callable& report,
                     std::optional<In1<float>> row_weights, std::optional<In1<float>> label_weights) {
    require(indices.size() == data.size(), "rows: indices, data: same size");
    require_indptr(indptr, data.size());
    require_indptr(starts, examples.size());
    require(examples.size() == sides.size(), "examples, sides: same size");
    require(std::isfinite(cost) && cost > 0.0, "cost: must be above 0");
    require(epochs >= 1 && more_epochs >= 1 && most >= 0 && n_threads >= 1 && n_features >= 0,
            "epochs, most, n_threads: too small");
    const auto n_rows = static_cast<int64_t>(indptr.size()) - 1;
    for (size_t e = 0; e < indices.size(); ++e) {
        require(indices.data()[e] >= 0 && indices.data()[e] < n_features, "indices: no such feature");
        require(std::isfinite(data.data()[e]), "data: must be finite");
    }
    for (size_t e = 0; e < examples.size(); ++e) {
        require(examples.data()[e] >= 0 && examples.data()[e] < n_rows, "examples: no such row");
        require(sides.data()[e] == 1 || sides.data()[e] == -1, "sides: 1 or -1");
    }
    const auto n_labels = static_cast<int64_t>(starts.size()) - 1;
    const bool held_out = seen.size() > 0;
    require(!held_out || static_cast<int64_t>(seen.size()) == n_labels, "seen: one entry per label");
    for (size_t l = 0; l < seen.size(); ++l)
        require(seen.data()[l] >= 0 && seen.data()[l] <= starts.data()[l + 1] - starts.data()[l],
                "seen: more than the examples of a label");
    const bool started = w0_indptr.size() > 0;
    if (started) {
        require(w0_features.size() == w0_values.size(), "w0_features, w0_values: same size");
        require_indptr(w0_indptr, w0_values.size());
        require(w0_indptr.size() == starts.size() && w0_bias.size() + 1 == starts.size(),
                "w0_indptr, w0_bias: one entry per label");
        for (size_t e = 0; e < w0_features.size(); ++e) {
            require(w0_features.data()[e] >= 0 && w0_features.data()[e] < n_features,
                    "w0_features: no such feature");
            require(std::isfinite(w0_values.data()[e]), "w0_values: must be finite");
        }
    }
    const Start start{started ? w0_indptr.data() : nullptr, w0_features.data(), w0_values.data(),
                      w0_bias.data()};
    if (row_weights)
        require_weights(*row_weights, n_rows, "row_weights: must be one positive number per row");
    if (label_weights)
        require_weights(*label_weights, n_labels, "label_weights: must be one positive number per label");
    std::vector<double> squares(static_cast<size_t>(n_rows), 1.0);
    for (int64_t row = 0; row < n_rows; ++row)
        for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
            squares[row] += static_cast<double>(data.data()[e]) * data.data()[e];
    const Rows rows{indptr.data(), indices.data(), data.data(), squares.data(),
                    row_weights ? row_weights->data() : nullptr};
    const Settings settings{cost, epochs, more_epochs, tolerance, prune, most};
    std::vector<Weights> before(held_out ? static_cast<size_t>(n_labels) : 0);
    std::vector<Weights> all(static_cast<size_t>(n_labels));
    Reporter reporter(report);
    {
        GilRelease release;
        std::vector<std::unique_ptr<LabelSolver>> solvers(static_cast<size_t>(n_threads));
        parallel_tasks(n_labels, n_threads, [&](int64_t label, int thread) {
            auto& solver = solvers[static_cast<size_t>(thread)];
            if (!solver) solver = std::make_unique<LabelSolver>(rows, start, n_features, settings);
            const int64_t begin = starts.data()[label], n = starts.data()[label + 1] - begin;
            solver->solve(label, examples.data() + begin, sides.data() + begin,
                          held_out ? seen.data()[label] : n, n,
                          label_weights ? label_weights->data()[label] : 1.0f,
                          mix64(seed ^ mix64(static_cast<uint64_t>(label))),
                          held_out ? &before[label] : nullptr, all[label]);
            reporter.done(thread);
        });
    }
    if (!held_out) return nb::make_tuple(joined(all));
    return nb::make_tuple(joined(before), joined(all));
}

}  // namespace sparseleaf

void bind_linear(nb::module_& m) {
    using namespace sparseleaf;
    m.def("fit_linear", &fit_linear, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("n_features"), nb::arg("starts"), nb::arg("examples"), nb::arg("sides"), nb::arg("seen"),
          nb::arg("w0_indptr"), nb::arg("w0_features"), nb::arg("w0_values"), nb::arg("w0_bias"),
          nb::arg("cost"), nb::arg("epochs"), nb::arg("more_epochs"), nb::arg("tolerance"), nb::arg("prune"),
          nb::arg("most"), nb::arg("seed"), nb::arg("n_threads"), nb::arg("report"),
          nb::arg("row_weights") = nb::none(), nb::arg("label_weights") = nb::none());
}
