// Dense gradients: sketches, quantisation to 16 bits for histograms, exact leaf sums, and score updates.
#include "sketch.hpp"

namespace sparseleaf {
namespace {

// Count sketch: every output is added with a random sign to one of m columns.
float dense_sketch(In2<float> g, uint64_t key, Out2<float> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(g.shape(0)), d = static_cast<int64_t>(g.shape(1));
    const int64_t m = static_cast<int64_t>(out.shape(1));
    require(static_cast<int64_t>(out.shape(0)) == n && m >= 1,
            "out: must have the rows of g and at least one column");
    GilRelease release;
    const auto place = sketch_places<int32_t>(key, d, static_cast<uint64_t>(m));
    return each_row_max(n, m, out.data(), n_threads, [&](int64_t i, float* sums) {
        const float* row = g.data() + i * d;
        for (int64_t j = 0; j < d; ++j) sums[place[j] >> 1] += (place[j] & 1) ? -row[j] : row[j];
    });
}

SPARSELEAF_WIDE
void add_scaled(const float* signs, float value, int64_t m, float* sums) {
    for (int64_t c = 0; c < m; ++c) sums[c] += value * signs[c];
}

// Random projection g · signs, with one row of `signs` per output.
float dense_project(In2<float> g, In2<float> signs, Out2<float> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(g.shape(0)), d = static_cast<int64_t>(g.shape(1));
    const int64_t m = static_cast<int64_t>(out.shape(1));
    require(static_cast<int64_t>(out.shape(0)) == n && static_cast<int64_t>(signs.shape(0)) == d &&
                static_cast<int64_t>(signs.shape(1)) == m,
            "out, signs: must have shapes (rows of g, m) and (outputs, m)");
    GilRelease release;
    return each_row_max(n, m, out.data(), n_threads, [&](int64_t i, float* sums) {
        for (int64_t j = 0; j < d; ++j) add_scaled(signs.data() + j * m, g.data()[i * d + j], m, sums);
    });
}

// out[:, c] = weights[c] · g[:, outputs[c]].
float dense_select(In2<float> g, In1<int32_t> outputs, In1<float> weights, Out2<float> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(g.shape(0)), d = static_cast<int64_t>(g.shape(1));
    const int64_t m = static_cast<int64_t>(out.shape(1));
    require(static_cast<int64_t>(out.shape(0)) == n, "out: must have the rows of g");
    require(outputs.size() == weights.size() && static_cast<int64_t>(outputs.size()) <= m,
            "outputs, weights: must have at most one entry per column of out");
    for (size_t c = 0; c < outputs.size(); ++c)
        require(outputs.data()[c] >= 0 && outputs.data()[c] < d, "outputs: must be columns of g");
    GilRelease release;
    return each_row_max(n, m, out.data(), n_threads, [&](int64_t i, float* sums) {
        for (size_t c = 0; c < outputs.size(); ++c)
            sums[c] = weights.data()[c] * g.data()[i * d + outputs.data()[c]];
    });
}

// A block of rows to quantise: `count` columns of `in` (row stride `width`) to those of `out` (row stride m).
struct Quantised {
    const float* in;
    int64_t width;
    const float* scale;
    int64_t count, n;
    int16_t* out;
    int64_t m;
    int32_t* sizes;  // Σ|out| of every column
};

SPARSELEAF_WIDE
void round_to_nearest(const Quantised& block) {
    const auto [in, width, scale, count, n, out, m, sizes] = block;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < count; ++c) {
            const float scaled = std::min(std::max(in[i * width + c] * scale[c], -32767.0f), 32767.0f);
            const auto rounded = static_cast<int32_t>(std::nearbyint(scaled));
            out[i * m + c] = static_cast<int16_t>(rounded);
            sizes[c] += rounded < 0 ? -rounded : rounded;
        }
}

// Stochastic rounding: a magnitude is rounded up if a 24-bit random number is less than its fraction, which
// is unbiased. Random numbers are hashes of the column's key and the global row index.
SPARSELEAF_WIDE
void round_at_random(const Quantised& block, const uint64_t* keys, int64_t first_row) {
    const auto [in, width, scale, count, n, out, m, sizes] = block;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < count; ++c) {
            const float scaled = std::min(std::max(in[i * width + c] * scale[c], -32767.0f), 32767.0f);
            const float size = std::fabs(scaled), whole = std::floor(size);
            const uint64_t hash = mix64(keys[c] + static_cast<uint64_t>(first_row + i));
            const auto draw = static_cast<float>(static_cast<int32_t>(hash >> 40));
            const float up = draw < (size - whole) * 16777216.0f ? 1.0f : 0.0f;
            const auto rounded = static_cast<int32_t>(whole + up);
            out[i * m + c] = static_cast<int16_t>(scaled < 0.0f ? -rounded : rounded);
            sizes[c] += rounded;
        }
}

