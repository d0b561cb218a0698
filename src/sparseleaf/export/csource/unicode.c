/* Decoding of UTF-8, canonical composition (NFC) and the lower case of a capital sigma. */
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum {
    SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2,
    /* Hangul syllables are composed by arithmetic */
    S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

bool buffer_reserve(buffer_t *buffer, size_t n, size_t item_size)
{
    if (n > SIZE_MAX / 2 / item_size) return false;
    const size_t bytes = n * item_size;
    if (bytes <= buffer->capacity) return true;
    const size_t capacity = bytes < 256 ? 256 : bytes + bytes / 2;
    void *data = realloc(buffer->data, capacity);
    if (!data) return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

static bool read_ranges(const part_t *part, const char *name, const uint32_t **ranges, size_t *n)
{
    *ranges = part_array(part, name, U32, ANY);
    *n = part_length(part, name) / 2;
    return *ranges && (part_length(part, name) % 2 == 0 || part_fail(part, name, "not pairs"));
}

bool unicode_read(unicode_t *unicode, const part_t *part)
{
    const uint8_t *flags = part_array(part, "flags", U8, 2);
    if (!flags) return false;
    unicode->compose = flags[0] != 0;
    unicode->lower_sigma = flags[1] != 0;
    if (unicode->lower_sigma && !(read_ranges(part, "cased", &unicode->cased, &unicode->n_cased) &&
                                  read_ranges(part, "ignorable", &unicode->ignorable, &unicode->n_ignorable)))
        return false;
    if (!unicode->compose) return true;
    unicode->n_decomposed = part_length(part, "decomposed");
    unicode->n_classed = part_length(part, "classed");
    unicode->n_pairs = part_length(part, "pairs") / 3;
    unicode->decomposed = part_array(part, "decomposed", U32, ANY);
    unicode->decomposition_starts = part_array(part, "decomposition_starts", I64, unicode->n_decomposed + 1);
    unicode->decompositions = part_array(part, "decompositions", U32, ANY);
    unicode->classed = part_array(part, "classed", U32, ANY);
    unicode->classes = part_array(part, "classes", U8, unicode->n_classed);
    unicode->pairs = part_array(part, "pairs", U32, ANY);
    if (!read_ranges(part, "unsafe", &unicode->unsafe, &unicode->n_unsafe) || part->file->failed) return false;
    const size_t n = part_length(part, "decompositions");
    for (size_t i = 0; i < n; ++i)
        if (unicode->decompositions[i] >= 0x110000) return part_fail(part, "decompositions", "no character");
    for (size_t i = 0; i < unicode->n_pairs; ++i)
        if (unicode->pairs[3 * i + 2] >= 0x110000) return part_fail(part, "pairs", "no character");
    return are_starts(unicode->decomposition_starts, unicode->n_decomposed, n) ||
           part_fail(part, "decomposition_starts", "not increasing");
}

/* Number of sorted codes that are at most c; `stride` is the distance between codes. */
static size_t count_up_to(const uint32_t *codes, size_t n, size_t stride, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (codes[middle * stride] <= c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool in_ranges(const uint32_t *ranges, size_t n, uint32_t c)
{
    const size_t i = count_up_to(ranges, n, 2, c);
    return i > 0 && c < ranges[2 * i - 1];
}

static uint8_t class_of(const unicode_t *unicode, uint32_t c)
{
    const size_t i = count_up_to(unicode->classed, unicode->n_classed, 1, c);
    return i > 0 && unicode->classed[i - 1] == c ? unicode->classes[i - 1] : 0;
}

/* The composition of two characters, or 0. */
static uint32_t composed(const unicode_t *unicode, uint32_t first, uint32_t second)
{
    if (first >= L_BASE && first < L_BASE + L_COUNT && second >= V_BASE && second < V_BASE + V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE &&
        second < T_BASE + T_COUNT)
        return first + (second - T_BASE);
    size_t low = 0, high = unicode->n_pairs;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint32_t *pair = unicode->pairs + 3 * middle;
        if (pair[0] < first || (pair[0] == first && pair[1] < second))
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t *pair = unicode->pairs + 3 * low;
    return low < unicode->n_pairs && pair[0] == first && pair[1] == second ? pair[2] : 0;
}

/* Appends a character, sorted by class behind the last one of class 0. */
static void append_ordered(const unicode_t *unicode, uint32_t *to, size_t *n, uint32_t c)
{
    const uint8_t class = class_of(unicode, c);
    size_t at = (*n)++;
    for (; class != 0 && at > 0 && class_of(unicode, to[at - 1]) > class; --at) to[at] = to[at - 1];
    to[at] = c;
}

static bool decompose(const unicode_t *unicode, const uint32_t *from, size_t n, buffer_t *work, size_t *n_work)
{
    *n_work = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t c = from[i];
        const size_t at = count_up_to(unicode->decomposed, unicode->n_decomposed, 1, c);
        const bool found = at > 0 && unicode->decomposed[at - 1] == c;
        const size_t begin = found ? (size_t)unicode->decomposition_starts[at - 1] : 0;
        const size_t size = found ? (size_t)unicode->decomposition_starts[at] - begin : 3;
        if (!buffer_reserve(work, *n_work + size, sizeof(uint32_t))) return false;
        uint32_t *to = work->data;
        if (found) {
            for (size_t k = 0; k < size; ++k) append_ordered(unicode, to, n_work, unicode->decompositions[begin + k]);
        } else if (c >= S_BASE && c < S_BASE + S_COUNT) {
            const uint32_t index = c - S_BASE, trailing = index % T_COUNT;
            to[(*n_work)++] = L_BASE + index / (V_COUNT * T_COUNT);
            to[(*n_work)++] = V_BASE + index % (V_COUNT * T_COUNT) / T_COUNT;
            if (trailing) to[(*n_work)++] = T_BASE + trailing;
        } else {
            append_ordered(unicode, to, n_work, c);
        }
    }
    return true;
}

/* Composes n decomposed characters in place; returns their number. */
static size_t compose(const unicode_t *unicode, uint32_t *text, size_t n)
{
    size_t starter = n, kept = 0;
    int last_class = 256; /* of the character before, if it was not composed */
    for (size_t i = 0; i < n; ++i) {
        const uint32_t c = text[i];
        const int class = class_of(unicode, c);
        const uint32_t pair =
            starter < n && (last_class < class || last_class == 0) ? composed(unicode, text[starter], c) : 0;
        if (pair) {
            text[starter] = pair;
            continue;
        }
        if (class == 0) starter = kept;
        last_class = class;
        text[kept++] = c;
    }
    return kept;
}

/* Whether the sigma at i ends a word: a cased letter is before it and none after, ignoring marks. */
static bool is_final(const unicode_t *unicode, const uint32_t *text, size_t n, size_t i)
{
    size_t before = i, after = i + 1;
    while (before > 0 && in_ranges(unicode->ignorable, unicode->n_ignorable, text[before - 1])) --before;
    if (before == 0 || !in_ranges(unicode->cased, unicode->n_cased, text[before - 1])) return false;
    while (after < n && in_ranges(unicode->ignorable, unicode->n_ignorable, text[after])) ++after;
    return after == n || !in_ranges(unicode->cased, unicode->n_cased, text[after]);
}

/* Number of bytes of the character at `at`, and the character; 0 if it is not UTF-8. */
static size_t decode_one(const unsigned char *at, size_t left, uint32_t *c)
{
    const uint32_t first = at[0];
    const size_t size = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
    if (size == 0 || size > left) return 0;
    *c = size == 1 ? first : first & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; ++i) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        *c = *c << 6 | (at[i] & 0x3f);
    }
    const bool overlong = (size == 3 && *c < 0x800) || (size == 4 && *c < 0x10000);
    return overlong || (*c >= 0xd800 && *c < 0xe000) || *c >= 0x110000 ? 0 : size;
}

conversion_t unicode_decode(const unicode_t *unicode, const char *text, size_t size, buffer_t *characters,
                            buffer_t *work, size_t *n)
{
    bool unsafe = false, sigma = false;
    *n = 0;
    if (!buffer_reserve(characters, size + 1, sizeof(uint32_t))) return EXHAUSTED;
    uint32_t *to = characters->data;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        const size_t used = decode_one((const unsigned char *)text + at, size - at, &c);
        if (used == 0) return INVALID;
        at += used;
        to[(*n)++] = c;
        if (c < 0x80) continue;
        sigma = sigma || c == SIGMA;
        unsafe = unsafe || (unicode->compose && in_ranges(unicode->unsafe, unicode->n_unsafe, c));
    }
    if (unsafe) {
        size_t n_work;
        if (!decompose(unicode, to, *n, work, &n_work)) return EXHAUSTED;
        n_work = compose(unicode, work->data, n_work);
        if (!buffer_reserve(characters, n_work + 1, sizeof(uint32_t))) return EXHAUSTED;
        to = characters->data;
        memcpy(to, work->data, n_work * sizeof *to);
        *n = n_work;
        for (size_t i = 0; i < n_work; ++i) sigma = sigma || to[i] == SIGMA;
    }
    if (sigma && unicode->lower_sigma) {
        if (!buffer_reserve(work, *n, sizeof(uint32_t))) return EXHAUSTED;
        memcpy(work->data, to, *n * sizeof *to); /* all are judged by the original text */
        for (size_t i = 0; i < *n; ++i)
            if (to[i] == SIGMA) to[i] = is_final(unicode, work->data, *n, i) ? FINAL_SIGMA : SMALL_SIGMA;
    }
    return CONVERTED;
}
