// Best cut of every node from its histogram: the gain of objective, Σ over outputs of G²/(H + λ) on both
// sides less that of the node (eq. 16 of GBDT-MO; with H the number of rows, eq. 20 of GBDT-SPARSE).
//
// A histogram row holds the sums of d gradients and, behind them, of the curvatures: none (H is the number of
// rows), one for all outputs, one for each, or the packed lower triangle of their matrix (eq. 14). Sums are
// integers; an output's score is weight · G²/(H + lambda), where weight and lambda carry the scales.
//
// Ties: higher gain, then lower feature, then lower bin, then missing rows to the right. Every gain is
// computed by one thread in one fixed order, so the winner does not depend on the number of threads.
#include "split.hpp"

#include <cmath>
#include <limits>

namespace sparseleaf {
namespace {

constexpr int kWide = 8;             // lanes of a sum, whatever the vector width
constexpr double kSwamp = 1e100;     // lambda of the outputs that only pad a vector
constexpr double kSmoothing = 10.0;  // rows of an average category that are added to each before ordering

double sum_lanes(const double* l) {
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

// One H for all outputs of a side: Σ w·left²/below_left + Σ w·right²/below_right.
SPARSELEAF_WIDE
double gain_common(const int32_t* left, const int32_t* total, int64_t padded, const double* weight,
                   double below_left, double below_right) {
    double l[kWide] = {}, r[kWide] = {};
    for (int64_t c = 0; c < padded; c += kWide)
        for (int j = 0; j < kWide; ++j) {
            const double a = left[c + j], b = static_cast<double>(total[c + j]) - a;
            l[j] += weight[c + j] * (a * a);
            r[j] += weight[c + j] * (b * b);
        }
    return sum_lanes(l) / below_left + sum_lanes(r) / below_right;
}

// An H for each output. Both quotients share one division, which is what the loop would wait for.
SPARSELEAF_WIDE
double gain_diagonal(const int32_t* left, const int32_t* total, int64_t outputs, int64_t padded,
                     const double* weight, const double* lambda) {
    double sums[kWide] = {};
    const int32_t *left_h = left + outputs, *total_h = total + outputs;
    for (int64_t c = 0; c < padded; c += kWide)
        for (int j = 0; j < kWide; ++j) {
            const double gl = left[c + j], gr = static_cast<double>(total[c + j]) - gl;
            const double h = left_h[c + j], hl = h + lambda[c + j],
                         hr = (static_cast<double>(total_h[c + j]) - h) + lambda[c + j];
            sums[j] += weight[c + j] * (((gl * gl) * hr + (gr * gr) * hl) / (hl * hr));
        }
    return sum_lanes(sums);
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

// The score of every output of one side.
void scores_of(const Scoring& scoring, const int32_t* sums, int64_t n, double* out) {
    if (scoring.curvature == kDiagonal)
        scores_diagonal(sums, scoring.outputs, scoring.padded, scoring.weight.data(), scoring.lambda.data(),
                        out);
    else
        scores_common(sums, scoring.padded, scoring.weight.data(),
                      scoring.curvature == kCount ? static_cast<double>(n) + scoring.l2
                                                  : sums[scoring.outputs] + scoring.lambda[0],
                      out);
}

// Σ of the k largest, added in order of index.
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

// gᵀ (H + λ)⁻¹ g by Cholesky; H is packed by rows of its lower triangle. Work: (d + 1) · d doubles.
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
            // rounding of the sums may leave a direction without curvature: one unit keeps it harmless
            factor[i * d + j] = i == j ? std::sqrt(std::max(value, 1.0)) : value / factor[j * d + j];
        }
        double value = sums[i];
        for (int64_t c = 0; c < i; ++c) value -= factor[i * d + c] * x[c];
        x[i] = value / factor[i * d + i];
        form += x[i] * x[i];
    }
    return scoring.weight[0] * form;
}

// Best value of output j given its sums, kept within the node's bounds; in units of the score.
double bounded_value(const Scoring& scoring, const int32_t* sums, int64_t n, int64_t j,
                     const Constraint& limits, double& below) {
    below = scoring.curvature == kDiagonal ? sums[scoring.outputs + j] + scoring.lambda[j]
            : scoring.curvature == kShared ? sums[scoring.outputs] + scoring.lambda[0]
                                           : static_cast<double>(n) + scoring.l2;
    return std::clamp(-scoring.step[j] * sums[j] / below, limits.low[j], limits.high[j]);
}

// −(2Gv + (H + λ)v²) = weight · ((H + λ)(2uv − v²)) with u the free optimum, in units where step is 1.
double bounded_score(const Scoring& scoring, const int32_t* sums, int64_t n, int64_t j,
                     const Constraint& limits, double* value) {
    double below;
    *value = bounded_value(scoring, sums, n, j, limits, below);
    const double v = *value / scoring.step[j];
    return scoring.weight[j] * (-2.0 * sums[j] * v - below * v * v);
}

// Σ H over all outputs, freed of its scale.
double curvature_of(const Scoring& scoring, const int32_t* sums) {
    double sum = 0.0;
    const int64_t n = scoring.curvature == kShared ? 1 : scoring.outputs;
    for (int64_t j = 0; j < n; ++j) {
        const int64_t diagonal = scoring.curvature == kMatrix ? j * (j + 3) / 2 : j;
        sum += sums[scoring.outputs + diagonal] * (scoring.weight[j] / (scoring.step[j] * scoring.step[j]));
    }
    return sum;
}

// What both sides are worth; NaN where a constraint forbids the cut.
double worth(const Scoring& scoring, const Constraint& limits, const int32_t* left, const int32_t* total,
             int64_t n_left, int64_t n, Work& work) {
    const int64_t d = scoring.outputs;
    if (scoring.curvature != kMatrix && scoring.top == 0 && limits.low == nullptr) {
        if (scoring.curvature == kDiagonal)
            return gain_diagonal(left, total, d, scoring.padded, scoring.weight.data(),
                                 scoring.lambda.data());
        const bool count = scoring.curvature == kCount;
        const double below_left =
            count ? static_cast<double>(n_left) + scoring.l2 : left[d] + scoring.lambda[0];
        const double below_right = count ? static_cast<double>(n - n_left) + scoring.l2
                                         : (static_cast<double>(total[d]) - left[d]) + scoring.lambda[0];
        return gain_common(left, total, scoring.padded, scoring.weight.data(), below_left, below_right);
    }
    int32_t* right = work.sums.data() + 2 * work.room;
    for (int64_t c = 0; c < scoring.columns; ++c) right[c] = total[c] - left[c];
    if (scoring.curvature == kMatrix)
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

SPARSELEAF_WIDE
void add_columns(int32_t* sums, const int32_t* more, int64_t m) {
    for (int64_t c = 0; c < m; ++c) sums[c] += more[c];
}

// A feature's bins in a node.
struct Bins {
    const int32_t* hist;
    const int32_t* counts;
    int64_t step;          // from a bin's count to the next
    int64_t n;             // without that of missing rows
    const int32_t* order;  // categories: the order to scan in; else null
    int64_t n_missing;

    int32_t count(int64_t bin) const { return counts[bin * step]; }
};

Bins bins_of(const ActiveFeatures& features, const NodeSums& node, int64_t m, int64_t f) {
    const int64_t first = features.offsets[f];
    const bool missing = features.has_missing[f] != 0;
    const int64_t values = features.offsets[f + 1] - first - (missing ? 1 : 0);
    Bins bins{node.hist + first * m, node.counts + first * node.step, node.step, values, nullptr, 0};
    if (missing) bins.n_missing = bins.count(values);
    return bins;
}

// Scans the bins of one feature upwards; `left` starts empty, or with the missing rows in it. False: no cut
// leaves enough rows on both sides.
bool scan(const Bins& bins, const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
          double parent, int32_t feature, bool missing_left, int32_t* left, Work& work, Cut* best) {
    const int64_t m = scoring.columns;
    std::fill(left, left + m, 0);
    int64_t n_left = 0;
    if (missing_left) {
        add_columns(left, bins.hist + bins.n * m, m);
        n_left = bins.n_missing;
    }
    // with missing rows on the right, "all values left" is a cut as well
    const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
    bool possible = false;
    for (int64_t i = 0; i < end; ++i) {
        const int64_t b = bins.order ? bins.order[i] : i;
        if (bins.count(b) == 0) continue;  // same partition as the bin before
        add_columns(left, bins.hist + b * m, m);
        n_left += bins.count(b);
        if (n_left < scoring.min_samples) continue;
        if (n - n_left < scoring.min_samples) break;
        possible = true;
        if (scoring.min_curvature > 0.0 && scoring.curvature != kCount) {
            const double own = curvature_of(scoring, left);
            if (own < scoring.min_curvature) continue;
            if (curvature_of(scoring, total) - own < scoring.min_curvature) break;
        }
        const double gain = worth(scoring, limits, left, total, n_left, n, work) - parent;
        if (std::isnan(gain)) continue;
        const Cut cut{gain, feature, static_cast<int32_t>(i), static_cast<int32_t>(n_left), missing_left};
        if (better(cut, *best)) *best = cut;
    }
    return possible;
}

// What both sides of a cut must at least be worth to be better than the best.
double to_beat(const Cut& best, double parent) {
    constexpr double kRounding = 1e-9;  // far more than a gain's
    return best.feature < 0 ? -std::numeric_limits<double>::infinity()
                            : best.gain + parent - kRounding * (std::abs(best.gain) + std::abs(parent));
}

constexpr int64_t kNarrow = 4;  // columns of a histogram of one output: gradient, curvature, padding, rows

// Whether the cuts between [least, most] rows on the left are possible, and whether one may be worth `worst`;
// `h` is the column of the curvature. Sums of the bins so far go to `sums`.
struct Outlook {
    bool possible, promising;
};
SPARSELEAF_WIDE
Outlook look_ahead(const int32_t* hist, const int32_t* missing, int64_t n, int64_t h, const int32_t* total,
                   int64_t least, int64_t most, double weight, double lambda, double worst, int32_t* sums) {
    typedef int32_t Int4 __attribute__((vector_size(16), aligned(4), may_alias));
    Int4 sum{};
    if (missing) sum = *reinterpret_cast<const Int4*>(missing);
    for (int64_t i = 0; i < n; ++i) {
        sum += *reinterpret_cast<const Int4*>(hist + i * kNarrow);
        *reinterpret_cast<Int4*>(sums + i * kNarrow) = sum;
    }
    const double total_g = total[0], total_h = total[h];
    const auto rows = [&](int64_t i) { return sums[i * kNarrow + kNarrow - 1]; };
    int64_t begin = 0, end = n;
    while (begin < end && rows(begin) < least) ++begin;
    while (begin < end && rows(end - 1) > most) --end;
    int64_t n_promising = 0;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t* left = sums + i * kNarrow;
        const double left_g = left[0], right_g = total_g - left_g;
        const double below_left = left[h] + lambda, below_right = (total_h - left[h]) + lambda;
        const double above = (left_g * left_g) * below_right + (right_g * right_g) * below_left,
                     below = below_left * below_right;
        n_promising += !((weight * above < worst * below) & (below > 0.0));
    }
    return {begin < end, n_promising > 0};
}

// The same for one output, in numbers instead of vectors. A bin that no row has is looked at as well: its cut
// is that of the bin before, which wins, and to find out whether there are rows takes longer. Most cuts are
// told to be worse than the best without a division.
bool scan_one(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, double parent,
              int32_t feature, bool missing_left, Cut* best) {
    const int64_t m = scoring.columns;
    const bool count = scoring.curvature == kCount, diagonal = scoring.curvature == kDiagonal;
    const double weight = scoring.weight[0], lambda = count ? scoring.l2 : scoring.lambda[0];
    const double unit = weight / (scoring.step[0] * scoring.step[0]);  // of a curvature
    const double total_g = total[0], total_h = count ? static_cast<double>(n) : total[1];
    int64_t g = 0, h = 0, n_left = 0;
    const auto add = [&](int64_t b) {
        g += bins.hist[b * m];
        n_left += bins.count(b);
        h += count ? bins.count(b) : bins.hist[b * m + 1];
    };
    if (missing_left) add(bins.n);
    const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
    const int64_t least = std::max(scoring.min_samples, n_left + 1), most = n - scoring.min_samples;
    double worst = to_beat(*best, parent);
    bool possible = false;
    for (int64_t i = 0; i < end; ++i) {
        add(bins.order ? bins.order[i] : i);
        if (n_left < least) continue;
        if (n_left > most) break;
        possible = true;
        const double left_g = static_cast<double>(g), right_g = total_g - left_g;
        const double left_h = static_cast<double>(h), right_h = total_h - left_h;
        if (scoring.min_curvature > 0.0 && !count) {
            if (left_h * unit < scoring.min_curvature) continue;
            if (total_h * unit - left_h * unit < scoring.min_curvature) break;
        }
        const double below_left = left_h + lambda, below_right = right_h + lambda;
        const double above = (left_g * left_g) * below_right + (right_g * right_g) * below_left,
                     below = below_left * below_right;
        if (weight * above < worst * below && below > 0.0) continue;
        const double gain = (diagonal ? weight * (above / below)
                                      : weight * (left_g * left_g) / below_left +
                                            weight * (right_g * right_g) / below_right) -
                            parent;
        if (std::isnan(gain)) continue;
        const Cut cut{gain, feature, static_cast<int32_t>(i), static_cast<int32_t>(n_left), missing_left};
        if (better(cut, *best)) *best = cut;
        worst = to_beat(*best, parent);
    }
    return possible;
}

// Categories by the first principal direction of their mean steps: neighbours in that order want similar
// values. With one output this is the order by mean step: of categories with equal weight some prefix is then
// the best set of all; small categories are drawn towards the mean, which may cost a little of that.
void order_categories(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, Work& work) {
    const int64_t d = scoring.outputs, m = scoring.columns, k = bins.n;
    std::vector<double> steps(static_cast<size_t>(k * d), 0.0), key(static_cast<size_t>(k), 0.0);
    const bool diagonal = scoring.curvature == kDiagonal;
    for (int64_t b = 0; b < k; ++b) {
        if (bins.count(b) == 0) continue;
        for (int64_t j = 0; j < d; ++j) {
            const double own_h = diagonal ? bins.hist[b * m + d + j] : bins.count(b);
            const double all_h = diagonal ? total[d + j] : static_cast<double>(n);
            const double smooth = kSmoothing * all_h / static_cast<double>(n) + (diagonal ? 1.0 : 0.0);
            steps[b * d + j] = -std::sqrt(scoring.weight[j]) * bins.hist[b * m + j] / (own_h + smooth);
        }
    }
    // power iteration on Σ n·step·stepᵀ around the mean
    std::vector<double> mean(static_cast<size_t>(d), 0.0), axis(static_cast<size_t>(d)),
        next(static_cast<size_t>(d));
    double rows = 0.0;
    for (int64_t b = 0; b < k; ++b) {
        rows += bins.count(b);
        for (int64_t j = 0; j < d; ++j) mean[j] += bins.count(b) * steps[b * d + j];
    }
    for (int64_t j = 0; j < d; ++j) mean[j] /= std::max(rows, 1.0);
    int64_t farthest = 0;
    double farthest_size = -1.0;
    for (int64_t b = 0; b < k; ++b) {
        double size = 0.0;
        for (int64_t j = 0; j < d; ++j) {
            steps[b * d + j] = bins.count(b) ? steps[b * d + j] - mean[j] : 0.0;
            size += steps[b * d + j] * steps[b * d + j];
        }
        size *= bins.count(b);
        if (size > farthest_size) farthest = b, farthest_size = size;
    }
    std::copy_n(steps.begin() + farthest * d, d, axis.begin());
    constexpr int kRounds = 10;
    for (int round = 0; d > 1 && round < kRounds; ++round) {
        std::fill(next.begin(), next.end(), 0.0);
        for (int64_t b = 0; b < k; ++b) {
            double along = 0.0;
            for (int64_t j = 0; j < d; ++j) along += steps[b * d + j] * axis[j];
            for (int64_t j = 0; j < d; ++j) next[j] += bins.count(b) * along * steps[b * d + j];
        }
        double size = 0.0;
        for (int64_t j = 0; j < d; ++j) size += next[j] * next[j];
        if (size <= 0.0) break;
        for (int64_t j = 0; j < d; ++j) axis[j] = next[j] / std::sqrt(size);
    }
    for (int64_t b = 0; b < k; ++b)
        for (int64_t j = 0; j < d; ++j) key[b] += steps[b * d + j] * axis[j];
    work.order.resize(static_cast<size_t>(k));
    for (int64_t b = 0; b < k; ++b) work.order[b] = static_cast<int32_t>(b);
    std::sort(work.order.begin(), work.order.end(), [&](int32_t a, int32_t b) {
        // categories that no row has come last, so that they stay on the right
        if ((bins.count(a) == 0) != (bins.count(b) == 0)) return bins.count(b) == 0;
        return key[a] != key[b] ? key[a] < key[b] : a < b;
    });
}

}  // namespace

