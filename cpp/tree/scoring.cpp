// The gain of a split: Σ over outputs of G²/(H + λ) on both sides minus that of the node (eq. 16 of GBDT-MO;
// with H the number of rows, eq. 20 of GBDT-SPARSE).
//
// A histogram row holds the sums of d gradients followed by those of the hessians: none (H is the number of
// rows), one for all outputs, one per output, or the packed lower triangle of the matrix (eq. 14). Sums are
// integers; the score of an output is weight · G²/(H + lambda), where weight and lambda include the scales.
#include "scoring.hpp"

#include <cmath>
#include <functional>

#include "gain.h"

namespace sparseleaf {

namespace gain = sl::gain;
namespace {

constexpr double kSwamp = 1e100;  // lambda of padding outputs

struct Sums {
    const int32_t* sums;

    __attribute__((always_inline)) int32_t operator()(int64_t c) const { return sums[c]; }
};

SPARSELEAF_WIDE
double gain_common(const int32_t* left, const int32_t* total, int64_t padded, const double* weight,
                   double below_left, double below_right) {
    return gain::common(Sums{left}, Sums{total}, padded, weight, below_left, below_right);
}

SPARSELEAF_WIDE
double gain_diagonal(const int32_t* left, const int32_t* total, int64_t outputs, int64_t padded,
                     const double* weight, const double* lambda) {
    return gain::diagonal(Sums{left}, Sums{total}, outputs, padded, weight, lambda);
}

SPARSELEAF_WIDE
void scores_common(const int32_t* sums, int64_t padded, const double* weight, double below, double* out) {
    for (int64_t c = 0; c < padded; ++c)
        out[c] = weight[c] * (static_cast<double>(sums[c]) * sums[c]) / below;
}

SPARSELEAF_WIDE
void scores_diagonal(const int32_t* sums, int64_t outputs, int64_t padded, const double* weight,
                     const double* lambda, double* out) {
    for (int64_t c = 0; c < padded; ++c)
        out[c] = weight[c] * (static_cast<double>(sums[c]) * sums[c]) / (sums[outputs + c] + lambda[c]);
}

// Scores of all outputs of one side.
void scores_of(const Scoring& scoring, const int32_t* sums, int64_t n, double* out) {
    if (scoring.hessian == kDiagonal)
        scores_diagonal(sums, scoring.outputs, scoring.padded, scoring.weight.data(), scoring.lambda.data(),
                        out);
    else
        scores_common(sums, scoring.padded, scoring.weight.data(),
                      scoring.hessian == kCount ? static_cast<double>(n) + scoring.l2
                                                : sums[scoring.outputs] + scoring.lambda[0],
                      out);
}

// Σ of the k largest scores, summed in order of index.
double sum_of_top(const double* scores, int64_t n, int64_t k, std::vector<double>& buffer) {
    if (k >= n) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) sum += scores[j];
        return sum;
    }
    buffer.assign(scores, scores + n);
    std::nth_element(buffer.begin(), buffer.begin() + (k - 1), buffer.end(), std::greater<>());
    const double least = buffer[k - 1];
    double sum = 0.0;
    int64_t above = 0;
    for (int64_t j = 0; j < n; ++j)
        if (scores[j] > least) {
            sum += scores[j];
            ++above;
        }
    return sum + static_cast<double>(k - above) * least;
}

// gᵀ (H + λ)⁻¹ g by Cholesky decomposition; H is the packed lower triangle. Needs (d + 1) · d doubles of
// work.
double quadratic(const int32_t* sums, const Scoring& scoring, std::vector<double>& work) {
    const int64_t d = scoring.outputs;
    work.resize(static_cast<size_t>((d + 1) * d));
    double *factor = work.data(), *x = factor + d * d;
    const int32_t* h = sums + d;
    double form = 0.0;
    for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            double value = *h++ + (i == j ? scoring.lambda[i] : 0.0);
            for (int64_t c = 0; c < j; ++c) value -= factor[i * d + c] * factor[j * d + c];
            // rounding may make H singular: one unit on the diagonal keeps it positive definite
            factor[i * d + j] = i == j ? std::sqrt(std::max(value, 1.0)) : value / factor[j * d + j];
        }
        double value = sums[i];
        for (int64_t c = 0; c < i; ++c) value -= factor[i * d + c] * x[c];
        x[i] = value / factor[i * d + i];
        form += x[i] * x[i];
    }
    return scoring.weight[0] * form;
}

// The optimal value of output j given its sums, clipped to the node's bounds.
double bounded_value(const Scoring& scoring, const int32_t* sums, int64_t n, int64_t j,
                     const Constraint& limits, double& below) {
    below = scoring.hessian == kDiagonal ? sums[scoring.outputs + j] + scoring.lambda[j]
            : scoring.hessian == kShared ? sums[scoring.outputs] + scoring.lambda[0]
                                         : static_cast<double>(n) + scoring.l2;
    return gain::bounded_value(sums[j], below, scoring.step[j], limits.low[j], limits.high[j]);
}

double bounded_score(const Scoring& scoring, const int32_t* sums, int64_t n, int64_t j,
                     const Constraint& limits, double* value) {
    double below;
    *value = bounded_value(scoring, sums, n, j, limits, below);
    return gain::bounded_score(sums[j], below, scoring.weight[j], scoring.step[j], *value);
}

}  // namespace

