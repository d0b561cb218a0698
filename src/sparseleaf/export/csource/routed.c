/* Routed trees: rows go to children by the margins of linear routers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scorers.h"

enum { MAX_ARITY = 16, WORD_BITS = 64, GROUP = 16 };

static bool check_nodes(routed_t *routed, const part_t *part, size_t n_leaves)
{
    for (size_t tree = 0; tree < routed->n_trees; ++tree) {
        const int64_t first = routed->offsets[tree], size = routed->offsets[tree + 1] - first;
        if (size < 1) return part_fail(part, "offsets", "a tree without nodes");
        if ((size_t)size > routed->most_nodes) routed->most_nodes = (size_t)size;
        int64_t next = 1; /* every node but the root has one parent */
        for (int64_t node = 0; node < size; ++node) {
            const int32_t inner = routed->inner[first + node], child = routed->child[first + node];
            if (inner < 0) {
                if (child < 0 || (size_t)child >= n_leaves) return part_fail(part, "child", "no such leaf");
                continue;
            }
            if ((size_t)inner >= routed->n_inner) return part_fail(part, "inner", "no such router");
            if (child != next || child <= node || child > size - routed->arity)
                return part_fail(part, "child", "no such node");
            next += routed->arity;
        }
    }
    return true;
}

static size_t step_at(const routed_t *routed, size_t entry)
{
    return routed->steps.type == U16 ? ((const uint16_t *)routed->steps.data)[entry]
                                     : ((const uint32_t *)routed->steps.data)[entry];
}

static int count_bits(uint64_t bits)
{
#ifdef __GNUC__
    return __builtin_popcountll(bits);
#else
    int n = 0;
    for (; bits; bits &= bits - 1) ++n;
    return n;
#endif
}

/* Features of routers must exist. Routers with at least two features per word of a bitmap get one. */
static bool check_steps(routed_t *routed, const part_t *part)
{
    size_t n_maps = 0;
    routed->n_words = (routed->n_features + WORD_BITS - 1) / WORD_BITS;
    routed->first_word = malloc((routed->n_inner + 1) * sizeof *routed->first_word);
    if (!routed->first_word) return part_fail(part, "", "out of memory");
    for (size_t inner = 0; inner < routed->n_inner; ++inner) {
        const size_t begin = (size_t)routed->router_starts[inner], end = (size_t)routed->router_starts[inner + 1];
        size_t feature = 0;
        for (size_t e = begin; e < end; ++e) {
            feature += step_at(routed, e);
            if (feature >= routed->n_features || (e > begin && step_at(routed, e) == 0))
                return part_fail(part, "steps", "a feature that does not exist");
        }
        const bool mapped = end - begin >= 2 * routed->n_words && end > begin;
        routed->first_word[inner] = mapped ? (int64_t)(n_maps++ * routed->n_words) : -1;
    }
    routed->words = calloc(n_maps * routed->n_words + 1, sizeof *routed->words);
    if (!routed->words) return part_fail(part, "", "out of memory");
    for (size_t inner = 0; inner < routed->n_inner; ++inner) {
        if (routed->first_word[inner] < 0) continue;
        word_t *words = routed->words + routed->first_word[inner];
        size_t feature = 0;
        for (int64_t e = routed->router_starts[inner]; e < routed->router_starts[inner + 1]; ++e) {
            feature += step_at(routed, (size_t)e);
            words[feature / WORD_BITS].bits |= (uint64_t)1 << feature % WORD_BITS;
        }
        for (size_t w = 1; w < routed->n_words; ++w)
            words[w].before = words[w - 1].before + (uint32_t)count_bits(words[w - 1].bits);
    }
    return true;
}

static bool check_features(const routed_t *routed, const part_t *part)
{
    for (size_t inner = 0; inner < routed->n_inner; ++inner)
        for (int64_t begin = routed->router_starts[inner], e = begin; e < routed->router_starts[inner + 1]; ++e)
            if (routed->features[e] < 0 || (size_t)routed->features[e] >= routed->n_features ||
                (e > begin && routed->features[e - 1] >= routed->features[e]))
                return part_fail(part, "features", "a feature that does not exist");
    return true;
}

