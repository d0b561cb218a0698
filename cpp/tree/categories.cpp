// The scan order of a categorical feature.
#include "categories.hpp"

#include <cmath>

namespace sparseleaf {
namespace {

constexpr double kSmoothing = 10.0;  // pseudo-rows with the node's mean statistics, added to every category

}  // namespace

// Orders categories by the first principal component of their Newton steps, so that neighbours in the order
// have similar leaf values. With one output this is the order by Newton step, of which some prefix is the
// best subset (Fisher, 1958) but for the smoothing of small categories towards the mean.
void order_categories(const Bins& bins, const Scoring& scoring, const int32_t* total, int64_t n, Work& work) {
    const int64_t d = scoring.outputs, m = scoring.columns, k = bins.n;
    std::vector<double> steps(static_cast<size_t>(k * d), 0.0), key(static_cast<size_t>(k), 0.0);
    const bool diagonal = scoring.hessian == kDiagonal;
    for (int64_t b = 0; b < k; ++b) {
        if (bins.count(b) == 0) continue;
        for (int64_t j = 0; j < d; ++j) {
            const double bin_h = diagonal ? bins.hist[b * m + d + j] : bins.count(b);
            const double node_h = diagonal ? total[d + j] : static_cast<double>(n);
            const double smooth = kSmoothing * node_h / static_cast<double>(n) + (diagonal ? 1.0 : 0.0);
            steps[b * d + j] = -std::sqrt(scoring.weight[j]) * bins.hist[b * m + j] / (bin_h + smooth);
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
        // categories without rows come last and go right
        if ((bins.count(a) == 0) != (bins.count(b) == 0)) return bins.count(b) == 0;
        return key[a] != key[b] ? key[a] < key[b] : a < b;
    });
}

}  // namespace sparseleaf
