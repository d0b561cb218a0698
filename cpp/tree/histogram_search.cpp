// The work of a batch of nodes, shared by threads: over nodes, features and rows.
//
// A node that is small beside the batch is one task: its parent's rows are partitioned, its histogram is
// built and taken away from the parent's, and both are scanned while they are in the thread's cache. A larger
// one is several tasks, by features, and by rows where it has many: each block of rows then has a histogram
// of its own, and a second round of tasks adds them up feature by feature.
#include "histogram_finder.hpp"

namespace sparseleaf {

void HistogramFinder::run_tasks(std::vector<Task>& tasks,
                                const std::function<void(const Task&, Desk&)>& work) {
    int64_t effort = 0;
    for (const Task& task : tasks) effort += task.effort;
    std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.effort > b.effort; });
    parallel_tasks(static_cast<int64_t>(tasks.size()), worth_threads(effort * width(), n_threads_),
                   [&](int64_t t, int thread) { work(tasks[t], desks_[thread]); });
}

// others: families whose rows are partitioned, and no more.
void HistogramFinder::run(std::vector<Search>& searches, Partition* partition, std::vector<Family*>& others) {
    plan(searches, partition != nullptr && partition->one_by_one());
    std::vector<Family*> first = std::move(others);
    for (const Search& search : searches)
        if (!search.whole && search.family != nullptr && (first.empty() || first.back() != search.family))
            first.push_back(search.family);
    if (!first.empty()) partition->split(first);
    if (workers_.share_rows()) sum_histograms(searches);

    std::vector<Task> tasks, later;
    for (Search& search : searches) add_tasks(search, tasks, later);
    run_tasks(tasks, [&](const Task& task, Desk& desk) {
        if (task.search->whole)
            find_whole(*task.search, partition, desk);
        else if (task.block >= 0)
            build_block(*task.search, task.part, task.block);
        else
            find_part(*task.search, task.part, desk);
    });
    run_tasks(later, [&](const Task& task, Desk& desk) { find_part(*task.search, task.part, desk); });
    for (Search& search : searches)
        if (!search.whole) finish(search, desks_[0]);
    exchange(searches);
    for (Search& search : searches) {
        settle(search.built);
        settle(search.sibling);
    }
}

// Several tasks for every thread in all, unless they would be too small to wake a thread for. Few threads
// share the work evenly with fewer tasks.
void HistogramFinder::plan(std::vector<Search>& searches, bool one_by_one) {
    int64_t effort = 0, scratch_used = 0;
    for (const Search& search : searches) effort += search.effort;
    const int64_t n_tasks = n_threads_ * (n_threads_ <= 4 ? 2 : 4);
    const int64_t enough =
        n_threads_ == 1 ? std::max<int64_t>(effort, 1) : std::max(effort / n_tasks, kWorthAThread / width());
    for (size_t i = 0; i < searches.size(); ++i) {
        Search& search = searches[i];
        // both children of a family may be built from their rows, one after the other by the same task
        Search* twin =
            i + 1 < searches.size() && search.family != nullptr && searches[i + 1].family == search.family
                ? &searches[i + 1]
                : nullptr;
        const int64_t together = search.effort + (twin ? twin->effort : 0);
        search.whole =
            together <= enough && (one_by_one || search.family == nullptr) && !workers_.share_rows();
        if (twin) {
            twin->whole = search.whole;
            ++i;
        }
        if (search.whole) {
            search.twin = twin;
            if (twin) twin->first = false;
            continue;
        }
        divide(search, enough, scratch_used);
        if (twin) divide(*twin, enough, scratch_used);
    }
}

