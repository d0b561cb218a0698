// Split search with several workers: histograms are reduce-scattered in the row layout, best splits gathered.
#include "exchange.hpp"
#include "histogram_finder.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kScratchBytes =
    1 << 22;  // of histograms that are built before they are reduced: fits the cache

}  // namespace

// Histograms of this worker's rows, for all features of the tree. Workers may differ in which features are
// sparse, so common bins are filled before histograms are summed.
void HistogramFinder::build_here(const std::vector<Node*>& nodes, std::vector<Histogram>& histograms) const {
    const Accumulator& everything = *data_.everything;
    const LiveFeatures& all = *everything.all();
    const int64_t m = everything.columns();
    std::vector<int32_t> totals(nodes.size() * static_cast<size_t>(m), 0);
    if (everything.has_sparse())
        parallel_tasks(static_cast<int64_t>(nodes.size()), n_threads_, [&](int64_t i, int) {
            add_up(everything.gradients().data, m, data_.rows + nodes[i]->start,
                   nodes[i]->end - nodes[i]->start, totals.data() + i * m);
        });
    struct HereTask {
        size_t node;
        Part part;
    };
    std::vector<HereTask> tasks;
    int64_t effort = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const int64_t n = nodes[i]->end - nodes[i]->start;
        const int64_t min_parts =
            (2 * n_threads_ + static_cast<int64_t>(nodes.size()) - 1) / static_cast<int64_t>(nodes.size());
        for (const Part& part : everything.parts(all, n, n_threads_ > 1 ? min_parts : 1)) {
            tasks.push_back({i, part});
            effort += part.effort;
        }
    }
    parallel_tasks(static_cast<int64_t>(tasks.size()), threads_for(effort, n_threads_), [&](int64_t t, int) {
        const auto& [i, part] = tasks[t];
        const int64_t n = nodes[i]->end - nodes[i]->start;
        everything.clear(all, part, histograms[i]);
        everything.add(all, part, data_.rows + nodes[i]->start, n, histograms[i]);
        everything.fill_common_bins(all, part, totals.data() + i * m, n, histograms[i]);
    });
}

// Reduces the histograms of all workers, a few nodes at a time: this worker's features go to the nodes'
// slots.
void HistogramFinder::sum_histograms(std::vector<Search>& searches) {
    const int64_t m = data_.searched.columns(), n_bins = data_.borders.back();
    const int64_t width = m + data_.searched.counted_apart(), own_bins = data_.searched.set().n_bins();
    const auto some =
        static_cast<size_t>(std::max<int64_t>(1, kScratchBytes / std::max<int64_t>(1, 4 * n_bins * width)));
    std::vector<int32_t> room;
    for (size_t begin = 0; begin < searches.size(); begin += some) {
        const size_t end = std::min(searches.size(), begin + some);
        std::vector<Node*> nodes;
        for (size_t i = begin; i < end; ++i) nodes.push_back(searches[i].built);
        const auto n_nodes = static_cast<int64_t>(nodes.size());
        room.resize(static_cast<size_t>(n_nodes * n_bins * width));
        std::vector<Histogram> here;
        for (int64_t i = 0; i < n_nodes; ++i) {
            int32_t* sums = room.data() + i * n_bins * width;
            here.push_back({sums, data_.searched.counted_apart() ? sums + n_bins * m : nullptr});
        }
        build_here(nodes, here);
        // one block per worker: for each node the sums of the worker's features, then their counts
        std::vector<int32_t> packed = Workers::room();
        packed.reserve(room.size());
        std::vector<int64_t> counts;
        for (size_t w = 0; w + 1 < data_.borders.size(); ++w) {
            const int64_t first = data_.borders[w], last = data_.borders[w + 1];
            for (const Histogram& one : here) {
                packed.insert(packed.end(), one.sums + first * m, one.sums + last * m);
                if (one.counts) packed.insert(packed.end(), one.counts + first, one.counts + last);
            }
            counts.push_back(n_nodes * (last - first) * width);
        }
        workers_.reduce_scatter(std::move(packed), counts, [&](const int32_t* summed) {
            for (int64_t i = 0; i < n_nodes; ++i) {
                const int32_t* from = summed + i * own_bins * width;
                const Histogram into = hist_of(*nodes[i]);
                std::copy(from, from + own_bins * m, into.sums);
                if (into.counts) std::copy(from + own_bins * m, from + own_bins * width, into.counts);
            }
        });
    }
}

void HistogramFinder::exchange(const std::vector<Search>& searches) const {
    std::vector<Node*> nodes;
    for (const Search& search : searches)
        for (Node* node : search.searched)
            if (node != nullptr) nodes.push_back(node);
    exchange_splits(workers_, nodes, data_.searched.columns(), thread_states_[0].work.room);
}

}  // namespace sparseleaf