// out[:, to + c] = round(values[:, from + c] · scale[c]) for every c, with power-of-two scales. Rounds to
// nearest or, if at_random, stochastically, keyed by `key`, the column of out and the row from first_row on.
// magnitude: Σ|out| of every such column, by which the caller ensures that histograms cannot overflow.
void quantise_columns(In2<float> values, int64_t from, In1<float> scale, Out2<int16_t> out, int64_t to,
                      bool at_random, uint64_t key, int64_t first_row, Out1<int64_t> magnitude,
                      int n_threads) {
    const int64_t n = static_cast<int64_t>(values.shape(0)), width = static_cast<int64_t>(values.shape(1));
    const int64_t m = static_cast<int64_t>(out.shape(1)), count = static_cast<int64_t>(scale.size());
    require(static_cast<int64_t>(out.shape(0)) == n, "out: must have the rows of values");
    require(from >= 0 && to >= 0 && from + count <= width && to + count <= m,
            "from, to: must be columns of values and out");
    require(magnitude.size() == scale.size(), "magnitude: must have one entry per column");
    std::vector<uint64_t> keys(static_cast<size_t>(count));
    for (int64_t c = 0; c < count; ++c) keys[c] = mix64(key + static_cast<uint64_t>(to + c));
    GilRelease release;
    n_threads = threads_for(n * count, n_threads);
    std::vector<std::vector<int64_t>> partial(static_cast<size_t>(n_threads));
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int thread) {
        auto& sums = partial[thread];
        if (sums.empty()) sums.assign(static_cast<size_t>(count), 0);
        std::vector<int32_t> sizes(static_cast<size_t>(count), 0);  // 256 · 32767 fits
        const int64_t first = chunk * kRowChunk;
        const Quantised block{
            values.data() + first * width + from, width, scale.data(), count, std::min(n - first, kRowChunk),
            out.data() + first * m + to,          m,     sizes.data()};
        if (at_random)
            round_at_random(block, keys.data(), first_row + first);
        else
            round_to_nearest(block);
        for (int64_t c = 0; c < count; ++c) sums[c] += sizes[c];
    });
    std::fill(magnitude.data(), magnitude.data() + count, int64_t{0});
    for (const auto& sums : partial)
        for (size_t c = 0; c < sums.size(); ++c) magnitude.data()[c] += sums[c];
}

SPARSELEAF_WIDE
void add_fixed(const float* values, const int32_t* rows, int64_t n, const double* scale, int64_t d,
               int64_t* sums) {
    for (int64_t i = 0; i < n; ++i) {
        const float* row = values + static_cast<int64_t>(rows[i]) * d;
        for (int64_t c = 0; c < d; ++c)
            sums[c] += static_cast<int64_t>(std::nearbyint(static_cast<double>(row[c]) * scale[c]));
    }
}

