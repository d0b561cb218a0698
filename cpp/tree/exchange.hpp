// Best splits of several workers.
#pragma once

#include "node.hpp"
#include "workers.hpp"

namespace sparseleaf {

// Every worker has found the best splits of the nodes among its features: makes them the best of all. Of the
// sums of the left side n_sums numbers count, in room for more.
void exchange_splits(const Workers& workers, const std::vector<Node*>& nodes, int64_t n_sums, int64_t room);

}  // namespace sparseleaf
