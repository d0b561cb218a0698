// Leaf vectors: exact sums of the full residuals of a leaf's rows, truncated to the largest entries.
//
// Eq. 18-19 of the paper: p = Σ residuals; keep the k labels of largest |p| (ties: lower label), each with
// the value rate · p / (n + λ). An entry saves p²/(n + λ) of the loss; one that saves less than min_gain is
// dropped.
//
// With weights of the loss, residuals are weighted and n is the total weight of the rows. With weights of
// labels, n differs by label: a row with label l adds (weight of l) · (weight of the row), and the k labels
// with the largest p²/(n + λ) are kept.
#include <nanobind/stl/optional.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "rows.hpp"

namespace sparseleaf {
namespace {

struct Entry {
    uint32_t label;
    int64_t sum;
    int64_t positive = 0;  // with weights of labels: Σ row weight of the label's rows, in units of 2^-20
};

// Rows [begin, end) of a leaf, one of its parts: a task.
struct LeafRows {
    int64_t leaf, part, n_parts, begin, end;
};

// Leaves with more rows than an even share are divided: one leaf may hold most rows. The largest first, so
// that threads end together.
std::vector<LeafRows> divide_leaves(const In1<int64_t>& starts, const In1<int64_t>& ends, int n_threads) {
    constexpr int64_t kMinRows = 256, kTasksPerThread = 4;
    int64_t n_rows = 0;
    for (size_t leaf = 0; leaf < starts.size(); ++leaf) n_rows += ends.data()[leaf] - starts.data()[leaf];
    const int64_t most = n_threads == 1 ? std::max<int64_t>(n_rows, 1)
                                        : std::max(kMinRows, n_rows / (kTasksPerThread * n_threads));
    std::vector<LeafRows> tasks;
    for (size_t leaf = 0; leaf < starts.size(); ++leaf) {
        const int64_t start = starts.data()[leaf], n = ends.data()[leaf] - start;
        const int64_t n_parts = std::max<int64_t>(1, (n + most - 1) / most);
        for (int64_t part = 0; part < n_parts; ++part)
            tasks.push_back({static_cast<int64_t>(leaf), part, n_parts, start + n * part / n_parts,
                             start + n * (part + 1) / n_parts});
    }
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const LeafRows& a, const LeafRows& b) { return a.end - a.begin > b.end - b.begin; });
    return tasks;
}

// Every n-th label, beginning with `first`.
struct LabelSlice {
    uint32_t first = 0, n = 1;

    bool has(uint32_t label) const { return label % n == first; }
};

// A leaf of several parts. What a part sums is kept by slices of the labels, so that several tasks add it up
// again.
struct SharedLeaf {
    static constexpr uint32_t kSlices = 16;
    using BySlice = std::array<std::vector<Entry>, kSlices>;

    std::vector<BySlice> parts;
    BySlice chosen;
};

// Sums of one leaf by label; what is not touched is zero.
struct LeafSums {
    std::vector<int64_t> sums;
    std::vector<int64_t> positives;  // empty without weights of labels
    std::vector<uint32_t> touched;   // a label may be here twice, if its sum came back to zero
    size_t n_touched = 0;
    std::vector<Entry> found;  // room for LeafRule::choose

    void resize(int64_t n_labels, bool label_weights) {
        if (sums.empty()) sums.assign(static_cast<size_t>(n_labels), 0);
        if (label_weights && positives.empty()) positives.assign(static_cast<size_t>(n_labels), 0);
    }

    void reserve(size_t more) {
        if (touched.size() < n_touched + more) touched.resize(2 * (n_touched + more));
    }

    void add(uint32_t label, int64_t sum, int64_t positive) {
        const bool is_new = sums[label] == 0 && (positives.empty() || positives[label] == 0);
        touched[n_touched] = label;
        n_touched += is_new && (sum != 0 || positive != 0);
        sums[label] += sum;
        if (!positives.empty()) positives[label] += positive;
    }

    // Calls use(entry) for every label with a sum, and clears.
    template <typename F>
    void take(F&& use) {
        for (size_t t = 0; t < n_touched; ++t) {
            const uint32_t label = touched[t];
            const int64_t sum = std::exchange(sums[label], 0);
            const int64_t positive = positives.empty() ? 0 : std::exchange(positives[label], 0);
            if (sum != 0 || positive != 0) use(Entry{label, sum, positive});
        }
        n_touched = 0;
    }
};

