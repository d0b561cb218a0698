// Probabilities of ranked lists of labels: consistent with the ranking, and the list length of highest
// expected F1.
#include <cfloat>
#include <cmath>

#include "common.hpp"
#include "parallel.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kListsOfATask = 64;
constexpr int64_t kLongest = 1024;  // of a list whose expected F1 is computed, which is quadratic

template <typename Task>
void for_lists(int64_t n_lists, int64_t work, int n_threads, const Task& task) {
    const int64_t n_tasks = (n_lists + kListsOfATask - 1) / kListsOfATask;
    parallel_tasks(n_tasks, threads_for(work, n_threads), [&](int64_t number, int) {
        auto state = task.state();
        const int64_t end = std::min(n_lists, (number + 1) * kListsOfATask);
        for (int64_t i = number * kListsOfATask; i < end; ++i) task(i, state);
    });
}

// Isotonic regression of each list on its ranks (pool adjacent violators): the closest values that do not
// increase. Ranks beyond `depth` are capped by the value before them, so that the first ranks do not depend
// on the length of the list. Pooled values would be equal; each is made the next smaller float, so that
// sorting by value gives the ranking.
struct Pooling {
    const int64_t* starts;
    float* values;
    int64_t depth;

    struct Block {
        double sum;
        int64_t count;
    };
    std::vector<Block> state() const { return {}; }

    void operator()(int64_t list, std::vector<Block>& blocks) const {
        float* first = values + starts[list];
        const int64_t size = starts[list + 1] - starts[list], pooled = std::min(size, depth);
        blocks.clear();
        for (int64_t i = 0; i < pooled; ++i) {
            Block last{first[i], 1};
            while (!blocks.empty() && last.sum * static_cast<double>(blocks.back().count) >
                                          blocks.back().sum * static_cast<double>(last.count)) {
                last = {blocks.back().sum + last.sum, blocks.back().count + last.count};
                blocks.pop_back();
            }
            blocks.push_back(last);
        }
        float* next = first;
        for (const Block& block : blocks) {
            const auto mean = static_cast<float>(block.sum / static_cast<double>(block.count));
            next = std::fill_n(next, block.count, mean);
        }
        for (int64_t i = 1; i < size; ++i) {
            const float before = first[i - 1];
            first[i] = std::min(first[i], before > FLT_MIN ? std::nextafter(before, 0.0F) : before);
        }
    }
};

void pool_ranked(In1<int64_t> starts, Out1<float> values, int64_t depth, int n_threads) {
    require_indptr(starts, values.size());
    require(depth >= 1, "depth: must be at least 1");
    GilRelease release;
    for_lists(static_cast<int64_t>(starts.size()) - 1, static_cast<int64_t>(values.size()), n_threads,
              Pooling{starts.data(), values.data(), depth});
}

// The number k of first labels with the highest E[2 TP / (k + number of true labels)], for independent
// labels.
//
// With P_k(j) the probability that j of the first k labels are true and R_k(m) that m of the others are,
//     E_k = sum_j 2 j P_k(j) S_k(k + j)   where   S_k(a) = sum_m R_k(m) / (a + m).
// S_n(a) = 1 / a, and S_(k-1)(a) = (1 - p_k) S_k(a) + p_k S_k(a + 1), so that a list takes O(n^2) (Ye et al.,
// 2012).
struct ExpectedF1 {
    const int64_t* starts;
    const float* probabilities;
    int32_t* sizes;

    struct State {
        std::vector<double> prefix, reciprocal;
    };
    State state() const { return {}; }

    void operator()(int64_t list, State& of) const {
        const float* p = probabilities + starts[list];
        const int64_t n = starts[list + 1] - starts[list];
        // prefix(k, j) = P_k(j), 0 <= j <= k, at k (k + 1) / 2 + j
        of.prefix.assign(static_cast<size_t>((n + 1) * (n + 2) / 2), 0.0);
        of.prefix[0] = 1.0;
        for (int64_t k = 1; k <= n; ++k) {
            const double* before = of.prefix.data() + (k - 1) * k / 2;
            double* now = of.prefix.data() + k * (k + 1) / 2;
            const double true_one = p[k - 1], false_one = 1.0 - true_one;
            for (int64_t j = 0; j < k; ++j) {
                now[j] += before[j] * false_one;
                now[j + 1] += before[j] * true_one;
            }
        }
        of.reciprocal.resize(static_cast<size_t>(2 * n + 1));
        for (int64_t a = 1; a <= 2 * n; ++a)
            of.reciprocal[static_cast<size_t>(a)] = 1.0 / static_cast<double>(a);
        double* s = of.reciprocal.data();
        double best = -1.0;
        sizes[list] = 0;
        for (int64_t k = n; k >= 1; --k) {
            const double* now = of.prefix.data() + k * (k + 1) / 2;
            double expected = 0.0;
            for (int64_t j = 1; j <= k; ++j) expected += static_cast<double>(j) * now[j] * s[k + j];
            if (expected >= best) {  // of equal ones the shortest
                best = expected;
                sizes[list] = static_cast<int32_t>(k);
            }
            const double true_one = p[k - 1], false_one = 1.0 - true_one;
            for (int64_t a = 1; a < 2 * k - 1; ++a) s[a] = false_one * s[a] + true_one * s[a + 1];
        }
    }
};

void expected_f1_sizes(In1<int64_t> starts, In1<float> probabilities, Out1<int32_t> sizes, int n_threads) {
    require_indptr(starts, probabilities.size());
    const auto n_lists = static_cast<int64_t>(starts.size()) - 1;
    require(static_cast<int64_t>(sizes.size()) == n_lists, "sizes: one per list");
    for (int64_t i = 0; i < n_lists; ++i)
        require(starts.data()[i + 1] - starts.data()[i] <= kLongest, "starts: lists of at most 1024 labels");
    GilRelease release;
    for_lists(n_lists, 64 * static_cast<int64_t>(probabilities.size()), n_threads,
              ExpectedF1{starts.data(), probabilities.data(), sizes.data()});
}

}  // namespace
}  // namespace sparseleaf

void bind_probabilities(nb::module_& m) {
    m.def("pool_ranked", &sparseleaf::pool_ranked, nb::arg("starts"), nb::arg("values").noconvert(),
          nb::arg("depth"), nb::arg("n_threads"));
    m.def("expected_f1_sizes", &sparseleaf::expected_f1_sizes, nb::arg("starts"), nb::arg("probabilities"),
          nb::arg("sizes").noconvert(), nb::arg("n_threads"));
}
