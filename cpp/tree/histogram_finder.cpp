// The searches of a batch of nodes: see histogram_finder.hpp.
#include "histogram_finder.hpp"

namespace sparseleaf {

HistogramFinder::HistogramFinder(const Data& data, const Scoring& scoring, const Limits& limits, bool direct,
                                 int64_t n_slots, int64_t n_scratch, HistogramMemory& memory,
                                 const Workers& workers, int n_threads)
    : SlotFinder(data.table, scoring, limits, data.first_output, !direct, n_slots),
      data_(data),
      direct_(direct),
      n_scratch_(n_scratch),
      memory_(memory),
      workers_(workers),
      n_threads_(n_threads) {
    for (int thread = 0; thread < n_threads; ++thread) thread_states_.emplace_back(scoring);
    memory.start_tree(n_slots, n_scratch, data.searched.set().n_bins(), data.searched.columns(),
                      data.searched.counted_apart());
}

int64_t HistogramFinder::effort_of(const Node& built) const {
    const auto n_dense = static_cast<int64_t>(built.live->dense.size());
    const int64_t n_bins = built.live->n_bins;
    if (!direct_) return data_.searched.effort(built.count, n_dense, n_bins);
    const double share = static_cast<double>(data_.sampler.count()) /
                         std::max<double>(1.0, static_cast<double>(data_.sampler.n()));
    return data_.searched.effort(built.count, static_cast<int64_t>(share * n_dense) + 1,
                                 static_cast<int64_t>(share * n_bins) + 1);
}

}  // namespace sparseleaf