// Rows of a leaf are anywhere in memory, and their entries follow one another.
inline void prefetch(const Row& row) {
    constexpr int64_t kLine = 16, kMost = 2048;  // entries
    for (int64_t e = 0; e < std::min(row.size, kMost); e += kLine) {
        __builtin_prefetch(row.labels + e);
        __builtin_prefetch(row.scores + e);
    }
}

// Adds the residuals of a row.
template <Loss kind>
void add_row(const Row& row, std::vector<int32_t>& buffer, LeafSums& out) {
    const int32_t* residuals = fixed_residuals<kind>(row, buffer);
    out.reserve(static_cast<size_t>(row.size));
    size_t n_touched = out.n_touched;
    for (int64_t e = 0; e < row.size; ++e) {
        const uint32_t label = row.labels[e] & kLabelMask;
        int64_t& sum = out.sums[label];
        // written always, kept if the label is new: a branch would be guessed wrong too often
        out.touched[n_touched] = label;
        n_touched += (sum == 0) & (residuals[e] != 0);
        sum += residuals[e];
    }
    out.n_touched = n_touched;
}

// The same with weights; i is the row's index.
template <Loss kind>
void add_weighted_row(const Row& row, int64_t i, const WeightView& weights, std::vector<int32_t>& buffer,
                      LeafSums& out) {
    const int32_t* residuals = fixed_residuals<kind>(row, buffer);
    const float weight = weights.row(i);
    const int64_t units = std::llrint(static_cast<double>(weight) * kWeightScale);
    out.reserve(static_cast<size_t>(row.size));
    for (int64_t e = 0; e < row.size; ++e)
        out.add(row.labels[e] & kLabelMask,
                weighted_point(residuals[e], weight, weights.entry(row.labels[e])),
                row.labels[e] & kTruth ? units : 0);
}

// Buffers of one thread.
struct Scratch {
    LeafSums sums;
    std::vector<int32_t> residuals;
};

// Adds up the parts of leaves: see sum_leaves.
template <typename Choose, typename Best>
void add_parts(std::map<int64_t, SharedLeaf>& shared, int64_t n_labels, bool label_weights,
               std::vector<Scratch>& scratch, Choose&& choose, Best&& best,
               std::vector<std::vector<Entry>>& entries) {
    std::vector<std::pair<int64_t, SharedLeaf*>> leaves;
    for (auto& [number, leaf] : shared) leaves.emplace_back(number, &leaf);
    const auto n_tasks = static_cast<int64_t>(leaves.size()) * SharedLeaf::kSlices;
    parallel_tasks(n_tasks, static_cast<int>(scratch.size()), [&](int64_t task, int thread) {
        auto& [number, leaf] = leaves[task / SharedLeaf::kSlices];
        const LabelSlice slice{static_cast<uint32_t>(task % SharedLeaf::kSlices), SharedLeaf::kSlices};
        LeafSums& sums = scratch[thread].sums;
        sums.resize(n_labels, label_weights);
        for (const auto& part : leaf->parts) {
            sums.reserve(part[slice.first].size());
            for (const Entry& entry : part[slice.first]) sums.add(entry.label, entry.sum, entry.positive);
        }
        leaf->chosen[slice.first] = choose(number, sums, slice);
    });
    for (auto& [number, leaf] : leaves) {
        for (const auto& some : leaf->chosen)
            entries[number].insert(entries[number].end(), some.begin(), some.end());
        best(number, entries[number]);
    }
}

// The entries of every leaf from the residuals of its rows: choose(leaf, sums, slice) returns those of the
// labels with these sums, which it clears, and best(leaf, entries) reduces those of all slices.
template <typename Choose, typename Best>
std::vector<std::vector<Entry>> sum_leaves(const std::vector<Block>& blocks, const In1<int32_t>& rows,
                                           const In1<int64_t>& starts, const In1<int64_t>& ends,
                                           int64_t n_labels, int loss, const LossWeights* given,
                                           int n_threads, Choose&& choose, Best&& best) {
    const RowBlocks state(blocks);
    const WeightView weights = view_of(given, state.n_rows());
    const std::vector<LeafRows> tasks = divide_leaves(starts, ends, n_threads);
    std::map<int64_t, SharedLeaf> shared;
    for (const LeafRows& task : tasks)
        if (task.n_parts > 1) shared[task.leaf].parts.resize(static_cast<size_t>(task.n_parts));
    std::vector<std::vector<Entry>> entries(starts.size());
    std::vector<Scratch> scratch(static_cast<size_t>(n_threads));
    with_loss(loss, [&](auto kind) {
        parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t number, int thread) {
            const LeafRows& task = tasks[number];
            auto& [sums, buffer] = scratch[thread];
            sums.resize(n_labels, weights.labels != nullptr);  // by the thread that needs it
            for (int64_t i = task.begin; i < task.end; ++i) {
                const int32_t number = rows.data()[i];
                if (i + 1 < task.end) prefetch(state[rows.data()[i + 1]]);
                if (weights)
                    add_weighted_row<kind()>(state[number], number, weights, buffer, sums);
                else
                    add_row<kind()>(state[number], buffer, sums);
            }
            if (task.n_parts == 1) {
                entries[task.leaf] = choose(task.leaf, sums, LabelSlice{});
                return;
            }
            SharedLeaf::BySlice& slices = shared.at(task.leaf).parts[task.part];
            sums.take(
                [&](const Entry& entry) { slices[entry.label % SharedLeaf::kSlices].push_back(entry); });
        });
        return 0;
    });
    add_parts(shared, n_labels, weights.labels != nullptr, scratch, choose, best, entries);
    return entries;
}

