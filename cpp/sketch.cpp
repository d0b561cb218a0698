// Sketches of sparse residuals: from L labels to m columns.
#include "sketch.hpp"

#include <nanobind/stl/tuple.h>

#include "rows.hpp"

namespace sparseleaf {
namespace {

void check_out(const RowBlocks& rows, const Out2<float>& out) {
    require(static_cast<int64_t>(out.shape(0)) == rows.n_rows(),
            "out: must have one row per row of the blocks");
}

constexpr uint64_t kMaxSketch = 4096;

// Count sketch: every label is added with a random sign to one of m columns, E[sketch·sketch'] =
// residual·residual'.
float count_sketch(const std::vector<Block>& blocks, uint64_t key, int64_t n_labels, int loss,
                   Out2<float> out, int n_threads, const LossWeights* given) {
    const RowBlocks rows(blocks);
    const WeightView weights = view_of(given, rows.n_rows());
    check_out(rows, out);
    const uint64_t m = out.shape(1);
    require(m >= 1 && m <= kMaxSketch && n_labels >= 0, "out: must have 1 to 4096 columns");
    GilRelease release;
    const auto run = [&](auto place_type) {
        const auto place = sketch_places<decltype(place_type)>(key, n_labels, m);
        return with_residual(loss, weights, [&](auto residual) {
            return each_row_max(
                rows.n_rows(), static_cast<int64_t>(m), out.data(), n_threads,
                [&](int64_t i, float* sums) {
                    const Row row = rows[i];
                    float signed_sums[2 * kMaxSketch];  // positive and negative sums are
                                                        // separate until the end of the row
                    std::fill(signed_sums, signed_sums + 2 * m, 0.0f);
                    for (int64_t e = 0; e < row.size; ++e)
                        signed_sums[place[row.labels[e] & kLabelMask]] +=
                            residual(row.labels[e], row.scores[e]);
                    for (uint64_t c = 0; c < m; ++c) sums[c] = signed_sums[2 * c] - signed_sums[2 * c + 1];
                },
                weights.rows);
        });
    };
    // the narrowest type: the table of a million labels then nearly fits the L2 cache
    return 2 * m <= 256 ? run(uint8_t{}) : run(uint16_t{});
}

SPARSELEAF_WIDE
void add_signed(const uint64_t* bits, int64_t m, float r, float* sums) {
    for (int64_t c = 0; c < m; ++c) {
        const float sign = static_cast<float>(static_cast<int>((bits[c >> 6] >> (c & 63)) & 1) * 2 - 1);
        sums[c] += sign * r;
    }
}

// Rademacher projection: every label is added to all m columns with random signs.
float sign_projection(const std::vector<Block>& blocks, uint64_t key, int loss, Out2<float> out,
                      int n_threads, const LossWeights* given) {
    const RowBlocks rows(blocks);
    const WeightView weights = view_of(given, rows.n_rows());
    check_out(rows, out);
    const int64_t m = static_cast<int64_t>(out.shape(1)), words = (m + 63) / 64;
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(m)));
    GilRelease release;
    return with_residual(loss, weights, [&](auto residual) {
        return each_row_max(
            rows.n_rows(), m, out.data(), n_threads,
            [&](int64_t i, float* sums) {
                const Row row = rows[i];
                std::vector<uint64_t> bits(static_cast<size_t>(words));
                for (int64_t e = 0; e < row.size; ++e) {
                    const uint64_t label_key = mix64(key ^ mix64(row.labels[e] & kLabelMask));
                    for (int64_t w = 0; w < words; ++w) bits[w] = mix64(label_key + static_cast<uint64_t>(w));
                    add_signed(bits.data(), m, scale * residual(row.labels[e], row.scores[e]), sums);
                }
            },
            weights.rows);
    });
}

// Selection: labels with column_of[label] >= 0 have a column and a factor.
float select_columns(const std::vector<Block>& blocks, In1<int32_t> column_of, In1<float> factors, int loss,
                     Out2<float> out, int n_threads, const LossWeights* given) {
    const RowBlocks rows(blocks);
    const WeightView weights = view_of(given, rows.n_rows());
    check_out(rows, out);
    require(factors.size() == out.shape(1), "factors: must have one entry per column of out");
    const auto n_labels = static_cast<uint32_t>(column_of.size());
    const int64_t m = static_cast<int64_t>(out.shape(1));
    for (size_t l = 0; l < column_of.size(); ++l)
        require(column_of.data()[l] < m, "column_of: must be less than the columns of out");
    GilRelease release;
    return with_residual(loss, weights, [&](auto residual) {
        return each_row_max(
            rows.n_rows(), m, out.data(), n_threads,
            [&](int64_t i, float* sums) {
                const Row row = rows[i];
                for (int64_t e = 0; e < row.size; ++e) {
                    const uint32_t label = row.labels[e] & kLabelMask;
                    const int32_t column = label < n_labels ? column_of.data()[label] : -1;
                    if (column >= 0)
                        sums[column] += factors.data()[column] * residual(row.labels[e], row.scores[e]);
                }
            },
            weights.rows);
    });
}

// Σ weight · residual² of every label, in fixed point (units of 2^-16), over the given rows.
void column_norms(const std::vector<Block>& blocks, int loss, Out1<int64_t> out, int n_threads,
                  const LossWeights* given) {
    const RowBlocks rows(blocks);
    const WeightView weights = view_of(given, rows.n_rows());
    const size_t n_labels = out.size();
    GilRelease release;
    std::vector<std::vector<int64_t>> partial(static_cast<size_t>(n_threads));
    const int64_t chunks = (rows.n_rows() + kRowChunk - 1) / kRowChunk;
    with_residual(loss, weights, [&](auto residual) {
        parallel_tasks(chunks, n_threads, [&](int64_t chunk, int thread) {
            auto& sums = partial[thread];
            if (sums.empty()) sums.assign(n_labels, 0);
            const int64_t end = std::min(rows.n_rows(), (chunk + 1) * kRowChunk);
            for (int64_t i = chunk * kRowChunk; i < end; ++i) {
                const Row row = rows[i];
                for (int64_t e = 0; e < row.size; ++e) {
                    const uint32_t label = row.labels[e] & kLabelMask;
                    const double r =
                        std::clamp(residual(row.labels[e], row.scores[e]), -kResidualLimit, kResidualLimit);
                    if (label < n_labels) sums[label] += std::llrint(weights.row(i) * r * r * 65536.0);
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
    nb::class_<LossWeights>(m, "LossWeights")
        .def(nb::init<In1<float>, In1<float>>(), nb::arg("rows"), nb::arg("labels"));
    m.attr("WEIGHT_SCALE") = kWeightScale;
    m.def("count_sketch", &count_sketch, nb::arg("blocks"), nb::arg("key"), nb::arg("n_labels"),
          nb::arg("loss"), nb::arg("out").noconvert(), nb::arg("n_threads"), nb::arg("weights") = nb::none());
    m.def("sign_projection", &sign_projection, nb::arg("blocks"), nb::arg("key"), nb::arg("loss"),
          nb::arg("out").noconvert(), nb::arg("n_threads"), nb::arg("weights") = nb::none());
    m.def("select_columns", &select_columns, nb::arg("blocks"), nb::arg("column_of"), nb::arg("factors"),
          nb::arg("loss"), nb::arg("out").noconvert(), nb::arg("n_threads"), nb::arg("weights") = nb::none());
    m.def("column_norms", &column_norms, nb::arg("blocks"), nb::arg("loss"), nb::arg("out").noconvert(),
          nb::arg("n_threads"), nb::arg("weights") = nb::none());
}
