// X · W for sparse or dense X and a dense W: the sum of a row is always in the same order, so that projected
// values have the same bits in training and prediction, for single rows and batches. W is float32, or float16
// as uint16 bits (finite values only), which halves memory and bandwidth.
#include <bit>

#include "common.hpp"

namespace sparseleaf {
namespace {

SPARSELEAF_WIDE
void add_scaled(float* out, const float* w, float x, int64_t width) {
    for (int64_t c = 0; c < width; ++c) out[c] += x * w[c];
}

// A float16 has a 5-bit exponent with bias 15, a float32 an 8-bit one with bias 127: after shifting the bits
// into place, the value is too small by 2^112 (subnormals too). Integer and float operations vectorise
// everywhere.
inline float half_to_float(uint16_t bits) {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
    const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) |
                                (static_cast<uint32_t>(bits & 0x8000) << 16));
}

SPARSELEAF_WIDE
void add_scaled(float* out, const uint16_t* w, float x, int64_t width) {
    for (int64_t c = 0; c < width; ++c) out[c] += x * half_to_float(w[c]);
}

constexpr int64_t kRowChunk = 64;

template <typename Weight>
void csr_times_dense(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<Weight> W,
                     Out2<float> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(out.shape(0)), width = static_cast<int64_t>(W.shape(1));
    require(static_cast<int64_t>(indptr.size()) == n + 1, "indptr: one more than the rows of out");
    require(static_cast<int64_t>(out.shape(1)) == width, "out: columns of W");
    require(indices.size() == data.size(), "indices, data: same size");
    require_indptr(indptr, data.size());
    GilRelease release;
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            float* row = out.data() + i * width;
            std::fill(row, row + width, 0.0f);
            for (int64_t e = indptr.data()[i]; e < indptr.data()[i + 1]; ++e) {
                const int64_t f = indices.data()[e];
                require(f >= 0 && f < static_cast<int64_t>(W.shape(0)),
                        "indices: a feature beyond the rows of W");
                add_scaled(row, W.data() + f * width, data.data()[e], width);
            }
        }
    });
}

template <typename Weight>
void dense_times_dense(In2<float> X, In2<Weight> W, Out2<float> out, int n_threads) {
    const int64_t n = static_cast<int64_t>(X.shape(0)), width = static_cast<int64_t>(W.shape(1));
    const int64_t depth = static_cast<int64_t>(X.shape(1));
    require(static_cast<int64_t>(W.shape(0)) == depth, "W: rows must be the columns of X");
    require(static_cast<int64_t>(out.shape(0)) == n && static_cast<int64_t>(out.shape(1)) == width,
            "out: (rows of X, columns of W)");
    GilRelease release;
    parallel_tasks((n + kRowChunk - 1) / kRowChunk, n_threads, [&](int64_t chunk, int) {
        for (int64_t i = chunk * kRowChunk; i < std::min(n, (chunk + 1) * kRowChunk); ++i) {
            float* row = out.data() + i * width;
            std::fill(row, row + width, 0.0f);
            for (int64_t f = 0; f < depth; ++f) {
                const float x = X.data()[i * depth + f];
                if (x != 0.0f) add_scaled(row, W.data() + f * width, x, width);
            }
        }
    });
}

template <typename Weight>
void bind_for(nb::module_& m) {
    m.def("csr_times_dense", &csr_times_dense<Weight>, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("W").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("dense_times_dense", &dense_times_dense<Weight>, nb::arg("X"), nb::arg("W").noconvert(),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
}

}  // namespace
}  // namespace sparseleaf

void bind_sparse(nb::module_& m) {
    sparseleaf::bind_for<float>(m);
    sparseleaf::bind_for<uint16_t>(m);
}
