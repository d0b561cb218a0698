/* Routed trees with 8-bit routers, which are many and small. */
#include "routed.h"

/* Entries of a router that a row has. They are collected without branches, which no processor could predict. One
 * function per type of step between features. */
#define DEFINE_COLLECT(NAME, TYPE)                                                                             \
    static inline size_t NAME(const TYPE *steps, size_t begin, size_t n, size_t feature, const float *spread, \
                              common_t *common)                                                               \
    {                                                                                                         \
        size_t kept = 0;                                                                                      \
        for (size_t e = begin; e < begin + n; ++e) {                                                          \
            feature += steps[e];                                                                              \
            common->in_row[kept] = (uint32_t)feature;                                                         \
            common->in_vector[kept] = (uint32_t)e;                                                            \
            kept += spread[feature] != 0.0f;                                                                  \
        }                                                                                                     \
        common->n = kept;                                                                                     \
        return feature;                                                                                       \
    }

DEFINE_COLLECT(collect_u16, uint16_t)
DEFINE_COLLECT(collect_u32, uint32_t)

/* --- margins of 8-bit routers, by increasing feature; `columns` is a constant where these are called */

static inline void add_small(const common_t *common, const float *values, const int8_t *weights, int columns, float *z)
{
    for (size_t i = 0; i < common->n; ++i) {
        const int8_t *w = weights + common->in_vector[i] * (size_t)columns;
        for (int c = 0; c < columns; ++c) z[c] += (float)w[c] * values[common->in_row[i]];
    }
}

static inline void small_margins(const routed_t *routed, size_t inner, int columns, row_t row, const float *spread,
                                 float *z)
{
    const size_t first = (size_t)routed->router_starts[inner], n = (size_t)routed->router_starts[inner + 1] - first;
    const int8_t *weights = routed->small + first * (size_t)columns;
    const word_t *words = map_of(&routed->maps, inner);
    common_t common;
    for (int c = 0; c < columns; ++c) z[c] = 0.0f;
    if (words) {
        for (size_t begin = 0; begin < row.n; begin += CHUNK) {
            map_collect(words, row.features + begin, chunk_size(begin, row.n), &common);
            add_small(&common, row.values + begin, weights, columns, z);
        }
        return;
    }
    for (size_t begin = 0, feature = 0; begin < n; begin += CHUNK) {
        const size_t size = chunk_size(begin, n);
        if (routed->steps.type == U16)
            feature = collect_u16((const uint16_t *)routed->steps.data + first, begin, size, feature, spread, &common);
        else
            feature = collect_u32((const uint32_t *)routed->steps.data + first, begin, size, feature, spread, &common);
        add_small(&common, spread, weights, columns, z);
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
    const word_t *words = map_of(&routed->maps, inner);
    if (words)
        prefetch_bytes(words, routed->maps.n_words * sizeof *words);
    else
        prefetch_bytes((const char *)routed->steps.data + begin * step_size, n * step_size);
    prefetch_bytes(routed->small + begin * (size_t)(routed->arity - 1), n * (size_t)(routed->arity - 1));
}

/* Every node is a cache miss: some trees are traversed together, and nodes prefetched while others are evaluated. */
void walk_small(const routed_t *routed, size_t first, size_t n, row_t row, const float *spread, size_t *leaves)
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
            PREFETCH(routed->maps.first + routed->inner[node[j]]);
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
