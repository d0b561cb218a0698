/* Texts to terms and their weights, as scikit-learn's TfidfVectorizer computes them. */
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predictor.h"

enum kind { OTHER, WORD, MARK, IDEOGRAPH, SPACE };
enum analyzer { WORDS, CHARACTERS, PADDED_WORDS };
enum norm { NO_NORM, L1, L2 };
enum { N_PAGES = 0x110000 >> 8, EXPANSION = -0x200000, MAX_NGRAM = 64, FEWEST_SLOTS = 256 };

#define MAX_BYTES ((size_t)1 << 28)

typedef struct {
    size_t begin, end;
} slice_t;

/* --- reading */

static bool read_characters(characters_t *characters, const part_t *part)
{
    const size_t n = part_length(part, "changes"), n_starts = part_length(part, "fold_starts");
    characters->page_of = part_array(part, "page_of", U16, N_PAGES);
    characters->changes = part_array(part, "changes", I32, ANY);
    characters->kinds = part_array(part, "kinds", U8, n);
    characters->starts = part_array(part, "fold_starts", I64, ANY);
    characters->expansions = part_array(part, "folds", U32, ANY);
    if (part->file->failed) return false;
    if (n_starts == 0 || !are_starts(characters->starts, n_starts - 1, part_length(part, "folds")))
        return part_fail(part, "fold_starts", "not increasing");
    for (size_t i = 0; i < part_length(part, "folds"); ++i)
        if (characters->expansions[i] >= 0x110000) return part_fail(part, "folds", "no character");
    for (size_t page = 0; page < N_PAGES; ++page) {
        const size_t first = (size_t)characters->page_of[page] << 8;
        if (first + 256 > n) return part_fail(part, "page_of", "no such page");
        for (size_t i = 0; i < 256; ++i) {
            const int64_t change = characters->changes[first + i], folded = (int64_t)(page << 8 | i) + change;
            if (change > EXPANSION ? folded < 0 || folded >= 0x110000
                                   : EXPANSION - change >= (int64_t)n_starts - 1)
                return part_fail(part, "changes", "no character");
        }
    }
    return true;
}

