// Relevance of the highest-scoring candidates of every list, for precision at k. Ties: the first in the list.
#include <array>

#include "common.hpp"
#include "parallel.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kListsOfATask = 64;

// Positions of the `n` highest scores of a list, best first, padded with -1.
void highest(const float* scores, int64_t size, int64_t* best, int64_t n) {
    std::fill(best, best + n, -1);
    for (int64_t i = 0; i < size; ++i) {
        int64_t place = n;
        while (place > 0 && (best[place - 1] < 0 || scores[i] > scores[best[place - 1]])) --place;
        if (place == n) continue;
        std::copy_backward(best + place, best + n - 1, best + n);
        best[place] = i;
    }
}

void best_hits(In1<int64_t> starts, In1<float> scores, In1<uint8_t> truth, Out2<uint8_t> hits,
               int n_threads) {
    constexpr int64_t kMost = 64;
    const auto n_lists = static_cast<int64_t>(starts.size()) - 1, n = static_cast<int64_t>(hits.shape(1));
    require(n_lists >= 0 && static_cast<int64_t>(hits.shape(0)) == n_lists, "hits: one row a list");
    require(n >= 1 && n <= kMost, "hits: 1 to 64 places");
    require(scores.size() == truth.size(), "scores, truth: same candidates");
    for (int64_t i = 0; i < n_lists; ++i)
        require(starts.data()[i] >= 0 && starts.data()[i] <= starts.data()[i + 1], "starts: must not fall");
    require(starts.data()[n_lists] <= static_cast<int64_t>(scores.size()), "starts: beyond the candidates");
    GilRelease release;
    const int64_t n_tasks = (n_lists + kListsOfATask - 1) / kListsOfATask;
    parallel_tasks(
        n_tasks, threads_for(static_cast<int64_t>(scores.size()), n_threads), [&](int64_t task, int) {
            std::array<int64_t, kMost> best;
            const int64_t end = std::min(n_lists, (task + 1) * kListsOfATask);
            for (int64_t i = task * kListsOfATask; i < end; ++i) {
                const int64_t first = starts.data()[i];
                highest(scores.data() + first, starts.data()[i + 1] - first, best.data(), n);
                for (int64_t place = 0; place < n; ++place)
                    hits.data()[i * n + place] = best[place] >= 0 && truth.data()[first + best[place]];
            }
        });
}

}  // namespace
}  // namespace sparseleaf

void bind_hits(nb::module_& m) {
    m.def("best_hits", &sparseleaf::best_hits, nb::arg("starts"), nb::arg("scores"), nb::arg("truth"),
          nb::arg("hits").noconvert(), nb::arg("n_threads"));
}
