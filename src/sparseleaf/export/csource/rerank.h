/* Re-rankers, which rescore the best labels of a scorer: by centroids (centroids.c), by evidence from centroids,
 * linear models, nearest training rows and label names (evidence.c, names.c), and by naive Bayes (bayes.c). */
#ifndef SPARSELEAF_RERANK_H
#define SPARSELEAF_RERANK_H

#include "scorers.h"

/* --- centroids */

typedef enum { BY_DISTANCE, BY_COSINE, BY_LOG } mix_t;

typedef struct {
    size_t n_features;
    lists_t vectors; /* (n_labels, n_features) */
    const float *squared_norms;
    const float *feature_weights; /* or NULL */
    mix_t mix;
    float weight, scale;
} centroids_t;

bool centroids_read(centroids_t *centroids, const part_t *part, size_t n_features, size_t n_labels);
void centroids_free(centroids_t *centroids);

/* Rescores n candidates. `spread` has a 0 for each feature. */
void centroids_rescore(const centroids_t *centroids, row_t row, float *spread, scored_t *list, size_t n);

/* Writes the weighted row to `spread`; returns its squared norm. */
float centroids_spread(const centroids_t *centroids, row_t row, float *spread);
float centroids_cosine(const centroids_t *centroids, size_t label, spread_t spread, float squared_norm);

/* --- names and hierarchy of labels */

enum { NAME_COLUMNS = 7, RELATED_COLUMNS = 3, PART_COLUMNS = 3 };

typedef struct {
    size_t n_words, n_names, places;
    lists_t similar; /* (n_features, n_words) */
    lists_t names;   /* words of every name */
    const float *weights;
    const int64_t *starts; /* the names of label i are starts[i] to starts[i + 1] - 1 */
    float *totals;         /* weight of every name */
    int64_t *headed_starts;
    int32_t *headed;           /* names by their heaviest word */
    int32_t *label_of, *alike; /* of every name; alike: number of names with the same heaviest word */
} names_t;

bool names_read(names_t *names, const part_t *part, size_t n_features, size_t n_labels);
void names_free(names_t *names);

typedef struct {
    float *similarity, *value; /* (n_words), 0 between rows */
    int32_t *words;
    size_t n_words;
    scored_t *list;    /* (n_names) */
    int32_t *proposed; /* (places), -1 for none */
} found_t;

void names_find(const names_t *names, row_t row, found_t *found);
void names_propose(const names_t *names, found_t *found);
void names_evidence(const names_t *names, const found_t *found, size_t label, float *columns);
void names_clear(found_t *found);

/* --- evidence */

enum { BASE_COLUMNS = 11 };

typedef struct {
    int32_t label, place;
    float score, votes, sharp, nearest, voters;
} candidate_t;

typedef struct {
    uint64_t parent;
    size_t candidate;
} relation_t;

typedef struct {
    size_t n_features, n_labels, places;
    centroids_t centroids;
    lists_t models;
    const float *bias, *log_rows;
    bool has_neighbours;
    size_t n_neighbours, query_features, n_rows;
    lists_t postings;   /* (n_features, n_rows) */
    lists_t row_labels; /* (n_rows, n_labels) */
    const float *weights; /* of the four components of "linear", else NULL */
    trees_t booster;
    bool has_names, has_hierarchy, has_parts;
    names_t names;
    lists_t broader;
    lists_t parts, part_models; /* parts of the names of every label, and the linear models of these */
    const float *part_bias;
    size_t n_columns, most_candidates, most_relations;
} evidence_t;

bool evidence_read(evidence_t *evidence, const part_t *part, size_t n_features, size_t n_labels, bool boosted);
void evidence_free(evidence_t *evidence);

/* --- naive Bayes */

typedef struct {
    size_t n_labels, n_features, most;
    const int32_t *features; /* discriminative ones, increasing */
    const int64_t *starts;
    const int32_t *labels;
    const float *weights, *bias;
    float weight, slope, offset;
} bayes_t;

bool bayes_read(bayes_t *bayes, const part_t *part, size_t n_features, size_t n_labels);

/* --- scratch memory of one thread; tables are 0 between rows */

typedef struct {
    float *spread;     /* (n_features) */
    float *label_sums; /* (n_labels) */
    int32_t *place_of; /* (n_labels) */
    float *row_sums;   /* (training rows) */
    float *maxima;     /* (training rows / 64) */
    scored_t *rows;    /* (training rows or features of a row) */
    float *unit;       /* as many as the row has entries, like the next two */
    int32_t *short_features;
    float *short_values;
    candidate_t *candidates;
    relation_t *relations;
    float *table, *results; /* (candidates, columns), (candidates) */
    found_t found;
    scored_t *list; /* (n_labels + candidates) */
} scratch_t;

/* The k best labels in scratch->list, from the n best of the scorer there; returns their number. */
size_t evidence_rank(const evidence_t *evidence, row_t row, scratch_t *scratch, size_t n, size_t k);
size_t bayes_rank(const bayes_t *bayes, row_t row, scratch_t *scratch, size_t n, size_t k);

#endif