static uint64_t hash_of(const char *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static bool read_terms(block_t *block, const part_t *part)
{
    const size_t n = (size_t)block->n_columns;
    block->term_starts = part_array(part, "term_starts", I64, n + 1);
    block->terms = part_array(part, "terms", U8, ANY);
    if (part->file->failed) return false;
    if (!are_starts(block->term_starts, n, part_length(part, "terms")))
        return part_fail(part, "term_starts", "not increasing");
    block->mask = 1;
    while (block->mask < 2 * n + 1) block->mask = 2 * block->mask + 1;
    block->slots = calloc(block->mask + 1, sizeof *block->slots);
    if (!block->slots) return part_fail(part, "", "out of memory");
    for (size_t i = 0; i < n; ++i) {
        const size_t begin = (size_t)block->term_starts[i], end = (size_t)block->term_starts[i + 1];
        size_t slot = hash_of((const char *)block->terms + begin, end - begin) & block->mask;
        while (block->slots[slot]) slot = (slot + 1) & block->mask;
        block->slots[slot] = (int32_t)(i + 1);
    }
    return true;
}

static bool read_block(block_t *block, const part_t *part, size_t n_fields)
{
    /* analyzer, min_n, max_n, norm, columns, binary, sublinear_tf, hashed, alternate_sign */
    const int64_t *settings = part_array(part, "settings", I64, 9);
    const double *weight = part_array(part, "weight", F64, 1);
    if (!settings || !weight) return false;
    block->analyzer = settings[0];
    block->min_n = settings[1];
    block->max_n = settings[2];
    block->norm = settings[3];
    block->n_columns = settings[4];
    if (block->analyzer < WORDS || block->analyzer > PADDED_WORDS || block->min_n < 1 ||
        block->min_n > block->max_n || block->max_n > MAX_NGRAM || block->norm < NO_NORM || block->norm > L2 ||
        block->n_columns < 0 || block->n_columns >= INT32_MAX || !isfinite(*weight))
        return part_fail(part, "settings", "out of range");
    block->binary = settings[5] != 0;
    block->sublinear = settings[6] != 0;
    block->hashed = settings[7] != 0;
    block->alternate_sign = settings[8] != 0;
    block->weight = *weight;
    block->n_fields = part_length(part, "fields");
    block->fields = part_array(part, "fields", I64, ANY);
    block->field_weights = part_array(part, "field_weights", F32, block->n_fields);
    if (part->file->failed) return false;
    for (size_t i = 0; i < block->n_fields; ++i)
        if (block->fields[i] < 0 || (size_t)block->fields[i] >= n_fields) return part_fail(part, "fields", "no such");
    const size_t n_starts = part_length(part, "stop_starts");
    block->stop_starts = part_array(part, "stop_starts", I64, ANY);
    block->stop_words = part_array(part, "stop_words", U8, ANY);
    if (part->file->failed) return false;
    if (n_starts == 0 || !are_starts(block->stop_starts, n_starts - 1, part_length(part, "stop_words")))
        return part_fail(part, "stop_starts", "not increasing");
    block->n_stop_words = n_starts - 1;
    if (part_has(part, "idf")) {
        block->idf = part_array(part, "idf", F64, (size_t)block->n_columns);
        if (!block->idf) return false;
    }
    if (block->hashed && block->n_columns < 1) return part_fail(part, "settings", "out of range");
    return read_characters(&block->characters, part) && (block->hashed || read_terms(block, part));
}

/* "0012." */
static part_t numbered(const part_t *part, const char *prefix, size_t number)
{
    char name[32];
    snprintf(name, sizeof name, "%s%04u.", prefix, (unsigned)number);
    return part_of(part, name);
}

static bool read_numeric(text_t *text, const part_t *part)
{
    const size_t n = text->n_numeric;
    if (n == 0) return true;
    text->means = part_array(part, "means", F64, n);
    text->scales = part_array(part, "scales", F64, n);
    text->weights = part_array(part, "weights", F64, n);
    return text->means && text->scales && text->weights;
}

static bool read_categories(categories_t *categories, const part_t *part)
{
    const size_t n_starts = part_length(part, "starts");
    const float *weight = part_array(part, "weight", F32, 1);
    categories->starts = part_array(part, "starts", I64, ANY);
    categories->names = part_array(part, "names", U8, ANY);
    if (part->file->failed) return false;
    if (n_starts == 0 || !are_starts(categories->starts, n_starts - 1, part_length(part, "names")))
        return part_fail(part, "starts", "not increasing");
    categories->n = n_starts - 1;
    categories->weight = *weight;
    return true;
}

bool text_read(text_t *text, const part_t *part, size_t n_features)
{
    const int64_t *shape = part_array(part, "shape", I64, 4); /* texts, blocks, numeric and categorical columns */
    if (!shape) return false;
    for (int i = 0; i < 4; ++i)
        if (shape[i] < (i < 2) || shape[i] > 9999) return part_fail(part, "shape", "out of range");
    text->n_texts = (size_t)shape[0];
    text->n_numeric = (size_t)shape[2];
    text->n_fields = (size_t)(shape[0] + shape[2] + shape[3]);
    text->blocks = calloc((size_t)shape[1], sizeof *text->blocks);
    text->categorical = calloc((size_t)shape[3] + 1, sizeof *text->categorical);
    if (!text->blocks || !text->categorical) return part_fail(part, "", "out of memory");
    text->n_blocks = (size_t)shape[1];
    text->n_categorical = (size_t)shape[3];
    const part_t unicode = part_of(part, "unicode."), numeric = part_of(part, "numeric.");
    if (!unicode_read(&text->unicode, &unicode) || !read_numeric(text, &numeric)) return false;
    size_t width = text->n_numeric;
    for (size_t i = 0; i < text->n_blocks; ++i) {
        const part_t block = numbered(part, "", i);
        if (!read_block(text->blocks + i, &block, text->n_texts)) return false;
        width += (size_t)text->blocks[i].n_columns;
    }
    for (size_t i = 0; i < text->n_categorical; ++i) {
        const part_t categories = numbered(part, "category", i);
        if (!read_categories(text->categorical + i, &categories)) return false;
        width += text->categorical[i].n;
    }
    return width == n_features || part_fail(part, "shape", "not the number of features");
}

void text_free(text_t *text)
{
    for (size_t i = 0; i < text->n_blocks; ++i) free(text->blocks[i].slots);
    free(text->blocks);
    free(text->categorical);
}

bool text_work_new(text_work_t *work, const text_t *text)
{
    work->n_texts = text->n_texts;
    work->characters = calloc(text->n_texts, sizeof *work->characters);
    work->n_characters = calloc(text->n_texts, sizeof *work->n_characters);
    return work->characters && work->n_characters;
}

void text_work_free(text_work_t *work)
{
    for (size_t i = 0; work->characters && i < work->n_texts; ++i) free(work->characters[i].data);
    free(work->characters);
    free(work->n_characters);
    buffer_t *buffers[] = {&work->work,  &work->parsed, &work->words,    &work->starts, &work->run, &work->run_starts,
                           &work->terms, &work->slots,  &work->features, &work->values, &work->wide};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i) free(buffers[i]->data);
}