// Σ round(values · scale) over the rows of every node, in int64, so that the order does not matter.
void leaf_sums(In2<float> values, In1<double> scale, In1<int32_t> rows, In1<int64_t> starts,
               In1<int64_t> ends, Out2<int64_t> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(values.shape(0)), d = static_cast<int64_t>(values.shape(1));
    const int64_t n_nodes = static_cast<int64_t>(starts.size());
    require(static_cast<int64_t>(scale.size()) == d, "scale: must have one entry per column");
    require(static_cast<int64_t>(out.shape(0)) == n_nodes && static_cast<int64_t>(out.shape(1)) == d,
            "out: must have shape (nodes, columns)");
    require_ranges(starts, ends, rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n, "rows: must be rows of values");
    GilRelease release;
    // large nodes are divided into parts, whose integer sums are added
    constexpr int64_t kPart = 4096;
    struct Part {
        int64_t node, begin, end;
    };
    std::vector<Part> parts;
    for (int64_t k = 0; k < n_nodes; ++k)
        for (int64_t begin = starts.data()[k]; begin < ends.data()[k]; begin += kPart)
            parts.push_back({k, begin, std::min(begin + kPart, ends.data()[k])});
    std::fill(out.data(), out.data() + n_nodes * d, int64_t{0});
    std::vector<int64_t> sums(parts.size() * static_cast<size_t>(d), 0);
    n_threads = threads_for(static_cast<int64_t>(rows.size()) * d, n_threads);
    parallel_tasks(static_cast<int64_t>(parts.size()), n_threads, [&](int64_t p, int) {
        const auto [node, begin, end] = parts[p];
        add_fixed(values.data(), rows.data() + begin, end - begin, scale.data(), d, sums.data() + p * d);
    });
    for (size_t p = 0; p < parts.size(); ++p)
        for (int64_t c = 0; c < d; ++c) out.data()[parts[p].node * d + c] += sums[p * d + c];
}

// Weighted quantile of targets − scores in every node, per output: the smallest residual at which the
// cumulative weight reaches `share` of the total. Unknown targets are ignored; 0 for a node without targets.
void leaf_quantiles(In2<float> targets, In2<float> scores, In2<float> weights, double share,
                    In1<int32_t> rows, In1<int64_t> starts, In1<int64_t> ends, Out2<double> out,
                    int n_threads) {
    const int64_t n = static_cast<int64_t>(scores.shape(0)), d = static_cast<int64_t>(scores.shape(1));
    const int64_t n_nodes = static_cast<int64_t>(starts.size());
    require(static_cast<int64_t>(targets.shape(0)) == n && static_cast<int64_t>(targets.shape(1)) == d,
            "targets: must have the shape of scores");
    const bool weighted = weights.shape(0) > 0;
    const int64_t weight_columns = weighted ? static_cast<int64_t>(weights.shape(1)) : 0;
    require(!weighted ||
                (static_cast<int64_t>(weights.shape(0)) == n && (weight_columns == 1 || weight_columns == d)),
            "weights: must have shape (rows, 1), (rows, outputs) or no rows");
    require(static_cast<int64_t>(out.shape(0)) == n_nodes && static_cast<int64_t>(out.shape(1)) == d,
            "out: must have shape (nodes, outputs)");
    require_ranges(starts, ends, rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && rows.data()[i] < n, "rows: must be rows of scores");
    GilRelease release;
    parallel_tasks(n_nodes * d, n_threads, [&](int64_t task, int) {
        const int64_t k = task / d, j = task % d;
        std::vector<std::pair<float, float>> found;  // residual, weight
        double total = 0.0;
        for (int64_t i = starts.data()[k]; i < ends.data()[k]; ++i) {
            const int64_t row = rows.data()[i];
            const float y = targets.data()[row * d + j];
            const float w =
                weighted ? weights.data()[row * weight_columns + (weight_columns > 1 ? j : 0)] : 1.0f;
            if (!std::isnan(y) && w > 0.0f) found.emplace_back(y - scores.data()[row * d + j], w);
        }
        std::sort(found.begin(), found.end());
        for (const auto& one : found) total += one.second;
        double so_far = 0.0, value = 0.0;
        for (const auto& [residual, weight] : found) {
            so_far += weight;
            value = residual;
            if (so_far >= share * total) break;
        }
        out.data()[k * d + j] = value;
    });
}

