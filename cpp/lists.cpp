// Lists of candidate labels: the order of scores, the best of every list, and which candidates are true.
#include <cmath>

#include "radix.hpp"
#include "topk.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kLists = 256;  // per task

void require_starts(const In1<int64_t>& starts, size_t n_candidates) {
    const auto n = static_cast<int64_t>(starts.size()) - 1;
    require(n >= 0 && starts.data()[0] >= 0 && starts.data()[n] <= static_cast<int64_t>(n_candidates) &&
                std::is_sorted(starts.data(), starts.data() + n + 1),
            "starts: must not decrease, nor exceed the number of candidates");
}

// A key that increases as the value decreases; 0 and -0 have the same, NaN has the largest.
uint32_t descending_key(float value) {
    if (std::isnan(value)) return 0xffffffffu;
    return ~ordered_key(value == 0.0f ? 0.0f : value);
}

// Positions of the values, highest first; ties by position, NaN last.
Numpy1<int64_t> descending_order(In1<float> values) {
    const size_t n = values.size();
    require(n <= 0xffffffffu, "values: too many");
    std::unique_ptr<int64_t[]> order(new int64_t[n]);
    {
        GilRelease release;
        std::vector<uint64_t> entries(n);  // key and position
        for (size_t i = 0; i < n; ++i)
            entries[i] = static_cast<uint64_t>(descending_key(values.data()[i])) << 32 | i;
        radix_sort(entries, 32);
        for (size_t i = 0; i < n; ++i) order[i] = static_cast<int64_t>(entries[i] & 0xffffffffu);
    }
    return to_numpy(std::move(order), n);
}

// The k best labels of every list and their scores: (lists, k), padded with -1 and -infinity. Ties: the lower
// label.
void best_of_lists(In1<int64_t> starts, In1<int32_t> labels, In1<float> scores, Out2<int32_t> best,
                   Out2<float> ranked, int n_threads) {
    require(labels.size() == scores.size(), "labels, scores: must have equal sizes");
    require_starts(starts, labels.size());
    const auto n = static_cast<int64_t>(starts.size()) - 1, k = static_cast<int64_t>(best.shape(1));
    require(static_cast<int64_t>(best.shape(0)) == n && best.shape(0) == ranked.shape(0) &&
                best.shape(1) == ranked.shape(1),
            "best, ranked: must have shape (lists, k)");
    GilRelease release;
    parallel_tasks((n + kLists - 1) / kLists, n_threads, [&](int64_t task, int) {
        std::vector<Scored> list;
        for (int64_t i = task * kLists; i < std::min(n, (task + 1) * kLists); ++i) {
            list.clear();
            for (int64_t e = starts.data()[i]; e < starts.data()[i + 1]; ++e)
                list.push_back({scores.data()[e], labels.data()[e]});
            write_topk(list, k, best.data() + i * k, ranked.data() + i * k);
        }
    });
}

// truth[e] = whether label e of a list is among the true labels of its row.
void mark_true(In1<int64_t> starts, In1<int32_t> labels, In1<int64_t> true_indptr, In1<int32_t> true_labels,
               Out1<uint8_t> truth, int n_threads) {
    require_starts(starts, labels.size());
    require_indptr(true_indptr, true_labels.size());
    require(starts.size() == true_indptr.size(), "true_indptr: must have one row per list");
    require(truth.size() == labels.size(), "truth: must have one entry per label");
    const auto n = static_cast<int64_t>(starts.size()) - 1;
    GilRelease release;
    parallel_tasks((n + kLists - 1) / kLists, n_threads, [&](int64_t task, int) {
        std::vector<int32_t> row;
        for (int64_t i = task * kLists; i < std::min(n, (task + 1) * kLists); ++i) {
            row.assign(true_labels.data() + true_indptr.data()[i],
                       true_labels.data() + true_indptr.data()[i + 1]);
            std::sort(row.begin(), row.end());
            for (int64_t e = starts.data()[i]; e < starts.data()[i + 1]; ++e)
                truth.data()[e] = std::binary_search(row.begin(), row.end(), labels.data()[e]);
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_lists(nb::module_& m) {
    using namespace sparseleaf;
    m.def("descending_order", &descending_order, nb::arg("values"));
    m.def("best_of_lists", &best_of_lists, nb::arg("starts"), nb::arg("labels"), nb::arg("scores"),
          nb::arg("best").noconvert(), nb::arg("ranked").noconvert(), nb::arg("n_threads"));
    m.def("mark_true", &mark_true, nb::arg("starts"), nb::arg("labels"), nb::arg("true_indptr"),
          nb::arg("true_labels"), nb::arg("truth").noconvert(), nb::arg("n_threads"));
}
