/* Boosted trees, and the projection before them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scorers.h"

enum { SET_BYTES = 32, INTERLEAVED = 4, PACKED_ROWS = 8 };

static bool check_nodes(const trees_t *trees, const part_t *part, size_t n_leaves, size_t n_sets)
{
    for (size_t tree = 0; tree < trees->n_trees; ++tree) {
        const int64_t first = trees->offsets[tree], size = trees->offsets[tree + 1] - first;
        if (size < 1) return part_fail(part, "offsets", "a tree without nodes");
        for (int64_t node = 0; node < size; ++node) {
            const int32_t feature = trees->feature[first + node], child = trees->child[first + node];
            const float threshold = trees->threshold[first + node];
            if (feature < 0) {
                if (child < 0 || (size_t)child >= n_leaves) return part_fail(part, "child", "no such leaf");
                continue;
            }
            if ((size_t)feature >= trees->n_columns) return part_fail(part, "feature", "no such column");
            if (child <= node || child >= size - 1) return part_fail(part, "child", "no such node");
            if (isnan(threshold)) return part_fail(part, "threshold", "not a number");
            if (trees->categorical && trees->categorical[feature] &&
                !(threshold >= 0 && threshold < (float)n_sets && threshold == floorf(threshold)))
                return part_fail(part, "threshold", "no such set");
        }
    }
    return true;
}

bool trees_read(trees_t *trees, const part_t *part)
{
    memset(trees, 0, sizeof *trees);
    const int64_t *shape = part_array(part, "shape", I64, 4); /* trees, nodes, columns, labels */
    if (!shape) return false;
    for (int i = 0; i < 4; ++i)
        if (shape[i] < 0 || shape[i] > INT32_MAX) return part_fail(part, "shape", "out of range");
    const size_t n_nodes = (size_t)shape[1];
    trees->n_trees = (size_t)shape[0];
    trees->n_columns = (size_t)shape[2];
    trees->n_labels = (size_t)shape[3];
    trees->offsets = part_array(part, "offsets", I64, trees->n_trees + 1);
    trees->feature = part_array(part, "feature", I32, n_nodes);
    trees->threshold = part_array(part, "threshold", F32, n_nodes);
    trees->missing_left = part_array(part, "missing_left", U8, n_nodes);
    trees->child = part_array(part, "child", I32, n_nodes);
    if (!leaves_read(&trees->leaves, part, trees->n_trees, trees->n_labels, I16) || part->file->failed) return false;
    if (!are_starts(trees->offsets, trees->n_trees, n_nodes))
        return part_fail(part, "offsets", "not increasing");
    if (trees->leaves.values.type == I16) {
        trees->scale = part_array(part, "scale", F32, trees->n_trees);
        if (!trees->scale) return false;
        if (!are_finite(trees->scale, trees->n_trees)) return part_fail(part, "scale", "not finite");
    }
    if (part_has(part, "base")) {
        trees->base = part_array(part, "base", F32, trees->n_labels);
        if (!trees->base) return false;
        if (!are_finite(trees->base, trees->n_labels)) return part_fail(part, "base", "not finite");
    } else if (!trees->leaves.labels.data) {
        return part_fail(part, "leaf_labels", "the array is missing");
    }
    size_t n_sets = 0;
    if (part_has(part, "categorical")) {
        trees->categorical = part_array(part, "categorical", U8, trees->n_columns);
        trees->sets = part_array(part, "sets", U8, ANY);
        if (!trees->categorical || !trees->sets) return false;
        n_sets = part_length(part, "sets") / SET_BYTES;
    }
    return check_nodes(trees, part, part_length(part, "leaf_starts") - 1, n_sets);
}

/* The child of a node that a row goes to. Unknown categories are missing values. */
static inline int32_t next_node(const trees_t *trees, size_t node, const float *x)
{
    const int32_t feature = trees->feature[node];
    const float value = x[feature], threshold = trees->threshold[node];
    bool right = !(value <= threshold);
    if (trees->categorical && trees->categorical[feature]) {
        const bool known = value >= 0.0f && value < 8.0f * SET_BYTES;
        const size_t category = known ? (size_t)value : 0;
        const uint8_t *set = trees->sets + (size_t)threshold * SET_BYTES;
        right = known ? !((set[category >> 3] >> (category & 7)) & 1) : !trees->missing_left[node];
    } else if (value != value) {
        right = !trees->missing_left[node];
    }
    return trees->child[node] + right;
}

