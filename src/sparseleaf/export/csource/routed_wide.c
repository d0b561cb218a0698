/* Routed trees with routers of 16 or 32 bits, which are few and large: a row may go to several children. All rows of a
 * block that reach a node are routed together, while its router is in the cache. */
#include "memory.h"
#include "routed.h"

/* Sums of a row, by child: bias + weights · x, in the order of the features. `arity` is a constant where these are
 * called for binary trees, so that sums stay in registers. */

static inline float weight_of(const routed_t *routed, size_t inner, size_t at)
{
    return routed->weights ? routed->weights[at] : (float)routed->shorts[at] * routed->scale[inner];
}

static inline void add_common(const routed_t *routed, size_t inner, const common_t *common, const float *values,
                              size_t arity, float *z)
{
    const size_t first = (size_t)routed->router_starts[inner] * arity;
    for (size_t i = 0; i < common->n; ++i) {
        const size_t at = first + common->in_vector[i] * arity;
        const float x = values[common->in_row[i]];
        for (size_t j = 0; j < arity; ++j) z[j] += weight_of(routed, inner, at + j) * x;
    }
}

/* The features of the row are looked up in the sorted ones of the router. */
static void collect_searched(const int32_t *sorted, size_t n_sorted, const int32_t *features, size_t n,
                             common_t *common)
{
    common->n = 0;
    for (size_t e = 0, low = 0; e < n; ++e) {
        size_t high = n_sorted;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (sorted[middle] < features[e])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == n_sorted) return;
        if (sorted[low] != features[e]) continue;
        common->in_row[common->n] = (uint32_t)e;
        common->in_vector[common->n++] = (uint32_t)low;
    }
}

static inline void add_looked_up(const routed_t *routed, size_t inner, row_t row, size_t arity, float *z)
{
    const size_t first = (size_t)routed->router_starts[inner], n = (size_t)routed->router_starts[inner + 1] - first;
    const word_t *words = map_of(&routed->maps, inner);
    common_t common;
    for (size_t begin = 0; begin < row.n; begin += CHUNK) {
        const size_t size = chunk_size(begin, row.n);
        if (words)
            map_collect(words, row.features + begin, size, &common);
        else
            collect_searched(routed->features + first, n, row.features + begin, size, &common);
        add_common(routed, inner, &common, row.values + begin, arity, z);
    }
}

/* Features that the router does not have are 0 in the table. */
static inline void add_scattered(const float *table, row_t row, size_t arity, float *z)
{
    for (size_t e = 0; e < row.n; ++e) {
        const float *w = table + (size_t)row.features[e] * arity, x = row.values[e];
        for (size_t j = 0; j < arity; ++j) z[j] += w[j] * x;
    }
}

static inline row_t row_at(rows_t rows, size_t i)
{
    const size_t begin = rows.starts[i];
    return (row_t){rows.features + begin, rows.values + begin, rows.starts[i + 1] - begin};
}

/* Bits of the children that a row goes to: those whose margin reaches the threshold, or else that of the largest. */
static inline uint16_t children(const float *z, size_t arity, float threshold)
{
    unsigned bits = 0;
    size_t best = 0;
    for (size_t j = 0; j < arity; ++j) {
        if (z[j] >= threshold) bits |= 1u << j;
        if (z[j] > z[best] || z[best] != z[best]) best = j;
    }
    return (uint16_t)(bits ? bits : 1u << best);
}

/* `table` is NULL if features are looked up. */
static inline void route_rows(const routed_t *routed, size_t inner, rows_t rows, const int32_t *some, size_t n,
                              const float *table, size_t arity, uint16_t *sent)
{
    for (size_t i = 0; i < n; ++i) {
        const row_t row = row_at(rows, (size_t)some[i]);
        float z[MAX_ARITY];
        for (size_t j = 0; j < arity; ++j) z[j] = routed->bias[inner * arity + j];
        if (table)
            add_scattered(table, row, arity, z);
        else
            add_looked_up(routed, inner, row, arity, z);
        sent[i] = children(z, arity, routed->threshold);
    }
}

