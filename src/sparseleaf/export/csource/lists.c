#include "lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void swap(scored_t *a, scored_t *b)
{
    const scored_t c = *a;
    *a = *b;
    *b = c;
}

/* Restores a heap of n with the worst at its root, of which entry i may be too good. */
static void sift(scored_t *heap, size_t n, size_t i)
{
    for (;;) {
        size_t worst = i;
        for (size_t child = 2 * i + 1; child < n && child <= 2 * i + 2; ++child)
            if (ranks_before(heap[worst], heap[child])) worst = child;
        if (worst == i) return;
        swap(heap + i, heap + worst);
        i = worst;
    }
}

size_t select_best(scored_t *list, size_t n, size_t k)
{
    const size_t kept = k < n ? k : n;
    if (kept == 0) return 0;
    for (size_t i = kept / 2; i-- > 0;) sift(list, kept, i);
    for (size_t i = kept; i < n; ++i)
        if (ranks_before(list[i], list[0])) {
            list[0] = list[i];
            sift(list, kept, 0);
        }
    for (size_t last = kept; last-- > 1;) { /* the worst goes to the end */
        swap(list, list + last);
        sift(list, last, 0);
    }
    return kept;
}

static bool read_leaps(lists_t *lists, const part_t *part, size_t n_steps)
{
    if (!part_has(part, "leaps")) return true;
    lists->leaps = part_array(part, "leaps", U32, ANY);
    if (!lists->leaps) return false;
    lists->n_leaps = part_length(part, "leaps") / 2;
    if (part_length(part, "leaps") % 2 != 0) return part_fail(part, "leaps", "not pairs");
    for (size_t i = 0; i < lists->n_leaps; ++i)
        if (lists->leaps[2 * i] >= n_steps || (i > 0 && lists->leaps[2 * i - 2] >= lists->leaps[2 * i]))
            return part_fail(part, "leaps", "a position that does not exist");
    lists->has_leap = calloc(lists->n_lists ? lists->n_lists : 1, 1);
    if (!lists->has_leap) return part_fail(part, "", "out of memory");
    for (size_t i = 0, list = 0; i < lists->n_leaps; ++i) {
        while ((uint64_t)lists->starts[list + 1] <= lists->leaps[2 * i]) ++list;
        lists->has_leap[list] = 1;
    }
    return true;
}

bool lists_read(lists_t *lists, const part_t *part, size_t n_lists, uint64_t width)
{
    memset(lists, 0, sizeof *lists);
    lists->n_lists = n_lists;
    lists->starts = part_array(part, "starts", I64, n_lists + 1);
    lists->steps = part_array(part, "steps", U16, ANY);
    if (!lists->starts || !lists->steps) return false;
    const size_t n_steps = part_length(part, "steps");
    if (!are_starts(lists->starts, n_lists, n_steps)) return part_fail(part, "starts", "not increasing");
    if (!read_leaps(lists, part, n_steps)) return false;
    for (size_t list = 0; list < n_lists; ++list) {
        cursor_t cursor = lists_begin(lists, list);
        while (lists_next(lists, &cursor))
            if (cursor.index >= width) return part_fail(part, "steps", "an index that does not exist");
    }
    return true;
}

bool vectors_map(lists_t *vectors, const part_t *part, size_t width)
{
    enum { ENTRIES_PER_WORD = 4 }; /* at least, so that maps take at most 4 bytes per entry */
    if (!maps_new(&vectors->maps, vectors->starts, vectors->n_lists, width, ENTRIES_PER_WORD))
        return part_fail(part, "", "out of memory");
    for (size_t line = 0; line < vectors->n_lists; ++line) {
        if (!map_of(&vectors->maps, line)) continue;
        cursor_t cursor = lists_begin(vectors, line);
        while (lists_next(vectors, &cursor)) map_add(&vectors->maps, line, (size_t)cursor.index);
    }
    maps_count(&vectors->maps, vectors->n_lists);
    return true;
}

bool vectors_read(lists_t *vectors, const part_t *part, size_t n_vectors, uint64_t width)
{
    if (!lists_read(vectors, part, n_vectors, width)) return false;
    const array_t values = part_any(part, "values", I8, F32);
    if (!values.data) return false;
    if (values.n != part_length(part, "steps")) return part_fail(part, "values", "an array of another length");
    if (values.type == F32) {
        vectors->values = values.data;
        return are_finite(vectors->values, values.n) || part_fail(part, "values", "not finite");
    }
    vectors->small = values.data;
    vectors->scale = part_array(part, "scale", F32, n_vectors);
    if (!vectors->scale) return false;
    for (size_t line = 0; line < n_vectors; ++line)
        if (!isfinite(128.0f * vectors->scale[line])) return part_fail(part, "scale", "not finite");
    return true;
}

void lists_free(lists_t *lists)
{
    free(lists->has_leap);
    maps_free(&lists->maps);
}

cursor_t lists_begin(const lists_t *lists, size_t list)
{
    cursor_t cursor = {(size_t)lists->starts[list], (size_t)lists->starts[list + 1], lists->n_leaps, 0};
    if (lists->has_leap && lists->has_leap[list]) {
        size_t low = 0, high = lists->n_leaps; /* the first leap at or after the start */
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (lists->leaps[2 * middle] < cursor.at)
                low = middle + 1;
            else
                high = middle;
        }
        cursor.leap = low;
    }
    return cursor;
}

