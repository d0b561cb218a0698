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
Numpy1<int64_t> descending_order(In1<float> values, int n_threads) {
    const size_t n = values.size();
    require(n <= 0xffffffffu, "values: too many");
    std::unique_ptr<int64_t[]> order(new int64_t[n]);
    {
        GilRelease release;
        std::vector<uint64_t> entries(n);  // key and position
        for (size_t i = 0; i < n; ++i)
            entries[i] = static_cast<uint64_t>(descending_key(values.data()[i])) << 32 | i;
        radix_sort_in_threads(entries, 32, n_threads);
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

// Sorts every list by label, in place; labels of a list are distinct.
void sort_lists(In1<int64_t> starts, Out1<int32_t> labels, Out1<float> values, int n_threads) {
    require(labels.size() == values.size(), "labels, values: must have equal sizes");
    require_starts(starts, labels.size());
    const auto n = static_cast<int64_t>(starts.size()) - 1;
    GilRelease release;
    parallel_tasks((n + kLists - 1) / kLists, n_threads, [&](int64_t task, int) {
        std::vector<std::pair<int32_t, float>> list;
        for (int64_t i = task * kLists; i < std::min(n, (task + 1) * kLists); ++i) {
            list.clear();
            for (int64_t e = starts.data()[i]; e < starts.data()[i + 1]; ++e)
                list.emplace_back(labels.data()[e], values.data()[e]);
            std::sort(list.begin(), list.end(),
                      [](const auto& a, const auto& b) { return a.first < b.first; });
            for (size_t j = 0; j < list.size(); ++j) {
                labels.data()[starts.data()[i] + static_cast<int64_t>(j)] = list[j].first;
                values.data()[starts.data()[i] + static_cast<int64_t>(j)] = list[j].second;
            }
        }
    });
}

// The labels of the rows of every list, increasing, and the sum of the weights of the rows with each: CSR
// (lists, labels). weights: of all rows, or empty if all are 1; they are added up in the order of the list.
nb::tuple sum_labels(In1<int64_t> starts, In1<int32_t> rows, In1<double> weights, In1<int64_t> label_indptr,
                     In1<int32_t> labels, int n_threads) {
    require_starts(starts, rows.size());
    require_indptr(label_indptr, labels.size());
    const auto n = static_cast<int64_t>(starts.size()) - 1,
               n_rows = static_cast<int64_t>(label_indptr.size()) - 1;
    require(weights.size() == 0 || static_cast<int64_t>(weights.size()) == n_rows,
            "weights: must be empty or have one entry per row");
    using Entry = std::pair<int32_t, double>;
    auto indptr = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
    std::unique_ptr<int32_t[]> found;
    std::unique_ptr<double[]> sums;
    {
        GilRelease release;
        const int64_t n_tasks = (n + kLists - 1) / kLists;
        std::vector<std::vector<Entry>> of_tasks(static_cast<size_t>(n_tasks));
        parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
            std::vector<Entry> list;
            auto& merged = of_tasks[static_cast<size_t>(task)];
            for (int64_t i = task * kLists; i < std::min(n, (task + 1) * kLists); ++i) {
                list.clear();
                for (int64_t r = starts.data()[i]; r < starts.data()[i + 1]; ++r) {
                    const int64_t row = rows.data()[r];
                    require(row >= 0 && row < n_rows, "rows: no such row");
                    const double weight = weights.size() ? weights.data()[row] : 1.0;
                    for (int64_t e = label_indptr.data()[row]; e < label_indptr.data()[row + 1]; ++e)
                        list.emplace_back(labels.data()[e], weight);
                }
                std::stable_sort(list.begin(), list.end(),
                                 [](const Entry& a, const Entry& b) { return a.first < b.first; });
                const size_t before = merged.size();
                for (const Entry& entry : list) {
                    if (merged.size() > before && merged.back().first == entry.first)
                        merged.back().second += entry.second;
                    else
                        merged.push_back(entry);
                }
                indptr[i + 1] = static_cast<int64_t>(merged.size() - before);
            }
        });
        for (int64_t i = 0; i < n; ++i) indptr[i + 1] += indptr[i];
        found.reset(new int32_t[static_cast<size_t>(indptr[n])]);
        sums.reset(new double[static_cast<size_t>(indptr[n])]);
        parallel_tasks(n_tasks, n_threads, [&](int64_t task, int) {
            int64_t at = indptr[task * kLists];
            for (const auto& [label, sum] : of_tasks[static_cast<size_t>(task)]) {
                found[at] = label;
                sums[at++] = sum;
            }
        });
    }
    const auto size = static_cast<size_t>(indptr[n]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(found), size), to_numpy(std::move(sums), size));
}

}  // namespace
}  // namespace sparseleaf

void bind_lists(nb::module_& m) {
    using namespace sparseleaf;
    m.def("descending_order", &descending_order, nb::arg("values"), nb::arg("n_threads"));
    m.def("sort_lists", &sort_lists, nb::arg("starts"), nb::arg("labels").noconvert(),
          nb::arg("values").noconvert(), nb::arg("n_threads"));
    m.def("sum_labels", &sum_labels, nb::arg("starts"), nb::arg("rows"), nb::arg("weights"),
          nb::arg("label_indptr"), nb::arg("labels"), nb::arg("n_threads"));
    m.def("best_of_lists", &best_of_lists, nb::arg("starts"), nb::arg("labels"), nb::arg("scores"),
          nb::arg("best").noconvert(), nb::arg("ranked").noconvert(), nb::arg("n_threads"));
    m.def("mark_true", &mark_true, nb::arg("starts"), nb::arg("labels"), nb::arg("true_indptr"),
          nb::arg("true_labels"), nb::arg("truth").noconvert(), nb::arg("n_threads"));
}
