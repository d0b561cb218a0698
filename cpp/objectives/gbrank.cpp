#include "ranking.hpp"

namespace sparseleaf {
namespace {

// GBRank: pairs (u preferred to v) with f(u) < f(v) + τ ask for u at f(v) + τ and for v at f(u) − τ. A
// document's targets are averaged: −g/h is their mean. `steps`: what is asked for is the way there, not the
// place, which makes g the gradient of ½ max(0, f(v) − f(u) + τ)².
void gbrank(const Query& query, double margin, bool steps, double* g, double* h) {
    std::fill(g, g + query.n, 0.0);
    std::fill(h, h + query.n, 0.0);
    for (int64_t u = 0; u < query.n; ++u)
        for (int64_t v = 0; v < query.n; ++v) {
            if (!(query.grade[u] > query.grade[v]) || !(query.score[u] < query.score[v] + margin)) continue;
            g[u] -= query.score[v] + margin - (steps ? query.score[u] : 0.0);
            g[v] -= query.score[u] - margin - (steps ? query.score[v] : 0.0);
            h[u] += 1.0;
            h[v] += 1.0;
        }
}

void averaged(const Query& query, const Discounts&, const RankingOptions& options, double* g, double* h) {
    gbrank(query, options.parameter, false, g, h);
}

void steps(const Query& query, const Discounts&, const RankingOptions& options, double* g, double* h) {
    gbrank(query, options.parameter, true, g, h);
}

const RegisterRankingLoss registered("gbrank", averaged), registered_steps("gbrank-steps", steps);

}  // namespace
}  // namespace sparseleaf
