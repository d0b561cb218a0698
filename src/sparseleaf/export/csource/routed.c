/* Routed trees: rows go to children by the margins of linear routers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scorers.h"

enum { MAX_ARITY = 16, WORD_BITS = 64, GROUP = 16, CHUNK = 64 };

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

/* Number of bits that are set. */
static inline size_t count_bits(uint64_t bits)
{
#if defined __GNUC__ && (defined __POPCNT__ || !defined __x86_64__)
    return (size_t)__builtin_popcountll(bits);
#else
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (size_t)(bits * 0x0101010101010101u >> 56);
#endif
}

static size_t feature_at(const routed_t *routed, size_t entry, size_t before)
{
    if (routed->features) return (size_t)routed->features[entry];
    return before + (routed->steps.type == U16 ? ((const uint16_t *)routed->steps.data)[entry]
                                               : ((const uint32_t *)routed->steps.data)[entry]);
}

/* Features of routers must exist and increase. Routers with at least two features per word of a bitmap get one. */
static bool check_features(routed_t *routed, const part_t *part)
{
    size_t n_maps = 0;
    routed->n_words = (routed->n_features + WORD_BITS - 1) / WORD_BITS;
    routed->first_word = malloc((routed->n_inner + 1) * sizeof *routed->first_word);
    if (!routed->first_word) return part_fail(part, "", "out of memory");
    for (size_t inner = 0; inner < routed->n_inner; ++inner) {
        const size_t begin = (size_t)routed->router_starts[inner], end = (size_t)routed->router_starts[inner + 1];
        for (size_t e = begin, before = 0; e < end; ++e) {
            const size_t feature = feature_at(routed, e, before);
            if (feature >= routed->n_features || (e > begin && feature <= before))
                return part_fail(part, "", "a router with a feature that does not exist");
            before = feature;
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
            feature = feature_at(routed, (size_t)e, feature);
            words[feature / WORD_BITS].bits |= (uint64_t)1 << feature % WORD_BITS;
        }
        for (size_t w = 1; w < routed->n_words; ++w)
            words[w].before = words[w - 1].before + (uint32_t)count_bits(words[w - 1].bits);
    }
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
    return check_features(routed, part);
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

/* Entries of a router that a row has, with its values. They are collected without branches, which no processor could
 * predict, in chunks. */
typedef struct {
    size_t n;
    uint32_t entry[CHUNK];
    float value[CHUNK];
} common_t;

static inline void collect_mapped(const word_t *words, row_t row, size_t begin, size_t end, common_t *common)
{
    size_t n = 0;
    for (size_t e = begin; e < end; ++e) {
        const uint32_t feature = (uint32_t)row.features[e];
        common->entry[n] = (uint32_t)e;
        n += words[feature / WORD_BITS].bits >> feature % WORD_BITS & 1;
    }
    for (size_t i = 0; i < n; ++i) {
        const uint32_t e = common->entry[i], feature = (uint32_t)row.features[e];
        const word_t word = words[feature / WORD_BITS];
        common->entry[i] = word.before + (uint32_t)count_bits(word.bits & (((uint64_t)1 << feature % WORD_BITS) - 1));
        common->value[i] = row.values[e];
    }
    common->n = n;
}

/* One function per encoding of features: by steps, or as they are. */
#define DEFINE_COLLECT(NAME, TYPE, NEXT)                                                                     \
    static inline size_t NAME(const TYPE *features, size_t begin, size_t end, size_t feature, const float *x, \
                              common_t *common)                                                              \
    {                                                                                                        \
        size_t n = 0;                                                                                        \
        for (size_t e = begin; e < end; ++e) {                                                               \
            feature = NEXT;                                                                                  \
            const float value = x[feature];                                                                  \
            common->entry[n] = (uint32_t)e;                                                                  \
            common->value[n] = value;                                                                        \
            n += value != 0.0f;                                                                              \
        }                                                                                                    \
        common->n = n;                                                                                       \
        return feature;                                                                                      \
    }

DEFINE_COLLECT(collect_u16, uint16_t, feature + features[e])
DEFINE_COLLECT(collect_u32, uint32_t, feature + features[e])
DEFINE_COLLECT(collect_features, int32_t, (size_t)features[e])

static size_t chunk_end(size_t begin, size_t n)
{
    return n - begin < CHUNK ? n : begin + CHUNK;
}

/* --- margins of 8-bit routers, by increasing feature; `columns` is a constant where these are called */

static inline void add_small(const common_t *common, const int8_t *weights, int columns, float *z)
{
    for (size_t i = 0; i < common->n; ++i) {
        const int8_t *w = weights + common->entry[i] * (size_t)columns;
        for (int c = 0; c < columns; ++c) z[c] += (float)w[c] * common->value[i];
    }
}

static inline void small_margins(const routed_t *routed, size_t inner, int columns, row_t row, const float *spread,
                                 float *z)
{
    const size_t first = (size_t)routed->router_starts[inner], n = (size_t)routed->router_starts[inner + 1] - first;
    const int8_t *weights = routed->small + first * (size_t)columns;
    common_t common;
    for (int c = 0; c < columns; ++c) z[c] = 0.0f;
    if (routed->first_word[inner] >= 0) {
        const word_t *words = routed->words + routed->first_word[inner];
        for (size_t begin = 0; begin < row.n; begin += CHUNK) {
            collect_mapped(words, row, begin, chunk_end(begin, row.n), &common);
            add_small(&common, weights, columns, z);
        }
        return;
    }
    for (size_t begin = 0, feature = 0; begin < n; begin += CHUNK) {
        const size_t end = chunk_end(begin, n);
        if (routed->steps.type == U16)
            feature = collect_u16((const uint16_t *)routed->steps.data + first, begin, end, feature, spread, &common);
        else
            feature = collect_u32((const uint32_t *)routed->steps.data + first, begin, end, feature, spread, &common);
        add_small(&common, weights, columns, z);
    }
}

static int32_t next_small(const routed_t *routed, size_t node, row_t row, const float *spread)
{
    const int columns = routed->arity - 1;
    const size_t inner = (size_t)routed->inner[node];
    float z[MAX_ARITY];
    switch (columns) { /* loops over the children are unrolled for common arities */
        case 1: small_margins(routed, inner, 1, row, spread, z); break;
        case 3: small_margins(routed, inner, 3, row, spread, z); break;
        default: small_margins(routed, inner, columns, row, spread, z); break;
    }
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

/* `arity` is a constant where this is called for binary trees, so that sums stay in registers. */
static inline void add_wide(const routed_t *routed, size_t inner, const common_t *common, size_t arity, float *z)
{
    const size_t first = (size_t)routed->router_starts[inner];
    float sums[MAX_ARITY];
    for (size_t j = 0; j < arity; ++j) sums[j] = z[j];
    if (routed->weights) {
        for (size_t i = 0; i < common->n; ++i) {
            const float *w = routed->weights + (first + common->entry[i]) * arity;
            for (size_t j = 0; j < arity; ++j) sums[j] += w[j] * common->value[i];
        }
    } else {
        const float scale = routed->scale[inner];
        for (size_t i = 0; i < common->n; ++i) {
            const int16_t *w = routed->shorts + (first + common->entry[i]) * arity;
            for (size_t j = 0; j < arity; ++j) sums[j] += (float)w[j] * scale * common->value[i];
        }
    }
    for (size_t j = 0; j < arity; ++j) z[j] = sums[j];
}

static void add_common(const routed_t *routed, size_t inner, const common_t *common, float *z)
{
    if (routed->arity == 2)
        add_wide(routed, inner, common, 2, z);
    else
        add_wide(routed, inner, common, (size_t)routed->arity, z);
}

/* The features of the row are looked up in the sorted ones of the router. */
static void collect_searched(const routed_t *routed, size_t inner, row_t row, size_t begin, size_t end, common_t *common)
{
    const size_t first = (size_t)routed->router_starts[inner], n = (size_t)routed->router_starts[inner + 1] - first;
    const int32_t *features = routed->features + first;
    common->n = 0;
    for (size_t e = begin, low = 0; e < end; ++e) {
        size_t high = n;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (features[middle] < row.features[e])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == n) return;
        if (features[low] != row.features[e]) continue;
        common->entry[common->n] = (uint32_t)low;
        common->value[common->n++] = row.values[e];
    }
}

/* z = bias + weights · x, in the order of the features: whichever of three ways is fastest. */
static void margins(const routed_t *routed, size_t inner, row_t row, const float *spread, float *z)
{
    const size_t first = (size_t)routed->router_starts[inner], n = (size_t)routed->router_starts[inner + 1] - first;
    const bool mapped = routed->first_word[inner] >= 0 && row.n < n, listed = !mapped && n <= 16 * row.n;
    const size_t size = listed ? n : row.n;
    common_t common;
    for (int j = 0; j < routed->arity; ++j) z[j] = routed->bias[inner * (size_t)routed->arity + (size_t)j];
    for (size_t begin = 0; begin < size; begin += CHUNK) {
        const size_t end = chunk_end(begin, size);
        if (mapped)
            collect_mapped(routed->words + routed->first_word[inner], row, begin, end, &common);
        else if (listed)
            collect_features(routed->features + first, begin, end, 0, spread, &common);
        else
            collect_searched(routed, inner, row, begin, end, &common);
        add_common(routed, inner, &common, z);
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
