/* Scorers, which map a row to scores of labels: boosted trees (trees.c) and routed trees (routed.c). */
#ifndef SPARSELEAF_SCORERS_H
#define SPARSELEAF_SCORERS_H

#include "lists.h"

/* A sparse row: features, increasing, and their values. */
typedef struct {
    const int32_t *features;
    const float *values;
    size_t n;
} row_t;

/* Label -> sum of leaf values. Scratch memory of one thread, all 0 between rows. */
typedef struct {
    float *values;   /* (n_labels) */
    uint8_t *seen;   /* (n_labels) */
    int32_t *labels; /* those seen */
    size_t n;
} sums_t;

/* Labels and values of all leaves. */
typedef struct {
    const int64_t *starts;
    array_t labels, values; /* U16 or U32; F32, I16 or F16 */
} leaves_t;

bool leaves_read(leaves_t *leaves, const part_t *part, size_t n_leaves, size_t n_labels, type_t small);

/* sums += factor * leaf */
void leaves_add(const leaves_t *leaves, size_t leaf, float factor, sums_t *sums);

/* Moves the sums other than 0 to the list and clears them; returns their number. */
size_t sums_take(sums_t *sums, scored_t *list);

/* --- boosted trees: nodes split on one column, scores are sums over the trees */

typedef struct {
    size_t n_trees, n_columns, n_labels;
    const int64_t *offsets;      /* first node of every tree, and the end */
    const int32_t *feature;      /* -1: a leaf */
    const float *threshold;      /* x <= threshold goes left */
    const uint8_t *missing_left; /* whether NaN goes left */
    const int32_t *child;        /* left child, relative to the first node of the tree; in a leaf, its number */
    leaves_t leaves;
    const float *scale;         /* of 16-bit leaf values, by tree, or NULL */
    const uint8_t *categorical; /* by column, or NULL; then a threshold is the number of a set */
    const uint8_t *sets;        /* categories that go left, 256 bits each */
    const float *base;          /* initial scores, or NULL if scores are sparse */
} trees_t;

bool trees_read(trees_t *trees, const part_t *part);

/* Scores of a dense row as sums, or as n_labels numbers. */
void trees_sum(const trees_t *trees, const float *x, sums_t *sums);
void trees_dense(const trees_t *trees, const float *x, float *scores);

/* Scores of n dense rows, for trees with one label. */
void trees_single(const trees_t *trees, const float *rows, size_t n, float *scores);

/* --- projection: columns x · W, optionally followed by the features */

typedef struct {
    size_t n_features, n_projected;
    const uint16_t *weights; /* float16 */
    bool keep_raw;
} projection_t;

bool projection_read(projection_t *projection, const part_t *part, size_t n_features);
size_t projection_width(const projection_t *projection);

/* Adds the columns of a row; with keep_raw, those of its features must be 0 before. */
void projection_apply(const projection_t *projection, row_t row, float *columns);

/* --- routed trees: nodes have linear routers on the features, leaves label frequencies */

typedef struct {
    uint64_t bits;
    uint32_t before;
} word_t;

typedef struct {
    size_t n_trees, n_features, n_labels, n_inner;
    int arity;
    bool unit_rows;
    const int64_t *offsets;
    const int32_t *child, *inner; /* inner: number of an inner node, -1 in a leaf */
    const int64_t *router_starts;
    array_t steps;           /* of 8-bit routers: U16 or U32 */
    const int32_t *features; /* of other routers */
    const int8_t *small;     /* weights (entries, arity - 1); the first child has none */
    const int16_t *shorts;   /* or (entries, arity) */
    const float *weights;    /* or (entries, arity) */
    const float *scale, *bias;
    float threshold;
    const float *feature_weights; /* or NULL */
    leaves_t leaves;
    size_t most_nodes; /* of a tree */
    /* bitmaps of the features of routers with many of them */
    size_t n_words;
    word_t *words;
    int64_t *first_word; /* of an inner node, or -1 */
} routed_t;

bool routed_read(routed_t *routed, const part_t *part, size_t n_features, size_t n_labels);
void routed_free(routed_t *routed);

/* Scratch memory: `spread` has a 0 for each feature, `weighted` a place for each entry of the row, `stack` and
 * `reached` one for each node of a tree. */
typedef struct {
    float *spread, *weighted;
    int32_t *stack, *reached;
} walk_t;

void routed_sum(const routed_t *routed, row_t row, walk_t walk, sums_t *sums);

#endif
