// The exact split search: see exact_finder.hpp.
#include "exact_finder.hpp"

#include <cmath>
#include <numeric>

#include "exchange.hpp"

namespace sparseleaf {
namespace {

// Σ of the k largest squares of |left[l]| or |total[l] − left[l]|.
class TopSquares {
  public:
    explicit TopSquares(int64_t k) : k_(k) {}

    template <typename F>
    double operator()(int64_t n, F&& value) {
        if (k_ < 0 || n <= k_) {
            double sum = 0.0;
            for (int64_t l = 0; l < n; ++l) {
                const auto v = static_cast<double>(value(l));
                sum += v * v;
            }
            return sum;
        }
        // a min-heap of the k largest so far: most labels fail the first comparison
        heap_.clear();
        const auto smaller_on_top = std::greater<int64_t>();
        for (int64_t l = 0; l < n; ++l) {
            const int64_t v = std::abs(value(l));
            if (static_cast<int64_t>(heap_.size()) < k_) {
                heap_.push_back(v);
                std::push_heap(heap_.begin(), heap_.end(), smaller_on_top);
            } else if (v > heap_.front()) {
                std::pop_heap(heap_.begin(), heap_.end(), smaller_on_top);
                heap_.back() = v;
                std::push_heap(heap_.begin(), heap_.end(), smaller_on_top);
            }
        }
        // summed in sorted order: the result depends on the values only
        std::sort(heap_.begin(), heap_.end());
        double sum = 0.0;
        for (const int64_t v : heap_) sum += static_cast<double>(v) * static_cast<double>(v);
        return sum;
    }

