// Kernels of a boosting round on dense targets: gradients, quantisation, sums over leaves, scores.
#include "platform.h"
//
#include "exp.h"
//
#include "losses.h"

using namespace sl;

// --- gradients of the rows [SL_BLOCK · block_rows, …), and the largest |g| and |h| of every output as bits of float32,
// which are ordered as integers where they are not negative.

struct GradientArgs {
    const float* scores;
    const float* targets;
    const i32* classes;  // of losses of classes; -1 if unknown
    const float* weights;
    i64 weight_columns;  // 0 without weights
    i64 n_rows;
    i64 block_rows;
    i64 outputs;
    double parameter;
    float* g;
    float* h;  // null if it is 1, or the weight, in every row
    i32* largest;
};

namespace {

// Weighs the gradients of a (row, output) pair and stores them.
SL_INLINE void store_pair(const GradientArgs& args, i64 row, i64 j, bool known, float g, float h) {
    const i64 pair = row * args.outputs + j;
    g = known ? g : 0.0f;
    h = known ? h : 0.0f;
    if (args.weight_columns > 0) {
        const float weight = args.weights[args.weight_columns == args.outputs ? pair : row];
        g *= weight;
        h *= weight;
    }
    args.g[pair] = g;
    if (args.h) args.h[pair] = h;
}

// Notes the largest |value| of every output in the rows of a block. A thread has one output of a tile of outputs, and
// every so many rows.
SL_INLINE void note_largest(const GradientArgs& args, const float* values, i64 begin, i64 end, i32* most, i32* to) {
    const int lanes = static_cast<int>(least<i64>(32, args.outputs)), rows_at_once = SL_THREADS / lanes;
    for (i64 first = 0; values && first < args.outputs; first += lanes) {
        SL_EACH_THREAD(t) {
            const i64 j = first + t % lanes;
            float top = 0.0f;
            for (i64 row = begin + t / lanes; t < rows_at_once * lanes && j < args.outputs && row < end;
                 row += rows_at_once)
                top = largest(top, size_of(values[row * args.outputs + j]));
            most[t] = bits_of(top);
        }
        SL_EACH_THREAD(t) {
            if (t >= lanes || first + t >= args.outputs) continue;
            i32 top = 0;
            for (int i = 0; i < rows_at_once; ++i) top = largest(top, most[i * lanes + t]);
            if (top != 0) atomic_max(to + first + t, top);
        }
    }
}

}  // namespace

#define SL_PAIR_KERNEL(function, name, constant_hessian)                                                 \
    SL_KERNEL(gradients_##function, GradientArgs) {                                                       \
        SL_SHARED(i32, most);                                                                             \
        const i64 begin = SL_BLOCK * args.block_rows, end = least(args.n_rows, begin + args.block_rows); \
        SL_EACH_THREAD(t) {                                                                               \
            const float parameter = static_cast<float>(args.parameter);                                   \
            for (i64 i = begin * args.outputs + t; i < end * args.outputs; i += SL_THREADS) {             \
                const float y = args.targets[i];                                                          \
                float g, h = 1.0f;                                                                        \
                loss::function(args.scores[i], y, parameter, g, h);                                       \
                store_pair(args, i / args.outputs, i % args.outputs, y == y, g, h);                       \
            }                                                                                             \
        }                                                                                                 \
        note_largest(args, args.g, begin, end, most, args.largest);                                       \
        note_largest(args, args.h, begin, end, most, args.largest + args.outputs);                        \
    }

SL_PAIR_LOSSES(SL_PAIR_KERNEL)

SL_KERNEL(gradients_softmax, GradientArgs) {
    SL_SHARED(i32, most);
    const i64 begin = SL_BLOCK * args.block_rows, end = least(args.n_rows, begin + args.block_rows), n = args.outputs;
    SL_EACH_THREAD(t) {
        for (i64 row = begin + t; row < end; row += SL_THREADS) {
            const i64 label = args.classes[row];
            float *g = args.g + row * n, *h = args.h + row * n;
            if (label >= 0) loss::softmax(args.scores + row * n, label, n, g, h);
            for (i64 j = 0; j < n; ++j)
                store_pair(args, row, j, label >= 0, label >= 0 ? g[j] : 0.0f, label >= 0 ? h[j] : 0.0f);
        }
    }
    note_largest(args, args.g, begin, end, most, args.largest);
    note_largest(args, args.h, begin, end, most, args.largest + args.outputs);
}

// --- quantisation: see quantise_columns in cpp/dense.cpp

struct QuantiseArgs {
    const float* values;
    i64 n_values;  // columns of the values
    i64 from;
    const float* scale;
    i64 count;  // columns to quantise
    i16* out;
    i64 n_out;  // columns of the output
    i64 to;
    const i64* keys;  // null to round to nearest
    i64 first_row;
    i64 n_rows;
    i64 block_rows;  // few enough for sums in 32 bits
    i64* sizes;      // Σ|out| of every column
};

namespace {

// Rounds a magnitude up if a 24-bit random number is less than its fraction.
SL_INLINE i32 round_at_random(float scaled, u64 key) {
    const float size = size_of(scaled), whole = whole_of(size);
    const float draw = static_cast<float>(static_cast<i32>(mix64(key) >> 40));
    const i32 rounded = static_cast<i32>(whole + (draw < (size - whole) * 16777216.0f ? 1.0f : 0.0f));
    return scaled < 0.0f ? -rounded : rounded;
}

}  // namespace