static bool read_routers(routed_t *routed, const part_t *part, int64_t bits)
{
    const size_t columns = (size_t)routed->arity - (bits == 8);
    routed->router_starts = part_array(part, "router_starts", I64, routed->n_inner + 1);
    if (!routed->router_starts) return false;
    size_t n = 0;
    if (bits == 8) {
        routed->steps = part_any(part, "steps", U16, U32);
        if (!routed->steps.data) return false;
        n = routed->steps.n;
        routed->small = part_array(part, "weights", I8, n * columns);
    } else {
        routed->features = part_array(part, "features", I32, ANY);
        if (!routed->features) return false;
        n = part_length(part, "features");
        if (bits == 16)
            routed->shorts = part_array(part, "weights", I16, n * columns);
        else
            routed->weights = part_array(part, "weights", F32, n * columns);
        if (routed->weights && !are_finite(routed->weights, n * columns))
            return part_fail(part, "weights", "not finite");
    }
    if (!are_starts(routed->router_starts, routed->n_inner, n))
        return part_fail(part, "router_starts", "not increasing");
    if (bits != 32) {
        routed->scale = part_array(part, "scale", F32, routed->n_inner);
        if (!routed->scale || !are_finite(routed->scale, routed->n_inner))
            return part_fail(part, "scale", "not finite");
    }
    routed->bias = part_array(part, "bias", F32, routed->n_inner * columns);
    if (!routed->bias || !are_finite(routed->bias, routed->n_inner * columns))
        return part_fail(part, "bias", "not finite");
    return bits == 8 ? check_steps(routed, part) : check_features(routed, part);
}

bool routed_read(routed_t *routed, const part_t *part, size_t n_features, size_t n_labels)
{
    memset(routed, 0, sizeof *routed);
    /* trees, nodes, inner nodes, arity, bits of the weights, unit_rows */
    const int64_t *shape = part_array(part, "shape", I64, 6);
    if (!shape) return false;
    for (int i = 0; i < 6; ++i)
        if (shape[i] < 0 || shape[i] > INT32_MAX) return part_fail(part, "shape", "out of range");
    if (shape[3] < 2 || shape[3] > MAX_ARITY) return part_fail(part, "shape", "2 to 16 children");
    const size_t n_nodes = (size_t)shape[1];
    routed->n_trees = (size_t)shape[0];
    routed->n_inner = (size_t)shape[2];
    routed->arity = (int)shape[3];
    routed->unit_rows = shape[5] != 0;
    routed->n_features = n_features;
    routed->n_labels = n_labels;
    routed->offsets = part_array(part, "offsets", I64, routed->n_trees + 1);
    routed->child = part_array(part, "child", I32, n_nodes);
    routed->inner = part_array(part, "inner", I32, n_nodes);
    const float *threshold = part_array(part, "threshold", F32, 1);
    const size_t n_starts = part_length(part, "leaf_starts");
    if (n_starts == 0) return part_fail(part, "leaf_starts", "the array is empty");
    if (!leaves_read(&routed->leaves, part, n_starts - 1, n_labels, F16) || part->file->failed) return false;
    if (!routed->leaves.labels.data) return part_fail(part, "leaf_labels", "the array is missing");
    if (!are_starts(routed->offsets, routed->n_trees, n_nodes))
        return part_fail(part, "offsets", "not increasing");
    routed->threshold = *threshold;
    if (part_has(part, "feature_weights")) {
        routed->feature_weights = part_array(part, "feature_weights", F32, n_features);
        if (!routed->feature_weights || !are_finite(routed->feature_weights, n_features))
            return part_fail(part, "feature_weights", "not finite");
    }
    return read_routers(routed, part, shape[4]) && check_nodes(routed, part, n_starts - 1);
}

void routed_free(routed_t *routed)
{
    free(routed->words);
    free(routed->first_word);
}

/* --- margins of 8-bit routers, by increasing feature */

static void mapped_margins(const routed_t *routed, const word_t *words, const int8_t *weights, row_t row, float *z)
{
    const int columns = routed->arity - 1;
    for (int c = 0; c < columns; ++c) z[c] = 0.0f;
    for (size_t e = 0; e < row.n; ++e) {
        const size_t feature = (size_t)row.features[e];
        const word_t word = words[feature / WORD_BITS];
        const uint64_t bit = (uint64_t)1 << feature % WORD_BITS;
        if (!(word.bits & bit)) continue;
        const int8_t *w = weights + (word.before + (size_t)count_bits(word.bits & (bit - 1))) * (size_t)columns;
        for (int c = 0; c < columns; ++c) z[c] += (float)w[c] * row.values[e];
    }
}

