// LambdaMART: RankNet's pairwise gradients, weighted by the change of the metric if the documents are
// swapped.
#include <numbers>

#include "ranking.hpp"

namespace sparseleaf {
namespace {

enum Change : int { kNdcg = 0, kMap, kPairwise };

// |Δ average precision| for a swap of the documents at ranks a < b, one of which is relevant.
// hits[r]: relevant documents among the first r; harmonic[r]: Σ 1/rank over them.
double map_change(const std::vector<double>& hits, const std::vector<double>& harmonic, int64_t a,
                  int64_t b) {
    // the relevant one at a has (hits before a, and itself)/rank, at b (hits before b, and itself)/rank;
    // those in between have one hit more in the first case
    const double between = hits[b] - hits[a + 1];
    const double first = (hits[a] + 1.0) / static_cast<double>(a + 1) + (harmonic[b] - harmonic[a + 1]);
    const double last = (hits[a] + between + 1.0) / static_cast<double>(b + 1);
    return std::fabs(first - last) / hits.back();
}

constexpr int kWide = 8;  // lanes of a sum, independent of the vector width

// A query's documents in order of rank, with buffers; padded to full vectors, where delta is 0.
struct Ranked {
    std::vector<double> score, grade, gain, delta, g, h;

    void load(const Query& query) {
        for (auto* own : {&score, &grade, &gain, &delta, &g, &h})
            own->assign(static_cast<size_t>(query.n + kWide), 0.0);
        for (int64_t r = 0; r < query.n; ++r) {
            score[r] = query.score[query.ranked[r]];
            grade[r] = query.grade[query.ranked[r]];
            gain[r] = query.gain[query.ranked[r]];
        }
    }
};

double sum_lanes(const double* l) {
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

// Δ NDCG for a swap of the document at rank `a` with each one below.
SPARSELEAF_WIDE
void ndcg_changes(const double* gain, const double* discounts, int64_t a, int64_t n, double ideal,
                  double* delta) {
    for (int64_t b = a + 1; b < n; ++b)
        delta[b] = std::fabs(gain[a] - gain[b]) * (discounts[a] - discounts[b]) / ideal;
}

// All pairs of the document at rank `a` with those below: the RankNet gradient times delta. Returns the sum
// of its sizes. Sums are over eight fixed lanes, so that every clone adds in the same order.
SPARSELEAF_WIDE
double pairs_of(int64_t a, int64_t n, const double* score, const double* grade, const double* delta,
                bool divide, double sigma, double* g, double* h) {
    double own_g[kWide] = {}, own_h[kWide] = {}, sizes[kWide] = {};
    const double own_score = score[a], own_grade = grade[a], near = divide ? 0.01 : 1.0,
                 far = divide ? 1.0 : 0.0;
    for (int64_t b = a + 1; b < n; b += kWide)
        for (int l = 0; l < kWide; ++l) {
            const double sign =
                (own_grade > grade[b + l] ? 1.0 : 0.0) - (own_grade < grade[b + l] ? 1.0 : 0.0);
            const double apart = sign * (own_score - score[b + l]);
            const double change = sign * sign * delta[b + l] / (near + far * std::fabs(apart));
            const double rho = 1.0 / (1.0 + exp_of(sigma * apart));
            const double lambda = sigma * rho * change;
            const double hessian = sigma * sigma * rho * (1.0 - rho) * change;
            g[b + l] += sign * lambda;
            h[b + l] += hessian;
            own_g[l] += sign * lambda;
            own_h[l] += hessian;
            sizes[l] += lambda;
        }
    g[a] -= sum_lanes(own_g);
    h[a] += sum_lanes(own_h);
    return sum_lanes(sizes);
}

// LambdaMART: for every pair of different grades whose better-ranked document is among the first `places`,
// the RankNet gradient times what exchanging the two would change.
void lambdamart(const Query& query, const Discounts& discounts, const RankingOptions& options, double* g,
                double* h) {
    const auto [change, places, normalise, sigma] = options;
    thread_local Ranked ranked;  // keeps its memory from query to query
    const int64_t n = query.n;
    std::fill(g, g + n, 0.0);
    std::fill(h, h + n, 0.0);
    if (n < 2) return;
    const double ideal = ideal_dcg(query, places, discounts);
    if (change == kNdcg && ideal <= 0.0) return;
    ranked.load(query);
    std::vector<double> hits, harmonic;
    if (change == kMap) {
        hits.assign(static_cast<size_t>(n + 1), 0.0);
        harmonic.assign(static_cast<size_t>(n + 1), 0.0);
        for (int64_t r = 0; r < n; ++r) {
            const bool relevant = ranked.grade[r] > 0.0;
            hits[r + 1] = hits[r] + relevant;
            harmonic[r + 1] = harmonic[r] + (relevant ? 1.0 / static_cast<double>(r + 1) : 0.0);
        }
    }
    const bool divide = normalise && change != kPairwise && ranked.score[0] > ranked.score[n - 1];
    double sum = 0.0;
    for (int64_t a = 0; a < std::min(n, places); ++a) {
        if (change == kNdcg)
            ndcg_changes(ranked.gain.data(), discounts.data(), a, n, ideal, ranked.delta.data());
        else
            for (int64_t b = a + 1; b < n; ++b) {
                const bool one_relevant = (ranked.grade[a] > 0.0) != (ranked.grade[b] > 0.0);
                ranked.delta[b] = change == kPairwise ? 1.0
                                  : one_relevant      ? map_change(hits, harmonic, a, b)
                                                      : 0.0;
            }
        sum += 2.0 * pairs_of(a, n, ranked.score.data(), ranked.grade.data(), ranked.delta.data(), divide,
                              sigma, ranked.g.data(), ranked.h.data());
    }
    // log2(1 + sum) / sum
    const double factor = normalise && sum > 0.0 ? std::log1p(sum) / (std::numbers::ln2 * sum) : 1.0;
    for (int64_t r = 0; r < n; ++r) {
        g[query.ranked[r]] = ranked.g[r] * factor;
        h[query.ranked[r]] = ranked.h[r] * factor;
    }
}

const RegisterRankingLoss registered("lambdamart", lambdamart);

}  // namespace
}  // namespace sparseleaf