// Parts of a node's work, by features, and by rows where it has many.
void HistogramFinder::divide(Search& search, int64_t enough, int64_t& scratch_used) {
    constexpr int64_t kBlockRows = 1024, kRowsPerBin = 4;
    const int64_t wanted = (search.effort + enough - 1) / enough;
    Node& built = *search.built;
    built.slot = memory_.take();
    prepare(search, desks_[0]);
    const LiveFeatures& features = *search.features;
    const auto n_features = static_cast<int64_t>(features.dense.size() + features.sparse.size());
    if (!workers_.share_rows() && n_features > 0) {
        const int64_t rows = std::max(kBlockRows, kRowsPerBin * features.n_bins / n_features);
        search.blocks = std::clamp<int64_t>(
            std::min<int64_t>(wanted, n_threads_), 1,
            std::max<int64_t>(1, std::min(1 + n_scratch_ - scratch_used, built.count / rows)));
    }
    search.first_scratch = scratch_used;
    scratch_used += search.blocks - 1;
    if (search.blocks > 1)
        search.built_parts =
            data_.own.parts(features, built.count, (wanted + search.blocks - 1) / search.blocks);
    const bool scanned_only = search.blocks > 1 || workers_.share_rows();
    search.parts = data_.own.parts(features, scanned_only ? 0 : built.count, wanted);
    search.found.resize(search.parts.size());
}

// later: what waits for all blocks of rows.
void HistogramFinder::add_tasks(Search& search, std::vector<Task>& tasks, std::vector<Task>& later) {
    if (search.whole) {
        if (search.first)
            tasks.push_back({&search, 0, -1, search.effort + (search.twin ? search.twin->effort : 0)});
        return;
    }
    if (search.blocks > 1)
        for (int64_t p = 0; p < static_cast<int64_t>(search.built_parts.size()); ++p)
            for (int64_t block = 0; block < search.blocks; ++block)
                tasks.push_back({&search, p, block, search.built_parts[p].effort / search.blocks});
    for (int64_t p = 0; p < static_cast<int64_t>(search.parts.size()); ++p)
        (search.blocks > 1 ? later : tasks).push_back({&search, p, -1, search.parts[p].effort});
}

// Draws features, and scores the nodes as they are.
void HistogramFinder::prepare(Search& search, Desk& desk) const {
    for (int which = 0; which < 2; ++which) {
        const Node* node = search.searched[which];
        if (node == nullptr) continue;
        search.worth[which] =
            worth_whole(scoring_, constraint(*node, 0), node->total.data(), node->count, desk.work);
        if (!data_.sampler.all()) data_.sampler.draw(node->key, data_.own.set(), search.chosen[which]);
    }
    const LiveFeatures& live = *search.built->live;
    search.features = &live;
    if (!direct_) return;
    const std::vector<uint8_t>& chosen = search.chosen[0];
    for (const int32_t f : live.dense)
        if (chosen[f]) search.drawn.add_dense(data_.own.set(), f);
    for (const int32_t f : live.sparse)
        if (chosen[f]) search.drawn.add_sparse(data_.own.set(), f);
    search.features = &search.drawn;
}

// A block of the built node's rows, into the node's slot or a histogram of its own.
void HistogramFinder::build_block(const Search& search, int64_t part, int64_t block) const {
    const Node& node = *search.built;
    const int64_t begin = node.start + node.count * block / search.blocks,
                  end = node.start + node.count * (block + 1) / search.blocks;
    const Histogram into = block == 0 ? hist_of(node) : memory_.scratch(search.first_scratch + block - 1);
    data_.own.clear(*search.features, search.built_parts[part], into);
    data_.own.add(*search.features, search.built_parts[part], data_.rows + begin, end - begin, into);
}

void HistogramFinder::find_part(Search& search, int64_t number, Desk& desk) {
    const Node& node = *search.built;
    const Part& part = search.parts[number];
    const Histogram into = hist_of(node);
    if (!workers_.share_rows()) {
        if (search.blocks == 1) {
            data_.own.clear(*search.features, part, into);
            data_.own.add(*search.features, part, data_.rows + node.start, node.count, into);
        }
        for (int64_t block = 1; block < search.blocks; ++block)
            data_.own.add_histogram(*search.features, part, memory_.scratch(search.first_scratch + block - 1),
                                    into);
        data_.own.fill_common_bins(*search.features, part, node.total.data(), node.count, into);
    }
    scan(search, part, search.found[number], desk);
}

