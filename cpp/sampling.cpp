// Samples of rows for trees.
#include "common.hpp"

namespace sparseleaf {
namespace {

// Rows whose hash with `key` is at most `highest` and that are not left out, and all other rows. The hash is
// that of the row's number, so that the sample does not depend on where the row is.
nb::tuple sample_rows(In1<int64_t> numbers, In1<uint8_t> left_out, uint64_t key, uint64_t highest) {
    const size_t n = numbers.size();
    require(left_out.size() == 0 || left_out.size() == n,
            "left_out: must be empty or have one entry per row");
    require(n <= INT32_MAX, "numbers: must be fewer than 2^31");
    std::unique_ptr<int32_t[]> rows(new int32_t[n + 1]), others(new int32_t[n + 1]);
    size_t n_rows = 0, n_others = 0;
    {
        GilRelease release;
        for (size_t i = 0; i < n; ++i) {  // both are written, and one is counted
            const bool sampled = (mix64(static_cast<uint64_t>(numbers.data()[i]) ^ key) <= highest) &
                                 !(left_out.size() && left_out.data()[i]);
            rows[n_rows] = others[n_others] = static_cast<int32_t>(i);
            n_rows += sampled;
            n_others += !sampled;
        }
    }
    return nb::make_tuple(to_numpy(std::move(rows), n_rows), to_numpy(std::move(others), n_others));
}

}  // namespace
}  // namespace sparseleaf

void bind_sampling(nb::module_& m) {
    m.def("sample_rows", &sparseleaf::sample_rows, nb::arg("numbers"), nb::arg("left_out"), nb::arg("key"),
          nb::arg("highest"));
}