static inline void scatter(const routed_t *routed, size_t inner, size_t arity, float *table)
{
    for (int64_t e = routed->router_starts[inner]; e < routed->router_starts[inner + 1]; ++e)
        for (size_t j = 0; j < arity; ++j)
            table[(size_t)routed->features[e] * arity + j] = weight_of(routed, inner, (size_t)e * arity + j);
}

static inline void clear(const routed_t *routed, size_t inner, size_t arity, float *table)
{
    for (int64_t e = routed->router_starts[inner]; e < routed->router_starts[inner + 1]; ++e)
        for (size_t j = 0; j < arity; ++j) table[(size_t)routed->features[e] * arity + j] = 0.0f;
}

/* Whether to scatter a router into the table, for rows with that number of entries in all. */
static bool is_worth_scattering(const routed_t *routed, size_t inner, size_t n_entries)
{
    const size_t n = (size_t)(routed->router_starts[inner + 1] - routed->router_starts[inner]);
    return map_of(&routed->maps, inner) ? n < n_entries : n / 16 <= n_entries;
}

static inline void route_with(const routed_t *routed, size_t inner, rows_t rows, const int32_t *some, size_t n,
                              size_t arity, walk_t *walk)
{
    size_t n_entries = 0;
    for (size_t i = 0; i < n; ++i) n_entries += rows.starts[some[i] + 1] - rows.starts[some[i]];
    if (walk->table && is_worth_scattering(routed, inner, n_entries)) {
        scatter(routed, inner, arity, walk->table);
        route_rows(routed, inner, rows, some, n, walk->table, arity, walk->sent);
        clear(routed, inner, arity, walk->table);
    } else {
        route_rows(routed, inner, rows, some, n, NULL, arity, walk->sent);
    }
}

static bool add_hits(walk_t *walk, size_t from, size_t to, size_t tree, int32_t leaf)
{
    if (!reserve(&walk->hits, &walk->hit_capacity, walk->n_hits + (to - from), sizeof *walk->hits)) return false;
    for (size_t i = from; i < to; ++i) walk->hits[walk->n_hits++] = (hit_t){walk->some[i], (int32_t)tree, leaf};
    return true;
}

bool walk_wide(const routed_t *routed, size_t tree, rows_t rows, walk_t *walk)
{
    const size_t first = (size_t)routed->offsets[tree], arity = (size_t)routed->arity;
    size_t n_stack = 1;
    if (!reserve(&walk->some, &walk->some_capacity, rows.n, sizeof *walk->some) ||
        !reserve(&walk->sent, &walk->sent_capacity, rows.n, sizeof *walk->sent))
        return false;
    for (size_t i = 0; i < rows.n; ++i) walk->some[i] = (int32_t)i;
    walk->stack[0] = (visit_t){0, 0, rows.n};
    while (n_stack > 0) {
        const visit_t visit = walk->stack[--n_stack]; /* rows after its own are those of completed nodes */
        const size_t n = visit.to - visit.from;
        const int32_t inner = routed->inner[first + visit.node], child = routed->child[first + visit.node];
        if (inner < 0) {
            if (!add_hits(walk, visit.from, visit.to, tree, child)) return false;
            continue;
        }
        if (!reserve(&walk->some, &walk->some_capacity, visit.to + arity * n, sizeof *walk->some)) return false;
        const int32_t *some = walk->some + visit.from;
        if (arity == 2)
            route_with(routed, (size_t)inner, rows, some, n, 2, walk);
        else
            route_with(routed, (size_t)inner, rows, some, n, arity, walk);
        for (size_t j = 0, end = visit.to; j < arity; ++j) {
            const size_t begin = end;
            for (size_t i = 0; i < n; ++i) {
                walk->some[end] = some[i];
                end += walk->sent[i] >> j & 1;
            }
            if (end > begin) walk->stack[n_stack++] = (visit_t){(size_t)child + j, begin, end};
        }
    }
    return true;
}
