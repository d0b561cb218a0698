// Agreement of several workers on the best splits.
#pragma once

#include "node.hpp"
#include "workers.hpp"

namespace sparseleaf {

// Replaces every node's best split among this worker's features by the best of all workers. The left sums
// have n_sums entries, padded to `room`.
void exchange_splits(const Workers& workers, const std::vector<Node*>& nodes, int64_t n_sums, int64_t room);

}  // namespace sparseleaf