// One task: the parent's rows are partitioned, then the children searched.
void HistogramFinder::find_whole(Search& search, Partition* partition, Desk& desk) {
    if (search.family != nullptr) partition->split_one(*search.family, desk.room);
    find_at_once(search, desk);
    if (search.twin) find_at_once(*search.twin, desk);
}

void HistogramFinder::find_at_once(Search& search, Desk& desk) {
    search.built->slot = memory_.take();
    prepare(search, desk);
    search.parts = data_.own.parts(*search.features, search.built->count, 1);
    search.found.resize(search.parts.size());
    for (size_t p = 0; p < search.parts.size(); ++p) find_part(search, static_cast<int64_t>(p), desk);
    finish(search, desk);
    if (!workers_.alone()) return;
    for (Node* node : {search.built, search.sibling})  // while it is in the cache
        if (node != nullptr && !keeps(*node)) release(*node);
}

// Splits of both nodes among the features of a part.
void HistogramFinder::scan(Search& search, const Part& part, Found& found, Desk& desk) const {
    const FeatureSet& set = data_.own.set();
    const FeatureRange features = data_.own.features_of(*search.features, part);
    if (search.sibling) data_.own.subtract(features, hist_of(*search.sibling), hist_of(*search.built));
    for (int which = 0; which < 2; ++which) {
        const Node* node = search.searched[which];
        if (node == nullptr) continue;
        const NodeSums sums = data_.own.sums_of(hist_of(*node), node->total.data(), node->count);
        const std::vector<uint8_t>& chosen = search.chosen[which];
        Split best;  // of the thread's own until it is known: others write beside it
        for (const int32_t f : features) {
            if (!chosen.empty() && !chosen[f]) continue;
            const bool possible = search_feature(scoring_, constraint(*node, set.numbers[f]), set, sums, f,
                                                 search.worth[which], desk.work, &best);
            if (!possible && !set.categorical[f]) found.dead[which].push_back(f);
        }
        found.best[which] = best;
    }
}

// The best split of all parts.
void HistogramFinder::finish(Search& search, Desk& desk) {
    const FeatureSet& set = data_.own.set();
    for (int which = 0; which < 2; ++which) {
        Node* node = search.searched[which];
        if (node == nullptr) continue;
        Split best;
        for (const Found& found : search.found)
            if (better(found.best[which], best)) best = found.best[which];
        node->split = best;
        if (best.feature < 0) continue;
        node->left.assign(static_cast<size_t>(desk.work.room), 0);
        left_side(scoring_, set, data_.own.sums_of(hist_of(*node), node->total.data(), node->count), best,
                  desk.work, node->left.data(), node->set);
        node->split.feature = set.numbers[best.feature];
        // should a missing value come later, it goes the way of most rows
        if (!set.has_missing[best.feature]) node->split.missing_left = 2 * best.left_count > node->count;
        if (limits_.may_split_children(*node)) drop_dead(*node, search.found, which);
    }
}

void HistogramFinder::drop_dead(Node& node, const std::vector<Found>& found, int which) const {
    std::vector<int32_t> dead;
    for (const Found& one : found) dead.insert(dead.end(), one.dead[which].begin(), one.dead[which].end());
    if (dead.empty()) return;
    std::sort(dead.begin(), dead.end());
    const FeatureSet& set = data_.own.set();
    const auto is_dead = [&](int32_t f) { return std::binary_search(dead.begin(), dead.end(), f); };
    auto rest = std::make_shared<LiveFeatures>();
    for (const int32_t f : node.live->dense)
        if (!is_dead(f)) rest->add_dense(set, f);
    for (const int32_t f : node.live->sparse)
        if (!is_dead(f)) rest->add_sparse(set, f);
    node.live = rest;
}

}  // namespace sparseleaf
