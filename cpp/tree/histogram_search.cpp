// Parallel split search for a batch of nodes, over nodes, features and rows.
//
// A small node is one task: its parent's rows are partitioned, its histogram is built and subtracted from the
// parent's, and both are scanned while they are in the thread's cache. A large node is several tasks, by
// features and, with many rows, by blocks of rows: every block then has a separate histogram, and a second
// round of tasks sums them by feature.
#include "histogram_finder.hpp"

namespace sparseleaf {

void HistogramFinder::run_tasks(std::vector<Task>& tasks,
                                const std::function<void(const Task&, ThreadState&)>& work) {
    int64_t effort = 0;
    for (const Task& task : tasks) effort += task.effort;
    std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.effort > b.effort; });
    parallel_tasks(static_cast<int64_t>(tasks.size()), threads_for(effort * width(), n_threads_),
                   [&](int64_t t, int thread) { work(tasks[t], thread_states_[thread]); });
}

void HistogramFinder::run(const std::vector<Siblings>& siblings, Partition* partition,
                          std::vector<Family*>& others) {
    std::vector<Search> searches;
    searches.reserve(siblings.size());
    for (const Siblings& search : siblings) searches.emplace_back(search, effort_of(*search.built));
    plan(searches);
    const bool one_by_one = partition != nullptr && partition->one_by_one();
    std::vector<Family*> first = std::move(others);
    for (const Search& search : searches)
        if (search.family != nullptr && !(search.whole && one_by_one) &&
            (first.empty() || first.back() != search.family))
            first.push_back(search.family);
    if (!first.empty()) partition->split(first);
    if (workers_.share_rows()) sum_histograms(searches);

    std::vector<Task> tasks, later;
    for (Search& search : searches) add_tasks(search, tasks, later);
    run_tasks(tasks, [&](const Task& task, ThreadState& thread_state) {
        if (task.search->whole)
            find_whole(*task.search, one_by_one ? partition : nullptr, thread_state);
        else if (task.block >= 0)
            build_block(*task.search, task.part, task.block);
        else
            find_part(*task.search, *task.search->space, static_cast<size_t>(task.part), thread_state);
    });
    run_tasks(later, [&](const Task& task, ThreadState& thread_state) {
        find_part(*task.search, *task.search->space, static_cast<size_t>(task.part), thread_state);
    });
    exchange(searches);
}

// Aims at two tasks per thread, unless these would be too small to wake a thread for: with more, every one
// has fewer features, and fetches the gradients of its rows for these alone.
void HistogramFinder::plan(std::vector<Search>& searches) {
    int64_t effort = 0;
    for (const Search& search : searches) effort += search.effort;
    const int64_t enough = n_threads_ == 1 ? std::max<int64_t>(effort, 1)
                                           : std::max(effort / (2 * n_threads_), kAddsPerThread / width());
    std::vector<Search*> divided;
    for (size_t i = 0; i < searches.size(); ++i) {
        Search& search = searches[i];
        // both children of a family may be built from rows, one after the other in the same task
        const bool twins =
            i + 1 < searches.size() && search.family != nullptr && searches[i + 1].family == search.family;
        Search* twin = twins ? &searches[++i] : nullptr;
        search.whole = search.effort + (twin ? twin->effort : 0) <= enough && !workers_.share_rows();
        if (twin) twin->whole = search.whole;
        if (search.whole) {
            search.twin = twin;
            if (twin) twin->first = false;
            continue;
        }
        divided.push_back(&search);
        if (twin) divided.push_back(twin);
    }
    divide(divided, enough);
}

