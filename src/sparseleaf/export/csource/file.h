/* The container of model.bin: named arrays, validated against the size of the file.
 *
 *     bytes 0-7    "SPARSELF"
 *     8-11         format version, 1
 *     12-15        0x01020304, which tells the byte order
 *     16-23        number of arrays
 *     24-31        size of the file
 *     from 32      an entry of 64 bytes per array: name (40 bytes, padded with zeros), type, 0, offset, length
 *     then         the arrays, at multiples of 64 bytes */
#ifndef SPARSELEAF_FILE_H
#define SPARSELEAF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME_SIZE = 40 };

typedef enum { U8, I8, U16, I16, U32, I32, I64, F32, F64, F16 } type_t;

typedef struct {
    const void *data; /* NULL if the file has no such array */
    size_t n;
    type_t type;
} array_t;

typedef struct {
    const unsigned char *bytes;
    size_t size, n_arrays;
    char *error; /* the first reason for failure */
    bool failed;
} file_t;

/* The arrays whose names begin with a prefix. */
typedef struct {
    file_t *file;
    char prefix[NAME_SIZE + 1];
} part_t;

bool file_open(file_t *file, const void *bytes, size_t size, char *error);
bool file_fail(file_t *file, const char *name, const char *problem); /* returns false */

part_t part_of(const part_t *whole, const char *name);
bool part_fail(const part_t *part, const char *name, const char *problem);
bool part_has(const part_t *part, const char *name);

/* An array of one of two types; `data` is NULL and the file has failed if it is missing or has another type. */
array_t part_any(const part_t *part, const char *name, type_t type, type_t other);

/* An array of that type with n entries, or of any length if n is ANY. NULL and failure if there is none. */
#define ANY ((size_t)-1)
const void *part_array(const part_t *part, const char *name, type_t type, size_t n);
size_t part_length(const part_t *part, const char *name); /* 0 if it is missing */

bool are_finite(const float *values, size_t n);

/* Whether `starts` has n + 1 entries that increase from 0 to `total`. */
bool are_starts(const int64_t *starts, size_t n, size_t total);

#endif
