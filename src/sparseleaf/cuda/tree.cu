// Kernels of the tree builder: partitions of rows, histograms and the search for splits of a batch of nodes.
//
// A histogram is slots[slot][bin][column]: the bins of the tree's features in order, and `width` columns, of which
// `counted` has the number of rows.
#include "platform.h"
//
#include "gain.h"

using namespace sl;

namespace {

constexpr int kPartition = 6, kBuild = 4, kChunk = 4;  // numbers per partition, build and chunk
enum Hessian { kCount = 0, kShared, kDiagonal };
constexpr i32 kNever = 0x7fffffff;

struct Split {
    const i64* p;  // start, end, feature, bin, missing bin, whether missing rows go left

    SL_INLINE bool left(const u8* bins, i64 row_bytes, i64 row) const {
        const i64 bin = bins[row * row_bytes + p[2]];
        return bin == p[4] ? p[5] != 0 : bin <= p[3];
    }
};

// Replaces values by `sum` plus the values before them; returns the sum of all.
SL_INLINE i32 exclusive_sums(i32* values, int n, i32 sum) {
    for (int i = 0; i < n; ++i) {
        const i32 value = values[i];
        values[i] = sum;
        sum += value;
    }
    return sum;
}

}  // namespace

// --- partitions: [left rows in old order | right rows in old order].
//
// partition_chunks: chunks; index of the partition, begin and end of the rows, whether there is no other chunk.

struct PartitionArgs {
    const u8* all_bins;
    i64 all_row_bytes;
    const i64* partitions;
    const i64* partition_chunks;
    const i64* first_chunks;
    i32* lefts;
    i64* n_left;  // of every partition
    i32* rows;
    i32* old_rows;
};

// Rows on the left in every chunk; keeps a copy of the rows.
SL_KERNEL(count_left, PartitionArgs) {
    SL_SHARED(i32, count);
    const i64* chunk = args.partition_chunks + kChunk * SL_BLOCK;
    const Split split{args.partitions + kPartition * chunk[0]};
    SL_EACH_THREAD(t) {
        if (t == 0) count[0] = 0;
    }
    SL_EACH_THREAD(t) {
        i32 n = 0;
        for (i64 i = chunk[1] + t; i < chunk[2]; i += SL_THREADS) {
            const i32 row = args.rows[i];
            args.old_rows[i] = row;
            n += split.left(args.all_bins, args.all_row_bytes, row);
        }
        atomic_add(count, n);
    }
    SL_EACH_THREAD(t) {
        if (t == 0) args.lefts[SL_BLOCK] = count[0];
    }
}

// Rows on the left before every chunk of a partition, in place. A thread has consecutive chunks.
SL_KERNEL(sum_left, PartitionArgs) {
    SL_SHARED(i32, before);
    const i64 first = args.first_chunks[SL_BLOCK], n = args.first_chunks[SL_BLOCK + 1] - first;
    const i64 share = (n + SL_THREADS - 1) / SL_THREADS;
    SL_EACH_THREAD(t) {
        i32 sum = 0;
        for (i64 i = t * share; i < n && i < (t + 1) * share; ++i) sum += args.lefts[first + i];
        before[t] = sum;
    }
    SL_EACH_THREAD(t) {
        if (t == 0) args.n_left[SL_BLOCK] = exclusive_sums(before, SL_THREADS, 0);
    }
    SL_EACH_THREAD(t) {
        i32 sum = before[t];
        for (i64 i = t * share; i < n && i < (t + 1) * share; ++i) {
            const i32 own = args.lefts[first + i];
            args.lefts[first + i] = sum;
            sum += own;
        }
    }
}

// Writes the rows of a chunk to their places.
SL_KERNEL(scatter_rows, PartitionArgs) {
    SL_SHARED(i32, before);
    const i64* chunk = args.partition_chunks + kChunk * SL_BLOCK;
    const i64* partition = args.partitions + kPartition * chunk[0];
    const Split split{partition};
    const i64 right = partition[0] + args.n_left[chunk[0]];
    const i64 n = chunk[2] - chunk[1], share = (n + SL_THREADS - 1) / SL_THREADS;
    SL_EACH_THREAD(t) {
        i32 sum = 0;
        for (i64 i = t * share; i < n && i < (t + 1) * share; ++i)
            sum += split.left(args.all_bins, args.all_row_bytes, args.old_rows[chunk[1] + i]);
        before[t] = sum;
    }
    SL_EACH_THREAD(t) {
        if (t == 0) exclusive_sums(before, SL_THREADS, args.lefts[SL_BLOCK]);
    }
    SL_EACH_THREAD(t) {
        i64 left = before[t];
        for (i64 i = t * share; i < n && i < (t + 1) * share; ++i) {
            const i64 place = chunk[1] + i - partition[0];
            const i32 row = args.old_rows[chunk[1] + i];
            if (split.left(args.all_bins, args.all_row_bytes, row))
                args.rows[partition[0] + left++] = row;
            else
                args.rows[right + place - left] = row;
        }
    }
}

