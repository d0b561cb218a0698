/* Routed trees: rows go to children by the margins of linear routers. */
#include <math.h>

#include "memory.h"
#include "routed.h"

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

static size_t feature_at(const routed_t *routed, size_t entry, size_t before)
{
    if (routed->features) return (size_t)routed->features[entry];
    return before + (routed->steps.type == U16 ? ((const uint16_t *)routed->steps.data)[entry]
                                               : ((const uint32_t *)routed->steps.data)[entry]);
}

/* Features of routers must exist and increase. */
static bool check_features(routed_t *routed, const part_t *part)
{
    enum { ENTRIES_PER_WORD = 2 }; /* of a bitmap, at least */
    if (!maps_new(&routed->maps, routed->router_starts, routed->n_inner, routed->n_features, ENTRIES_PER_WORD))
        return part_fail(part, "", "out of memory");
    for (size_t inner = 0; inner < routed->n_inner; ++inner) {
        const size_t begin = (size_t)routed->router_starts[inner], end = (size_t)routed->router_starts[inner + 1];
        const bool mapped = map_of(&routed->maps, inner) != NULL;
        for (size_t e = begin, before = 0; e < end; ++e) {
            const size_t feature = feature_at(routed, e, before);
            if (feature >= routed->n_features || (e > begin && feature <= before))
                return part_fail(part, "", "a router with a feature that does not exist");
            if (mapped) map_add(&routed->maps, inner, feature);
            before = feature;
        }
    }
    maps_count(&routed->maps, routed->n_inner);
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
    if (!leaves_read(&routed->leaves, part, routed->n_trees, n_labels, F16) || part->file->failed) return false;
    if (!routed->leaves.labels.data) return part_fail(part, "leaf_labels", "the array is missing");
    if (!are_starts(routed->offsets, routed->n_trees, n_nodes))
        return part_fail(part, "offsets", "not increasing");
    routed->threshold = *threshold;
    if (part_has(part, "feature_weights")) {
        routed->feature_weights = part_array(part, "feature_weights", F32, n_features);
        if (!routed->feature_weights || !are_finite(routed->feature_weights, n_features))
            return part_fail(part, "feature_weights", "not finite");
    }
    return read_routers(routed, part, shape[4]) && check_nodes(routed, part, part_length(part, "leaf_starts") - 1);
}

void routed_free(routed_t *routed)
{
    maps_free(&routed->maps);
}

void walk_free(walk_t *walk)
{
    void *all[] = {walk->spread, walk->weighted, walk->table,  walk->stack,     walk->some,
                   walk->sent,   walk->hits,     walk->by_row, walk->row_starts};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
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

static void weigh(const routed_t *routed, row_t row, float *weighted)
{
    const float scale = row_scale(routed, row);
    for (size_t e = 0; e < row.n; ++e) {
        const float value = routed->feature_weights
                                ? row.values[e] * routed->feature_weights[row.features[e]]
                                : row.values[e];
        weighted[e] = scale * value;
    }
}

bool routed_sum(const routed_t *routed, row_t row, walk_t *walk, sums_t *sums)
{
    const float factor = 1.0f / (float)routed->n_trees;
    size_t leaves[GROUP];
    if (!reserve(&walk->weighted, &walk->weighted_capacity, row.n, sizeof *walk->weighted)) return false;
    weigh(routed, row, walk->weighted);
    for (size_t e = 0; e < row.n; ++e) walk->spread[row.features[e]] = walk->weighted[e];
    const row_t weighted = {row.features, walk->weighted, row.n};
    for (size_t tree = 0; tree < routed->n_trees; tree += GROUP) {
        const size_t left = routed->n_trees - tree, n = left < GROUP ? left : GROUP;
        walk_small(routed, tree, n, weighted, walk->spread, leaves);
        for (size_t j = 0; j < n; ++j) leaves_add(&routed->leaves, leaves[j], factor, sums);
    }
    for (size_t e = 0; e < row.n; ++e) walk->spread[row.features[e]] = 0.0f;
    return true;
}

/* Hits by row; those of a row stay in order. */
static bool sort_hits(walk_t *walk, size_t n_rows)
{
    if (!reserve(&walk->by_row, &walk->by_row_capacity, walk->n_hits, sizeof *walk->by_row) ||
        !reserve(&walk->row_starts, &walk->row_capacity, n_rows + 2, sizeof *walk->row_starts))
        return false;
    size_t *starts = walk->row_starts + 1; /* row_starts[row + 1] is the start of a row, then its end */
    memset(walk->row_starts, 0, (n_rows + 2) * sizeof *walk->row_starts);
    for (size_t i = 0; i < walk->n_hits; ++i) ++starts[walk->hits[i].row + 1];
    for (size_t row = 0; row < n_rows; ++row) starts[row + 1] += starts[row];
    for (size_t i = 0; i < walk->n_hits; ++i) walk->by_row[starts[walk->hits[i].row]++] = walk->hits[i];
    return true;
}

bool routed_reach(const routed_t *routed, rows_t rows, walk_t *walk)
{
    const size_t n_entries = rows.starts[rows.n];
    if (!reserve(&walk->weighted, &walk->weighted_capacity, n_entries, sizeof *walk->weighted)) return false;
    for (size_t i = 0; i < rows.n; ++i) {
        const size_t begin = rows.starts[i];
        const row_t row = {rows.features + begin, rows.values + begin, rows.starts[i + 1] - begin};
        weigh(routed, row, walk->weighted + begin);
    }
    const rows_t weighted = {rows.starts, rows.features, walk->weighted, rows.n};
    walk->n_hits = 0;
    for (size_t tree = 0; tree < routed->n_trees; ++tree)
        if (!walk_wide(routed, tree, weighted, walk)) return false;
    return sort_hits(walk, rows.n);
}

void routed_add(const routed_t *routed, const walk_t *walk, size_t row, sums_t *sums)
{
    const float n_trees = (float)routed->n_trees;
    const hit_t *hits = walk->by_row + walk->row_starts[row];
    const size_t n = walk->row_starts[row + 1] - walk->row_starts[row];
    for (size_t begin = 0, end = 0; begin < n; begin = end) {
        while (end < n && hits[end].tree == hits[begin].tree) ++end;
        const float factor = 1.0f / (n_trees * (float)(end - begin));
        for (size_t i = begin; i < end; ++i) leaves_add(&routed->leaves, (size_t)hits[i].leaf, factor, sums);
    }
}
