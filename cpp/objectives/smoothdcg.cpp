#include "ranking.hpp"

namespace sparseleaf {
namespace {

// SmoothDCG: A = Σ_j D(j) Σ_i G(i) h_ij / ideal, h_ij ∝ exp(−(f_i − f_d(j))²/σ) over i; g is −dA/df. The loss
// has no useful second derivative: h is the gradient's size over half the width of the smoothing, which
// bounds a step.
void smoothdcg(const Query& query, const Discounts& discounts, const RankingOptions& options, double* g,
               double* h) {
    const double sigma = options.parameter;
    const int64_t n = query.n;
    std::fill(g, g + n, 0.0);
    std::fill(h, h + n, 0.0);
    const double ideal = ideal_dcg(query, n, discounts);
    if (query.all_equal() || ideal <= 0.0) return;
    std::vector<double> share(static_cast<size_t>(n));
    for (int64_t place = 0; place < n; ++place) {
        const int32_t at = query.ranked[place];
        double total = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            const double apart = query.score[i] - query.score[at];
            share[i] = std::exp(-apart * apart / sigma);  // the place's own document gives 1: no total of 0
            total += share[i];
        }
        double mean = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            share[i] /= total;
            mean += query.gain[i] * share[i];
        }
        const double weight = discounts[place] / ideal;
        // dA/df_i = weight · h_i (G_i − mean) · (−2 (f_i − f_at)/σ), and the opposite for f_at
        for (int64_t i = 0; i < n; ++i) {
            const double slope = weight * share[i] * (query.gain[i] - mean) * (-2.0) *
                                 (query.score[i] - query.score[at]) / sigma;
            g[i] -= slope;
            g[at] += slope;
        }
    }
    const double half = 0.5 * std::sqrt(sigma);
    for (int64_t i = 0; i < n; ++i) h[i] = std::fabs(g[i]) / half;
}

// Squared error of gains within a query: where SmoothDCG starts, since it has no slope where scores are
// equal.
void squared_gains(const Query& query, const Discounts&, const RankingOptions&, double* g, double* h) {
    std::fill(g, g + query.n, 0.0);
    std::fill(h, h + query.n, 0.0);
    if (query.all_equal()) return;
    const double most = *std::max_element(query.gain.begin(), query.gain.end());
    for (int64_t i = 0; i < query.n; ++i) {
        g[i] = query.score[i] - query.gain[i] / most;
        h[i] = 1.0;
    }
}

const RegisterRankingLoss registered("smoothdcg", smoothdcg),
    registered_start("squared-gains", squared_gains);

}  // namespace
}  // namespace sparseleaf