bool better(const Cut& a, const Cut& b) {
    if (a.feature < 0 || b.feature < 0) return b.feature < 0 && a.feature >= 0;
    if (a.gain != b.gain) return a.gain > b.gain;
    if (a.feature != b.feature) return a.feature < b.feature;
    if (a.bin != b.bin) return a.bin < b.bin;
    return !a.missing_left && b.missing_left;
}

Scoring::Scoring(int64_t columns, int curvature, const In1<double>& weight, const In1<double>& lambda,
                 const In1<double>& step, double l2, int64_t top, bool shared, int64_t min_samples,
                 double min_curvature)
    : outputs(static_cast<int64_t>(weight.size())),
      padded((outputs + kWide - 1) / kWide * kWide),
      columns(columns),
      curvature(curvature),
      l2(l2),
      top(top),
      shared(shared),
      min_samples(std::max<int64_t>(min_samples, 1)),
      min_curvature(min_curvature),
      weight(weight.data(), weight.data() + outputs),
      lambda(lambda.data(), lambda.data() + lambda.size()),
      step(step.data(), step.data() + step.size()) {
    const int64_t d = outputs, wanted[] = {d, d + 1, 2 * d, d + d * (d + 1) / 2};
    require(curvature >= kCount && curvature <= kMatrix && d >= 1 && wanted[curvature] <= columns,
            "hist: columns for the gradients and curvatures");
    require(lambda.size() == weight.size() && step.size() == weight.size(),
            "weight, lambda, step: one number an output");
    require(top >= 0 && (curvature != kMatrix || top == 0), "top: not with a matrix of curvatures");
    this->weight.resize(static_cast<size_t>(padded), 0.0);
    this->lambda.resize(static_cast<size_t>(padded), kSwamp);
}