/* --- terms of a document */

static bool same_bytes(const char *text, size_t size, const uint8_t *bytes, const int64_t *starts, size_t i)
{
    return (size_t)(starts[i + 1] - starts[i]) == size && memcmp(bytes + starts[i], text, size) == 0;
}

/* Position of a string among sorted ones, or -1. */
static int64_t find_sorted(const char *text, size_t size, const uint8_t *bytes, const int64_t *starts, size_t n)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2, begin = (size_t)starts[middle];
        const size_t length = (size_t)starts[middle + 1] - begin, common = length < size ? length : size;
        const int order = common ? memcmp(bytes + begin, text, common) : 0;
        if (order == 0 && length == size) return (int64_t)middle;
        if (order < 0 || (order == 0 && length < size))
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static bool grow_slots(text_work_t *work, size_t n_slots)
{
    if (!buffer_reserve(&work->slots, n_slots, sizeof(uint32_t))) return false;
    uint32_t *slots = work->slots.data;
    const term_t *terms = work->terms.data;
    memset(slots, 0, n_slots * sizeof *slots);
    work->mask = n_slots - 1;
    for (size_t i = 0; i < work->n_terms; ++i) {
        size_t slot = terms[i].hash & work->mask;
        while (slots[slot]) slot = (slot + 1) & work->mask;
        slots[slot] = (uint32_t)(i + 1);
    }
    return true;
}

/* Counts an occurrence of a term, a slice of the parsed text. */
static bool add_term(const block_t *block, text_work_t *work, size_t begin, size_t end, double weight)
{
    const char *text = work->parsed.data;
    const size_t length = end - begin;
    const uint64_t hash = hash_of(text + begin, length);
    uint32_t *slots = work->slots.data;
    term_t *terms = work->terms.data;
    size_t slot = hash & work->mask;
    for (; slots[slot]; slot = (slot + 1) & work->mask) {
        term_t *term = terms + slots[slot] - 1;
        if (term->hash != hash || term->length != length || memcmp(text + term->begin, text + begin, length) != 0)
            continue;
        if (!block->binary)
            term->weight += weight;
        else if (term->weight < weight)
            term->weight = weight;
        return true;
    }
    if (!buffer_reserve(&work->terms, work->n_terms + 1, sizeof(term_t))) return false;
    terms = work->terms.data;
    terms[work->n_terms++] = (term_t){hash, begin, length, weight};
    slots[slot] = (uint32_t)work->n_terms;
    return 2 * work->n_terms <= work->mask || grow_slots(work, 4 * (work->mask + 1));
}

static bool append_character(buffer_t *buffer, size_t *n, uint32_t c)
{
    if (!buffer_reserve(buffer, *n + 4, 1)) return false;
    char *to = (char *)buffer->data + *n;
    if (c < 0x80) {
        to[0] = (char)c;
        *n += 1;
    } else if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        *n += 2;
    } else if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        *n += 3;
    } else {
        to[0] = (char)(0xf0 | c >> 18);
        to[1] = (char)(0x80 | (c >> 12 & 0x3f));
        to[2] = (char)(0x80 | (c >> 6 & 0x3f));
        to[3] = (char)(0x80 | (c & 0x3f));
        *n += 4;
    }
    return true;
}

