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

/* Several: those of row i are starts[i] to starts[i + 1] - 1. */
typedef struct {
    const size_t *starts;
    const int32_t *features;
    const float *values;
    size_t n;
} rows_t;

/* Label -> sum of leaf values. Scratch memory of one thread, all 0 between rows. */
typedef struct {
    float *values;   /* (n_labels) */
    uint8_t *seen;   /* (n_labels) */
    int32_t *labels; /* those seen; not recorded if leaves have many labels */
    size_t n;
} sums_t;

/* Labels and values of all leaves. */
typedef struct {
    const int64_t *starts;
    array_t labels, values; /* U16 or U32; F32, I16 or F16 */
    size_t n_labels;
    bool many; /* whether the leaves of a row have about as many values as there are labels */
} leaves_t;

bool leaves_read(leaves_t *leaves, const part_t *part, size_t n_trees, size_t n_labels, type_t small);

/* sums += factor * leaf */
void leaves_add(const leaves_t *leaves, size_t leaf, float factor, sums_t *sums);

/* Moves the sums other than 0 to the list and clears them; returns their number. */
size_t sums_take(sums_t *sums, const leaves_t *leaves, scored_t *list);

/* --- boosted trees: nodes split on one column, scores are sums over the trees */

/* A node of trees with one label. A leaf is its own child, so that all walks through a tree have as many steps. */
typedef struct {
    float threshold, value;
    int32_t child;
    uint32_t column; /* twice the column, and 1 if NaN goes right */
} packed_t;

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
    packed_t *packed;           /* nodes, or NULL */
    int32_t *depths;            /* of packed trees */
} trees_t;

bool trees_read(trees_t *trees, const part_t *part);

/* Scores of a dense row as sums, or as n_labels numbers. */
void trees_sum(const trees_t *trees, const float *x, sums_t *sums);
void trees_dense(const trees_t *trees, const float *x, float *scores);

/* Packs the nodes of trees with one label, for trees_single(); false if memory is exhausted. */
bool trees_pack(trees_t *trees);
void trees_free(trees_t *trees);

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
    maps_t maps;       /* of the features of routers */
} routed_t;

bool routed_read(routed_t *routed, const part_t *part, size_t n_features, size_t n_labels);
void routed_free(routed_t *routed);

/* A leaf that a row reaches. */
typedef struct {
    int32_t row, tree, leaf;
} hit_t;

/* A node and the rows that reach it, as a range. */
typedef struct {
    size_t node, from, to;
} visit_t;

/* Scratch memory of one thread. */
typedef struct {
    float *spread; /* (n_features), 0 between rows */
    float *weighted;
    float *table;   /* (n_features, arity), 0 between nodes, or NULL: weights of a router */
    visit_t *stack; /* (nodes of a tree) */
    int32_t *some;  /* rows of the visits */
    uint16_t *sent; /* bits of the children that rows go to */
    hit_t *hits, *by_row;
    size_t *row_starts; /* of the hits by row */
    size_t weighted_capacity, some_capacity, sent_capacity, n_hits, hit_capacity, by_row_capacity, row_capacity;
} walk_t;

void walk_free(walk_t *walk);

/* sums += scores of a row, for 8-bit routers; false if memory is exhausted. */
bool routed_sum(const routed_t *routed, row_t row, walk_t *walk, sums_t *sums);

/* For other routers: the leaves of a block of rows, and the scores of one of them. */
bool routed_reach(const routed_t *routed, rows_t rows, walk_t *walk);
void routed_add(const routed_t *routed, const walk_t *walk, size_t row, sums_t *sums);

#endif
