// Collectives for workers that grow a tree together, by calls of the Python communicator.
#pragma once

#include <functional>

#include "common.hpp"

namespace sparseleaf {

// With one worker no Python code is called. All functions but the constructor must be called without the GIL,
// which they acquire for the call.
class Workers {
  public:
    // communicator: see sparseleaf/distributed/communicator.py. by_rows: every worker has all features of
    // some rows; otherwise all rows of some features.
    Workers(nb::object communicator, bool by_rows);

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool alone() const { return size_ == 1; }
    bool share_rows() const { return !alone() && by_rows_; }
    bool share_features() const { return !alone() && !by_rows_; }

    // Σ over all workers, in place.
    void allreduce(std::vector<int64_t>& values) const;

    // The bytes of all workers, by rank.
    std::vector<std::vector<uint8_t>> allgather(std::vector<uint8_t> bytes) const;

    // Σ over all workers; calls use(sums) once with this worker's block of counts[rank] numbers.
    void reduce_scatter(std::vector<int32_t> values, const std::vector<int64_t>& counts,
                        const std::function<void(const int32_t*)>& use) const;

    // An empty vector with the memory of an earlier message, if any. Processes that return freed memory to
    // the system at once, as Dask's workers are configured to, would spend more time on page faults than on
    // sums.
    static std::vector<int32_t> room();

  private:
    nb::object communicator_;
    bool by_rows_;
    int rank_, size_;
};

}  // namespace sparseleaf
