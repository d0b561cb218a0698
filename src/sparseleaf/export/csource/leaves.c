/* Leaf vectors, and sums of them. */
#include <string.h>

#include "scorers.h"

static float half_to_float(uint16_t bits)
{
    const uint32_t size = bits & 0x7fffu, shifted = (size << 13) + 0x38000000u;
    float value;
    memcpy(&value, &shifted, sizeof value);
    if (size < 0x400u) value = (float)size * (1.0f / 16777216.0f);
    return bits & 0x8000u ? -value : value;
}

static bool are_finite_halves(const uint16_t *values, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        if ((values[i] & 0x7c00u) == 0x7c00u) return false;
    return true;
}

bool leaves_read(leaves_t *leaves, const part_t *part, size_t n_trees, size_t n_labels, type_t small)
{
    const size_t n_starts = part_length(part, "leaf_starts");
    if (n_starts == 0) return part_fail(part, "leaf_starts", "the array is empty");
    const size_t n_leaves = n_starts - 1;
    leaves->starts = part_array(part, "leaf_starts", I64, n_leaves + 1);
    leaves->values = part_any(part, "leaf_values", F32, small);
    if (!leaves->starts || !leaves->values.data) return false;
    if (!are_starts(leaves->starts, n_leaves, leaves->values.n))
        return part_fail(part, "leaf_starts", "not increasing");
    if (leaves->values.type == F32 ? !are_finite(leaves->values.data, leaves->values.n)
                                   : small == F16 && !are_finite_halves(leaves->values.data, leaves->values.n))
        return part_fail(part, "leaf_values", "not finite");
    leaves->n_labels = n_labels;
    leaves->many = n_leaves > 0 && n_labels / 2 <= n_trees * (leaves->values.n / n_leaves);
    if (!part_has(part, "leaf_labels")) { /* a value for every label */
        for (size_t leaf = 0; leaf < n_leaves; ++leaf)
            if ((uint64_t)(leaves->starts[leaf + 1] - leaves->starts[leaf]) != n_labels)
                return part_fail(part, "leaf_starts", "a leaf without a value for every label");
        return true;
    }
    leaves->labels = part_any(part, "leaf_labels", U16, U32);
    if (!leaves->labels.data) return false;
    if (leaves->labels.n != leaves->values.n) return part_fail(part, "leaf_labels", "an array of another length");
    for (size_t e = 0; e < leaves->labels.n; ++e) {
        const uint32_t label = leaves->labels.type == U16 ? ((const uint16_t *)leaves->labels.data)[e]
                                                          : ((const uint32_t *)leaves->labels.data)[e];
        if (label >= n_labels) return part_fail(part, "leaf_labels", "a label that does not exist");
    }
    return true;
}

/* One function per type of label and value. */
#define DEFINE_ADD(NAME, LABEL, VALUE, CONVERT)                                                                 \
    static void NAME(const LABEL *labels, const VALUE *values, size_t n, float factor, bool many, sums_t *sums) \
    {                                                                                                           \
        if (many) {                                                                                             \
            for (size_t i = 0; i < n; ++i) sums->values[labels[i]] += factor * CONVERT(values[i]);              \
            return;                                                                                             \
        }                                                                                                       \
        for (size_t i = 0; i < n; ++i) {                                                                        \
            const size_t label = labels[i];                                                                     \
            if (!sums->seen[label]) {                                                                           \
                sums->seen[label] = 1;                                                                          \
                sums->labels[sums->n++] = (int32_t)label;                                                       \
            }                                                                                                   \
            sums->values[label] += factor * CONVERT(values[i]);                                                 \
        }                                                                                                       \
    }

DEFINE_ADD(add_u16_f32, uint16_t, float, (float))
DEFINE_ADD(add_u32_f32, uint32_t, float, (float))
DEFINE_ADD(add_u16_i16, uint16_t, int16_t, (float))
DEFINE_ADD(add_u32_i16, uint32_t, int16_t, (float))
DEFINE_ADD(add_u16_f16, uint16_t, uint16_t, half_to_float)
DEFINE_ADD(add_u32_f16, uint32_t, uint16_t, half_to_float)

#define ADD(NAME, LABEL, VALUE)                                                                             \
    NAME((const LABEL *)leaves->labels.data + begin, (const VALUE *)leaves->values.data + begin, n, factor, \
         leaves->many, sums)

void leaves_add(const leaves_t *leaves, size_t leaf, float factor, sums_t *sums)
{
    const size_t begin = (size_t)leaves->starts[leaf], n = (size_t)leaves->starts[leaf + 1] - begin;
    const bool narrow = leaves->labels.type == U16;
    switch (leaves->values.type) {
        case F32: narrow ? ADD(add_u16_f32, uint16_t, float) : ADD(add_u32_f32, uint32_t, float); break;
        case I16: narrow ? ADD(add_u16_i16, uint16_t, int16_t) : ADD(add_u32_i16, uint32_t, int16_t); break;
        default: narrow ? ADD(add_u16_f16, uint16_t, uint16_t) : ADD(add_u32_f16, uint32_t, uint16_t); break;
    }
}

/* A sum of exactly 0 is no score, and NaN has no rank. */
static inline bool is_score(float value)
{
    return (value > 0.0f) | (value < 0.0f);
}

static size_t take_all(sums_t *sums, size_t n_labels, scored_t *list)
{
    size_t n = 0;
    for (size_t label = 0; label < n_labels; ++label) {
        list[n] = (scored_t){sums->values[label], (int32_t)label};
        n += is_score(sums->values[label]);
    }
    memset(sums->values, 0, n_labels * sizeof *sums->values);
    return n;
}

size_t sums_take(sums_t *sums, const leaves_t *leaves, scored_t *list)
{
    size_t n = 0;
    if (leaves->many) return take_all(sums, leaves->n_labels, list);
    for (size_t i = 0; i < sums->n; ++i) {
        const int32_t label = sums->labels[i];
        if (is_score(sums->values[label])) list[n++] = (scored_t){sums->values[label], label};
        sums->values[label] = 0.0f;
        sums->seen[label] = 0;
    }
    sums->n = 0;
    return n;
}
