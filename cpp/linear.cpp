// A linear model for every label, trained on the rows that the label is a candidate of.
//
// In: sparse rows, and for every label the rows it is trained on with their sides (+1 has it, -1 has not).
// Out: sparse weights and a bias for every label. Each label is its own L2-regularised squared-hinge problem,
// solved by dual coordinate descent; labels run in parallel, and each belongs to one thread, so threads
// change nothing.
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
    const double* squares;  // squared length of every row, with the feature that is always 1
};

struct Settings {
    double cost;       // C: what a unit of squared loss costs
    int epochs;        // passes over a label's rows, at most
    double tolerance;  // passes end when the projected gradients spread by less
    float prune;       // weights below this are dropped
    int64_t most;      // weights that a label keeps, at most: the largest
};

struct Weights {
    std::vector<int32_t> features;
    std::vector<float> values;
    float bias = 0.0f;
};

// One label at a time; the work arrays outlive it and are clean between labels.
class LabelSolver {
  public:
    LabelSolver(const Rows& rows, int64_t n_features, const Settings& settings)
        : rows_(rows), settings_(settings), w_(static_cast<size_t>(n_features), 0.0f) {}

    Weights solve(const int32_t* examples, const int8_t* sides, int64_t n, uint64_t key) {
        descend(examples, sides, n, key);
        return collect();
    }

  private:
    // minimise ½‖w‖² + C Σ max(0, 1 − y (w·x + b))², b being the weight of a feature that is always 1
    void descend(const int32_t* examples, const int8_t* sides, int64_t n, uint64_t key) {
        const double ridge = 0.5 / settings_.cost;
        alpha_.assign(static_cast<size_t>(n), 0.0);
        moved_.assign(static_cast<size_t>(n), false);
        touched_.clear();
        order_.resize(static_cast<size_t>(n));
        std::iota(order_.begin(), order_.end(), int64_t{0});
        // An example on the right side of the margin stays there, mostly: passes leave out those that are
        // further off than any that moved in the pass before, and the last pass takes all of them again.
        int64_t active = n;
        double limit = std::numeric_limits<double>::infinity();
        for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
            for (int64_t i = active - 1; i > 0; --i) {
                key = mix64(key);
                std::swap(order_[i], order_[static_cast<int64_t>(key % static_cast<uint64_t>(i + 1))]);
            }
            double highest = 0.0, lowest = 0.0;
            for (int64_t at = 0; at < active; ++at) {
                const int64_t i = order_[at];
                const double side = sides[i];
                const double gradient = side * margin(examples[i]) - 1.0 + ridge * alpha_[i];
                if (alpha_[i] == 0.0 && gradient >= 0.0) {
                    if (gradient > limit) std::swap(order_[at--], order_[--active]);
                    continue;
                }
                highest = std::max(highest, gradient);
                lowest = std::min(lowest, gradient);
                const double before = alpha_[i];
                alpha_[i] = std::max(before - gradient / (rows_.squares[examples[i]] + ridge), 0.0);
                add(examples[i], side * (alpha_[i] - before));
                if (!moved_[i]) {
                    moved_[i] = true;
                    touched_.push_back(examples[i]);
                }
            }
            limit = highest > 0.0 ? highest : std::numeric_limits<double>::infinity();
            if (highest - lowest < settings_.tolerance) {
                if (active == n) break;
                active = n;
                limit = std::numeric_limits<double>::infinity();
            }
        }
    }

    double margin(int32_t row) const {
        double sum = bias_;
        for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e)
            sum += static_cast<double>(w_[rows_.indices[e]] * rows_.data[e]);
        return sum;
    }

    void add(int32_t row, double step) {
        const auto narrow = static_cast<float>(step);
        for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e)
            w_[rows_.indices[e]] += narrow * rows_.data[e];
        bias_ += step;
    }

    // The largest weights, by feature; leaves the work arrays clean.
    Weights collect() {
        std::vector<std::pair<float, int32_t>> found;
        for (int32_t row : touched_)
            for (int64_t e = rows_.indptr[row]; e < rows_.indptr[row + 1]; ++e) {
                const int32_t feature = rows_.indices[e];
                const float weight = w_[feature];
                w_[feature] = 0.0f;
                if (weight != 0.0f && std::abs(weight) >= settings_.prune) found.push_back({weight, feature});
            }
        const auto kept = std::min<int64_t>(settings_.most, static_cast<int64_t>(found.size()));
        std::partial_sort(found.begin(), found.begin() + kept, found.end(), [](const auto& a, const auto& b) {
            const float x = std::abs(a.first), y = std::abs(b.first);
            return x != y ? x > y : a.second < b.second;
        });
        found.resize(static_cast<size_t>(kept));
        std::sort(found.begin(), found.end(),
                  [](const auto& a, const auto& b) { return a.second < b.second; });
        Weights weights;
        weights.bias = static_cast<float>(bias_);
        bias_ = 0.0;
        for (const auto& [value, feature] : found) {
            weights.features.push_back(feature);
            weights.values.push_back(value);
        }
        return weights;
    }

    const Rows& rows_;
    const Settings& settings_;
    std::vector<float> w_;
    std::vector<double> alpha_;
    std::vector<int64_t> order_;
    std::vector<bool> moved_;
    std::vector<int32_t> touched_;  // rows that the weights have met
    double bias_ = 0.0;
};