/* One function per type of step; binary trees and those with four children are common. */
#define DEFINE_LISTED(NAME, STEP)                                                                                \
    static void NAME(const STEP *steps, size_t n, const int8_t *weights, int columns, const float *x, float *z)  \
    {                                                                                                            \
        size_t feature = 0;                                                                                      \
        for (int c = 0; c < columns; ++c) z[c] = 0.0f;                                                           \
        for (size_t e = 0; e < n; ++e) {                                                                         \
            const float value = x[feature += steps[e]];                                                          \
            if (value == 0.0f) continue; /* the common case */                                                   \
            for (int c = 0; c < columns; ++c) z[c] += (float)weights[e * (size_t)columns + (size_t)c] * value;   \
        }                                                                                                        \
    }

DEFINE_LISTED(listed_u16, uint16_t)
DEFINE_LISTED(listed_u32, uint32_t)

static int32_t next_small(const routed_t *routed, size_t node, row_t row, const float *spread)
{
    const int columns = routed->arity - 1;
    const size_t inner = (size_t)routed->inner[node], begin = (size_t)routed->router_starts[inner];
    const size_t n = (size_t)routed->router_starts[inner + 1] - begin;
    const int8_t *weights = routed->small + begin * (size_t)columns;
    float z[MAX_ARITY];
    if (routed->first_word[inner] >= 0)
        mapped_margins(routed, routed->words + routed->first_word[inner], weights, row, z);
    else if (routed->steps.type == U16)
        listed_u16((const uint16_t *)routed->steps.data + begin, n, weights, columns, spread, z);
    else
        listed_u32((const uint32_t *)routed->steps.data + begin, n, weights, columns, spread, z);
    int best = 0;
    float most = 0.0f; /* the margin of the first child */
    for (int c = 0; c < columns; ++c) {
        z[c] = z[c] * routed->scale[inner] + routed->bias[inner * (size_t)columns + (size_t)c];
        if (z[c] > most) {
            most = z[c];
            best = c + 1;
        }
    }
    return routed->child[node] + best;
}

static void prefetch_bytes(const void *begin, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < 1024; at += 64) PREFETCH((const char *)begin + at);
}

static void prefetch_router(const routed_t *routed, size_t inner)
{
    const size_t begin = (size_t)routed->router_starts[inner];
    const size_t n = (size_t)routed->router_starts[inner + 1] - begin;
    const size_t step_size = routed->steps.type == U16 ? 2 : 4;
    if (routed->first_word[inner] >= 0)
        prefetch_bytes(routed->words + routed->first_word[inner], routed->n_words * sizeof *routed->words);
    else
        prefetch_bytes((const char *)routed->steps.data + begin * step_size, n * step_size);
    prefetch_bytes(routed->small + begin * (size_t)(routed->arity - 1), n * (size_t)(routed->arity - 1));
}

/* Every node is a cache miss: some trees are traversed together, and nodes prefetched while others are evaluated. */
static void walk_small(const routed_t *routed, size_t first, size_t n, row_t row, const float *spread, size_t *leaves)
{
    size_t node[GROUP], tree[GROUP], left = n;
    for (size_t j = 0; j < n; ++j) {
        tree[j] = j;
        node[j] = (size_t)routed->offsets[first + j];
    }
    for (;;) {
        size_t kept = 0;
        for (size_t j = 0; j < left; ++j) {
            if (routed->inner[node[j]] < 0) {
                leaves[tree[j]] = (size_t)routed->child[node[j]];
                continue;
            }
            PREFETCH(routed->router_starts + routed->inner[node[j]]);
            PREFETCH(routed->scale + routed->inner[node[j]]);
            PREFETCH(routed->first_word + routed->inner[node[j]]);
            node[kept] = node[j];
            tree[kept++] = tree[j];
        }
        left = kept;
        if (left == 0) return;
        for (size_t j = 0; j < left; ++j) prefetch_router(routed, (size_t)routed->inner[node[j]]);
        for (size_t j = 0; j < left; ++j) {
            node[j] = (size_t)routed->offsets[first + tree[j]] + (size_t)next_small(routed, node[j], row, spread);
            PREFETCH(routed->inner + node[j]);
            PREFETCH(routed->child + node[j]);
        }
    }
}

/* --- other routers: a row may go to several children */

static float weight_of(const routed_t *routed, size_t inner, size_t at)
{
    return routed->weights ? routed->weights[at] : (float)routed->shorts[at] * routed->scale[inner];
}