// --- histograms. builds: slot, start, end, the sibling's slot or -1. build_chunks: as of partitions.

struct SlotArgs {
    const i64* several;  // the builds of several chunks
    const i64* builds;
    i32* slots;
    i64 slot_size;
    i64 blocks_per_slot;
};

SL_KERNEL(clear_slots, SlotArgs) {
    const i64* build = args.builds + kBuild * args.several[SL_BLOCK / args.blocks_per_slot];
    i32* slot = args.slots + build[0] * args.slot_size;
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK % args.blocks_per_slot * SL_THREADS + t;
        if (i < args.slot_size) slot[i] = 0;
    }
}

struct GatherArgs {
    const u8* all_bins;
    i64 all_row_bytes;
    const i32* columns;
    i64 n_columns;
    u8* bins;
    i64 row_bytes;
    i64 n_rows;
};

// The bins of the tree's features.
SL_KERNEL(gather_columns, GatherArgs) {
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK * SL_THREADS + t, row = i / args.row_bytes, f = i % args.row_bytes;
        if (row < args.n_rows)
            args.bins[i] =
                f < args.n_columns ? args.all_bins[row * args.all_row_bytes + args.columns[f]] : u8{0};
    }
}

struct BuildArgs {
    const u8* bins;  // of the tree's features; rows are padded to a multiple of 4
    i64 row_bytes;
    const i16* gradients;
    i64 n_gradients;
    const i32* rows;
    const i64* builds;
    const i64* build_chunks;
    const i32* offsets;
    const i32* groups;  // first feature of every group, a multiple of 4, and its largest number of bins; and the end
    i64 width;
    i64 lanes;
    i64 last_lanes;
    i64 n_tiles;
    i64 n_groups;
    i32* slots;
    i64 slot_size;
};

// Adds a chunk of rows to the bins of a group of features, for `lanes` columns (`last_lanes` of the last tile): in shared
// memory, then in the slot. Consecutive threads have consecutive columns of a row, so that a warp reads a bin once and
// adds to different banks. A column beyond the gradients counts the rows.
SL_KERNEL(build_histograms, BuildArgs) {
    SL_SHARED(i32, local);
    const i64* chunk = args.build_chunks + kChunk * (SL_BLOCK / (args.n_groups * args.n_tiles));
    const int group = static_cast<int>(SL_BLOCK / args.n_tiles % args.n_groups);
    const int tile = static_cast<int>(SL_BLOCK % args.n_tiles);
    const int lanes = static_cast<int>(tile + 1 < args.n_tiles ? args.lanes : args.last_lanes);
    const int first_column = tile * static_cast<int>(args.lanes);
    const int first = args.groups[2 * group], n_bins = args.groups[2 * group + 1];
    const int n = args.groups[2 * group + 2] - first;
    const int size = (n + 3) / 4 * 4 * n_bins * lanes;
    SL_EACH_THREAD(t) {
        for (int i = t; i < size; i += SL_THREADS) local[i] = 0;
    }
    SL_EACH_THREAD(t) {
        const int lane = t % lanes, column = first_column + lane, step = n_bins * lanes;
        if (column >= args.width) continue;
        for (i64 i = chunk[1] + t / lanes; i < chunk[2]; i += SL_THREADS / lanes) {
            const i64 row = args.rows[i];
            const i32 value = column < args.n_gradients ? args.gradients[row * args.n_gradients + column] : 1;
            if (value == 0) continue;
            const u32* bins = reinterpret_cast<const u32*>(args.bins + row * args.row_bytes + first);
            i32* to = local + lane;
            for (int f = 0; f < n; f += 4, to += 4 * step) {
                const u32 four = bins[f / 4];
                atomic_add(to + (four & 255) * lanes, value);
                atomic_add(to + step + (four >> 8 & 255) * lanes, value);
                atomic_add(to + 2 * step + (four >> 16 & 255) * lanes, value);
                atomic_add(to + 3 * step + (four >> 24) * lanes, value);
            }
        }
    }
    const i64* build = args.builds + kBuild * chunk[0];
    i32* slot = args.slots + build[0] * args.slot_size;
    i32* sibling = build[3] < 0 ? nullptr : args.slots + build[3] * args.slot_size;
    const bool alone = chunk[3] != 0;
    SL_EACH_THREAD(t) {
        const int lane = t % lanes, column = first_column + lane;
        if (column >= args.width) continue;
        for (int place = t / lanes; place < n * n_bins; place += SL_THREADS / lanes) {
            const i32 value = local[place * lanes + lane];
            const int f = place / n_bins, bin = args.offsets[first + f] + place % n_bins;
            if (bin >= args.offsets[first + f + 1]) continue;
            const i64 to = bin * args.width + column;
            if (!alone) {
                if (value != 0) atomic_add(slot + to, value);
                continue;
            }
            slot[to] = value;
            if (sibling) sibling[to] -= value;
        }
    }
}