double hessian_of(const Scoring& scoring, const int32_t* sums) {
    double sum = 0.0;
    const int64_t n = scoring.hessian == kShared ? 1 : scoring.outputs;
    for (int64_t j = 0; j < n; ++j) {
        const int64_t diagonal = scoring.hessian == kMatrix ? j * (j + 3) / 2 : j;
        sum += sums[scoring.outputs + diagonal] * (scoring.weight[j] / (scoring.step[j] * scoring.step[j]));
    }
    return sum;
}

double split_score(const Scoring& scoring, const Constraint& limits, const int32_t* left,
                   const int32_t* total, int64_t n_left, int64_t n, Work& work) {
    const int64_t d = scoring.outputs;
    if (scoring.hessian != kMatrix && scoring.top == 0 && limits.low == nullptr) {
        if (scoring.hessian == kDiagonal)
            return gain_diagonal(left, total, d, scoring.padded, scoring.weight.data(),
                                 scoring.lambda.data());
        const bool count = scoring.hessian == kCount;
        const double below_left =
            count ? static_cast<double>(n_left) + scoring.l2 : left[d] + scoring.lambda[0];
        const double below_right = count ? static_cast<double>(n - n_left) + scoring.l2
                                         : (static_cast<double>(total[d]) - left[d]) + scoring.lambda[0];
        return gain_common(left, total, scoring.padded, scoring.weight.data(), below_left, below_right);
    }
    int32_t* right = work.sums.data() + 2 * work.room;
    for (int64_t c = 0; c < scoring.columns; ++c) right[c] = total[c] - left[c];
    if (scoring.hessian == kMatrix)
        return quadratic(left, scoring, work.buffer) + quadratic(right, scoring, work.buffer);
    if (limits.low != nullptr) {
        double sum = 0.0;
        for (int64_t j = 0; j < d; ++j) {
            double vl, vr;
            sum += bounded_score(scoring, left, n_left, j, limits, &vl);
            sum += bounded_score(scoring, right, n - n_left, j, limits, &vr);
            if (limits.direction != nullptr && limits.direction[j] * (vr - vl) < 0.0) return std::nan("");
        }
        return sum;
    }
    scores_of(scoring, left, n_left, work.left.data());
    scores_of(scoring, right, n - n_left, work.right.data());
    if (!scoring.shared)
        return sum_of_top(work.left.data(), d, scoring.top, work.buffer) +
               sum_of_top(work.right.data(), d, scoring.top, work.buffer);
    for (int64_t j = 0; j < d; ++j) work.left[j] += work.right[j];
    return sum_of_top(work.left.data(), d, scoring.top, work.buffer);
}

Scoring::Scoring(int64_t columns, int hessian, const In1<double>& weight, const In1<double>& lambda,
                 const In1<double>& step, double l2, int64_t top, bool shared, int64_t min_samples,
                 double min_hessian)
    : outputs(static_cast<int64_t>(weight.size())),
      padded((outputs + kWide - 1) / kWide * kWide),
      columns(columns),
      hessian(hessian),
      l2(l2),
      top(top),
      shared(shared),
      min_samples(std::max<int64_t>(min_samples, 1)),
      min_hessian(min_hessian),
      weight(weight.data(), weight.data() + outputs),
      lambda(lambda.data(), lambda.data() + lambda.size()),
      step(step.data(), step.data() + step.size()) {
    const int64_t d = outputs, required[] = {d, d + 1, 2 * d, d + d * (d + 1) / 2};
    require(hessian >= kCount && hessian <= kMatrix && d >= 1 && required[hessian] <= columns,
            "hist: must have columns for all gradients and hessians");
    require(lambda.size() == weight.size() && step.size() == weight.size(),
            "weight, lambda, step: must have one entry per output");
    require(top >= 0 && (hessian != kMatrix || top == 0),
            "top: must be at least 0, and 0 with a matrix of hessians");
    this->weight.resize(static_cast<size_t>(padded), 0.0);
    this->lambda.resize(static_cast<size_t>(padded), kSwamp);
}

Work::Work(const Scoring& scoring)
    : room(scoring.columns + 2 * kWide),
      sums(static_cast<size_t>(3 * room), 0),
      left(static_cast<size_t>(scoring.padded)),
      right(static_cast<size_t>(scoring.padded)) {}

double node_score(const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
                  Work& work) {
    if (scoring.hessian == kMatrix) return quadratic(total, scoring, work.buffer);
    if (limits.low != nullptr) {
        double sum = 0.0, value;
        for (int64_t j = 0; j < scoring.outputs; ++j)
            sum += bounded_score(scoring, total, n, j, limits, &value);
        return sum;
    }
    scores_of(scoring, total, n, work.left.data());
    return sum_of_top(work.left.data(), scoring.outputs, scoring.top > 0 ? scoring.top : scoring.outputs,
                      work.buffer);
}

void middle_of(const Scoring& scoring, const Constraint& limits, const int32_t* left, const int32_t* total,
               int64_t n_left, int64_t n, double* middle) {
    std::vector<int32_t> right(static_cast<size_t>(scoring.columns));
    for (int64_t c = 0; c < scoring.columns; ++c) right[c] = total[c] - left[c];
    for (int64_t j = 0; j < scoring.outputs; ++j) {
        double below;
        const double on_left = bounded_value(scoring, left, n_left, j, limits, below);
        const double on_right = bounded_value(scoring, right.data(), n - n_left, j, limits, below);
        middle[j] = 0.5 * (on_left + on_right);
    }
}

}  // namespace sparseleaf