  private:
    int64_t k_;
    std::vector<int64_t> heap_;
};

template <Loss loss>
void collect(const RowBlocks& state, const WeightView& weights, const int32_t* rows, int64_t n,
             std::vector<int32_t>& local_of, NodeResiduals& node) {
    node.indptr.assign(1, 0);
    node.labels.clear();
    node.values.clear();
    node.total.clear();
    node.weights.clear();
    if (weights.rows)
        for (int64_t i = 0; i < n; ++i)
            node.weights.push_back(std::llrint(weights.rows[rows[i]] * kWeightScale));
    const int64_t units = std::accumulate(node.weights.begin(), node.weights.end(), int64_t{0});
    node.weight = weights.rows ? static_cast<double>(units) / kWeightScale : static_cast<double>(n);
    std::vector<uint32_t> seen;
    for (int64_t i = 0; i < n; ++i) {
        const Row row = state[rows[i]];
        for (int64_t e = 0; e < row.size; ++e) {
            const int32_t residual = fixed_point(residual_of<loss>(row.labels[e], row.scores[e]));
            const int64_t value =
                weights ? weighted_point(residual, weights.row(rows[i]), weights.entry(row.labels[e]))
                        : residual;
            if (value == 0) continue;
            const uint32_t label = row.labels[e] & kLabelMask;
            if (local_of[label] < 0) {
                local_of[label] = static_cast<int32_t>(seen.size());
                seen.push_back(label);
                node.total.push_back(0);
            }
            node.labels.push_back(local_of[label]);
            node.values.push_back(value);
            node.total[local_of[label]] += value;
        }
        node.indptr.push_back(static_cast<int64_t>(node.labels.size()));
    }
    // Renumbered by label: squares are summed in this order, which must not depend on the order of the rows.
    const std::vector<int64_t> total = node.total;
    std::sort(seen.begin(), seen.end());
    std::vector<int32_t> place(seen.size());
    for (size_t i = 0; i < seen.size(); ++i) {
        place[local_of[seen[i]]] = static_cast<int32_t>(i);
        node.total[i] = total[local_of[seen[i]]];
    }
    for (int32_t& label : node.labels) label = place[label];
    for (const uint32_t label : seen) local_of[label] = -1;
}

// The indices 0 … n - 1 sorted by bin, then by index; the bin is in the upper 32 bits.
template <typename BinOf>
std::vector<uint64_t> sorted_rows(BinOf&& bin_of, int64_t n, int64_t n_bins) {
    std::vector<uint64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
        order[i] = static_cast<uint64_t>(bin_of(i)) << 32 | static_cast<uint64_t>(i);
    if (n_bins > 4 * n) {
        std::sort(order.begin(), order.end());
        return order;
    }
    std::vector<int64_t> next(static_cast<size_t>(n_bins) + 1, 0);  // few bins: counting sort
    for (const uint64_t key : order) {
        require(static_cast<int64_t>(key >> 32) < n_bins, "bins: must not exceed the bin of missing values");
        ++next[(key >> 32) + 1];
    }
    for (int64_t b = 0; b < n_bins; ++b) next[b + 1] += next[b];
    std::vector<uint64_t> sorted(static_cast<size_t>(n));
    for (const uint64_t key : order) sorted[next[key >> 32]++] = key;
    return sorted;
}

}  // namespace

void ExactFinder::find_root(Node& root) {
    find({&root});
}

void ExactFinder::expand(std::vector<Family>& families, Partition& partition) {
    std::vector<Family*> all;
    std::vector<Node*> nodes;
    for (Family& family : families) {
        all.push_back(&family);
        for (Node* child : {family.left, family.right})
            if (family.searched && limits_.may_split(*child)) nodes.push_back(child);
    }
    partition.split(all);
    find(nodes);
}

void ExactFinder::find(const std::vector<Node*>& nodes) {
    for (Node* node : nodes) find_here(*node);
    exchange_splits(workers_, nodes, 0, 0);
}

// The best split among this worker's features.
void ExactFinder::find_here(Node& node) {
    with_loss(data_.loss, [&](auto kind) {
        collect<kind()>(data_.residuals, data_.weights, data_.rows + node.start, node.count, local_of_,
                        residuals_);
        return 0;
    });
    TopSquares squares(rules_.k);
    const double parent = squares(static_cast<int64_t>(residuals_.total.size()),
                                  [&](int64_t l) { return residuals_.total[l]; }) /
                          (residuals_.weight + rules_.l2);
    std::vector<uint8_t> chosen;
    if (!data_.sampler.all()) data_.sampler.draw(node.key, data_.searched, chosen);
    std::vector<Split> best(static_cast<size_t>(data_.searched.n));
    parallel_tasks(data_.searched.n, n_threads_, [&](int64_t f, int) {
        if (chosen.empty() || chosen[f]) best[f] = best_of_feature(node, f, parent);
    });
    for (const Split& split : best)
        if (better(split, node.split)) node.split = split;
    node.split.gain /= kResidualScale * kResidualScale;
}

// Candidate splits, as numbers of rows on the left. The paper tests samples 1, 1 + S, 1 + 2S, …; rows with
// equal values cannot be separated, so a test is deferred to the end of their run. Present against missing
// values is a candidate too.
std::vector<int64_t> ExactFinder::candidates(const std::vector<uint64_t>& order, int64_t missing) const {
    const auto n = static_cast<int64_t>(order.size());
    const auto bin_at = [&](int64_t i) { return static_cast<int64_t>(order[i] >> 32); };
    const double rows = rules_.step < 1.0 ? std::ceil(rules_.step * static_cast<double>(n)) : rules_.step;
    const auto every = static_cast<int64_t>(std::clamp(rows, 1.0, static_cast<double>(n) + 1.0));
    std::vector<int64_t> candidates;
    int64_t since = 0;
    for (int64_t i = 0; i + 1 < n && bin_at(i) != missing; ++i) {
        ++since;
        if (bin_at(i + 1) == bin_at(i) || (since < every && bin_at(i + 1) != missing)) continue;
        since = 0;
        if (i + 1 >= limits_.min_samples && n - i - 1 >= limits_.min_samples) candidates.push_back(i + 1);
    }
    return candidates;
}

Split ExactFinder::best_of_feature(const Node& node, int64_t f, double parent) const {
    const int32_t number = data_.searched.numbers[f], column = data_.searched.columns[f];
    const int64_t missing = data_.table.missing_bin.data()[number];
    const int32_t* rows = data_.rows + node.start;
    const std::vector<uint64_t> order =
        sorted_rows([&](int64_t i) { return data_.bins.data[rows[i] * data_.bins.n_columns + column]; },
                    node.count, missing + 1);
    const std::vector<int64_t> splits = candidates(order, missing);
    Split best;
    if (splits.empty()) return best;
    const auto n_local = static_cast<int64_t>(residuals_.total.size());
    std::vector<int64_t> left(residuals_.total.size(), 0);
    int64_t units = 0;  // weight of the rows on the left
    const auto add = [&](int64_t i, int64_t sign) {
        const auto place = static_cast<int64_t>(order[i] & 0xffffffffu);
        if (!residuals_.weights.empty()) units += sign * residuals_.weights[place];
        for (int64_t e = residuals_.indptr[place]; e < residuals_.indptr[place + 1]; ++e)
            left[residuals_.labels[e]] += sign * residuals_.values[e];
    };
    int64_t done = 0;
    if (2 * splits.front() >
        node.count) {  // a long first run, such as the zeros of a sparse feature: start from the other end
        left = residuals_.total;
        units = std::accumulate(residuals_.weights.begin(), residuals_.weights.end(), int64_t{0});
        for (done = node.count; done > splits.front(); --done) add(done - 1, -1);
    }
    TopSquares squares(rules_.k);
    for (const int64_t n_left : splits) {
        for (; done < n_left; ++done) add(done, 1);
        const double weight = residuals_.weights.empty() ? static_cast<double>(n_left)
                                                         : static_cast<double>(units) / kWeightScale;
        const double gain = squares(n_local, [&](int64_t l) { return left[l]; }) / (weight + rules_.l2) +
                            squares(n_local, [&](int64_t l) { return residuals_.total[l] - left[l]; }) /
                                (residuals_.weight - weight + rules_.l2) -
                            parent;
        if (best.feature < 0 || gain > best.gain)
            best = {gain, number, static_cast<int32_t>(order[n_left - 1] >> 32), static_cast<int32_t>(n_left),
                    false};
    }
    return best;
}

}  // namespace sparseleaf