Work::Work(const Scoring& scoring)
    : room(scoring.columns + 2 * kWide),
      sums(static_cast<size_t>(3 * room), 0),
      left(static_cast<size_t>(scoring.padded)),
      right(static_cast<size_t>(scoring.padded)) {}

ActiveFeatures::ActiveFeatures(const In1<int32_t>& offsets, const In1<uint8_t>& has_missing,
                               const In1<uint8_t>& categorical, int64_t n_bins)
    : n(static_cast<int64_t>(has_missing.size())),
      offsets(offsets.data()),
      has_missing(has_missing.data()),
      categorical(categorical.data()) {
    require(n >= 1 && categorical.size() == has_missing.size(),
            "has_missing, categorical: one number a feature, at least one feature");
    require(static_cast<int64_t>(offsets.size()) == n + 1 && offsets.data()[0] == 0 &&
                offsets.data()[n] == n_bins && std::is_sorted(offsets.data(), offsets.data() + n + 1),
            "offsets: one more than features, rising from 0 to the bins of hist");
    for (int64_t f = 0; f < n; ++f) {
        const int64_t size = this->offsets[f + 1] - this->offsets[f];
        require(size >= 1 + (this->has_missing[f] != 0), "offsets: a feature without bins");
        require(!this->categorical[f] || size <= 8 * kSetBytes, "categorical: too many bins");
    }
}