static bool append_start(buffer_t *buffer, size_t *n, size_t start)
{
    if (!buffer_reserve(buffer, *n + 1, sizeof(size_t))) return false;
    ((size_t *)buffer->data)[(*n)++] = start;
    return true;
}

static bool append_slice(text_work_t *work, size_t begin, size_t end)
{
    if (!buffer_reserve(&work->words, work->n_words + 1, sizeof(slice_t))) return false;
    ((slice_t *)work->words.data)[work->n_words++] = (slice_t){begin, end};
    return true;
}

/* --- analyzers: parsers are called with every folded character and its kind, and at the end */

typedef struct {
    const block_t *block;
    text_work_t *work;
    enum kind before; /* of the word that is being read */
    size_t begin, n_characters;
    bool after_space, in_word;
} parser_t;

static enum kind kind_of(const characters_t *characters, uint32_t c)
{
    return (enum kind)characters->kinds[(size_t)characters->page_of[c >> 8] << 8 | (c & 255)];
}

/* Adds the word at the end of the parsed text, or removes it if it is short or a stop word. */
static bool end_word(const block_t *block, text_work_t *work, size_t begin, bool is_short)
{
    const char *word = (const char *)work->parsed.data + begin;
    if (is_short || find_sorted(word, work->n_parsed - begin, block->stop_words, block->stop_starts,
                                block->n_stop_words) >= 0) {
        work->n_parsed = begin;
        return true;
    }
    return append_slice(work, begin, work->n_parsed) && append_character(&work->parsed, &work->n_parsed, ' ');
}

/* Splits a run of ideographs into overlapping pairs; a single one is a word. */
static bool end_run(const block_t *block, text_work_t *work)
{
    const size_t n = work->n_run_starts;
    if (!append_start(&work->run_starts, &work->n_run_starts, work->n_run)) return false;
    const size_t *starts = work->run_starts.data;
    for (size_t i = 0; i + 1 < n || i == 0; ++i) {
        const size_t begin = work->n_parsed, end = starts[i + 2 < n ? i + 2 : n], size = end - starts[i];
        if (!buffer_reserve(&work->parsed, begin + size + 1, 1)) return false;
        memcpy((char *)work->parsed.data + begin, (const char *)work->run.data + starts[i], size);
        work->n_parsed += size;
        if (!end_word(block, work, begin, false)) return false;
    }
    work->n_run = work->n_run_starts = 0;
    return true;
}

static bool finish_word(parser_t *parser)
{
    const enum kind before = parser->before;
    parser->before = OTHER;
    if (before == WORD) return end_word(parser->block, parser->work, parser->begin, parser->n_characters < 2);
    return before != IDEOGRAPH || end_run(parser->block, parser->work);
}

static bool parse_word(parser_t *parser, uint32_t c, enum kind kind)
{
    text_work_t *work = parser->work;
    const bool is_mark = kind == MARK;
    if (is_mark) kind = parser->before; /* part of the word, if there is one */
    if (kind != WORD && kind != IDEOGRAPH) return finish_word(parser);
    if (kind != parser->before) {
        if (!finish_word(parser)) return false;
        parser->before = kind;
        parser->begin = work->n_parsed;
        parser->n_characters = 0;
    }
    if (kind == WORD) {
        ++parser->n_characters;
        return append_character(&work->parsed, &work->n_parsed, c);
    }
    return (is_mark || append_start(&work->run_starts, &work->n_run_starts, work->n_run)) &&
           append_character(&work->run, &work->n_run, c);
}

static bool parse_character(parser_t *parser, uint32_t c, enum kind kind)
{
    text_work_t *work = parser->work;
    const bool space = kind == SPACE;
    if (space && parser->after_space) { /* two or more are one blank */
        work->n_parsed = ((const size_t *)work->starts.data)[work->n_starts - 1];
        return append_character(&work->parsed, &work->n_parsed, ' ');
    }
    parser->after_space = space;
    return append_start(&work->starts, &work->n_starts, work->n_parsed) &&
           append_character(&work->parsed, &work->n_parsed, c);
}