/* The leaf of a row in each of a few trees, which hides the latency of comparisons. */
static void walk_trees(const trees_t *trees, size_t first, size_t n, const float *x, size_t *leaves)
{
    size_t root[INTERLEAVED], node[INTERLEAVED];
    for (size_t j = 0; j < n; ++j) root[j] = node[j] = (size_t)trees->offsets[first + j];
    for (bool moving = true; moving;) {
        moving = false;
        for (size_t j = 0; j < n; ++j)
            if (trees->feature[node[j]] >= 0) {
                node[j] = root[j] + (size_t)next_node(trees, node[j], x);
                moving = true;
            }
    }
    for (size_t j = 0; j < n; ++j) leaves[j] = (size_t)trees->child[node[j]];
}

static inline float scale_of(const trees_t *trees, size_t tree)
{
    return trees->scale ? trees->scale[tree] : 1.0f;
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

void trees_sum(const trees_t *trees, const float *x, sums_t *sums)
{
    size_t leaves[INTERLEAVED];
    for (size_t tree = 0; tree < trees->n_trees; tree += INTERLEAVED) {
        const size_t n = at_most(trees->n_trees - tree, INTERLEAVED);
        walk_trees(trees, tree, n, x, leaves);
        for (size_t j = 0; j < n; ++j) leaves_add(&trees->leaves, leaves[j], scale_of(trees, tree + j), sums);
    }
}

static void add_dense(const trees_t *trees, size_t leaf, float scale, float *scores)
{
    const leaves_t *leaves = &trees->leaves;
    const size_t begin = (size_t)leaves->starts[leaf], n = (size_t)leaves->starts[leaf + 1] - begin;
    const float *floats = leaves->values.type == F32 ? (const float *)leaves->values.data + begin : NULL;
    const int16_t *shorts = floats ? NULL : (const int16_t *)leaves->values.data + begin;
    if (!leaves->labels.data && floats) {
        for (size_t i = 0; i < n; ++i) scores[i] += floats[i];
        return;
    }
    const bool narrow = leaves->labels.type == U16;
    for (size_t i = 0; i < n; ++i) {
        const size_t label = !leaves->labels.data ? i
                             : narrow             ? ((const uint16_t *)leaves->labels.data)[begin + i]
                                                  : ((const uint32_t *)leaves->labels.data)[begin + i];
        scores[label] += floats ? floats[i] : scale * (float)shorts[i];
    }
}

void trees_dense(const trees_t *trees, const float *x, float *scores)
{
    size_t leaves[INTERLEAVED];
    for (size_t label = 0; label < trees->n_labels; ++label) scores[label] = trees->base ? trees->base[label] : 0.0f;
    for (size_t tree = 0; tree < trees->n_trees; tree += INTERLEAVED) {
        const size_t n = at_most(trees->n_trees - tree, INTERLEAVED);
        walk_trees(trees, tree, n, x, leaves);
        for (size_t j = 0; j < n; ++j) add_dense(trees, leaves[j], scale_of(trees, tree + j), scores);
    }
}

/* Whether leaves are single floats, as those of boosters are, except in files of former versions. */
static bool has_plain_leaves(const trees_t *trees)
{
    return trees->n_labels == 1 && trees->base && !trees->categorical && !trees->leaves.labels.data &&
           trees->leaves.values.type == F32;
}

bool trees_pack(trees_t *trees)
{
    if (!has_plain_leaves(trees)) return true;
    const size_t n_nodes = (size_t)trees->offsets[trees->n_trees];
    const float *values = trees->leaves.values.data;
    int32_t *levels = calloc(n_nodes + 1, sizeof *levels);
    trees->packed = malloc((n_nodes + 1) * sizeof *trees->packed);
    trees->depths = calloc(trees->n_trees + 1, sizeof *trees->depths);
    for (size_t tree = 0; levels && trees->packed && trees->depths && tree < trees->n_trees; ++tree)
        for (int64_t root = trees->offsets[tree], node = root; node < trees->offsets[tree + 1]; ++node) {
            const int32_t feature = trees->feature[node], child = trees->child[node], level = levels[node];
            if (level > trees->depths[tree]) trees->depths[tree] = level;
            if (feature < 0) {
                trees->packed[node] = (packed_t){INFINITY, values[child], (int32_t)(node - root), 0};
            } else {
                const uint32_t column = 2 * (uint32_t)feature + !trees->missing_left[node];
                trees->packed[node] = (packed_t){trees->threshold[node], 0.0f, child, column};
                levels[root + child] = levels[root + child + 1] = level + 1;
            }
        }
    const bool made = levels && trees->packed && trees->depths;
    free(levels);
    return made;
}

void trees_free(trees_t *trees)
{
    free(trees->packed);
    free(trees->depths);
}

/* A few rows at a time, without branches that no processor could predict. */
static inline void add_packed(const packed_t *nodes, int32_t depth, const float *rows, size_t width, size_t n,
                              float *scores)
{
    int32_t at[PACKED_ROWS] = {0};
    for (int32_t level = 0; level < depth; ++level)
        for (size_t j = 0; j < n; ++j) {
            const packed_t node = nodes[at[j]];
            const float value = rows[j * width + (node.column >> 1)];
            at[j] = node.child + ((value > node.threshold) | ((value != value) & (int32_t)(node.column & 1)));
        }
    for (size_t j = 0; j < n; ++j) scores[j] += nodes[at[j]].value;
}

/* Tree by tree, so that its nodes stay in the cache. */
void trees_single(const trees_t *trees, const float *rows, size_t n, float *scores)
{
    const size_t width = trees->n_columns;
    if (!trees->packed) {
        for (size_t i = 0; i < n; ++i) trees_dense(trees, rows + i * width, scores + i);
        return;
    }
    for (size_t i = 0; i < n; ++i) scores[i] = trees->base[0];
    for (size_t tree = 0; tree < trees->n_trees; ++tree) {
        const packed_t *nodes = trees->packed + trees->offsets[tree];
        size_t i = 0;
        for (; i + PACKED_ROWS <= n; i += PACKED_ROWS) /* a constant, for which the loops are unrolled */
            add_packed(nodes, trees->depths[tree], rows + i * width, width, PACKED_ROWS, scores + i);
        add_packed(nodes, trees->depths[tree], rows + i * width, width, n - i, scores + i);
    }
}

/* --- projection */

bool projection_read(projection_t *projection, const part_t *part, size_t n_features)
{
    const int64_t *shape = part_array(part, "shape", I64, 2); /* projected columns, keep_raw */
    if (!shape) return false;
    if (shape[0] < 1 || shape[0] > INT32_MAX) return part_fail(part, "shape", "out of range");
    projection->n_features = n_features;
    projection->n_projected = (size_t)shape[0];
    projection->keep_raw = shape[1] != 0;
    projection->weights = part_array(part, "weights", F16, n_features * projection->n_projected);
    return projection->weights != NULL;
}

size_t projection_width(const projection_t *projection)
{
    return projection->n_projected + (projection->keep_raw ? projection->n_features : 0);
}

/* A float16 whose bits are shifted into the place of a float32 is too small by 2^112, subnormals too. */
static inline float half_to_float(uint16_t bits)
{
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value *= 5192296858534827628530496329220096.0f;
    memcpy(&magnitude, &value, sizeof value);
    magnitude |= sign;
    memcpy(&value, &magnitude, sizeof value);
    return value;
}

void projection_apply(const projection_t *projection, row_t row, float *columns)
{
    const size_t width = projection->n_projected;
    memset(columns, 0, width * sizeof *columns);
    for (size_t e = 0; e < row.n; ++e) {
        const uint16_t *weights = projection->weights + (size_t)row.features[e] * width;
        const float x = row.values[e];
        for (size_t c = 0; c < width; ++c) columns[c] += x * half_to_float(weights[c]);
    }
    if (projection->keep_raw)
        for (size_t e = 0; e < row.n; ++e) columns[width + (size_t)row.features[e]] = row.values[e];
}
