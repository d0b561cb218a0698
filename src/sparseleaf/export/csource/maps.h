/* Bitmaps of the indices of sparse vectors: a row looks up its features in them, instead of reading the vectors. */
#ifndef SPARSELEAF_MAPS_H
#define SPARSELEAF_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK = 64 };

typedef struct {
    uint64_t bits;
    uint32_t before; /* number of bits in the words before */
} word_t;

typedef struct {
    size_t n_words; /* of a bitmap */
    word_t *words;
    int64_t *first; /* first word of every vector's bitmap, or -1 */
} maps_t;

/* Bitmaps for vectors with at least `density` indices per word, below `width`; false if memory is exhausted.
 * The indices are added, then the bits are counted. */
bool maps_new(maps_t *maps, const int64_t *starts, size_t n_vectors, size_t width, size_t density);
void maps_count(maps_t *maps, size_t n_vectors);
void maps_free(maps_t *maps);

static inline const word_t *map_of(const maps_t *maps, size_t vector)
{
    return maps->first && maps->first[vector] >= 0 ? maps->words + maps->first[vector] : NULL;
}

static inline void map_add(const maps_t *maps, size_t vector, size_t index)
{
    maps->words[(size_t)maps->first[vector] + index / 64].bits |= (uint64_t)1 << index % 64;
}

/* Entries that a row and a vector have in common: positions in the row, or features, and positions in the vector. */
typedef struct {
    size_t n;
    uint32_t in_row[CHUNK], in_vector[CHUNK];
} common_t;

/* Looks up features, at most CHUNK. */
void map_collect(const word_t *words, const int32_t *features, size_t n, common_t *common);

static inline size_t chunk_size(size_t begin, size_t n)
{
    return n - begin < CHUNK ? n - begin : CHUNK;
}

#endif
