// Kernels of prediction with trees whose nodes split on one feature. Scores have the CPU's order of
// additions: from the base score, tree by tree.
#include "platform.h"

using namespace sl;

// --- leaves

struct WalkArgs {
    const float* features;  // by row and feature
    i64 n_features;
    i64 n_rows;
    const i64* tree_offsets;  // first node of every tree
    const i32* feature;       // -1 for a leaf
    const float* threshold;
    const u8* missing_left;
    const i32* child;  // left child, relative to the tree's first node; of a leaf, its index over all trees
    const u8* categorical;  // whether a feature is categorical; null if none is
    const u8* sets;         // categories that go left, 256 bits each; a threshold is the index of a set
    i64 n_trees;
    i64 block_trees;
    i32* leaves;  // by tree and row
};

namespace {

constexpr i64 kSetBytes = 32;

// Whether a value goes to the right child of a node: see walk in cpp/predict.cpp.
SL_INLINE bool goes_right(const WalkArgs& args, i64 node, i32 feature, float value) {
    const bool missing_right = args.missing_left[node] == 0;
    if (value != value) return missing_right;
    if (args.categorical && args.categorical[feature]) {
        if (!(value >= 0.0f && value < 8.0f * kSetBytes)) return missing_right;  // an unknown category
        const int category = static_cast<int>(value);
        const u8* set = args.sets + static_cast<i64>(args.threshold[node]) * kSetBytes;
        return !((set[category >> 3] >> (category & 7)) & 1);
    }
    return !(value <= args.threshold[node]);
}

}  // namespace

// The leaves of a block's rows in some trees: a thread has a row, so that its features stay in the cache.
SL_KERNEL(walk_trees, WalkArgs) {
    const i64 n_tiles = (args.n_trees + args.block_trees - 1) / args.block_trees;
    const i64 first = SL_BLOCK % n_tiles * args.block_trees;
    const i64 end = least(args.n_trees, first + args.block_trees);
    SL_EACH_THREAD(t) {
        const i64 row = SL_BLOCK / n_tiles * SL_THREADS + t;
        if (row >= args.n_rows) continue;
        const float* x = args.features + row * args.n_features;
        for (i64 tree = first; tree < end; ++tree) {
            const i64 root = args.tree_offsets[tree];
            i64 node = root;
            for (i32 f; (f = args.feature[node]) >= 0;)
                node = root + args.child[node] + goes_right(args, node, f, x[f]);
            args.leaves[tree * args.n_rows + row] = args.child[node];
        }
    }
}

// --- scores

struct LeafSumArgs {
    const i32* leaves;  // by tree and row
    i64 n_trees;
    i64 n_rows;
    const float* base;
    const float* leaf_values;  // by leaf and output
    i64 outputs;
    float* scores;
};

// The scores of leaves that have a value for every output. A thread has a row and an output.
SL_KERNEL(sum_leaves, LeafSumArgs) {
    SL_EACH_THREAD(t) {
        const i64 i = SL_BLOCK * SL_THREADS + t, row = i / args.outputs, output = i % args.outputs;
        if (row >= args.n_rows) continue;
        float sum = args.base[output];
        for (i64 tree = 0; tree < args.n_trees; ++tree)
            sum += args.leaf_values[args.leaves[tree * args.n_rows + row] * args.outputs + output];
        args.scores[i] = sum;
    }
}

struct EntrySumArgs {
    const i32* leaves;  // by tree and row
    i64 n_trees;
    i64 n_rows;
    const i64* leaf_indptr;
    const i32* leaf_labels;
    const float* leaf_values;
    i64 outputs;
    float* scores;
};

// Adds the entries of leaves that have values for some outputs. A thread has a row, so that the order of a
// row's entries is that of the file, even if a leaf has two for an output.
SL_KERNEL(add_entries, EntrySumArgs) {
    SL_EACH_THREAD(t) {
        const i64 row = SL_BLOCK * SL_THREADS + t;
        if (row >= args.n_rows) continue;
        float* scores = args.scores + row * args.outputs;
        for (i64 tree = 0; tree < args.n_trees; ++tree) {
            const i64 leaf = args.leaves[tree * args.n_rows + row];
            for (i64 e = args.leaf_indptr[leaf]; e < args.leaf_indptr[leaf + 1]; ++e) {
                const i32 label = args.leaf_labels[e];
                if (label >= 0 && label < args.outputs)  // a mapped file may have changed since validation
                    scores[label] += args.leaf_values[e];
            }
        }
    }
}