bool by_label(const Entry& a, const Entry& b) {
    return a.label < b.label;
}

// Entries of all leaves as CSR: (indptr int64 (leaves + 1), labels uint32, values), values made by
// value(leaf, entry).
template <typename Value, typename ValueOf>
nb::tuple as_csr(const std::vector<std::vector<Entry>>& kept, ValueOf&& value) {
    const size_t n_leaves = kept.size();
    std::unique_ptr<int64_t[]> indptr(new int64_t[n_leaves + 1]);
    indptr[0] = 0;
    for (size_t leaf = 0; leaf < n_leaves; ++leaf)
        indptr[leaf + 1] = indptr[leaf] + static_cast<int64_t>(kept[leaf].size());
    const auto size = static_cast<size_t>(indptr[n_leaves]);
    std::unique_ptr<uint32_t[]> labels(new uint32_t[size]);
    std::unique_ptr<Value[]> values(new Value[size]);
    int64_t at = 0;
    for (size_t leaf = 0; leaf < n_leaves; ++leaf)
        for (const Entry& entry : kept[leaf]) {
            labels[at] = entry.label;
            values[at++] = value(leaf, entry);
        }
    return nb::make_tuple(to_numpy(std::move(indptr), n_leaves + 1), to_numpy(std::move(labels), size),
                          to_numpy(std::move(values), size));
}

// Which entries of a leaf are kept, and their values. k < 0 keeps every label.
struct LeafRule {
    int64_t k;
    double l2, min_gain, rate;
    WeightView weights;

    // Calls use with a function of an entry that orders entries as their gains do.
    template <typename Use>
    auto with_key(double n, Use&& use) const {
        if (weights.labels) return use([&](const Entry& entry) { return gain(entry, n); });
        return use([](const Entry& entry) { return std::abs(entry.sum); });
    }

    // Keeps the k entries with the largest keys (ties: lower label), if there are more; returns the least
    // key. Keys are smaller than entries: the k-th is found among keys alone.
    template <typename KeyOf>
    auto keep_largest(std::vector<Entry>& entries, KeyOf&& key_of) const {
        std::vector<decltype(key_of(entries[0]))> keys;
        if (k == 0) entries.clear();
        if (k < 0 || static_cast<int64_t>(entries.size()) <= k) return decltype(key_of(entries[0])){0};
        keys.reserve(entries.size());
        for (const Entry& entry : entries) keys.push_back(key_of(entry));
        std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.end(), std::greater<>());
        const auto least = keys[static_cast<size_t>(k - 1)];
        const auto tied = std::partition(entries.begin(), entries.end(),
                                         [&](const Entry& entry) { return key_of(entry) > least; });
        const auto others =
            std::partition(tied, entries.end(), [&](const Entry& entry) { return key_of(entry) == least; });
        std::nth_element(tied, entries.begin() + k, others, by_label);
        entries.resize(static_cast<size_t>(k));
        return least;
    }

    // The entries of a leaf whose rows have the weight n, by label; clears the sums.
    std::vector<Entry> choose(LeafSums& sums, double n) const {
        return with_key(n, [&](auto key_of) {
            std::vector<Entry>& entries = sums.found;
            entries.clear();
            const size_t most = k < 0 ? SIZE_MAX : static_cast<size_t>(std::max<int64_t>(1024, 16 * k));
            decltype(key_of(Entry{})) least = 0;  // of the k best so far: most entries are below
            sums.take([&](const Entry& entry) {
                if (key_of(entry) < least || entry.sum == 0) return;
                if (min_gain > 0.0 && gain(entry, n) < min_gain) return;
                entries.push_back(entry);
                if (entries.size() == most) least = keep_largest(entries, key_of);
            });
            keep_largest(entries, key_of);
            std::sort(entries.begin(), entries.end(), by_label);
            return entries;
        });
    }

    void keep_best(std::vector<Entry>& entries, double n) const {
        with_key(n, [&](auto key_of) { keep_largest(entries, key_of); });
        std::sort(entries.begin(), entries.end(), by_label);
    }

    // The hessian of a label: the weight of all rows, with that of the label for its rows.
    double hessian(const Entry& entry, double n) const {
        if (!weights.labels) return n + l2;
        const double extra = static_cast<double>(weights.labels[entry.label]) - 1.0;
        return n + extra * (static_cast<double>(entry.positive) / kWeightScale) + l2;
    }

    double gain(const Entry& entry, double n) const {
        const double p = static_cast<double>(entry.sum) / kResidualScale;
        return p * p / hessian(entry, n);
    }

    float value(const Entry& entry, double n) const {
        return static_cast<float>(rate * (static_cast<double>(entry.sum) / kResidualScale) /
                                  hessian(entry, n));
    }
};