static void add_margins(const routed_t *routed, size_t inner, size_t entry, float value, float *z)
{
    const size_t arity = (size_t)routed->arity;
    for (size_t j = 0; j < arity; ++j) z[j] += weight_of(routed, inner, entry * arity + j) * value;
}

/* z = bias + weights · x: by the features of the router, or by those of the row if these are much fewer. */
static void margins(const routed_t *routed, size_t inner, row_t row, const float *spread, float *z)
{
    const size_t begin = (size_t)routed->router_starts[inner], end = (size_t)routed->router_starts[inner + 1];
    const int32_t *features = routed->features;
    for (int j = 0; j < routed->arity; ++j) z[j] = routed->bias[inner * (size_t)routed->arity + (size_t)j];
    size_t steps = 1;
    while ((end - begin) >> steps) ++steps;
    if (end - begin <= 4 * row.n * steps) {
        for (size_t e = begin; e < end; ++e) {
            const float value = spread[features[e]];
            if (value != 0.0f) add_margins(routed, inner, e, value, z);
        }
        return;
    }
    size_t low = begin;
    for (size_t i = 0; i < row.n; ++i) {
        size_t high = end;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (features[middle] < row.features[i])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == end) return;
        if (features[low] == row.features[i]) add_margins(routed, inner, low, row.values[i], z);
    }
}

/* The leaves that a row reaches in a tree; returns their number. */
static size_t walk_wide(const routed_t *routed, size_t tree, row_t row, walk_t walk)
{
    const size_t first = (size_t)routed->offsets[tree];
    size_t n_stack = 1, n_reached = 0;
    walk.stack[0] = 0;
    while (n_stack > 0) {
        const size_t node = first + (size_t)walk.stack[--n_stack];
        const int32_t inner = routed->inner[node], child = routed->child[node];
        if (inner < 0) {
            walk.reached[n_reached++] = child;
            continue;
        }
        float z[MAX_ARITY];
        margins(routed, (size_t)inner, row, walk.spread, z);
        bool sent = false;
        int best = 0;
        for (int j = 0; j < routed->arity; ++j) {
            if (z[j] >= routed->threshold) {
                walk.stack[n_stack++] = child + j;
                sent = true;
            }
            if (z[j] > z[best] || z[best] != z[best]) best = j;
        }
        if (!sent) walk.stack[n_stack++] = child + best;
    }
    return n_reached;
}

/* --- scores: the mean over the trees of the mean over the leaves reached */

static float row_scale(const routed_t *routed, row_t row)
{
    if (!routed->unit_rows) return 1.0f;
    double squares = 0.0;
    for (size_t e = 0; e < row.n; ++e) {
        const float value = routed->feature_weights
                                ? row.values[e] * routed->feature_weights[row.features[e]]
                                : row.values[e];
        squares += (double)value * (double)value;
    }
    return squares > 0.0 ? (float)(1.0 / sqrt(squares)) : 0.0f;
}

void routed_sum(const routed_t *routed, row_t row, walk_t walk, sums_t *sums)
{
    const float n_trees = (float)routed->n_trees, scale = row_scale(routed, row);
    for (size_t e = 0; e < row.n; ++e) {
        const float value = routed->feature_weights
                                ? row.values[e] * routed->feature_weights[row.features[e]]
                                : row.values[e];
        walk.weighted[e] = scale * value;
        walk.spread[row.features[e]] = walk.weighted[e];
    }
    const row_t weighted = {row.features, walk.weighted, row.n};
    if (routed->small) {
        size_t leaves[GROUP];
        for (size_t tree = 0; tree < routed->n_trees; tree += GROUP) {
            const size_t left = routed->n_trees - tree, n = left < GROUP ? left : GROUP;
            walk_small(routed, tree, n, weighted, walk.spread, leaves);
            for (size_t j = 0; j < n; ++j) leaves_add(&routed->leaves, leaves[j], 1.0f / n_trees, sums);
        }
    } else {
        for (size_t tree = 0; tree < routed->n_trees; ++tree) {
            const size_t n = walk_wide(routed, tree, weighted, walk);
            for (size_t i = 0; i < n; ++i)
                leaves_add(&routed->leaves, (size_t)walk.reached[i], 1.0f / (n_trees * (float)n), sums);
        }
    }
    for (size_t e = 0; e < row.n; ++e) walk.spread[row.features[e]] = 0.0f;
}
