// Products of sparse matrices.
#include "common.hpp"

namespace sparseleaf {
namespace {

template <typename T>
struct Csr {
    In1<int64_t> indptr;
    In1<int32_t> indices;
    In1<T> data;

    int64_t n_rows() const { return static_cast<int64_t>(indptr.size()) - 1; }

    void check(int64_t n_columns) const {
        require_indptr(indptr, data.size());
        require(indices.size() == data.size(), "indices, data: must have equal sizes");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_columns,
                    "indices: must be less than the number of columns");
    }
};

// Ends of ranges of rows that take about the same number of multiplications.
template <typename T>
std::vector<int64_t> even_ends(const Csr<T>& left, const Csr<T>& right, int64_t n_ranges) {
    std::vector<int64_t> effort(static_cast<size_t>(left.n_rows()));
    int64_t total = 0;
    for (int64_t i = 0; i < left.n_rows(); ++i) {
        for (int64_t e = left.indptr.data()[i]; e < left.indptr.data()[i + 1]; ++e) {
            const int32_t k = left.indices.data()[e];
            total += right.indptr.data()[k + 1] - right.indptr.data()[k];
        }
        effort[static_cast<size_t>(i)] = ++total;
    }
    std::vector<int64_t> ends;
    for (int64_t r = 1; r <= n_ranges; ++r)
        ends.push_back(std::upper_bound(effort.begin(), effort.end(), total * r / n_ranges) - effort.begin());
    return ends;
}

// left · right, both CSR; returns indptr, indices, data. Every row is computed by one thread, in the order of
// scipy, whose bits and order of columns it has: sums in the order of the entries of `left`, and in every row
// the column that was reached last comes first.
template <typename T>
nb::tuple csr_product(In1<int64_t> left_indptr, In1<int32_t> left_indices, In1<T> left_data,
                      In1<int64_t> right_indptr, In1<int32_t> right_indices, In1<T> right_data,
                      int64_t n_columns, int n_threads) {
    const Csr<T> left{left_indptr, left_indices, left_data}, right{right_indptr, right_indices, right_data};
    require(n_columns >= 0 && right_indptr.size() >= 1, "right: must have row pointers and columns");
    left.check(right.n_rows());
    right.check(n_columns);
    const int64_t n = left.n_rows();
    struct Range {
        std::vector<int32_t> indices;
        std::vector<T> data;
    };
    struct State {
        std::vector<T> sums;
        std::vector<uint8_t> reached;
        std::vector<int32_t> columns;
    };
    auto indptr = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
    std::unique_ptr<int32_t[]> indices;
    std::unique_ptr<T[]> data;
    {
        GilRelease release;
        constexpr int64_t kRangesPerThread = 8;
        const std::vector<int64_t> ends = even_ends(left, right, kRangesPerThread * n_threads);
        const auto n_ranges = static_cast<int64_t>(ends.size());
        const auto begin_of = [&](int64_t r) { return r == 0 ? 0 : ends[static_cast<size_t>(r) - 1]; };
        std::vector<Range> ranges(ends.size());
        std::vector<State> states(static_cast<size_t>(n_threads));
        parallel_tasks(n_ranges, n_threads, [&](int64_t r, int thread) {
            State& state = states[static_cast<size_t>(thread)];
            state.sums.resize(static_cast<size_t>(n_columns));
            state.reached.resize(static_cast<size_t>(n_columns));
            Range& range = ranges[static_cast<size_t>(r)];
            for (int64_t i = begin_of(r); i < ends[static_cast<size_t>(r)]; ++i) {
                state.columns.clear();
                for (int64_t e = left_indptr.data()[i]; e < left_indptr.data()[i + 1]; ++e) {
                    const int32_t k = left_indices.data()[e];
                    const T factor = left_data.data()[e];
                    for (int64_t f = right_indptr.data()[k]; f < right_indptr.data()[k + 1]; ++f) {
                        const int32_t column = right_indices.data()[f];
                        if (!state.reached[column]) {
                            state.reached[column] = 1;
                            state.sums[column] = 0;
                            state.columns.push_back(column);
                        }
                        state.sums[column] += factor * right_data.data()[f];
                    }
                }
                for (size_t c = state.columns.size(); c-- > 0;) {
                    const int32_t column = state.columns[c];
                    range.indices.push_back(column);
                    range.data.push_back(state.sums[column]);
                    state.reached[column] = 0;
                }
                indptr[i + 1] = static_cast<int64_t>(range.indices.size());  // within the range so far
            }
        });
        indptr[0] = 0;
        for (int64_t r = 0, offset = 0; r < n_ranges; ++r) {
            for (int64_t i = begin_of(r); i < ends[static_cast<size_t>(r)]; ++i) indptr[i + 1] += offset;
            offset += static_cast<int64_t>(ranges[static_cast<size_t>(r)].indices.size());
        }
        indices.reset(new int32_t[static_cast<size_t>(indptr[n])]);
        data.reset(new T[static_cast<size_t>(indptr[n])]);
        parallel_tasks(n_ranges, n_threads, [&](int64_t r, int) {
            const Range& range = ranges[static_cast<size_t>(r)];
            std::copy(range.indices.begin(), range.indices.end(), indices.get() + indptr[begin_of(r)]);
            std::copy(range.data.begin(), range.data.end(), data.get() + indptr[begin_of(r)]);
        });
    }
    const auto size = static_cast<size_t>(indptr[n]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(indices), size), to_numpy(std::move(data), size));
}

template <typename T>
void bind_for(nb::module_& m) {
    m.def("csr_product", &csr_product<T>, nb::arg("left_indptr"), nb::arg("left_indices"),
          nb::arg("left_data").noconvert(), nb::arg("right_indptr"), nb::arg("right_indices"),
          nb::arg("right_data").noconvert(), nb::arg("n_columns"), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_product(nb::module_& m) {
    sparseleaf::bind_for<float>(m);
    sparseleaf::bind_for<double>(m);
}