// Divides large nodes by features and, with many rows, by blocks of rows.
void HistogramFinder::divide(const std::vector<Search*>& searches, int64_t enough) {
    constexpr int64_t kBlockRows = 1024, kRowsPerBin = 4, kFew = 4;
    const FeatureSet& set = data_.searched.set();
    const int64_t rows = std::max(kBlockRows, kRowsPerBin * set.n_bins() / std::max<int64_t>(set.n, 1));
    int64_t n_scratch = n_scratch_;
    for (Search* search : searches) {
        search->space = std::make_unique<Workspace>();
        search->built->slot = slots_.take();
        search->n_parts = (search->effort + enough - 1) / enough;
        search->first_scratch = n_scratch_ - n_scratch;
        if (workers_.share_rows()) continue;
        const int64_t most = std::min(search->built->count / rows, 1 + n_scratch);
        search->blocks = std::max<int64_t>(1, std::min(most, std::min<int64_t>(search->n_parts, n_threads_)));
        n_scratch -= search->blocks - 1;
    }
    const auto n = static_cast<int64_t>(searches.size());
    parallel_tasks(n, n < kFew ? 1 : n_threads_, [&](int64_t i, int thread) {
        const Search& search = *searches[i];
        Workspace& space = *search.space;
        prepare(search, space, thread_states_[thread].work);
        const int64_t count = search.built->count, blocks = search.blocks;
        if (blocks > 1)
            space.built_parts =
                data_.searched.parts(*space.features, count, (search.n_parts + blocks - 1) / blocks);
        const bool scanned_only = blocks > 1 || workers_.share_rows();
        space.parts = data_.searched.parts(*space.features, scanned_only ? 0 : count, search.n_parts);
        space.start_search(space.parts.size());
    });
}

void HistogramFinder::Workspace::start_search(size_t n_parts) {
    results.resize(n_parts);
    for (PartResult& one : results) {
        for (Split& best : one.best) best = Split{};
        for (std::vector<int32_t>& dead : one.dead) dead.clear();
    }
    n_left = static_cast<int64_t>(n_parts);
}

// later: tasks that need all blocks of rows.
void HistogramFinder::add_tasks(Search& search, std::vector<Task>& tasks, std::vector<Task>& later) {
    if (search.whole) {
        if (search.first)
            tasks.push_back({&search, 0, -1, search.effort + (search.twin ? search.twin->effort : 0)});
        return;
    }
    const Workspace& space = *search.space;
    if (search.blocks > 1)
        for (size_t p = 0; p < space.built_parts.size(); ++p)
            for (int64_t block = 0; block < search.blocks; ++block)
                tasks.push_back(
                    {&search, static_cast<int64_t>(p), block, space.built_parts[p].effort / search.blocks});
    for (size_t p = 0; p < space.parts.size(); ++p)
        (search.blocks > 1 ? later : tasks)
            .push_back({&search, static_cast<int64_t>(p), -1, space.parts[p].effort});
}

// Samples features and scores the unsplit nodes.
void HistogramFinder::prepare(const Search& search, Workspace& space, Work& work) const {
    const FeatureSet& set = data_.searched.set();
    for (int which = 0; which < 2; ++which) {
        const Node* node = search.searched[which];
        if (node == nullptr) continue;
        space.node_score[which] =
            node_score(scoring_, constraint(*node, 0), node->total.data(), node->count, work);
        if (!data_.sampler.all()) data_.sampler.draw(node->key, set, space.chosen[which]);
    }
    const LiveFeatures& live = *search.built->live;
    space.features = &live;
    if (!direct_) return;
    space.drawn.clear();
    for (const int32_t f : live.dense)
        if (space.chosen[0][f]) space.drawn.add_dense(set, f);
    for (const int32_t f : live.sparse)
        if (space.chosen[0][f]) space.drawn.add_sparse(set, f);
    space.features = &space.drawn;
}

// Builds one block of the node's rows, into the node's slot or a scratch histogram.
void HistogramFinder::build_block(const Search& search, int64_t number, int64_t block) const {
    const Node& node = *search.built;
    const int64_t begin = node.start + node.count * block / search.blocks,
                  end = node.start + node.count * (block + 1) / search.blocks;
    const Histogram into = block == 0 ? hist_of(node) : memory_.scratch(search.first_scratch + block - 1);
    const Part& part = search.space->built_parts[number];
    data_.searched.clear(*search.space->features, part, into);
    data_.searched.add(*search.space->features, part, data_.rows + begin, end - begin, into);
}