static bool finish_padded(parser_t *parser)
{
    text_work_t *work = parser->work;
    if (!parser->in_word) return true;
    parser->in_word = false;
    if (!append_start(&work->starts, &work->n_starts, work->n_parsed) ||
        !append_character(&work->parsed, &work->n_parsed, ' '))
        return false;
    ((slice_t *)work->words.data)[work->n_words - 1].end = work->n_starts;
    return append_start(&work->starts, &work->n_starts, work->n_parsed);
}

static bool parse_padded(parser_t *parser, uint32_t c, enum kind kind)
{
    text_work_t *work = parser->work;
    if (kind == SPACE) return finish_padded(parser);
    if (!parser->in_word) {
        parser->in_word = true;
        if (!append_slice(work, work->n_starts, 0) ||
            !append_start(&work->starts, &work->n_starts, work->n_parsed) ||
            !append_character(&work->parsed, &work->n_parsed, ' '))
            return false;
    }
    return append_start(&work->starts, &work->n_starts, work->n_parsed) &&
           append_character(&work->parsed, &work->n_parsed, c);
}

typedef bool (*parse_t)(parser_t *, uint32_t, enum kind);

/* Calls `parse` with what every character is folded to. */
static bool fold_all(parser_t *parser, parse_t parse, const uint32_t *text, size_t n)
{
    const characters_t *characters = &parser->block->characters;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t c = text[i];
        const int32_t change = characters->changes[(size_t)characters->page_of[c >> 8] << 8 | (c & 255)];
        if (change > EXPANSION) {
            const uint32_t folded = (uint32_t)((int32_t)c + change);
            if (!parse(parser, folded, kind_of(characters, folded))) return false;
            continue;
        }
        const size_t expansion = (size_t)(EXPANSION - change);
        for (int64_t k = characters->starts[expansion]; k < characters->starts[expansion + 1]; ++k)
            if (!parse(parser, characters->expansions[k], kind_of(characters, characters->expansions[k])))
                return false;
    }
    return true;
}

static bool add_word_ngrams(const block_t *block, text_work_t *work, double weight)
{
    const slice_t *words = work->words.data;
    const size_t n_words = work->n_words;
    for (size_t n = (size_t)block->min_n; n <= (size_t)block->max_n && n <= n_words; ++n)
        for (size_t i = 0; i + n <= n_words; ++i)
            if (!add_term(block, work, words[i].begin, words[i + n - 1].end, weight)) return false;
    return true;
}

static bool add_character_ngrams(const block_t *block, text_work_t *work, double weight)
{
    if (!append_start(&work->starts, &work->n_starts, work->n_parsed)) return false;
    const size_t *starts = work->starts.data;
    const size_t size = work->n_starts - 1;
    for (size_t n = (size_t)block->min_n; n <= (size_t)block->max_n && n <= size; ++n)
        for (size_t i = 0; i + n <= size; ++i)
            if (!add_term(block, work, starts[i], starts[i + n], weight)) return false;
    return true;
}

static bool add_padded_ngrams(const block_t *block, text_work_t *work, double weight)
{
    for (size_t w = 0; w < work->n_words; ++w) {
        const slice_t word = ((const slice_t *)work->words.data)[w];
        const size_t *starts = (const size_t *)work->starts.data + word.begin, size = word.end - word.begin;
        for (size_t n = (size_t)block->min_n; n <= (size_t)block->max_n; ++n) {
            for (size_t i = 0; i + n <= size; ++i)
                if (!add_term(block, work, starts[i], starts[i + n], weight)) return false;
            if (n > size && !add_term(block, work, starts[0], starts[size], weight)) return false;
            if (n >= size) break; /* a short word counts once */
        }
    }
    return true;
}

/* Adds the terms of one field. */
static bool analyze(const block_t *block, text_work_t *work, const uint32_t *text, size_t n, double weight)
{
    parser_t parser = {block, work, OTHER, 0, 0, false, false};
    work->n_words = work->n_starts = 0;
    switch (block->analyzer) {
        case WORDS:
            return fold_all(&parser, parse_word, text, n) && finish_word(&parser) &&
                   add_word_ngrams(block, work, weight);
        case CHARACTERS:
            return fold_all(&parser, parse_character, text, n) && add_character_ngrams(block, work, weight);
        default:
            return fold_all(&parser, parse_padded, text, n) && finish_padded(&parser) &&
                   add_padded_ngrams(block, work, weight);
    }
}