// The siblings of builds of several chunks.
SL_KERNEL(subtract_histograms, SlotArgs) {
    const i64* build = args.builds + kBuild * args.several[SL_BLOCK / args.blocks_per_slot];
    const i32* less = args.slots + build[0] * args.slot_size;
    i32* from = args.slots + build[3] * args.slot_size;
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK % args.blocks_per_slot * SL_THREADS + t;
        if (build[3] >= 0 && i < args.slot_size) from[i] -= less[i];
    }
}

// --- the search for splits: a block finds the best split of some features, then another that of the node.

struct SearchArgs {
    const i32* slots;
    i64 slot_size;
    const i64* searches;  // slot and number of rows
    const double* node_scores;
    const i32* totals;
    const u8* chosen;  // null for all features
    const i32* offsets;
    const u8* has_missing;
    i64 n_features;
    i64 width;
    i64 counted;
    i64 hessian;
    i64 outputs;
    i64 padded;
    const double* weight;
    const double* lambda;
    const double* step;
    double l2;
    double min_hessian;
    i64 min_samples;
    const i8* directions;  // null without constraints
    const double* low;
    const double* high;
    i64 n_parts;  // of the features of a node
    i64 part_features;
    i64 most_bins;
    i64 row_stride;  // of the prefix sums: odd, so that threads with consecutive bins use different banks
    i32* prefix;     // null for shared memory
    double* part_gains;
    i32* part_splits;  // feature, bin, rows on the left, whether missing rows go left
    double* gains;
    i32* splits;
    i32* left;
};

namespace {

// The bins of a feature in a node.
struct Bins {
    const i32* hist;
    i64 n;  // without the bin of missing values
    i64 n_missing;
};

SL_INLINE Bins bins_of(const SearchArgs& args, i64 search, i64 f) {
    const i32* hist = args.slots + args.searches[2 * search] * args.slot_size + args.offsets[f] * args.width;
    const i64 n = args.offsets[f + 1] - args.offsets[f] - args.has_missing[f];
    return {hist, n, args.has_missing[f] ? hist[n * args.width + args.counted] : 0};
}

// Sums of the left side of a split: a row of prefix sums and, where missing rows go left, theirs.
struct LeftSums {
    const i32 *sums, *missing;

    // unsigned: what lies beyond the last column, with weight 0, may overflow
    SL_INLINE i32 operator()(i64 c) const {
        return static_cast<i32>(static_cast<unsigned>(sums[c]) + (missing ? static_cast<unsigned>(missing[c]) : 0u));
    }
};

struct TotalSums {
    const i32* sums;

