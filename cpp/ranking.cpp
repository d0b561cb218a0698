// Gradients of ranking losses, query by query. A query is worked on by one thread, in one order, so threads
// cannot change a result. Documents of a query are given by `order`, so rows need not be sorted.
//
// Scores ascend in worth; g is the derivative of what is lowered, h its curvature.
#include <bit>
#include <cmath>
#include <functional>
#include <numbers>

#include "common.hpp"
#include "exp.hpp"

namespace sparseleaf {
namespace {

// 2^grade - 1; grades are small whole numbers as a rule.
double gain_of(float grade) {
    const auto whole = static_cast<int32_t>(grade);
    if (whole >= 0 && whole < 31 && static_cast<float>(whole) == grade)
        return static_cast<double>((1 << whole) - 1);
    return std::exp2(static_cast<double>(grade)) - 1.0;
}

// Numbers that ascend as scores descend.
uint32_t descending(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are one score
    return bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
}

// Documents of one query: grades and scores side by side, and who ranks where.
struct Query {
    std::vector<double> score, grade, gain;
    std::vector<int32_t> ranked;  // best score first, ties in order of row
    std::vector<uint64_t> keys;
    int64_t n = 0;

    void load(const int32_t* rows, int64_t count, const float* scores, const float* grades, double factor) {
        n = count;
        score.resize(static_cast<size_t>(n));
        grade.resize(static_cast<size_t>(n));
        gain.resize(static_cast<size_t>(n));
        ranked.resize(static_cast<size_t>(n));
        keys.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            score[i] = factor * scores[rows[i]];
            grade[i] = grades[rows[i]];
            gain[i] = gain_of(grades[rows[i]]);
            keys[i] = static_cast<uint64_t>(descending(scores[rows[i]])) << 32 | static_cast<uint64_t>(i);
        }
        std::sort(keys.begin(), keys.end());
        for (int64_t r = 0; r < n; ++r) ranked[r] = static_cast<int32_t>(keys[r] & 0xffffffffu);
    }

    // Whether any order of the documents is as good as another: nothing is to be learned then, and sums
    // that should be 0 would leave their rounding.
    bool all_equal() const {
        return std::adjacent_find(grade.begin(), grade.end(), std::not_equal_to<>()) == grade.end();
    }
};

// 1/log2(rank + 2): a logarithm takes longer than all the rest of a pair.
class Discounts {
  public:
    void reach(int64_t n) {
        for (auto rank = static_cast<int64_t>(values_.size()); rank < n; ++rank)
            values_.push_back(1.0 / std::log2(static_cast<double>(rank) + 2.0));
    }
    const double* data() const { return values_.data(); }
    double operator[](int64_t rank) const { return values_[rank]; }

  private:
    std::vector<double> values_;
};

// The best DCG among the first k places. Grades that are small whole numbers are counted, not sorted.
double ideal_dcg(const Query& query, int64_t k, const Discounts& discounts) {
    constexpr int kGrades = 31;
    int32_t counts[kGrades] = {};
    bool whole = true;
    for (int64_t i = 0; i < query.n && whole; ++i) {
        const auto grade = static_cast<int32_t>(query.grade[i]);
        whole = grade >= 0 && grade < kGrades && static_cast<double>(grade) == query.grade[i];
        if (whole) ++counts[grade];
    }
    double sum = 0.0;
    int64_t rank = 0;
    if (whole) {
        for (int grade = kGrades - 1; grade > 0; --grade)
            for (int32_t c = 0; c < counts[grade] && rank < k; ++c)
                sum += static_cast<double>((1 << grade) - 1) * discounts[rank++];
        return sum;
    }
    std::vector<double> best = query.gain;
    std::sort(best.begin(), best.end(), std::greater<>());
    for (; rank < std::min(k, query.n); ++rank) sum += best[rank] * discounts[rank];
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

constexpr int kWide = 8;  // lanes of a sum, whatever the vector width

// A query's documents in order of rank, and what is asked of them; padded to full vectors, where delta is 0.
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

// What exchanging the document at rank `a` with every one below would change in NDCG.
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
            const double curvature = sigma * sigma * rho * (1.0 - rho) * change;
            g[b + l] += sign * lambda;
            h[b + l] += curvature;
            own_g[l] += sign * lambda;
            own_h[l] += curvature;
            sizes[l] += lambda;
        }
    g[a] -= sum_lanes(own_g);
    h[a] += sum_lanes(own_h);
    return sum_lanes(sizes);
}

// LambdaMART: for every pair of different grades whose better-ranked document is among the first `places`,
// the RankNet gradient times what exchanging the two would change.
void lambdas(const Query& query, const Discounts& discounts, int change, int64_t places, bool normalise,
             double sigma, Ranked& ranked, double* g, double* h) {
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
void smooth_dcg(const Query& query, const Discounts& discounts, double sigma, double* g, double* h) {
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
    GilRelease release;
    constexpr int64_t kChunk = 16;
    struct Work {
        Query query;
        Ranked ranked;
        std::vector<double> g, h;
    };
    Discounts discounts;
    for (int64_t q = 0; q < n_queries; ++q) discounts.reach(indptr.data()[q + 1] - indptr.data()[q]);
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
                lambdas(own.query, discounts, change, places, normalise, parameter, own.ranked, own.g.data(),
                        own.h.data());
            else if (loss == kGbRank || loss == kGbRankSteps)
                gbrank(own.query, parameter, loss == kGbRankSteps, own.g.data(), own.h.data());
            else if (loss == kSquaredGains)
                squared_gains(own.query, own.g.data(), own.h.data());
            else
                smooth_dcg(own.query, discounts, parameter, own.g.data(), own.h.data());
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
