// Split finding on histograms, with threads and workers. With a small feature sample per node (`direct`),
// every histogram is built from rows, for the sampled features only.
#pragma once

#include <atomic>
#include <functional>

#include "slot_finder.hpp"
#include "slots.hpp"
#include "workers.hpp"

namespace sparseleaf {

class HistogramFinder final : public SlotFinder {
  public:
    struct Data {
        const FeatureTable& table;
        const Accumulator& searched;    // of the features that this worker searches
        const Accumulator* everything;  // row layout: of all features of the tree
        std::vector<int64_t> borders;   // row layout: the first bin of every worker's features, and the end
        const int32_t* rows;
        const FeatureSampler& sampler;
        int64_t first_output;  // of the table's directions
    };

    HistogramFinder(const Data& data, const Scoring& scoring, const Limits& limits, bool direct,
                    int64_t n_slots, int64_t n_scratch, HistogramMemory& memory, const Workers& workers,
                    int n_threads);

  private:
    // Result of searching the features of one part.
    struct PartResult {
        Split best[2];                 // of either node; feature: its index in the set
        std::vector<int32_t> dead[2];  // features without a possible split
    };

    // State of a search.
    struct Workspace {
        double node_score[2] = {};
        std::vector<uint8_t> chosen[2];  // whether a feature was sampled; empty for all
        LiveFeatures drawn;              // the sampled features, if only these are built
        const LiveFeatures* features = nullptr;
        std::vector<Part> built_parts, parts;  // for building by blocks of rows; for the search
        std::vector<PartResult> results;       // by part
        std::atomic<int64_t> n_left{0};        // parts that remain

        void start_search(size_t n_parts);
    };

    struct Search : Siblings {
        Search(const Siblings& siblings, int64_t effort) : Siblings(siblings), effort(effort) {}

        int64_t effort;
        bool whole = true;       // one task; otherwise several
        Search* twin = nullptr;  // the other child, searched by the same task
        bool first = true;       // of the two twins
        int64_t n_parts = 1;     // number of parts, if several tasks
        int64_t blocks = 1;      // of rows, each with a separate histogram
        int64_t first_scratch = 0;
        std::unique_ptr<Workspace> space;  // null: the thread's workspace
    };

    struct Task {
        Search* search;
        int64_t part, block, effort;
    };

    // Buffers of one thread.
    struct ThreadState {
        explicit ThreadState(const Scoring& scoring) : work(scoring), space(new Workspace) {}
        Work work;
        std::vector<int32_t> room;
        std::unique_ptr<Workspace> space;
    };

    void run(const std::vector<Siblings>& siblings, Partition* partition,
             std::vector<Family*>& others) override;
    int64_t effort_of(const Node& built) const;
    void plan(std::vector<Search>& searches);
    void divide(const std::vector<Search*>& searches, int64_t enough);
    void add_tasks(Search& search, std::vector<Task>& tasks, std::vector<Task>& later);
    void prepare(const Search& search, Workspace& space, Work& work) const;
    void build_block(const Search& search, int64_t part, int64_t block) const;
    void find_whole(Search& search, Partition* partition, ThreadState& thread_state);
    void find_at_once(const Search& search, ThreadState& thread_state);
    void find_part(const Search& search, Workspace& space, size_t part, ThreadState& thread_state);
    void scan(const Search& search, const Workspace& space, const Part& part, PartResult& result,
              Work& work) const;
    void finish(const Search& search, const Workspace& space, Work& work) const;
    void drop_dead(Node& node, const std::vector<PartResult>& results, int which) const;
    // Vectors per histogram row: the cost of one unit of effort.
    int64_t width() const { return std::clamp<int64_t>(data_.searched.columns() / 8, 1, 8); }
    void run_tasks(std::vector<Task>& tasks, const std::function<void(const Task&, ThreadState&)>& work);

    // with several workers
    void sum_histograms(std::vector<Search>& searches);
    void exchange(const std::vector<Search>& searches) const;
    void build_here(const std::vector<Node*>& nodes, std::vector<Histogram>& histograms) const;

    Histogram hist_of(const Node& node) const { return memory_.slot(node.slot); }

    Data data_;
    bool direct_;  // build sampled features only and keep no histogram
    int64_t n_scratch_;
    HistogramMemory& memory_;
    const Workers& workers_;
    int n_threads_;
    std::vector<ThreadState> thread_states_;
};

}  // namespace sparseleaf