// The weights of the labels of a rule, which must be one per label.
WeightView label_view(const LossWeights* given, int64_t n_labels) {
    if (!given || !given->labels.size()) return {};
    require(static_cast<int64_t>(given->labels.size()) == n_labels,
            "weights: must be empty or have one entry per label");
    return {nullptr, given->labels.data(), static_cast<uint32_t>(n_labels)};
}

// Sums of some leaves, as leaf_label_sums returns them.
using LabelSums = std::tuple<In1<int64_t>, In1<uint32_t>, In1<int64_t>, In1<int64_t>>;

void require_label_sums(const LabelSums& piece, size_t n_leaves, int64_t n_labels, bool label_weights) {
    const auto& [indptr, labels, sums, positives] = piece;
    require(positives.size() == (label_weights ? sums.size() : 0),
            "pieces: one positive per sum, with weights of labels only");
    require(indptr.size() == n_leaves + 1 && indptr.data()[0] == 0, "pieces: one row per leaf");
    for (size_t leaf = 0; leaf < n_leaves; ++leaf)
        require(indptr.data()[leaf] <= indptr.data()[leaf + 1], "pieces: indptr must not decrease");
    require(labels.size() == sums.size() && static_cast<size_t>(indptr.data()[n_leaves]) == labels.size(),
            "pieces: indptr must end at the number of sums");
    for (size_t e = 0; e < labels.size(); ++e)
        require(labels.data()[e] < n_labels, "pieces: labels must be below n_labels");
}

// Adds the sums of a leaf for some of the labels to `total`.
void add_label_sums(const LabelSums& piece, int64_t leaf, LabelSlice slice, LeafSums& total) {
    const auto& [indptr, labels, sums, positives] = piece;
    const int64_t begin = indptr.data()[leaf], end = indptr.data()[leaf + 1];
    total.reserve(static_cast<size_t>(end - begin));
    for (int64_t e = begin; e < end; ++e)
        if (slice.has(labels.data()[e]))
            total.add(labels.data()[e], sums.data()[e], positives.size() ? positives.data()[e] : 0);
}

// Returns (indptr int64 (leaves + 1), labels uint32, values float32), labels sorted. With row weights,
// `totals` are those of the leaves; otherwise they are the rows. `earlier` are sums of the leaves' rows of
// before an update, which are added; their weights are in `totals`.
nb::tuple leaf_vectors(const std::vector<Block>& blocks, In1<int32_t> rows, In1<int64_t> starts,
                       In1<int64_t> ends, int64_t n_labels, int loss, int64_t k, double l2, double min_gain,
                       double rate, int n_threads, const LossWeights* given,
                       std::optional<In1<double>> totals, std::optional<LabelSums> earlier) {
    require_ranges(starts, ends, rows.size());
    require(!totals || totals->size() == starts.size(), "totals: must have one entry per leaf");
    const LeafRule rule{k, l2, min_gain, rate, label_view(given, n_labels)};
    if (earlier) require_label_sums(*earlier, starts.size(), n_labels, rule.weights.labels != nullptr);
    std::vector<std::vector<Entry>> kept;
    const auto weight = [&](auto leaf) {
        return totals ? totals->data()[leaf] : static_cast<double>(ends.data()[leaf] - starts.data()[leaf]);
    };
    {
        GilRelease release;
        kept = sum_leaves(
            blocks, rows, starts, ends, n_labels, loss, given, n_threads,
            [&](int64_t leaf, LeafSums& sums, LabelSlice slice) {
                if (earlier) add_label_sums(*earlier, leaf, slice, sums);
                return rule.choose(sums, weight(leaf));
            },
            [&](int64_t leaf, std::vector<Entry>& entries) { rule.keep_best(entries, weight(leaf)); });
    }
    return as_csr<float>(kept,
                         [&](size_t leaf, const Entry& entry) { return rule.value(entry, weight(leaf)); });
}

