// Reducers: sparse residuals of L labels -> m columns a row, then -> int16 for the histograms.
#include <nanobind/stl/tuple.h>

#include "reduce.hpp"
#include "rows.hpp"

namespace sparseleaf {
namespace {

void check_out(const RowBlocks& rows, const Out2<float>& out) {
    require(static_cast<int64_t>(out.shape(0)) == rows.n_rows(), "out: one row for each row of the blocks");
}

constexpr uint64_t kMaxSketch = 4096;

// Every label adds its residual, with a random sign, to one of m columns: E[sketch·sketch'] =
// residual·residual'.
float count_sketch(const std::vector<Block>& blocks, uint64_t key, int64_t n_labels, int loss,
                   Out2<float> out, int n_threads) {
    const RowBlocks rows(blocks);
    check_out(rows, out);
    const uint64_t m = out.shape(1);
    require(m >= 1 && m <= kMaxSketch && n_labels >= 0, "out: 1 to 4096 columns");
    GilRelease release;
    const auto run = [&](auto place_type) {
        const auto place = sketch_places<decltype(place_type)>(key, n_labels, m);
        return with_loss(loss, [&](auto kind) {
            return each_row_max(
                rows.n_rows(), static_cast<int64_t>(m), out.data(), n_threads, [&](int64_t i, float* sums) {
                    const Row row = rows[i];
                    float signed_sums[2 * kMaxSketch];  // kept apart by sign until the row's end
                    std::fill(signed_sums, signed_sums + 2 * m, 0.0f);
                    for (int64_t e = 0; e < row.size; ++e)
                        signed_sums[place[row.labels[e] & kLabelMask]] +=
                            residual_of<kind()>(row.labels[e], row.scores[e]);
                    for (uint64_t c = 0; c < m; ++c) sums[c] = signed_sums[2 * c] - signed_sums[2 * c + 1];
                });
        });
    };
    // as narrow as the columns allow: the table of a million labels then nearly fits the second-level cache
    return 2 * m <= 256 ? run(uint8_t{}) : run(uint16_t{});
}

SPARSELEAF_WIDE
void add_signed(const uint64_t* bits, int64_t m, float r, float* sums) {
    for (int64_t c = 0; c < m; ++c) {
        const float sign = static_cast<float>(static_cast<int>((bits[c >> 6] >> (c & 63)) & 1) * 2 - 1);
        sums[c] += sign * r;
    }
}

// Every label adds its residual to all m columns with random signs (a Rademacher projection).
float sign_projection(const std::vector<Block>& blocks, uint64_t key, int loss, Out2<float> out,
                      int n_threads) {
    const RowBlocks rows(blocks);
    check_out(rows, out);
    const int64_t m = static_cast<int64_t>(out.shape(1)), words = (m + 63) / 64;
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(m)));
    GilRelease release;
    return with_loss(loss, [&](auto kind) {
        return each_row_max(rows.n_rows(), m, out.data(), n_threads, [&](int64_t i, float* sums) {
            const Row row = rows[i];
            std::vector<uint64_t> bits(static_cast<size_t>(words));
            for (int64_t e = 0; e < row.size; ++e) {
                const uint64_t label_key = mix64(key ^ mix64(row.labels[e] & kLabelMask));
                for (int64_t w = 0; w < words; ++w) bits[w] = mix64(label_key + static_cast<uint64_t>(w));
                add_signed(bits.data(), m, scale * residual_of<kind()>(row.labels[e], row.scores[e]), sums);
            }
        });
    });
}

// Some labels have a column (column_of[label] >= 0) and a weight; the others are left out.
float select_columns(const std::vector<Block>& blocks, In1<int32_t> column_of, In1<float> weights, int loss,
                     Out2<float> out, int n_threads) {
    const RowBlocks rows(blocks);
    check_out(rows, out);
    require(weights.size() == out.shape(1), "weights: one for each column of out");
    const auto n_labels = static_cast<uint32_t>(column_of.size());
    const int64_t m = static_cast<int64_t>(out.shape(1));
    for (size_t l = 0; l < column_of.size(); ++l)
        require(column_of.data()[l] < m, "column_of: a column beyond out");
    GilRelease release;
    return with_loss(loss, [&](auto kind) {
        return each_row_max(rows.n_rows(), m, out.data(), n_threads, [&](int64_t i, float* sums) {
            const Row row = rows[i];
            for (int64_t e = 0; e < row.size; ++e) {
                const uint32_t label = row.labels[e] & kLabelMask;
                const int32_t column = label < n_labels ? column_of.data()[label] : -1;
                if (column >= 0)
                    sums[column] +=
                        weights.data()[column] * residual_of<kind()>(row.labels[e], row.scores[e]);
            }
        });
    });
}

// Σ residual² of every label, in fixed point (units of 2^-16), over the given rows.
void column_norms(const std::vector<Block>& blocks, int loss, Out1<int64_t> out, int n_threads) {
    const RowBlocks rows(blocks);
    const size_t n_labels = out.size();
    GilRelease release;
    std::vector<std::vector<int64_t>> partial(static_cast<size_t>(n_threads));
    const int64_t chunks = (rows.n_rows() + kRowChunk - 1) / kRowChunk;
    with_loss(loss, [&](auto kind) {
        parallel_tasks(chunks, n_threads, [&](int64_t chunk, int thread) {
            auto& sums = partial[thread];
            if (sums.empty()) sums.assign(n_labels, 0);
            const int64_t end = std::min(rows.n_rows(), (chunk + 1) * kRowChunk);
            for (int64_t i = chunk * kRowChunk; i < end; ++i) {
                const Row row = rows[i];
                for (int64_t e = 0; e < row.size; ++e) {
                    const uint32_t label = row.labels[e] & kLabelMask;
                    const double r = std::clamp(residual_of<kind()>(row.labels[e], row.scores[e]),
                                                -kResidualLimit, kResidualLimit);
                    if (label < n_labels) sums[label] += std::llrint(r * r * 65536.0);
                }
            }
        });
        return 0;
    });
    std::fill(out.data(), out.data() + n_labels, int64_t{0});
    for (const auto& sums : partial)
        for (size_t l = 0; l < sums.size(); ++l) out.data()[l] += sums[l];
}

}  // namespace
}  // namespace sparseleaf

void bind_sketch(nb::module_& m) {
    using namespace sparseleaf;
    m.def("count_sketch", &count_sketch, nb::arg("blocks"), nb::arg("key"), nb::arg("n_labels"),
          nb::arg("loss"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("sign_projection", &sign_projection, nb::arg("blocks"), nb::arg("key"), nb::arg("loss"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("select_columns", &select_columns, nb::arg("blocks"), nb::arg("column_of"), nb::arg("weights"),
          nb::arg("loss"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("column_norms", &column_norms, nb::arg("blocks"), nb::arg("loss"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
}
