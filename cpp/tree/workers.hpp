// Collectives of the workers that grow a tree together: those of the Python communicator, called back.
#pragma once

#include "common.hpp"

namespace sparseleaf {

// With one worker no collective is called and nothing is asked of Python. All functions but the constructor
// are called without the GIL, which they take for the call.
class Workers {
  public:
    // communicator: see sparseleaf/distributed/communicator.py. by_rows: every worker has all features of
    // some rows; else all rows of some features.
    Workers(nb::object communicator, bool by_rows);

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool alone() const { return size_ == 1; }
    bool share_rows() const { return !alone() && by_rows_; }
    bool share_features() const { return !alone() && !by_rows_; }

    // Σ over all workers, in place.
    void allreduce(std::vector<int64_t>& values) const;

    // Every worker's bytes, by rank.
    std::vector<std::vector<uint8_t>> allgather(std::vector<uint8_t> bytes) const;

    // Σ over all workers, of which this one gets its block of counts[rank] numbers.
    std::vector<int32_t> reduce_scatter(std::vector<int32_t> values,
                                        const std::vector<int64_t>& counts) const;

  private:
    nb::object communicator_;
    bool by_rows_;
    int rank_, size_;
};

}  // namespace sparseleaf
