// Statistics of dense targets, per output: what is known, the largest values, and sums.
#include <cmath>

#include "per_thread.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kRows = 1024;  // per task

// Calls work(first row, end, thread) for all rows in parallel.
template <typename Work>
void for_rows(int64_t n, int n_threads, Work work) {
    parallel_tasks((n + kRows - 1) / kRows, n_threads, [&](int64_t task, int thread) {
        work(task * kRows, std::min(n, (task + 1) * kRows), thread);
    });
}

// Numbers, or a class per row as indicators of the classes, and their weights: one per row or per number, or
// none if all are 1. NaN and class -1 are unknown.
struct Targets {
    In2<float> values;
    In1<int32_t> classes;
    In2<float> weights;
    int64_t d;

    Targets(const In2<float>& values, const In1<int32_t>& classes, const In2<float>& weights, int64_t d)
        : values(values), classes(classes), weights(weights), d(d) {
        require(d >= 1, "n_outputs: must be at least 1");
        require(values.shape(0) == 0 || static_cast<int64_t>(values.shape(1)) == d,
                "values: must have n_outputs columns");
        require(values.shape(0) == 0 || classes.size() == 0, "values, classes: must not be both given");
        require(
            weights.shape(0) == 0 || (static_cast<int64_t>(weights.shape(0)) == n_rows() &&
                                      (weights.shape(1) == 1 || static_cast<int64_t>(weights.shape(1)) == d)),
            "weights: must have all rows, and one column or n_outputs");
    }

    int64_t n_rows() const {
        return static_cast<int64_t>(values.shape(0) ? values.shape(0) : classes.size());
    }

    // Calls visit(output, weight, weight · target) for the known targets of a row.
    template <typename Visit>
    void visit_row(int64_t i, Visit visit) const {
        if (values.shape(0)) {
            const float* row = values.data() + i * d;
            for (int64_t j = 0; j < d; ++j) {
                if (std::isnan(row[j])) continue;
                const double w = weight(i, j);
                visit(j, w, static_cast<double>(row[j]) * w);
            }
        } else if (classes.data()[i] >= 0) {
            for (int64_t j = 0; j < d; ++j) {
                const double w = weight(i, j);
                visit(j, w, classes.data()[i] == j ? w : 0.0);
            }
        }
    }

  private:
    double weight(int64_t i, int64_t j) const {
        if (!weights.shape(0)) return 1.0;
        return weights.shape(1) == 1 ? weights.data()[i] : weights.data()[i * d + j];
    }
};

// Counts the known values of every column, and updates the lowest, and the highest with the opposite sign. By
// column, so that a vector has as many columns.
SPARSELEAF_WIDE
void add_known(const float* values, int64_t n, int64_t d, int64_t* known, float* lowest, float* highest) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < d; ++j) {
            const float value = values[i * d + j];
            known[j] += value == value;
            lowest[j] = value < lowest[j] ? value : lowest[j];  // not with NaN
            highest[j] = -value < highest[j] ? -value : highest[j];
        }
}

// Number of values of every column that are not NaN; returns the lowest and the highest of all, infinity and
// -infinity if there are none.
nb::tuple known_values(In2<float> values, Out1<int64_t> counts, int n_threads) {
    const auto n = static_cast<int64_t>(values.shape(0)), d = static_cast<int64_t>(values.shape(1));
    require(static_cast<int64_t>(counts.size()) == d, "counts: must have one entry per column");
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    float ends[2] = {kInfinity, kInfinity};  // lowest, and highest with the opposite sign
    {
        GilRelease release;
        PerThread<int64_t> known(n_threads, d, 0);
        PerThread<float> extremes(n_threads, 2 * d, kInfinity);
        for_rows(n, n_threads, [&](int64_t begin, int64_t end, int thread) {
            float* lowest = extremes[thread];
            add_known(values.data() + begin * d, end - begin, d, known[thread], lowest, lowest + d);
        });
        known.combined(counts.data(), n_threads, [](int64_t a, int64_t b) { return a + b; });
        std::vector<float> of_columns(static_cast<size_t>(2 * d));
        extremes.combined(of_columns.data(), n_threads, [](float a, float b) { return std::min(a, b); });
        for (int64_t j = 0; j < 2 * d; ++j) ends[j >= d] = std::min(ends[j >= d], of_columns[j]);
    }
    return nb::make_tuple(ends[0], -ends[1]);
}

// Largest weight and largest |weight · target| of the known targets of every output: out (2, n_outputs).
void largest_targets(In2<float> values, In1<int32_t> classes, In2<float> weights, Out2<double> out,
                     int n_threads) {
    const auto d = static_cast<int64_t>(out.shape(1));
    require(out.shape(0) == 2, "out: must have two rows");
    const Targets targets(values, classes, weights, d);
    GilRelease release;
    PerThread<double> largest(n_threads, 2 * d, 0.0);
    for_rows(targets.n_rows(), n_threads, [&](int64_t begin, int64_t end, int thread) {
        double* mine = largest[thread];
        for (int64_t i = begin; i < end; ++i)
            targets.visit_row(i, [&](int64_t j, double weight, double weighted) {
                mine[j] = std::max(mine[j], weight);
                mine[d + j] = std::max(mine[d + j], std::fabs(weighted));
            });
    });
    largest.combined(out.data(), n_threads, [](double a, double b) { return std::max(a, b); });
}

// Σ weight and Σ weight · target of the known targets of every output, each rounded after multiplication by
// its scale: scales, out (2, n_outputs).
void target_sums(In2<float> values, In1<int32_t> classes, In2<float> weights, In2<double> scales,
                 Out2<int64_t> out, int n_threads) {
    const auto d = static_cast<int64_t>(out.shape(1));
    require(out.shape(0) == 2 && scales.shape(0) == 2 && scales.shape(1) == out.shape(1),
            "scales, out: must have two rows and n_outputs columns");
    const Targets targets(values, classes, weights, d);
    GilRelease release;
    PerThread<int64_t> sums(n_threads, 2 * d, 0);
    const double *of_weight = scales.data(), *of_weighted = scales.data() + d;
    for_rows(targets.n_rows(), n_threads, [&](int64_t begin, int64_t end, int thread) {
        int64_t* mine = sums[thread];
        for (int64_t i = begin; i < end; ++i)
            targets.visit_row(i, [&](int64_t j, double weight, double weighted) {
                mine[j] += static_cast<int64_t>(std::nearbyint(weight * of_weight[j]));
                mine[d + j] += static_cast<int64_t>(std::nearbyint(weighted * of_weighted[j]));
            });
    });
    sums.combined(out.data(), n_threads, [](int64_t a, int64_t b) { return a + b; });
}

}  // namespace
}  // namespace sparseleaf

void bind_targets(nb::module_& m) {
    using namespace sparseleaf;
    m.def("known_values", &known_values, nb::arg("values"), nb::arg("counts").noconvert(),
          nb::arg("n_threads"));
    m.def("largest_targets", &largest_targets, nb::arg("values"), nb::arg("classes"), nb::arg("weights"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("target_sums", &target_sums, nb::arg("values"), nb::arg("classes"), nb::arg("weights"),
          nb::arg("scales"), nb::arg("out").noconvert(), nb::arg("n_threads"));
}