// A thread has one column of a tile of columns, and every so many rows.
SL_KERNEL(quantise, QuantiseArgs) {
    SL_SHARED(i32, sums);
    const int lanes = static_cast<int>(least<i64>(32, args.count));
    const i64 n_tiles = (args.count + lanes - 1) / lanes, tile = SL_BLOCK % n_tiles;
    const i64 begin = SL_BLOCK / n_tiles * args.block_rows, end = least(args.n_rows, begin + args.block_rows);
    const int rows_at_once = SL_THREADS / lanes;
    SL_EACH_THREAD(t) {
        const i64 c = tile * lanes + t % lanes;
        i32 sum = 0;
        for (i64 row = begin + t / lanes; t < rows_at_once * lanes && c < args.count && row < end;
             row += rows_at_once) {
            const float value = args.values[row * args.n_values + args.from + c] * args.scale[c];
            const float scaled = least(largest(value, -32767.0f), 32767.0f);
            const i32 rounded =
                args.keys ? round_at_random(scaled, static_cast<u64>(args.keys[c]) +
                                                        static_cast<u64>(args.first_row + row))
                          : static_cast<i32>(nearest(scaled));
            args.out[row * args.n_out + args.to + c] = static_cast<i16>(rounded);
            sum += rounded < 0 ? -rounded : rounded;
        }
        sums[t] = sum;
    }
    SL_EACH_THREAD(t) {
        const i64 c = tile * lanes + t;
        if (t >= lanes || c >= args.count) continue;
        i64 sum = 0;
        for (int i = 0; i < rows_at_once; ++i) sum += sums[i * lanes + t];
        if (sum != 0) atomic_add(args.sizes + c, sum);
    }
}

// --- sums over the rows of leaves. chunks: index of the leaf, begin and end of its rows, unused.

struct SumArgs {
    const float* values;
    const i16* whole_values;  // instead of values, for sums without a scale
    i64 n_values;             // columns
    const double* scale;
    const i32* rows;
    const i64* chunks;
    i64* sums;  // by leaf and column
};

// Σ round(value · scale) in 64-bit integers. A thread has one column of a tile of columns, and every so many rows.
SL_KERNEL(sum_rows, SumArgs) {
    SL_SHARED(i64, sums);
    const int lanes = static_cast<int>(least<i64>(32, args.n_values));
    const i64 n_tiles = (args.n_values + lanes - 1) / lanes, tile = SL_BLOCK % n_tiles;
    const i64* chunk = args.chunks + 4 * (SL_BLOCK / n_tiles);
    const int rows_at_once = SL_THREADS / lanes;
    SL_EACH_THREAD(t) {
        const i64 c = tile * lanes + t % lanes;
        i64 sum = 0;
        for (i64 i = chunk[1] + t / lanes; t < rows_at_once * lanes && c < args.n_values && i < chunk[2];
             i += rows_at_once) {
            const i64 at = args.rows[i] * args.n_values + c;
            sum += args.values ? static_cast<i64>(nearest(static_cast<double>(args.values[at]) * args.scale[c]))
                               : args.whole_values[at];
        }
        sums[t] = sum;
    }
    SL_EACH_THREAD(t) {
        const i64 c = tile * lanes + t;
        if (t >= lanes || c >= args.n_values) continue;
        i64 sum = 0;
        for (int i = 0; i < rows_at_once; ++i) sum += sums[i * lanes + t];
        if (sum != 0) atomic_add(args.sums + chunk[0] * args.n_values + c, sum);
    }
}

// --- scores

struct RouteArgs {
    const u8* all_bins;
    i64 all_row_bytes;
    const i32* feature;  // -1 for a leaf
    const i32* bin;
    const i32* missing_bin;
    const u8* missing_left;
    const i32* child;  // the left child, or the index of a leaf
    i64 n_rows;
    i32* leaf_of_row;
};

SL_KERNEL(route_rows, RouteArgs) {
    SL_EACH_THREAD(t) {
        const i64 row = SL_BLOCK * SL_THREADS + t;
        if (row >= args.n_rows) continue;
        const u8* bins = args.all_bins + row * args.all_row_bytes;
        i32 v = 0;
        for (i32 f; (f = args.feature[v]) >= 0;) {
            const i32 bin = bins[f];
            const bool left = bin == args.missing_bin[v] ? args.missing_left[v] != 0 : bin <= args.bin[v];
            v = args.child[v] + !left;
        }
        args.leaf_of_row[row] = args.child[v];
    }
}

struct ScoreArgs {
    float* scores;
    i64 outputs;
    i64 n_rows;
    const i32* leaf_of_row;
    const float* leaf_values;  // by leaf and output; -0 where a leaf stores none, which changes no score
};

SL_KERNEL(add_leaf_values, ScoreArgs) {
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK * SL_THREADS + t, row = i / args.outputs;
        if (row < args.n_rows)
            args.scores[i] += args.leaf_values[args.leaf_of_row[row] * args.outputs + i % args.outputs];
    }
}

struct TakeArgs {
    const float* scores;
    i64 outputs;
    const i32* rows;
    i64 n_rows;
    float* taken;
};

SL_KERNEL(take_rows, TakeArgs) {
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK * SL_THREADS + t, row = i / args.outputs;
        if (row < args.n_rows) args.taken[i] = args.scores[args.rows[row] * args.outputs + i % args.outputs];
    }
}
