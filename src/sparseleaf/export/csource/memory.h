/* Arrays that grow. */
#ifndef SPARSELEAF_MEMORY_H
#define SPARSELEAF_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `pointer` is the address of the pointer to the array, which stays as it is if memory is exhausted. */
static inline bool resize(void *pointer, size_t n, size_t item_size)
{
    void *data;
    memcpy(&data, pointer, sizeof data);
    void *again = n < SIZE_MAX / item_size ? realloc(data, n * item_size) : NULL;
    if (again) memcpy(pointer, &again, sizeof again);
    return again != NULL;
}

/* Room for n items, and for more the next time. */
static inline bool reserve(void *pointer, size_t *capacity, size_t n, size_t item_size)
{
    if (n <= *capacity) return true;
    if (!resize(pointer, n + n / 2 + 64, item_size)) return false;
    *capacity = n + n / 2 + 64;
    return true;
}

#endif