/* --- columns and weights */

/* MurmurHash3 for 32-bit results with seed 0. */
static uint32_t murmur3(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t hash = 0;
    for (size_t i = 0; i < size; i += 4) {
        const size_t left = size - i < 4 ? size - i : 4;
        uint32_t word = 0;
        for (size_t k = left; k-- > 0;) word = word << 8 | bytes[i + k];
        word *= 0xcc9e2d51u;
        word = (word << 15 | word >> 17) * 0x1b873593u;
        hash ^= word;
        if (left == 4) hash = (hash << 13 | hash >> 19) * 5 + 0xe6546b64u;
    }
    hash ^= (uint32_t)size;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

typedef struct {
    int32_t column;
    uint32_t number; /* of the term, so that equal columns stay in order */
    float value;
} entry_t;

static int by_column(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The column of a term in the vocabulary, or -1. */
static int32_t column_of(const block_t *block, const char *text, const term_t *term)
{
    for (size_t slot = term->hash & block->mask; block->slots[slot]; slot = (slot + 1) & block->mask) {
        const int32_t column = block->slots[slot] - 1;
        if (same_bytes(text + term->begin, term->length, block->terms, block->term_starts, (size_t)column))
            return column;
    }
    return -1;
}

/* Columns and values of the terms, by increasing column, in `entries`; returns their number. */
static size_t make_entries(const block_t *block, const text_work_t *work, entry_t *entries)
{
    const char *text = work->parsed.data;
    const term_t *terms = work->terms.data;
    size_t n = 0;
    for (size_t i = 0; i < work->n_terms; ++i) {
        entry_t entry = {0, (uint32_t)i, (float)terms[i].weight};
        if (block->hashed) {
            const int64_t hash = (int64_t)murmur3(text + terms[i].begin, terms[i].length);
            const int64_t with_sign = hash > INT32_MAX ? hash - ((int64_t)1 << 32) : hash;
            entry.column = (int32_t)((with_sign < 0 ? -with_sign : with_sign) % block->n_columns);
            if (block->alternate_sign && !block->binary && with_sign < 0) entry.value = (float)-terms[i].weight;
        } else {
            entry.column = column_of(block, text, terms + i);
            if (entry.column < 0) continue;
        }
        entries[n++] = entry;
    }
    qsort(entries, n, sizeof *entries, by_column);
    if (!block->hashed) return n;
    size_t kept = 0;
    for (size_t i = 0; i < n;) { /* several terms may have a column */
        const int32_t column = entries[i].column;
        double sum = 0.0;
        for (; i < n && entries[i].column == column; ++i)
            sum = !block->binary ? sum + (double)entries[i].value
                  : sum < (double)entries[i].value ? (double)entries[i].value
                                                   : sum;
        entries[kept++] = (entry_t){column, 0, (float)sum};
    }
    return kept;
}

/* Appends the columns of a block to the row. */
static bool append_block(const block_t *block, text_work_t *work, int32_t first, size_t *n)
{
    if (!buffer_reserve(&work->wide, work->n_terms + 1, sizeof(entry_t) + sizeof(double))) return false;
    double *row = work->wide.data;
    entry_t *entries = (entry_t *)(row + work->n_terms);
    const size_t size = make_entries(block, work, entries);
    if (!buffer_reserve(&work->features, *n + size + 1, sizeof(int32_t)) ||
        !buffer_reserve(&work->values, *n + size + 1, sizeof(float)))
        return false;
    double total = 0.0;
    for (size_t i = 0; i < size; ++i) {
        row[i] = (double)entries[i].value;
        if (block->sublinear && row[i] > 1.0) row[i] = log(row[i]) + 1.0;
        if (block->idf) row[i] *= block->idf[entries[i].column];
        total += block->norm == L2 ? row[i] * row[i] : fabs(row[i]);
    }
    if (block->norm == L2) total = sqrt(total);
    if (block->norm == NO_NORM || total == 0.0) total = 1.0;
    for (size_t i = 0; i < size; ++i, ++*n) {
        ((int32_t *)work->features.data)[*n] = first + entries[i].column;
        ((float *)work->values.data)[*n] = (float)(row[i] / total * block->weight);
    }
    return true;
}

/* --- numeric and categorical columns */

static bool append_entry(text_work_t *work, size_t *n, int32_t feature, float value)
{
    if (!buffer_reserve(&work->features, *n + 1, sizeof(int32_t)) ||
        !buffer_reserve(&work->values, *n + 1, sizeof(float)))
        return false;
    ((int32_t *)work->features.data)[*n] = feature;
    ((float *)work->values.data)[(*n)++] = value;
    return true;
}

/* A number in at most 63 characters; false if it is none. */
static bool parse_number(const char *text, size_t size, double *number)
{
    char copy[64], *end;
    if (size >= sizeof copy) return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    *number = strtod(copy, &end);
    return end != copy && *end == '\0' && isfinite(*number);
}

static int append_columns(const text_t *text, const char *const *values, const size_t *sizes, text_work_t *work,
                          int32_t first, size_t *n)
{
    const double most = 10.0; /* standard deviations */
    for (size_t i = 0; i < text->n_numeric; ++i, ++first) {
        double number;
        const size_t field = text->n_texts + i;
        if (!values[field] || sizes[field] == 0) continue; /* missing values are the mean */
        if (!parse_number(values[field], sizes[field], &number)) return SPARSELEAF_BAD_VALUES;
        const double deviation = (number - text->means[i]) / text->scales[i];
        const double bounded = deviation < -most ? -most : deviation > most ? most : deviation;
        const float value = (float)(text->weights[i] * bounded);
        if (value != 0.0f && !append_entry(work, n, first, value)) return SPARSELEAF_NO_MEMORY;
    }
    for (size_t i = 0; i < text->n_categorical; ++i) {
        const categories_t *categories = text->categorical + i;
        const size_t field = text->n_texts + text->n_numeric + i;
        const int64_t place = values[field] ? find_sorted(values[field], sizes[field], categories->names,
                                                          categories->starts, categories->n)
                                            : -1;
        if (place >= 0 && !append_entry(work, n, first + (int32_t)place, categories->weight))
            return SPARSELEAF_NO_MEMORY;
        first += (int32_t)categories->n;
    }
    return SPARSELEAF_OK;
}

int text_row(const text_t *text, const char *const *texts, const size_t *sizes, text_work_t *work, size_t *n)
{
    size_t total = 0;
    for (size_t field = 0; field < text->n_texts; ++field) {
        if (sizes[field] > MAX_BYTES - total) return SPARSELEAF_BAD_TEXT;
        total += sizes[field];
        const conversion_t done = unicode_decode(&text->unicode, texts[field], sizes[field], work->characters + field,
                                                 &work->work, work->n_characters + field);
        if (done != CONVERTED) return done == INVALID ? SPARSELEAF_BAD_TEXT : SPARSELEAF_NO_MEMORY;
    }
    int32_t first = 0;
    *n = 0;
    for (size_t b = 0; b < text->n_blocks; ++b) {
        const block_t *block = text->blocks + b;
        work->n_parsed = work->n_run = work->n_run_starts = work->n_terms = 0;
        if (!buffer_reserve(&work->parsed, 1, 1) || !buffer_reserve(&work->terms, 1, sizeof(term_t)) ||
            !buffer_reserve(&work->words, 1, sizeof(slice_t)) || !grow_slots(work, FEWEST_SLOTS))
            return SPARSELEAF_NO_MEMORY;
        for (size_t i = 0; i < block->n_fields; ++i) {
            const size_t field = (size_t)block->fields[i];
            if (!analyze(block, work, work->characters[field].data, work->n_characters[field],
                         (double)block->field_weights[i]))
                return SPARSELEAF_NO_MEMORY;
        }
        if (!append_block(block, work, first, n)) return SPARSELEAF_NO_MEMORY;
        first += (int32_t)block->n_columns;
    }
    return append_columns(text, texts, sizes, work, first, n);
}