// Searches the features of one part; the last part completes the search.
void HistogramFinder::find_part(const Search& search, Workspace& space, size_t number,
                                ThreadState& thread_state) {
    const Node& node = *search.built;
    const Part& part = space.parts[number];
    const LiveFeatures& features = *space.features;
    const Histogram into = hist_of(node);
    if (!workers_.share_rows()) {
        if (search.blocks == 1) {
            data_.searched.clear(features, part, into);
            data_.searched.add(features, part, data_.rows + node.start, node.count, into);
        }
        for (int64_t block = 1; block < search.blocks; ++block)
            data_.searched.add_histogram(features, part, memory_.scratch(search.first_scratch + block - 1),
                                         into);
        data_.searched.fill_common_bins(features, part, node.total.data(), node.count, into);
    }
    scan(search, space, part, space.results[number], thread_state.work);
    if (space.n_left.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(search, space, thread_state.work);
}

// One task: partitions the parent's rows, unless this is done, and searches the children.
void HistogramFinder::find_whole(Search& search, Partition* partition, ThreadState& thread_state) {
    if (partition != nullptr && search.family != nullptr)
        partition->split_one(*search.family, thread_state.room);
    find_at_once(search, thread_state);
    if (search.twin) find_at_once(*search.twin, thread_state);
}

void HistogramFinder::find_at_once(const Search& search, ThreadState& thread_state) {
    Workspace& space = *thread_state.space;
    search.built->slot = slots_.take();
    prepare(search, space, thread_state.work);
    space.parts = data_.searched.parts(*space.features, search.built->count, 1);
    space.start_search(space.parts.size());
    for (size_t p = 0; p < space.parts.size(); ++p) find_part(search, space, p, thread_state);
    if (!workers_.alone()) return;
    for (Node* node : {search.built, search.sibling})  // while still in cache
        if (node != nullptr && !keeps(*node)) release(*node);
}

void HistogramFinder::scan(const Search& search, const Workspace& space, const Part& part, PartResult& result,
                           Work& work) const {
    const FeatureSet& set = data_.searched.set();
    const FeatureRange features = data_.searched.features_of(*space.features, part);
    if (search.sibling) data_.searched.subtract(features, hist_of(*search.sibling), hist_of(*search.built));
    for (int which = 0; which < 2; ++which) {
        const Node* node = search.searched[which];
        if (node == nullptr) continue;
        const NodeSums sums = data_.searched.sums_of(hist_of(*node), node->total.data(), node->count);
        const std::vector<uint8_t>& chosen = space.chosen[which];
        Split best;  // a local copy, to avoid false sharing with the other threads
        for (const int32_t f : features) {
            if (!data_.sampler.all() && !chosen[f]) continue;
            const bool possible = search_feature(scoring_, constraint(*node, set.numbers[f]), set, sums, f,
                                                 space.node_score[which], work, &best);
            if (!possible && !set.categorical[f]) result.dead[which].push_back(f);
        }
        result.best[which] = best;
    }
}

// The best split of all parts.
void HistogramFinder::finish(const Search& search, const Workspace& space, Work& work) const {
    const FeatureSet& set = data_.searched.set();
    for (int which = 0; which < 2; ++which) {
        Node* node = search.searched[which];
        if (node == nullptr) continue;
        Split best;
        for (const PartResult& result : space.results)
            if (better(result.best[which], best)) best = result.best[which];
        node->split = best;
        if (best.feature < 0) continue;
        node->left.assign(static_cast<size_t>(work.room), 0);
        left_side(scoring_, set, data_.searched.sums_of(hist_of(*node), node->total.data(), node->count),
                  best, work, node->left.data(), node->set);
        node->split.feature = set.numbers[best.feature];
        // values missing only at prediction follow the majority of the rows
        if (!set.has_missing[best.feature]) node->split.missing_left = 2 * best.left_count > node->count;
        if (limits_.may_split_children(*node)) drop_dead(*node, space.results, which);
    }
}

void HistogramFinder::drop_dead(Node& node, const std::vector<PartResult>& results, int which) const {
    std::vector<int32_t> dead;
    for (const PartResult& one : results)
        dead.insert(dead.end(), one.dead[which].begin(), one.dead[which].end());
    if (dead.empty()) return;
    std::sort(dead.begin(), dead.end());
    const FeatureSet& set = data_.searched.set();
    const auto is_dead = [&](int32_t f) { return std::binary_search(dead.begin(), dead.end(), f); };
    auto rest = std::make_shared<LiveFeatures>();
    for (const int32_t f : node.live->dense)
        if (!is_dead(f)) rest->add_dense(set, f);
    for (const int32_t f : node.live->sparse)
        if (!is_dead(f)) rest->add_sparse(set, f);
    node.live = rest;
}

}  // namespace sparseleaf
