/* Texts to features: words or characters, n-grams, tf-idf. */
#ifndef SPARSELEAF_TEXT_H
#define SPARSELEAF_TEXT_H

#include "file.h"

/* Memory that grows. */
typedef struct {
    void *data;
    size_t capacity; /* in bytes */
} buffer_t;

/* Makes room for n items, keeping the content; false if memory is exhausted. */
bool buffer_reserve(buffer_t *buffer, size_t n, size_t item_size);

/* --- unicode.c: conversions that depend on several characters */

typedef struct {
    bool compose, lower_sigma;
    const uint32_t *unsafe; /* ranges of characters that normalisation may change */
    size_t n_unsafe;
    const uint32_t *decomposed; /* characters with a canonical decomposition, increasing */
    size_t n_decomposed;
    const int64_t *decomposition_starts;
    const uint32_t *decompositions;
    const uint32_t *classed; /* characters with a combining class, increasing */
    const uint8_t *classes;
    size_t n_classed;
    const uint32_t *pairs; /* (first, second, composed), increasing */
    size_t n_pairs;
    const uint32_t *cased, *ignorable; /* ranges, for the lower case of a capital sigma */
    size_t n_cased, n_ignorable;
} unicode_t;

bool unicode_read(unicode_t *unicode, const part_t *part);

typedef enum { CONVERTED, INVALID, EXHAUSTED } conversion_t;

/* The characters of a text in UTF-8, normalised to NFC and with lower case of sigma; in `characters`. */
conversion_t unicode_decode(const unicode_t *unicode, const char *text, size_t size, buffer_t *characters,
                            buffer_t *work, size_t *n);

/* --- text.c */

typedef struct {
    const uint16_t *page_of; /* two-stage tables: pages of 256 characters */
    const int32_t *changes;  /* folded character - character, or EXPANSION - i for the i-th expansion */
    const uint8_t *kinds;
    const int64_t *starts;
    const uint32_t *expansions;
} characters_t;

typedef struct {
    uint64_t hash;
    size_t begin, length;
    double weight;
} term_t;

typedef struct {
    int64_t analyzer, min_n, max_n, norm, n_columns;
    bool binary, sublinear, hashed, alternate_sign;
    double weight;
    size_t n_fields;
    const int64_t *fields;
    const float *field_weights;
    const double *idf; /* or NULL */
    characters_t characters;
    const uint8_t *terms, *stop_words;
    const int64_t *term_starts, *stop_starts;
    size_t n_stop_words;
    int32_t *slots; /* hash table: 1 + column, or 0 */
    size_t mask;
} block_t;

/* Sorted categories of a column, one feature each. */
typedef struct {
    size_t n;
    const uint8_t *names;
    const int64_t *starts;
    float weight;
} categories_t;

/* Fields of a row are its texts, then the numeric columns, then the categorical ones. */
typedef struct {
    size_t n_fields, n_texts, n_blocks, n_numeric, n_categorical;
    unicode_t unicode;
    block_t *blocks;
    const double *means, *scales, *weights; /* of the numeric columns */
    categories_t *categorical;
} text_t;

bool text_read(text_t *text, const part_t *part, size_t n_features);
void text_free(text_t *text);

/* Scratch memory of one thread. */
typedef struct {
    buffer_t *characters; /* of every text */
    size_t *n_characters, n_texts;
    buffer_t work;                            /* of the conversion */
    buffer_t parsed, words, starts, run, run_starts; /* of the analyzer */
    buffer_t terms, slots;
    buffer_t features, values; /* the row */
    buffer_t wide;
    size_t n_parsed, n_words, n_starts, n_run, n_run_starts, n_terms, mask;
} text_work_t;

bool text_work_new(text_work_t *work, const text_t *text);
void text_work_free(text_work_t *work);

/* The features of a row, in work->features and work->values; a status code. */
int text_row(const text_t *text, const char *const *texts, const size_t *sizes, text_work_t *work, size_t *n);

#endif