    SL_INLINE i32 operator()(i64 c) const { return sums[c]; }
};

template <typename Sums>
SL_INLINE double hessian_of(const SearchArgs& args, Sums sums) {
    double sum = 0.0;
    const i64 n = args.hessian == kShared ? 1 : args.outputs;
    for (i64 j = 0; j < n; ++j)
        sum += sums(args.outputs + j) * (args.weight[j] / (args.step[j] * args.step[j]));
    return sum;
}

// H + λ of output j; total: null, or the sums from which `sums` are subtracted.
SL_INLINE double below_of(const SearchArgs& args, LeftSums left, const i32* total, i64 n, i64 j) {
    if (args.hessian == kCount) return static_cast<double>(n) + args.l2;
    const i64 c = args.outputs + (args.hessian == kDiagonal ? j : 0);
    const i32 h = total ? total[c] - left(c) : left(c);
    return h + args.lambda[args.hessian == kDiagonal ? j : 0];
}

SL_INLINE double constrained_score(const SearchArgs& args, i64 search, i64 f, LeftSums left, const i32* total,
                                   i64 n_left, i64 n) {
    const double *low = args.low + search * args.outputs, *high = args.high + search * args.outputs;
    const i8* direction = args.directions + f * args.outputs;
    double sum = 0.0;
    for (i64 j = 0; j < args.outputs; ++j) {
        const double gl = left(j), gr = total[j] - left(j);
        const double hl = below_of(args, left, nullptr, n_left, j), hr = below_of(args, left, total, n - n_left, j);
        const double vl = gain::bounded_value(gl, hl, args.step[j], low[j], high[j]);
        const double vr = gain::bounded_value(gr, hr, args.step[j], low[j], high[j]);
        sum += gain::bounded_score(gl, hl, args.weight[j], args.step[j], vl);
        sum += gain::bounded_score(gr, hr, args.weight[j], args.step[j], vr);
        if (direction[j] * (vr - vl) < 0.0) return 0.0 / 0.0 * sum;
    }
    return sum;
}

SL_INLINE double split_score(const SearchArgs& args, i64 search, i64 f, LeftSums left, const i32* total, i64 n_left,
                             i64 n) {
    if (args.directions) return constrained_score(args, search, f, left, total, n_left, n);
    const TotalSums totals{total};
    const i64 d = args.outputs;
    if (args.hessian == kDiagonal)
        return gain::diagonal(left, totals, d, args.padded, args.weight, args.lambda);
    const bool count = args.hessian == kCount;
    const double below_left = count ? static_cast<double>(n_left) + args.l2 : left(d) + args.lambda[0];
    const double below_right = count ? static_cast<double>(n - n_left) + args.l2
                                     : (static_cast<double>(total[d]) - left(d)) + args.lambda[0];
    return gain::common(left, totals, args.padded, args.weight, below_left, below_right);
}

// Higher gain, then lower feature, then lower bin, then missing rows to the right. split: see SearchArgs.
SL_INLINE bool better(double gain, const i32* split, double other_gain, const i32* other) {
    if (split[0] < 0 || other[0] < 0) return other[0] < 0 && split[0] >= 0;
    if (gain != other_gain) return gain > other_gain;
    if (split[0] != other[0]) return split[0] < other[0];
    if (split[1] != other[1]) return split[1] < other[1];
    return split[3] < other[3];
}

// Whether a split has enough rows and hessian on both sides; `over`: on the right, and so for all further bins.
SL_INLINE bool allowed(const SearchArgs& args, LeftSums left, const i32* total, i64 n_left, i64 n, bool& over) {
    over = false;
    if (n_left < args.min_samples) return false;
    over = n - n_left < args.min_samples;
    if (over) return false;
    if (!(args.min_hessian > 0.0) || args.hessian == kCount) return true;
    const double left_h = hessian_of(args, left);
    if (left_h < args.min_hessian) return false;
    over = hessian_of(args, TotalSums{total}) - left_h < args.min_hessian;
    return !over;
}

SL_INLINE void copy_split(const i32* from, i32* to) {
    for (int i = 0; i < 4; ++i) to[i] = from[i];
}

// Moves the best of the splits, one per thread, to the first place. n: a power of two.
SL_INLINE void keep_best(double* gains, i32* splits, int n) {
    for (int half = n / 2; half > 0; half /= 2) SL_EACH_THREAD(t) {
            if (t >= half || !better(gains[t + half], splits + 4 * (t + half), gains[t], splits + 4 * t)) continue;
            gains[t] = gains[t + half];
            copy_split(splits + 4 * (t + half), splits + 4 * t);
        }
}

}  // namespace