// What leaf_vectors starts from, for rows that are only some of a leaf's: (indptr, labels uint32, sums int64,
// in units of 1 / kResidualScale, positives int64). Positives are 0 without weights of labels.
nb::tuple leaf_label_sums(const std::vector<Block>& blocks, In1<int32_t> rows, In1<int64_t> starts,
                          In1<int64_t> ends, int64_t n_labels, int loss, int n_threads,
                          const LossWeights* given) {
    require_ranges(starts, ends, rows.size());
    std::vector<std::vector<Entry>> kept;
    const auto sort = [](int64_t, std::vector<Entry>& entries) {
        std::sort(entries.begin(), entries.end(), by_label);
    };
    {
        GilRelease release;
        kept = sum_leaves(
            blocks, rows, starts, ends, n_labels, loss, given, n_threads,
            [&](int64_t leaf, LeafSums& sums, LabelSlice) {
                std::vector<Entry> entries;
                sums.take([&](const Entry& entry) { entries.push_back(entry); });
                sort(leaf, entries);
                return entries;
            },
            sort);
    }
    std::unique_ptr<int64_t[]> positives;
    size_t size = 0;
    if (given && given->labels.size()) {
        for (const auto& entries : kept) size += entries.size();
        positives.reset(new int64_t[size]);
        size_t at = 0;
        for (const auto& entries : kept)
            for (const Entry& entry : entries) positives[at++] = entry.positive;
    } else {
        positives.reset(new int64_t[0]);
    }
    const nb::tuple sums = as_csr<int64_t>(kept, [](size_t, const Entry& entry) { return entry.sum; });
    return nb::make_tuple(sums[0], sums[1], sums[2], to_numpy(std::move(positives), size));
}

// leaf_vectors of leaves whose rows are spread over several workers: the pieces are added up first. totals:
// the weight of the rows of every leaf over all workers.
nb::tuple leaf_vectors_of_sums(const std::vector<LabelSums>& pieces, In1<double> totals, int64_t n_labels,
                               int64_t k, double l2, double min_gain, double rate, int n_threads,
                               const LossWeights* given) {
    const LeafRule rule{k, l2, min_gain, rate, label_view(given, n_labels)};
    const bool label_weights = rule.weights.labels != nullptr;
    for (const LabelSums& piece : pieces) require_label_sums(piece, totals.size(), n_labels, label_weights);
    std::vector<std::vector<Entry>> kept(totals.size());
    {
        GilRelease release;
        std::vector<LeafSums> sums_of_thread(static_cast<size_t>(n_threads));
        parallel_tasks(static_cast<int64_t>(kept.size()), n_threads, [&](int64_t leaf, int thread) {
            LeafSums& total = sums_of_thread[thread];
            total.resize(n_labels, label_weights);
            for (const LabelSums& piece : pieces) add_label_sums(piece, leaf, LabelSlice{}, total);
            kept[leaf] = rule.choose(total, totals.data()[leaf]);
        });
    }
    return as_csr<float>(
        kept, [&](size_t leaf, const Entry& entry) { return rule.value(entry, totals.data()[leaf]); });
}

}  // namespace
}  // namespace sparseleaf

void bind_leaves(nb::module_& m) {
    using namespace sparseleaf;
    m.def("leaf_vectors", &leaf_vectors, nb::arg("blocks"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("k"), nb::arg("l2"),
          nb::arg("min_gain"), nb::arg("rate"), nb::arg("n_threads"), nb::arg("weights") = nb::none(),
          nb::arg("totals") = nb::none(), nb::arg("earlier") = nb::none());
    m.def("leaf_label_sums", &leaf_label_sums, nb::arg("blocks"), nb::arg("rows"), nb::arg("starts"),
          nb::arg("ends"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("n_threads"),
          nb::arg("weights") = nb::none());
    m.def("leaf_vectors_of_sums", &leaf_vectors_of_sums, nb::arg("pieces"), nb::arg("totals"),
          nb::arg("n_labels"), nb::arg("k"), nb::arg("l2"), nb::arg("min_gain"), nb::arg("rate"),
          nb::arg("n_threads"), nb::arg("weights") = nb::none());
    m.attr("RESIDUAL_SCALE") = kResidualScale;
}
