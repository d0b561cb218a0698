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

bool leaves_read(leaves_t *leaves, const part_t *part, size_t n_leaves, size_t n_labels, type_t small)
{
    leaves->starts = part_array(part, "leaf_starts", I64, n_leaves + 1);
    leaves->values = part_any(part, "leaf_values", F32, small);
    if (!leaves->starts || !leaves->values.data) return false;
    if (!are_starts(leaves->starts, n_leaves, leaves->values.n))
        return part_fail(part, "leaf_starts", "not increasing");
    if (leaves->values.type == F32 ? !are_finite(leaves->values.data, leaves->values.n)
                                   : small == F16 && !are_finite_halves(leaves->values.data, leaves->values.n))
        return part_fail(part, "leaf_values", "not finite");
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
#define DEFINE_ADD(NAME, LABEL, VALUE, CONVERT)                                                           \
    static void NAME(const LABEL *labels, const VALUE *values, size_t n, float factor, sums_t *sums)      \
    {                                                                                                     \
        for (size_t i = 0; i < n; ++i) {                                                                  \
            const size_t label = labels[i];                                                               \
            if (!sums->seen[label]) {                                                                     \
                sums->seen[label] = 1;                                                                    \
                sums->labels[sums->n++] = (int32_t)label;                                                 \
            }                                                                                             \
            sums->values[label] += factor * CONVERT(values[i]);                                           \
        }                                                                                                 \
    }

DEFINE_ADD(add_u16_f32, uint16_t, float, (float))
DEFINE_ADD(add_u32_f32, uint32_t, float, (float))
DEFINE_ADD(add_u16_i16, uint16_t, int16_t, (float))
DEFINE_ADD(add_u32_i16, uint32_t, int16_t, (float))
DEFINE_ADD(add_u16_f16, uint16_t, uint16_t, half_to_float)
DEFINE_ADD(add_u32_f16, uint32_t, uint16_t, half_to_float)

#define ADD(NAME, LABEL, VALUE)                                                                             \
    NAME((const LABEL *)leaves->labels.data + begin, (const VALUE *)leaves->values.data + begin, n, factor, \
         sums)

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

size_t sums_take(sums_t *sums, scored_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < sums->n; ++i) {
        const int32_t label = sums->labels[i];
        const float value = sums->values[label];
        /* a sum of exactly 0 is no score, and NaN has no rank */
        if (value != 0.0f && value == value) list[n++] = (scored_t){value, label};
        sums->values[label] = 0.0f;
        sums->seen[label] = 0;
    }
    sums->n = 0;
    return n;
}