enum { LANES = 4 };

/* The lane of an entry is its position in the vector. */
static void add_products(const lists_t *vectors, size_t line, const common_t *common, const float *x, float *lanes)
{
    const size_t begin = (size_t)vectors->starts[line];
    for (size_t i = 0; i < common->n; ++i)
        lanes[common->in_vector[i] % LANES] +=
            vector_value(vectors, line, begin + common->in_vector[i]) * x[common->in_row[i]];
}

static void add_mapped(const lists_t *vectors, size_t line, const word_t *words, spread_t row, float *lanes)
{
    common_t common;
    for (size_t first = 0; first < row.n; first += CHUNK) {
        const int32_t *features = row.features + first;
        map_collect(words, features, chunk_size(first, row.n), &common);
        for (size_t i = 0; i < common.n; ++i) common.in_row[i] = (uint32_t)features[common.in_row[i]];
        add_products(vectors, line, &common, row.x, lanes);
    }
}

/* Rows have few of the features, at places that no processor could predict: groups of entries, one per lane, are looked
 * up without branches, and those collected of which the row has any. */
static void add_listed(const lists_t *vectors, size_t line, const float *x, float *lanes)
{
    const size_t begin = (size_t)vectors->starts[line], n = (size_t)vectors->starts[line + 1] - begin;
    const uint16_t *steps = vectors->steps + begin;
    size_t e = 0, index = 0;
    while (e + LANES <= n) {
        uint32_t group[CHUNK], before[CHUNK];
        size_t kept = 0;
        for (size_t i = 0; i < CHUNK && e + LANES <= n; ++i, e += LANES) {
            uint32_t any = 0, bits;
            group[kept] = (uint32_t)e;
            before[kept] = (uint32_t)index;
            for (size_t j = 0; j < LANES; ++j) {
                index += steps[e + j];
                memcpy(&bits, x + index, sizeof bits);
                any |= bits;
            }
            kept += any != 0;
        }
        for (size_t i = 0; i < kept; ++i) {
            size_t at = before[i];
            for (size_t j = 0; j < LANES; ++j)
                lanes[j] += vector_value(vectors, line, begin + group[i] + j) * x[at += steps[group[i] + j]];
        }
    }
    for (size_t j = 0; e < n; ++e, ++j) lanes[j] += vector_value(vectors, line, begin + e) * x[index += steps[e]];
}

static void add_leaping(const lists_t *vectors, size_t line, const float *x, float *lanes)
{
    const size_t begin = (size_t)vectors->starts[line];
    cursor_t cursor = lists_begin(vectors, line);
    while (lists_next(vectors, &cursor)) {
        const size_t at = cursor.at - 1;
        lanes[(at - begin) % LANES] += vector_value(vectors, line, at) * x[cursor.index];
    }
}

float vector_product(const lists_t *vectors, size_t line, spread_t row)
{
    const word_t *words = map_of(&vectors->maps, line);
    float lanes[LANES] = {0};
    if (words && (size_t)(vectors->starts[line + 1] - vectors->starts[line]) > 2 * row.n)
        add_mapped(vectors, line, words, row, lanes);
    else if (vectors->has_leap && vectors->has_leap[line])
        add_leaping(vectors, line, row.x, lanes);
    else
        add_listed(vectors, line, row.x, lanes);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

void vector_add(const lists_t *vectors, size_t line, float factor, float *x)
{
    cursor_t cursor = lists_begin(vectors, line);
    if (!vectors->small) {
        while (lists_next(vectors, &cursor)) x[cursor.index] += factor * vectors->values[cursor.at - 1];
        return;
    }
    float products[256]; /* of all 8-bit values */
    const bool few = cursor.end - cursor.at < 256;
    if (!few)
        for (int value = -128; value < 128; ++value)
            products[(uint8_t)value] = factor * ((float)value * vectors->scale[line]);
    if (few) {
        while (lists_next(vectors, &cursor))
            x[cursor.index] += factor * ((float)vectors->small[cursor.at - 1] * vectors->scale[line]);
    } else if (cursor.leap < vectors->n_leaps) {
        while (lists_next(vectors, &cursor)) x[cursor.index] += products[(uint8_t)vectors->small[cursor.at - 1]];
    } else {
        uint64_t index = 0;
        for (size_t at = cursor.at; at < cursor.end; ++at)
            x[index += vectors->steps[at]] += products[(uint8_t)vectors->small[at]];
    }
}

void vector_prefetch(const lists_t *vectors, size_t line)
{
    enum { CACHE_LINE = 64, MOST = 512 };
    const size_t begin = (size_t)vectors->starts[line], n = (size_t)vectors->starts[line + 1] - begin;
    const size_t most = n < MOST ? n : MOST;
    const char *steps = (const char *)(vectors->steps + begin);
    for (size_t at = 0; at < 2 * most; at += CACHE_LINE) PREFETCH(steps + at);
    const char *values = vectors->small ? (const char *)(vectors->small + begin)
                                        : (const char *)(vectors->values + begin);
    const size_t bytes = vectors->small ? most : 4 * most;
    for (size_t at = 0; at < bytes; at += CACHE_LINE) PREFETCH(values + at);
}