SPARSELEAF_WIDE
void add_all(const float* values, int64_t n, float* row) {
    for (int64_t j = 0; j < n; ++j) row[j] += values[j];
}

// Adds the vector of its leaf to every row's scores.
void add_leaves(Out2<float> scores, In1<int32_t> leaf_of_row, In1<int64_t> indptr, In1<uint32_t> outputs,
                In1<float> values, int n_threads) {
    const int64_t n = static_cast<int64_t>(scores.shape(0)), d = static_cast<int64_t>(scores.shape(1));
    require(static_cast<int64_t>(leaf_of_row.size()) == n, "leaf_of_row: must have one entry per row");
    require(outputs.size() == values.size(), "outputs, values: must have equal sizes");
    require_indptr(indptr, values.size());
    const auto n_leaves = static_cast<int32_t>(indptr.size()) - 1;
    for (int64_t i = 0; i < n; ++i)
        require(leaf_of_row.data()[i] >= 0 && leaf_of_row.data()[i] < n_leaves,
                "leaf_of_row: must be less than the number of leaves");
    for (size_t e = 0; e < outputs.size(); ++e)
        require(static_cast<int64_t>(outputs.data()[e]) < d, "outputs: must be columns of scores");
    GilRelease release;
    std::vector<uint8_t> has_all(static_cast<size_t>(n_leaves),
                                 0);  // whether a leaf has all outputs, in order
    for (int32_t leaf = 0; leaf < n_leaves; ++leaf) {
        const int64_t begin = indptr.data()[leaf];
        bool all = indptr.data()[leaf + 1] - begin == d;
        for (int64_t j = 0; all && j < d; ++j) all = outputs.data()[begin + j] == j;
        has_all[leaf] = all;
    }
    n_threads = threads_for(n * d, n_threads);
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            const int32_t leaf = leaf_of_row.data()[i];
            float* row = scores.data() + i * d;
            if (has_all[leaf]) {
                add_all(values.data() + indptr.data()[leaf], d, row);
                continue;
            }
            for (int64_t e = indptr.data()[leaf]; e < indptr.data()[leaf + 1]; ++e)
                row[outputs.data()[e]] += values.data()[e];
        }
    });
}

}  // namespace
}  // namespace sparseleaf

void bind_dense(nb::module_& m) {
    using namespace sparseleaf;
    m.def("dense_sketch", &dense_sketch, nb::arg("g"), nb::arg("key"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("dense_project", &dense_project, nb::arg("g"), nb::arg("signs"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("dense_select", &dense_select, nb::arg("g"), nb::arg("outputs"), nb::arg("weights"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("quantise_columns", &quantise_columns, nb::arg("values"), nb::arg("from_column"), nb::arg("scale"),
          nb::arg("out").noconvert(), nb::arg("to_column"), nb::arg("at_random"), nb::arg("key"),
          nb::arg("first_row"), nb::arg("magnitude").noconvert(), nb::arg("n_threads"));
    m.def("leaf_sums", &leaf_sums, nb::arg("values"), nb::arg("scale"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("leaf_quantiles", &leaf_quantiles, nb::arg("targets"), nb::arg("scores"), nb::arg("weights"),
          nb::arg("share"), nb::arg("rows"), nb::arg("starts"), nb::arg("ends"), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("add_leaves", &add_leaves, nb::arg("scores").noconvert(), nb::arg("leaf_of_row"), nb::arg("indptr"),
          nb::arg("outputs"), nb::arg("values"), nb::arg("n_threads"));
}