SL_KERNEL(search_features, SearchArgs) {
    SL_SHARED(double, gains);
    i32* splits = reinterpret_cast<i32*>(gains + SL_THREADS);
    i32* last = splits + 4 * SL_THREADS;  // first bin of no further split, by feature and side of the missing rows
    const i64 search = SL_BLOCK / args.n_parts;
    const int first = static_cast<int>(SL_BLOCK % args.n_parts * args.part_features);
    const int most = static_cast<int>(args.part_features), width = static_cast<int>(args.width);
    const int n_features = least(most, static_cast<int>(args.n_features) - first);
    const int most_bins = static_cast<int>(args.most_bins), stride = static_cast<int>(args.row_stride);
    const i64 n = args.searches[2 * search + 1];
    const i32* total = args.totals + search * width;
    i32* prefix = args.prefix ? args.prefix + SL_BLOCK * (most * most_bins * stride) : last + 2 * most;
    SL_EACH_THREAD(t) {
        splits[4 * t] = -1;
        for (int i = t; i < 2 * most; i += SL_THREADS) last[i] = kNever;
        for (int i = t; i < n_features * width; i += SL_THREADS) {
            const int f = i / width, c = i % width;
            if (args.chosen && !args.chosen[search * args.n_features + first + f]) continue;
            const Bins bins = bins_of(args, search, first + f);
            i32* to = prefix + f * most_bins * stride + c;
            i32 sum = 0;
            for (int b = 0; b < bins.n; ++b) to[b * stride] = sum += bins.hist[b * width + c];
        }
    }
    for (int pass = 0; pass < 2; ++pass) SL_EACH_THREAD(t) {
            // the second half of the candidates have their missing rows on the left
            const int n_splits = n_features * most_bins;
            for (int i = t; i < 2 * n_splits; i += SL_THREADS) {
                const bool missing_left = i >= n_splits;
                const int f = i % n_splits / most_bins, b = i % most_bins;
                if (args.chosen && !args.chosen[search * args.n_features + first + f]) continue;
                const Bins bins = bins_of(args, search, first + f);
                if (b >= bins.n || (missing_left && bins.n_missing == 0)) continue;
                if (b == bins.n - 1 && (missing_left || bins.n_missing == 0)) continue;
                if (bins.hist[b * width + args.counted] == 0) continue;  // same partition as at the previous bin
                const LeftSums left{prefix + (f * most_bins + b) * stride,
                                    missing_left ? bins.hist + bins.n * width : nullptr};
                const i64 n_left = left(args.counted);
                bool over;
                const bool possible = allowed(args, left, total, n_left, n, over);
                if (pass == 0 && over) atomic_min(last + 2 * f + missing_left, b);
                if (pass == 0 || !possible || b >= last[2 * f + missing_left]) continue;
                const double gain =
                    split_score(args, search, first + f, left, total, n_left, n) - args.node_scores[search];
                const i32 split[4] = {first + f, b, static_cast<i32>(n_left), missing_left};
                if (gain != gain || !better(gain, split, gains[t], splits + 4 * t)) continue;
                gains[t] = gain;
                copy_split(split, splits + 4 * t);
            }
        }
    keep_best(gains, splits, SL_THREADS);
    SL_EACH_THREAD(t) {
        if (t != 0) continue;
        args.part_gains[SL_BLOCK] = gains[0];
        copy_split(splits, args.part_splits + 4 * SL_BLOCK);
    }
}

// The best split over all parts of a node, and the sums of its left side.
SL_KERNEL(best_splits, SearchArgs) {
    SL_SHARED(double, gains);
    i32* splits = reinterpret_cast<i32*>(gains + SL_THREADS);
    const i64 search = SL_BLOCK, first = search * args.n_parts;
    const int width = static_cast<int>(args.width);
    SL_EACH_THREAD(t) {
        splits[4 * t] = -1;
        for (i64 i = first + t; i < first + args.n_parts; i += SL_THREADS) {
            if (!better(args.part_gains[i], args.part_splits + 4 * i, gains[t], splits + 4 * t)) continue;
            gains[t] = args.part_gains[i];
            copy_split(args.part_splits + 4 * i, splits + 4 * t);
        }
    }
    keep_best(gains, splits, SL_THREADS);
    SL_EACH_THREAD(t) {
        if (t == 0) {
            args.gains[search] = gains[0];
            copy_split(splits, args.splits + 4 * search);
        }
        for (int c = t; splits[0] >= 0 && c < width; c += SL_THREADS) {
            const Bins bins = bins_of(args, search, splits[0]);
            i32 sum = splits[3] ? bins.hist[bins.n * width + c] : 0;
            for (i64 b = 0; b <= splits[1]; ++b) sum += bins.hist[b * width + c];
            args.left[search * width + c] = sum;
        }
    }
}