// Calls report(labels done) ten times a second from the calling thread, which holds the GIL for it: progress
// is shown, and Ctrl-C raises there and ends the loop.
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

// Examples of label l are rows examples[starts[l]:starts[l + 1]]. Answers (indptr, features, weights, bias).
nb::tuple fit_linear(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, int64_t n_features,
                     In1<int64_t> starts, In1<int32_t> examples, In1<int8_t> sides, double cost, int epochs,
                     double tolerance, float prune, int64_t most, uint64_t seed, int n_threads,
                     const nb::callable& report) {
    require(indices.size() == data.size(), "rows: indices, data: same size");
    require_indptr(indptr, data.size());
    require_indptr(starts, examples.size());
    require(examples.size() == sides.size(), "examples, sides: same size");
    require(std::isfinite(cost) && cost > 0.0, "cost: must be above 0");
    require(epochs >= 1 && most >= 0 && n_threads >= 1 && n_features >= 0,
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
    std::vector<double> squares(static_cast<size_t>(n_rows), 1.0);
    for (int64_t row = 0; row < n_rows; ++row)
        for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
            squares[row] += static_cast<double>(data.data()[e]) * data.data()[e];
    const Rows rows{indptr.data(), indices.data(), data.data(), squares.data()};
    const Settings settings{cost, epochs, tolerance, prune, most};
    std::vector<Weights> found(static_cast<size_t>(n_labels));
    std::unique_ptr<int64_t[]> sizes;
    std::unique_ptr<int32_t[]> features;
    std::unique_ptr<float[]> values, bias;
    int64_t total = 0;
    Reporter reporter(report);
    {
        GilRelease release;
        std::vector<std::unique_ptr<LabelSolver>> solvers(static_cast<size_t>(n_threads));
        parallel_tasks(n_labels, n_threads, [&](int64_t label, int thread) {
            auto& solver = solvers[static_cast<size_t>(thread)];
            if (!solver) solver = std::make_unique<LabelSolver>(rows, n_features, settings);
            const int64_t begin = starts.data()[label], n = starts.data()[label + 1] - begin;
            found[label] = solver->solve(examples.data() + begin, sides.data() + begin, n,
                                         mix64(seed ^ mix64(static_cast<uint64_t>(label))));
            reporter.done(thread);
        });
        sizes = std::make_unique<int64_t[]>(static_cast<size_t>(n_labels) + 1);
        bias = std::make_unique<float[]>(static_cast<size_t>(n_labels));
        for (int64_t l = 0; l < n_labels; ++l) {
            total += static_cast<int64_t>(found[l].features.size());
            sizes[l + 1] = total;
            bias[l] = found[l].bias;
        }
        features = std::make_unique<int32_t[]>(static_cast<size_t>(total));
        values = std::make_unique<float[]>(static_cast<size_t>(total));
        for (int64_t l = 0; l < n_labels; ++l) {
            std::copy(found[l].features.begin(), found[l].features.end(), features.get() + sizes[l]);
            std::copy(found[l].values.begin(), found[l].values.end(), values.get() + sizes[l]);
        }
    }
    return nb::make_tuple(to_numpy(std::move(sizes), static_cast<size_t>(n_labels) + 1),
                          to_numpy(std::move(features), static_cast<size_t>(total)),
                          to_numpy(std::move(values), static_cast<size_t>(total)),
                          to_numpy(std::move(bias), static_cast<size_t>(n_labels)));
}

}  // namespace sparseleaf

void bind_linear(nb::module_& m) {
    using namespace sparseleaf;
    m.def("fit_linear", &fit_linear, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("n_features"), nb::arg("starts"), nb::arg("examples"), nb::arg("sides"), nb::arg("cost"),
          nb::arg("epochs"), nb::arg("tolerance"), nb::arg("prune"), nb::arg("most"), nb::arg("seed"),
          nb::arg("n_threads"), nb::arg("report"));
}
