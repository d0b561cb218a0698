// Gradients of ranking losses, query by query. A query is worked on by one thread, in one order, so threads
// cannot change a result. Documents of a query are given by `order`, so rows need not be sorted.
//
// Scores ascend in worth; g is the derivative of what is lowered, h its curvature.
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "common.hpp"

namespace sparseleaf {
namespace {

// Documents of one query: grades and scores side by side, and who ranks where.
struct Query {
    std::vector<double> score, grade, gain;
    std::vector<int32_t> ranked;  // best score first, ties in order of row
    int64_t n = 0;

    void load(const int32_t* rows, int64_t count, const float* scores, const float* grades, double factor) {
        n = count;
        score.resize(static_cast<size_t>(n));
        grade.resize(static_cast<size_t>(n));
        gain.resize(static_cast<size_t>(n));
        ranked.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            score[i] = factor * scores[rows[i]];
            grade[i] = grades[rows[i]];
            gain[i] = std::exp2(grade[i]) - 1.0;
        }
        std::iota(ranked.begin(), ranked.end(), 0);
        std::stable_sort(ranked.begin(), ranked.end(),
                         [&](int32_t a, int32_t b) { return score[a] > score[b]; });
    }

    // Whether any order of the documents is as good as another: nothing is to be learned then, and sums
    // that should be 0 would leave their rounding.
    bool all_equal() const {
        return std::adjacent_find(grade.begin(), grade.end(), std::not_equal_to<>()) == grade.end();
    }
};

double discount(int64_t rank) {
    return 1.0 / std::log2(static_cast<double>(rank) + 2.0);
}

// The best DCG among the first k places.
double ideal_dcg(const std::vector<double>& gain, int64_t k) {
    std::vector<double> best = gain;
    std::sort(best.begin(), best.end(), std::greater<>());
    double sum = 0.0;
    for (int64_t r = 0; r < std::min<int64_t>(k, static_cast<int64_t>(best.size())); ++r)
        sum += best[r] * discount(r);
    return sum;
}

enum Change : int { kNdcg = 0, kMap, kPairwise };

// |change of average precision| if the documents at ranks a < b change places, one being relevant.
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

// LambdaMART: for every pair of different grades whose better-ranked document is among the first `places`,
// the RankNet gradient times what exchanging the two would change.
void lambdas(Query& query, int change, int64_t places, bool normalise, double sigma, double* g, double* h) {
    const int64_t n = query.n;
    std::fill(g, g + n, 0.0);
    std::fill(h, h + n, 0.0);
    if (n < 2) return;
    const double ideal = ideal_dcg(query.gain, places);
    if (change == kNdcg && ideal <= 0.0) return;
    std::vector<double> hits(static_cast<size_t>(n + 1), 0.0), harmonic(static_cast<size_t>(n + 1), 0.0);
    if (change == kMap)
        for (int64_t r = 0; r < n; ++r) {
            const bool relevant = query.grade[query.ranked[r]] > 0.0;
            hits[r + 1] = hits[r] + relevant;
            harmonic[r + 1] = harmonic[r] + (relevant ? 1.0 / static_cast<double>(r + 1) : 0.0);
        }
    const double spread = query.score[query.ranked[0]] - query.score[query.ranked[n - 1]];
    double sum = 0.0;
    for (int64_t a = 0; a < std::min(n, places); ++a)
        for (int64_t b = a + 1; b < n; ++b) {
            const int32_t i = query.ranked[a], j = query.ranked[b];
            if (query.grade[i] == query.grade[j]) continue;
            const bool first = query.grade[i] > query.grade[j];
            const int32_t high = first ? i : j, low = first ? j : i;
            const double apart = query.score[high] - query.score[low];
            double delta = 1.0;
            if (change == kNdcg) {
                delta = (query.gain[high] - query.gain[low]) * (discount(a) - discount(b)) / ideal;
            } else if (change == kMap) {
                if (query.grade[low] > 0.0 || query.grade[high] <= 0.0) continue;
                delta = map_change(hits, harmonic, a, b);
            }
            if (normalise && spread > 0.0 && change != kPairwise) delta /= 0.01 + std::fabs(apart);
            const double rho = 1.0 / (1.0 + std::exp(sigma * apart));
            const double lambda = sigma * rho * delta;
            const double curvature = sigma * sigma * rho * (1.0 - rho) * delta;
            g[high] -= lambda;
            g[low] += lambda;
            h[high] += curvature;
            h[low] += curvature;
            sum += 2.0 * lambda;
        }
    if (normalise && sum > 0.0) {
        const double factor = std::log1p(sum) / (std::numbers::ln2 * sum);  // log2(1 + sum) / sum
        for (int64_t i = 0; i < n; ++i) {
            g[i] *= factor;
            h[i] *= factor;
        }
    }
}

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

// SmoothDCG: A = Σ_j D(j) Σ_i G(i) h_ij / ideal, h_ij ∝ exp(−(f_i − f_d(j))²/σ) over i; g is −dA/df. The loss
// has no useful second derivative: h is the gradient's size over half the width of the smoothing, which
// bounds a step.
void smooth_dcg(const Query& query, double sigma, double* g, double* h) {
    const int64_t n = query.n;
    std::fill(g, g + n, 0.0);
    std::fill(h, h + n, 0.0);
    const double ideal = ideal_dcg(query.gain, n);
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
        const double weight = discount(place) / ideal;
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
void squared_gains(const Query& query, double* g, double* h) {
    std::fill(g, g + query.n, 0.0);
    std::fill(h, h + query.n, 0.0);
    if (query.all_equal()) return;
    const double most = *std::max_element(query.gain.begin(), query.gain.end());
    for (int64_t i = 0; i < query.n; ++i) {
        g[i] = query.score[i] - query.gain[i] / most;
        h[i] = 1.0;
    }
}

enum Loss : int { kLambdaMart = 0, kGbRank, kSmoothDcg, kSquaredGains, kGbRankSteps };

// places, change, normalise: of LambdaMART. parameter: σ of LambdaMART and SmoothDCG, τ of GBRank.
// factor: scores are multiplied by it first. weights: one a query, or none.
void rank_gradients(int loss, int change, int64_t places, bool normalise, double parameter, double factor,
                    In1<float> scores, In1<float> grades, In1<int32_t> order, In1<int64_t> indptr,
                    In1<float> weights, Out1<float> g, Out1<float> h, int n_threads) {
    const int64_t n_queries = static_cast<int64_t>(indptr.size()) - 1;
    const auto n = static_cast<int64_t>(scores.size());
    require(loss >= kLambdaMart && loss <= kGbRankSteps && change >= kNdcg && change <= kPairwise,
            "loss, change: unknown");
    require(grades.size() == scores.size() && g.size() == scores.size() && h.size() == scores.size(),
            "grades, g, h: one number a row");
    require(order.size() == scores.size(), "order: every row once");
    require_indptr(indptr, order.size());
    require(weights.size() == 0 || static_cast<int64_t>(weights.size()) == n_queries, "weights: one a query");
    for (int64_t i = 0; i < n; ++i)
        require(order.data()[i] >= 0 && order.data()[i] < n, "order: no such row");
    nb::gil_scoped_release release;
    constexpr int64_t kChunk = 16;
    struct Work {
        Query query;
        std::vector<double> g, h;
    };
    std::vector<Work> works(static_cast<size_t>(std::max(n_threads, 1)));
    parallel_tasks((n_queries + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int thread) {
        Work& own = works[thread];
        for (int64_t q = chunk * kChunk; q < std::min(n_queries, (chunk + 1) * kChunk); ++q) {
            const int32_t* rows = order.data() + indptr.data()[q];
            const int64_t count = indptr.data()[q + 1] - indptr.data()[q];
            own.query.load(rows, count, scores.data(), grades.data(), factor);
            own.g.resize(static_cast<size_t>(count));
            own.h.resize(static_cast<size_t>(count));
            if (loss == kLambdaMart)
                lambdas(own.query, change, places, normalise, parameter, own.g.data(), own.h.data());
            else if (loss == kGbRank || loss == kGbRankSteps)
                gbrank(own.query, parameter, loss == kGbRankSteps, own.g.data(), own.h.data());
            else if (loss == kSquaredGains)
                squared_gains(own.query, own.g.data(), own.h.data());
            else
                smooth_dcg(own.query, parameter, own.g.data(), own.h.data());
            const double weight = weights.size() ? weights.data()[q] : 1.0;
            for (int64_t i = 0; i < count; ++i) {
                g.data()[rows[i]] = static_cast<float>(weight * own.g[i]);
                h.data()[rows[i]] = static_cast<float>(weight * own.h[i]);
            }
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_ranking(nb::module_& m) {
    using namespace sparseleaf;
    m.def("rank_gradients", &rank_gradients, nb::arg("loss"), nb::arg("change"), nb::arg("places"),
          nb::arg("normalise"), nb::arg("parameter"), nb::arg("factor"), nb::arg("scores"), nb::arg("grades"),
          nb::arg("order"), nb::arg("indptr"), nb::arg("weights"), nb::arg("g").noconvert(),
          nb::arg("h").noconvert(), nb::arg("n_threads"));
}