double worth_whole(const Scoring& scoring, const Constraint& limits, const int32_t* total, int64_t n,
                   Work& work) {
    if (scoring.curvature == kMatrix) return quadratic(total, scoring, work.buffer);
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

bool search_feature(const Scoring& scoring, const Constraint& limits, const ActiveFeatures& features,
                    const NodeSums& node, int64_t feature, double parent, Work& work, Cut* best) {
    Bins bins = bins_of(features, node, scoring.columns, feature);
    if (features.categorical[feature]) {
        order_categories(bins, scoring, node.total, node.n, work);
        bins.order = work.order.data();
    }
    const bool alone = scoring.outputs == 1 && scoring.curvature != kMatrix && limits.low == nullptr;
    const auto number = static_cast<int32_t>(feature);
    const bool counted_inside = scoring.columns == kNarrow && node.counts == node.hist + kNarrow - 1;
    bool possible = false;
    for (const bool missing_left : {false, true}) {
        if (missing_left && bins.n_missing == 0) continue;
        if (alone && counted_inside && !bins.order) {
            // nearly no feature has a cut that is better than those before it: vectors find that out sooner
            const bool count = scoring.curvature == kCount;
            const int64_t end = !missing_left && bins.n_missing > 0 ? bins.n : bins.n - 1;
            work.so_far.resize(std::max(work.so_far.size(), static_cast<size_t>(kNarrow * bins.n)));
            const auto [some, promising] = look_ahead(
                bins.hist, missing_left ? bins.hist + bins.n * kNarrow : nullptr, end,
                count ? kNarrow - 1 : 1, node.total,
                std::max(scoring.min_samples, missing_left ? bins.n_missing + 1 : 0),
                node.n - scoring.min_samples, scoring.weight[0], count ? scoring.l2 : scoring.lambda[0],
                to_beat(*best, parent), work.so_far.data());
            possible |= some;
            if (!promising) continue;
        }
        possible |= alone ? scan_one(bins, scoring, node.total, node.n, parent, number, missing_left, best)
                          : scan(bins, scoring, limits, node.total, node.n, parent, number, missing_left,
                                 work.sums.data() + work.room, work, best);
    }
    return possible;
}

void left_side(const Scoring& scoring, const ActiveFeatures& features, const NodeSums& node, const Cut& cut,
               Work& work, int32_t* left, uint8_t* set) {
    const int64_t m = scoring.columns;
    Bins bins = bins_of(features, node, m, cut.feature);
    if (features.categorical[cut.feature]) {
        order_categories(bins, scoring, node.total, node.n, work);
        bins.order = work.order.data();
    }
    std::fill(left, left + m, 0);
    if (cut.missing_left) add_columns(left, bins.hist + bins.n * m, m);
    for (int64_t i = 0; i <= cut.bin; ++i) {
        const int64_t b = bins.order ? bins.order[i] : i;
        add_columns(left, bins.hist + b * m, m);
        if (bins.order) set[b / 8] = static_cast<uint8_t>(set[b / 8] | (1u << (b % 8)));
    }
}

namespace {

// node_mask (may have no rows): which active features a node may use. has_missing: the feature's last bin
// holds the rows without a value, which are tried on both sides. categorical: bins have no order; out_sets
// then tells which go left. directions (may have no rows): per feature and output, the sign that the
// difference right − left must not oppose; low, high: bounds of every node's values; out_middle: half-way
// between the two sides' values of the best cut.
void find_splits(nb::ndarray<const int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu> hist,
                 In2<int32_t> counts, In1<int32_t> slots, In1<int32_t> offsets, In1<uint8_t> has_missing,
                 In1<uint8_t> categorical, In2<uint8_t> node_mask, int curvature, In1<double> weight,
                 In1<double> lambda, In1<double> step, double l2, int64_t top, bool shared,
                 In2<int8_t> directions, In2<double> low, In2<double> high, int64_t min_samples,
                 double min_curvature, Out1<int32_t> out_feature, Out1<int32_t> out_bin,
                 Out1<double> out_gain, Out1<uint8_t> out_missing_left, Out1<int32_t> out_left_count,
                 Out2<uint8_t> out_sets, Out2<double> out_middle, int n_threads) {
    const int64_t n_nodes = static_cast<int64_t>(slots.size());
    const int64_t n_bins = static_cast<int64_t>(hist.shape(1)), m = static_cast<int64_t>(hist.shape(2));
    const Scoring scoring(m, curvature, weight, lambda, step, l2, top, shared, min_samples, min_curvature);
    const ActiveFeatures features(offsets, has_missing, categorical, n_bins);
    const int64_t n_active = features.n, d = scoring.outputs;
    require(static_cast<int64_t>(counts.shape(1)) == n_bins && counts.shape(0) == hist.shape(0),
            "counts: (slots, bins) of hist");
    const bool masked = node_mask.shape(0) > 0, constrained = directions.shape(0) > 0;
    require(!masked || (static_cast<int64_t>(node_mask.shape(0)) == n_nodes &&
                        static_cast<int64_t>(node_mask.shape(1)) == n_active),
            "node_mask: (nodes, features), or no rows");
    require(!constrained || (top == 0 && curvature != kMatrix),
            "directions: not with top, nor with a matrix of curvatures");
    if (constrained) {
        require(static_cast<int64_t>(directions.shape(0)) == n_active &&
                    static_cast<int64_t>(directions.shape(1)) == d,
                "directions: (features, outputs)");
        for (const auto& array : {low, high})
            require(
                static_cast<int64_t>(array.shape(0)) == n_nodes && static_cast<int64_t>(array.shape(1)) == d,
                "low, high: (nodes, outputs)");
        require(static_cast<int64_t>(out_middle.shape(0)) == n_nodes &&
                    static_cast<int64_t>(out_middle.shape(1)) == d,
                "out_middle: (nodes, outputs)");
    }
    for (const auto size : {out_feature.size(), out_bin.size(), out_gain.size(), out_missing_left.size(),
                            out_left_count.size(), out_sets.shape(0)})
        require(size == slots.size(), "out arrays: one number a node");
    require(static_cast<int64_t>(out_sets.shape(1)) == kSetBytes, "out_sets: 32 bytes a node");
    for (int64_t k = 0; k < n_nodes; ++k)
        require(slots.data()[k] >= 0 && slots.data()[k] < static_cast<int64_t>(hist.shape(0)),
                "slots: beyond hist");
    require(n_threads >= 1, "n_threads: at least 1");
    GilRelease release;

    const int64_t parts =
        std::clamp<int64_t>((4 * n_threads + n_nodes - 1) / std::max<int64_t>(n_nodes, 1), 1, n_active);
    std::vector<Cut> best(static_cast<size_t>(n_nodes * parts));
    std::vector<Work> works(static_cast<size_t>(n_threads), Work(scoring));
    // every feature's bins add up to the node: take the first one's
    const auto node_of = [&](int64_t k, Work& work) {
        const int64_t first = slots.data()[k] * n_bins;
        int32_t* total = work.sums.data();
        std::fill(total, total + m, 0);
        int64_t n = 0;
        for (int64_t b = first; b < first + offsets.data()[1]; ++b) {
            add_columns(total, hist.data() + b * m, m);
            n += counts.data()[b];
        }
        return NodeSums{hist.data() + first * m, counts.data() + first, 1, total, n};
    };
    const auto limits_of = [&](int64_t k, int64_t f) {
        return constrained ? Constraint{directions.data() + f * d, low.data() + k * d, high.data() + k * d}
                           : Constraint{};
    };
    parallel_tasks(n_nodes * parts, n_threads, [&](int64_t task, int thread) {
        const int64_t k = task / parts, part = task % parts;
        Work& work = works[thread];
        const NodeSums node = node_of(k, work);
        const double parent = worth_whole(scoring, limits_of(k, 0), node.total, node.n, work);
        for (int64_t f = n_active * part / parts; f < n_active * (part + 1) / parts; ++f)
            if (!masked || node_mask.data()[k * n_active + f])
                search_feature(scoring, limits_of(k, f), features, node, f, parent, work, &best[task]);
    });
    parallel_tasks(n_nodes, n_threads, [&](int64_t k, int thread) {
        Cut winner = best[k * parts];
        for (int64_t p = 1; p < parts; ++p)
            if (better(best[k * parts + p], winner)) winner = best[k * parts + p];
        out_feature.data()[k] = winner.feature;
        out_bin.data()[k] = winner.bin;
        out_gain.data()[k] = winner.gain;
        out_missing_left.data()[k] = winner.missing_left;
        out_left_count.data()[k] = winner.left_count;
        uint8_t* set = out_sets.data() + k * kSetBytes;
        std::fill(set, set + kSetBytes, uint8_t{0});
        if (winner.feature < 0 || (!constrained && !categorical.data()[winner.feature])) return;
        Work& work = works[thread];
        const NodeSums node = node_of(k, work);
        int32_t *left = work.sums.data() + work.room, *right = left + work.room;
        left_side(scoring, features, node, winner, work, left, set);
        if (!constrained) return;
        const Constraint limits = limits_of(k, winner.feature);
        for (int64_t c = 0; c < m; ++c) right[c] = node.total[c] - left[c];
        for (int64_t j = 0; j < d; ++j) {
            double below;
            const double vl = bounded_value(scoring, left, winner.left_count, j, limits, below);
            const double vr = bounded_value(scoring, right, node.n - winner.left_count, j, limits, below);
            out_middle.data()[k * d + j] = 0.5 * (vl + vr);
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_split(nb::module_& m) {
    using namespace sparseleaf;
    m.def("find_splits", &find_splits, nb::arg("hist"), nb::arg("counts"), nb::arg("slots"),
          nb::arg("offsets"), nb::arg("has_missing"), nb::arg("categorical"), nb::arg("node_mask"),
          nb::arg("curvature"), nb::arg("weight"), nb::arg("lambda_"), nb::arg("step"), nb::arg("l2"),
          nb::arg("top"), nb::arg("shared"), nb::arg("directions"), nb::arg("low"), nb::arg("high"),
          nb::arg("min_samples"), nb::arg("min_curvature"), nb::arg("out_feature").noconvert(),
          nb::arg("out_bin").noconvert(), nb::arg("out_gain").noconvert(),
          nb::arg("out_missing_left").noconvert(), nb::arg("out_left_count").noconvert(),
          nb::arg("out_sets").noconvert(), nb::arg("out_middle").noconvert(), nb::arg("n_threads"));
}
