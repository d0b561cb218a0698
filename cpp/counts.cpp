// Numbers of rows by column of a sparse matrix.
#include "per_thread.hpp"

namespace sparseleaf {
namespace {

// counts[j] = Σ of the units of the rows with column j, which are 1 if `units` is empty.
void count_columns(In1<int64_t> indptr, In1<int32_t> indices, In1<int64_t> units, Out1<int64_t> counts,
                   int n_threads) {
    require_indptr(indptr, indices.size());
    const auto n = static_cast<int64_t>(indptr.size()) - 1, n_columns = static_cast<int64_t>(counts.size());
    require(units.size() == 0 || static_cast<int64_t>(units.size()) == n,
            "units: must be empty or have one entry per row");
    GilRelease release;
    // adding up the counts of the threads must not take longer than counting
    const auto n_entries = static_cast<int64_t>(indices.size());
    n_threads =
        static_cast<int>(std::min<int64_t>(n_threads, n_entries / std::max<int64_t>(n_columns, 1024) + 1));
    constexpr int64_t kRows = 1024;
    PerThread<int64_t> sums(n_threads, n_columns, 0);
    parallel_tasks((n + kRows - 1) / kRows, n_threads, [&](int64_t task, int thread) {
        int64_t* mine = sums[thread];
        for (int64_t i = task * kRows; i < std::min(n, (task + 1) * kRows); ++i) {
            const int64_t unit = units.size() ? units.data()[i] : 1;
            for (int64_t e = indptr.data()[i]; e < indptr.data()[i + 1]; ++e) {
                const int64_t column = indices.data()[e];
                require(column >= 0 && column < n_columns,
                        "indices: must be less than the number of columns");
                mine[column] += unit;
            }
        }
    });
    sums.combined(counts.data(), n_threads, [](int64_t a, int64_t b) { return a + b; });
}

}  // namespace
}  // namespace sparseleaf

void bind_counts(nb::module_& m) {
    m.def("count_columns", &sparseleaf::count_columns, nb::arg("indptr"), nb::arg("indices"),
          nb::arg("units"), nb::arg("counts").noconvert(), nb::arg("n_threads"));
}
