// Relevance of the highest-scoring candidates of every list, for precision at k. Ties: the first in the list.
#include <array>

#include "common.hpp"
#include "parallel.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kListsOfATask = 64, kMostPlaces = 64;
constexpr int64_t kListsOfAGrid = 16;  // ranked many times each

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
    const auto n_lists = static_cast<int64_t>(starts.size()) - 1, n = static_cast<int64_t>(hits.shape(1));
    require(n_lists >= 0 && static_cast<int64_t>(hits.shape(0)) == n_lists, "hits: one row a list");
    require(n >= 1 && n <= kMostPlaces, "hits: 1 to 64 places");
    require(scores.size() == truth.size(), "scores, truth: same candidates");
    for (int64_t i = 0; i < n_lists; ++i)
        require(starts.data()[i] >= 0 && starts.data()[i] <= starts.data()[i + 1], "starts: must not fall");
    require(starts.data()[n_lists] <= static_cast<int64_t>(scores.size()), "starts: beyond the candidates");
    GilRelease release;
    const int64_t n_tasks = (n_lists + kListsOfATask - 1) / kListsOfATask;
    parallel_tasks(
        n_tasks, threads_for(static_cast<int64_t>(scores.size()), n_threads), [&](int64_t task, int) {
            std::array<int64_t, kMostPlaces> best;
            const int64_t end = std::min(n_lists, (task + 1) * kListsOfATask);
            for (int64_t i = task * kListsOfATask; i < end; ++i) {
                const int64_t first = starts.data()[i];
                highest(scores.data() + first, starts.data()[i + 1] - first, best.data(), n);
                for (int64_t place = 0; place < n; ++place)
                    hits.data()[i * n + place] = best[place] >= 0 && truth.data()[first + best[place]];
            }
        });
}

// Gains of the rankings by the margins w · first + (1 - w) · (second + (p - base) · offset of the
// label), for all powers p and weights w: gains (powers · weights, lists), weights fastest. A gain is the sum
// of those of the best places with a true candidate.
void mixed_gains(In1<int64_t> starts, In1<int32_t> labels, In1<float> first, In1<float> second,
                 In1<uint8_t> truth, In1<float> offsets, In1<float> powers, In1<float> weights,
                 In1<uint8_t> gain_of_place, float base, Out2<uint8_t> gains, int n_threads) {
    const auto n_lists = static_cast<int64_t>(starts.size()) - 1;
    const auto n_places = static_cast<int64_t>(gain_of_place.size());
    require_indptr(starts, labels.size());
    require(first.size() == labels.size() && second.size() == labels.size() && truth.size() == labels.size(),
            "labels, first, second, truth: must have equal sizes");
    require(n_places >= 1 && n_places <= kMostPlaces, "gain_of_place: 1 to 64 places");
    require(
        gains.shape(0) == powers.size() * weights.size() && static_cast<int64_t>(gains.shape(1)) == n_lists,
        "gains: must have shape (powers * weights, lists)");
    for (size_t e = 0; e < labels.size(); ++e)
        require(labels.data()[e] >= 0 && labels.data()[e] < static_cast<int64_t>(offsets.size()),
                "labels: no such label");
    GilRelease release;
    const int64_t n_tasks = (n_lists + kListsOfAGrid - 1) / kListsOfAGrid;
    parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
        std::array<int64_t, kMostPlaces> best;
        std::vector<float> bare, shifted, margins;
        for (int64_t i = task * kListsOfAGrid; i < std::min(n_lists, (task + 1) * kListsOfAGrid); ++i) {
            const int64_t begin = starts.data()[i], size = starts.data()[i + 1] - begin;
            bare.resize(static_cast<size_t>(size));
            shifted.resize(static_cast<size_t>(size));
            margins.resize(static_cast<size_t>(size));
            const int32_t* of_list = labels.data() + begin;
            for (int64_t e = 0; e < size; ++e)
                bare[e] = second.data()[begin + e] - base * offsets.data()[of_list[e]];
            uint8_t* out = gains.data() + i;
            for (size_t p = 0; p < powers.size(); ++p) {
                for (int64_t e = 0; e < size; ++e)
                    shifted[e] = bare[e] + powers.data()[p] * offsets.data()[of_list[e]];
                for (size_t w = 0; w < weights.size(); ++w, out += n_lists) {
                    const float weight = weights.data()[w], rest = 1.0f - weight;
                    for (int64_t e = 0; e < size; ++e)
                        margins[e] = weight * first.data()[begin + e] + rest * shifted[e];
                    highest(margins.data(), size, best.data(), n_places);
                    *out = 0;
                    for (int64_t place = 0; place < n_places; ++place)
                        if (best[place] >= 0 && truth.data()[begin + best[place]])
                            *out = static_cast<uint8_t>(*out + gain_of_place.data()[place]);
                }
            }
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_hits(nb::module_& m) {
    m.def("mixed_gains", &sparseleaf::mixed_gains, nb::arg("starts"), nb::arg("labels"), nb::arg("first"),
          nb::arg("second"), nb::arg("truth"), nb::arg("offsets"), nb::arg("powers"), nb::arg("weights"),
          nb::arg("gain_of_place"), nb::arg("base"), nb::arg("gains").noconvert(), nb::arg("n_threads"));
    m.def("best_hits", &sparseleaf::best_hits, nb::arg("starts"), nb::arg("scores"), nb::arg("truth"),
          nb::arg("hits").noconvert(), nb::arg("n_threads"));
}
