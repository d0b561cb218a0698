// The split search on histograms.
//
// Of two siblings only the smaller is built from its rows; the larger is what remains of the parent:
//     parent's slot   [ ........ ]  becomes the larger child's
//     another slot    [ ........ ]  the smaller child's, from its rows
// Histograms of nodes that wait to be split are kept for that, up to a budget: past it the smallest waiting
// node gives its slot up, and its children are built from their rows instead. Where nodes use few of the
// features, all are: only the features that were drawn are then looked at.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <set>

#include "slots.hpp"
#include "workers.hpp"

namespace sparseleaf {

class HistogramFinder final : public SplitFinder {
  public:
    struct Data {
        const FeatureTable& table;
        const Accumulator& own;         // of the features that are searched here
        const Accumulator* everything;  // where workers share rows: of all features of the tree
        std::vector<int64_t> borders;   // and the bins of those where every worker's begin, and the end
        const int32_t* rows;
        const FeatureSampler& sampler;
        int64_t first_output;  // of the table's directions
    };

    HistogramFinder(const Data& data, const Scoring& scoring, const Limits& limits, bool direct,
                    int64_t n_slots, int64_t n_scratch, HistogramMemory& memory, const Workers& workers,
                    int n_threads);

    void find_root(Node& root) override;
    void expand(std::vector<Family>& families, Partition& partition) override;

  private:
    // What is found among the features of a part.
    struct Found {
        Split best[2];                 // of either node; feature: its place in the set
        std::vector<int32_t> dead[2];  // features that cannot part it
    };

    // What a search needs while it is under way.
    struct Workspace {
        double worth[2] = {};
        std::vector<uint8_t> chosen[2];  // whether a feature was drawn; empty: all were
        LiveFeatures drawn;              // where only those are built
        const LiveFeatures* features = nullptr;
        std::vector<Part> built_parts, parts;  // of the blocks; of the search
        std::vector<Found> found;              // by parts
        std::atomic<int64_t> n_left{0};        // parts that are not done

        void start_search(size_t n_parts);
    };

    // Splits to find of a node whose histogram is made from its rows, and of its sibling (may be null), whose
    // slot has the parent's.
    struct Search {
        Search(Node* built, Node* sibling, Family* family) : built(built), sibling(sibling), family(family) {}

        Node *built, *sibling;
        Family* family;          // whose rows are partitioned first; null for the root
        Node* searched[2] = {};  // the two, null where no split is wanted
        int64_t effort = 0;
        bool whole = true;       // one task
        Search* twin = nullptr;  // the other child, searched by the same task
        bool first = true;       // of the two
        int64_t wanted = 1;      // parts, where it is several tasks
        int64_t blocks = 1;      // of rows, each with a histogram of its own
        int64_t first_scratch = 0;
        std::unique_ptr<Workspace> space;  // null: that of the thread
    };

    struct Task {
        Search* search;
        int64_t part, block, effort;
    };

    // What a thread works with.
    struct Desk {
        explicit Desk(const Scoring& scoring) : work(scoring), space(new Workspace) {}
        Work work;
        std::vector<int32_t> room;
        std::unique_ptr<Workspace> space;
    };

    int64_t slots_wanted(const Family& family) const;
    bool wanted(const Family& family) const;
    void run_batch(std::vector<Family*>& batch, Partition& partition);
    void add_searches(Family& family, std::vector<Search>& searches);
    Search search_of(Node& built, Node* sibling, Family* family) const;
    void set_bounds(const Family& family) const;
    Constraint constraint(const Node& node, int32_t f) const;

    void plan(std::vector<Search>& searches);
    void divide(const std::vector<Search*>& searches, int64_t enough);
    void add_tasks(Search& search, std::vector<Task>& tasks, std::vector<Task>& later);
    void prepare(const Search& search, Workspace& space, Work& work) const;
    void run(std::vector<Search>& searches, Partition* partition, std::vector<Family*>& others);
    void build_block(const Search& search, int64_t part, int64_t block) const;
    void find_whole(Search& search, Partition* partition, Desk& desk);
    void find_at_once(const Search& search, Desk& desk);
    void find_part(const Search& search, Workspace& space, size_t part, Desk& desk);
    void scan(const Search& search, const Workspace& space, const Part& part, Found& found, Work& work) const;
    void finish(const Search& search, const Workspace& space, Work& work) const;
    void drop_dead(Node& node, const std::vector<Found>& found, int which) const;
    // Vectors of a histogram's row: what one number of effort takes.
    int64_t width() const { return std::clamp<int64_t>(data_.own.columns() / 8, 1, 8); }
    void run_tasks(std::vector<Task>& tasks, const std::function<void(const Task&, Desk&)>& work);

    // several workers
    void sum_histograms(std::vector<Search>& searches);
    void exchange(const std::vector<Search>& searches) const;
    void build_here(const std::vector<Node*>& nodes, std::vector<Histogram>& histograms) const;

    bool keeps(const Node& node) const {
        return !direct_ && limits_.has_split(node) && limits_.may_split_children(node);
    }
    void release(Node& node);
    void settle(Node* node);
    void evict();
    Histogram hist_of(const Node& node) const { return memory_.slot(node.slot); }

    Data data_;
    const Scoring& scoring_;
    Limits limits_;
    bool direct_;  // histograms of drawn features, none of which is kept
    int64_t n_scratch_;
    HistogramMemory& memory_;
    const Workers& workers_;
    int n_threads_;
    std::vector<Desk> desks_;
    struct Smaller {
        bool operator()(const Node* a, const Node* b) const {
            return a->count != b->count ? a->count < b->count : a->id < b->id;
        }
    };
    std::set<Node*, Smaller> waiting_;  // nodes with a histogram
};

}  // namespace sparseleaf
