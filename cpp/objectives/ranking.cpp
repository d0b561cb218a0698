// Gradients and hessians of ranking losses: the loop over queries, common to all losses.
#include "ranking.hpp"

#include <nanobind/stl/string.h>

#include <map>

namespace sparseleaf {
namespace {

std::map<std::string, RankingLoss>& ranking_losses() {
    static std::map<std::string, RankingLoss> losses;
    return losses;
}

// `order` lists the documents query by query, so rows need not be sorted. factor: scores are multiplied by
// it. weights: one per query, or empty.
void rank_gradients(const std::string& loss, int change, int64_t places, bool normalise, double parameter,
                    double factor, In1<float> scores, In1<float> grades, In1<int32_t> order,
                    In1<int64_t> indptr, In1<float> weights, Out1<float> g, Out1<float> h, int n_threads) {
    const int64_t n_queries = static_cast<int64_t>(indptr.size()) - 1;
    const auto n = static_cast<int64_t>(scores.size());
    const auto known = ranking_losses().find(loss);
    require(known != ranking_losses().end(), "loss: unknown");
    require(change >= 0 && change < 3, "change: unknown");
    require(grades.size() == scores.size() && g.size() == scores.size() && h.size() == scores.size(),
            "grades, g, h: must have one entry per row");
    require(order.size() == scores.size(), "order: every row once");
    require_indptr(indptr, order.size());
    require(weights.size() == 0 || static_cast<int64_t>(weights.size()) == n_queries,
            "weights: must have one entry per query");
    for (int64_t i = 0; i < n; ++i)
        require(order.data()[i] >= 0 && order.data()[i] < n, "order: no such row");
    GilRelease release;
    constexpr int64_t kChunk = 16;
    struct Work {
        Query query;
        std::vector<double> g, h;
    };
    Discounts discounts;
    for (int64_t q = 0; q < n_queries; ++q) discounts.reach(indptr.data()[q + 1] - indptr.data()[q]);
    std::vector<Work> works(static_cast<size_t>(std::max(n_threads, 1)));
    parallel_tasks((n_queries + kChunk - 1) / kChunk, n_threads, [&](int64_t chunk, int thread) {
        Work& work = works[thread];
        for (int64_t q = chunk * kChunk; q < std::min(n_queries, (chunk + 1) * kChunk); ++q) {
            const int32_t* rows = order.data() + indptr.data()[q];
            const int64_t count = indptr.data()[q + 1] - indptr.data()[q];
            work.query.load(rows, count, scores.data(), grades.data(), factor);
            work.g.resize(static_cast<size_t>(count));
            work.h.resize(static_cast<size_t>(count));
            known->second(work.query, discounts, {change, places, normalise, parameter}, work.g.data(),
                          work.h.data());
            const double weight = weights.size() ? weights.data()[q] : 1.0;
            for (int64_t i = 0; i < count; ++i) {
                g.data()[rows[i]] = static_cast<float>(weight * work.g[i]);
                h.data()[rows[i]] = static_cast<float>(weight * work.h[i]);
            }
        }
    });
}

}  // namespace

RegisterRankingLoss::RegisterRankingLoss(const char* name, RankingLoss loss) {
    ranking_losses().emplace(name, loss);
}

}  // namespace sparseleaf

void bind_ranking(nb::module_& m) {
    using namespace sparseleaf;
    m.def("rank_gradients", &rank_gradients, nb::arg("loss"), nb::arg("change"), nb::arg("places"),
          nb::arg("normalise"), nb::arg("parameter"), nb::arg("factor"), nb::arg("scores"), nb::arg("grades"),
          nb::arg("order"), nb::arg("indptr"), nb::arg("weights"), nb::arg("g").noconvert(),
          nb::arg("h").noconvert(), nb::arg("n_threads"));
}
