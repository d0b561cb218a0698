#include "file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "predictor.h"

enum { HEADER_SIZE = 32, ENTRY_SIZE = 64, ALIGNMENT = 64, VERSION = 2, BYTE_ORDER_MARK = 0x01020304 };

static const size_t type_sizes[] = {1, 1, 2, 2, 4, 4, 8, 4, 8, 2};

bool file_fail(file_t *file, const char *name, const char *problem)
{
    if (!file->failed && file->error)
        snprintf(file->error, SPARSELEAF_ERROR_SIZE, "%s%s%s", name, *name ? ": " : "", problem);
    file->failed = true;
    return false;
}

static uint32_t read_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t read_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static const unsigned char *entry_of(const file_t *file, size_t i)
{
    return file->bytes + HEADER_SIZE + i * ENTRY_SIZE;
}

bool file_open(file_t *file, const void *bytes, size_t size, char *error)
{
    *file = (file_t){bytes, size, 0, error, false};
    if (size < HEADER_SIZE || memcmp(bytes, "SPARSELF", 8) != 0)
        return file_fail(file, "", "not a model exported by sparseleaf");
    if (read_u32(file->bytes + 12) != BYTE_ORDER_MARK)
        return file_fail(file, "", "the model requires a little-endian processor");
    if (read_u32(file->bytes + 8) != VERSION)
        return file_fail(file, "", "the model has another version than this program; export it again");
    if ((uintptr_t)bytes % 8 != 0) return file_fail(file, "", "the model must be aligned to 8 bytes");
    if (read_u64(file->bytes + 24) != size) return file_fail(file, "", "the model is truncated");
    const uint64_t n = read_u64(file->bytes + 16);
    if (n > (size - HEADER_SIZE) / ENTRY_SIZE) return file_fail(file, "", "the model is truncated");
    file->n_arrays = (size_t)n;
    for (size_t i = 0; i < file->n_arrays; ++i) {
        const unsigned char *entry = entry_of(file, i);
        const uint32_t type = read_u32(entry + NAME_SIZE);
        const uint64_t offset = read_u64(entry + NAME_SIZE + 8), length = read_u64(entry + NAME_SIZE + 16);
        if (type > F16 || offset % ALIGNMENT != 0 || offset > size ||
            length > (size - offset) / type_sizes[type])
            return file_fail(file, "", "an array is outside of the file");
    }
    return true;
}

static array_t find(const part_t *part, const char *name)
{
    char whole[2 * NAME_SIZE + 2];
    const int length = snprintf(whole, sizeof whole, "%s%s", part->prefix, name);
    if (length > NAME_SIZE) return (array_t){NULL, 0, U8};
    for (size_t i = 0; i < part->file->n_arrays; ++i) {
        const unsigned char *entry = entry_of(part->file, i);
        if (strncmp((const char *)entry, whole, NAME_SIZE) != 0) continue;
        return (array_t){part->file->bytes + read_u64(entry + NAME_SIZE + 8),
                         (size_t)read_u64(entry + NAME_SIZE + 16), (type_t)read_u32(entry + NAME_SIZE)};
    }
    return (array_t){NULL, 0, U8};
}

part_t part_of(const part_t *whole, const char *name)
{
    part_t part = {whole->file, ""};
    snprintf(part.prefix, sizeof part.prefix, "%s%s", whole->prefix, name);
    return part;
}

bool part_fail(const part_t *part, const char *name, const char *problem)
{
    char whole[2 * NAME_SIZE + 2];
    snprintf(whole, sizeof whole, "%s%s", part->prefix, name);
    return file_fail(part->file, whole, problem);
}

bool part_has(const part_t *part, const char *name)
{
    return find(part, name).data != NULL;
}

array_t part_any(const part_t *part, const char *name, type_t type, type_t other)
{
    const array_t array = find(part, name);
    if (array.data && (array.type == type || array.type == other)) return array;
    part_fail(part, name, array.data ? "an array of another type" : "the array is missing");
    return (array_t){NULL, 0, type};
}

const void *part_array(const part_t *part, const char *name, type_t type, size_t n)
{
    const array_t array = part_any(part, name, type, type);
    if (array.data && n != ANY && array.n != n) {
        part_fail(part, name, "an array of another length");
        return NULL;
    }
    return array.data;
}

size_t part_length(const part_t *part, const char *name)
{
    return find(part, name).n;
}

bool are_finite(const float *values, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        if (!isfinite(values[i])) return false;
    return true;
}

bool are_starts(const int64_t *starts, size_t n, size_t total)
{
    if (starts[0] != 0 || starts[n] < 0 || (uint64_t)starts[n] != total) return false;
    for (size_t i = 0; i < n; ++i)
        if (starts[i] > starts[i + 1]) return false;
    return true;
}
