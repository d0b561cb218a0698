/* Compact lists of increasing indices, sparse vectors, and the best of scored labels. */
#ifndef SPARSELEAF_LISTS_H
#define SPARSELEAF_LISTS_H

#include "file.h"
#include "maps.h"

#ifdef __GNUC__
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

typedef struct {
    float score;
    int32_t label;
} scored_t;

/* Whether a is ranked before b: by score, ties by label. */
static inline bool ranks_before(scored_t a, scored_t b)
{
    return a.score != b.score ? a.score > b.score : a.label < b.label;
}

/* Moves the k best to the front, best first; returns their number. */
size_t select_best(scored_t *list, size_t n, size_t k);

/* Differences of consecutive indices, the first of a list itself. A leap is a position, and a multiple of 2^16 to add
 * to its step. Values, if any, are float32, or 8-bit integers with a scale per list. */
typedef struct {
    size_t n_lists;
    const int64_t *starts;
    const uint16_t *steps;
    const uint32_t *leaps;
    size_t n_leaps;
    const int8_t *small;
    const float *values, *scale;
    uint8_t *has_leap; /* of a list; NULL if none has one */
    maps_t maps;       /* of vectors, or empty */
} lists_t;

/* `width` is an upper limit of the indices, exclusive. */
bool lists_read(lists_t *lists, const part_t *part, size_t n_lists, uint64_t width);
bool vectors_read(lists_t *vectors, const part_t *part, size_t n_vectors, uint64_t width);

/* Bitmaps, for vector_product() with rows that have fewer entries than the vectors. */
bool vectors_map(lists_t *vectors, const part_t *part, size_t width);
void lists_free(lists_t *lists);

typedef struct {
    size_t at, end, leap;
    uint64_t index;
} cursor_t;

cursor_t lists_begin(const lists_t *lists, size_t list);

/* Moves to the next index; false at the end. The position of the index is cursor->at - 1. */
static inline bool lists_next(const lists_t *lists, cursor_t *cursor)
{
    if (cursor->at == cursor->end) return false;
    if (cursor->leap < lists->n_leaps && lists->leaps[2 * cursor->leap] == cursor->at)
        cursor->index += (uint64_t)lists->leaps[2 * cursor->leap++ + 1] << 16;
    cursor->index += lists->steps[cursor->at++];
    return true;
}

static inline float vector_value(const lists_t *vectors, size_t line, size_t at)
{
    return vectors->small ? (float)vectors->small[at] * vectors->scale[line] : vectors->values[at];
}

/* A row whose values are scattered into a table over all features, of which the others are 0. */
typedef struct {
    const int32_t *features;
    size_t n;
    float *x;
} spread_t;

/* Inner product with a row, in four lanes. */
float vector_product(const lists_t *vectors, size_t line, spread_t row);

/* x += factor * vector */
void vector_add(const lists_t *vectors, size_t line, float factor, float *x);

/* Vectors are scattered in memory: fetch where the ones after the next begin, and the next, while reading one. */
static inline void vector_prefetch_start(const lists_t *vectors, size_t line)
{
    PREFETCH(vectors->starts + line);
}
void vector_prefetch(const lists_t *vectors, size_t line);

#endif
