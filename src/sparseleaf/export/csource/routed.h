/* Walks through routed trees: with 8-bit routers a row at a time (routed_small.c), with others blocks of rows
 * (routed_wide.c). */
#ifndef SPARSELEAF_ROUTED_H
#define SPARSELEAF_ROUTED_H

#include "scorers.h"

enum { MAX_ARITY = 16, GROUP = 16 };

/* The leaves that a row reaches in n trees, at most GROUP; `spread` has its values by feature. */
void walk_small(const routed_t *routed, size_t first, size_t n, row_t row, const float *spread, size_t *leaves);

/* Appends the leaves that rows reach in a tree to walk->hits; false if memory is exhausted. */
bool walk_wide(const routed_t *routed, size_t tree, rows_t rows, walk_t *walk);

#endif
