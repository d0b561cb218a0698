// Algorithm 1 of GBDT-SPARSE: the best cut of a node on the full sparse residuals, without a histogram.
//
// For every feature the node's rows are walked in sorted order; after every `step` rows, at the next place
// where the value changes, the cut is scored with the k largest |p| of either side:
//     gain = Σ_{top k} pl²/(nl + λ) + Σ_{top k} pr²/(nr + λ) − Σ_{top k} p²/(n + λ)
// Rows without a value come last, hence always go right.
#include <cmath>

#include "rows.hpp"

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
        // a heap of the k largest so far, smallest on top: most labels fail the first comparison
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
        // summed in order of size: the result depends on the values alone
        std::sort(heap_.begin(), heap_.end());
        double sum = 0.0;
        for (const int64_t v : heap_) sum += static_cast<double>(v) * static_cast<double>(v);
        return sum;
    }

  private:
    int64_t k_;
    std::vector<int64_t> heap_;
};

struct ExactCut {
    double gain = 0.0;
    int32_t bin = -1;
    int32_t left_count = 0;
};

// The residuals of a node's rows as a CSR over the labels that occur in it, numbered 0, 1, 2, …
struct NodeResiduals {
    std::vector<int64_t> indptr;
    std::vector<int32_t> labels;
    std::vector<int64_t> values;
    std::vector<int64_t> total;
};

template <Loss loss>
void collect(const RowBlocks& state, const int32_t* rows, int64_t n, std::vector<int32_t>& local_of,
             NodeResiduals& node) {
    node.indptr.assign(1, 0);
    node.labels.clear();
    node.values.clear();
    node.total.clear();
    std::vector<uint32_t> seen;
    for (int64_t i = 0; i < n; ++i) {
        const Row row = state[rows[i]];
        for (int64_t e = 0; e < row.size; ++e) {
            const int64_t value = fixed_point(residual_of<loss>(row.labels[e], row.scores[e]));
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
    // Numbered again in order of label: squares are added up in that order, and it must not be that of the
    // rows.
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

// The numbers 0 … n - 1 in order of bin, then of number: each with its bin in the upper half.
template <typename BinOf>
std::vector<uint64_t> sorted_rows(BinOf&& bin_of, int64_t n, int64_t n_bins) {
    std::vector<uint64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
        order[i] = static_cast<uint64_t>(bin_of(i)) << 32 | static_cast<uint64_t>(i);
    if (n_bins > 4 * n) {
        std::sort(order.begin(), order.end());
        return order;
    }
    std::vector<int64_t> next(static_cast<size_t>(n_bins) + 1, 0);  // few bins: count them
    for (const uint64_t key : order) {
        require(static_cast<int64_t>(key >> 32) < n_bins, "bins: a bin behind that of missing values");
        ++next[(key >> 32) + 1];
    }
    for (int64_t b = 0; b < n_bins; ++b) next[b + 1] += next[b];
    std::vector<uint64_t> sorted(static_cast<size_t>(n));
    for (const uint64_t key : order) sorted[next[key >> 32]++] = key;
    return sorted;
}

void exact_splits(const std::vector<Block>& blocks, In2<uint32_t> bins, In1<int32_t> rows,
                  In1<int64_t> starts, In1<int64_t> ends, In1<int32_t> features, In1<int32_t> missing_bin,
                  In2<uint8_t> node_mask, int64_t n_labels, int loss, int64_t k, double step, double l2,
                  int64_t min_samples, Out1<int32_t> out_feature, Out1<int32_t> out_bin,
                  Out1<double> out_gain, Out1<int32_t> out_left_count, int n_threads) {
    const RowBlocks state(blocks);
    const int64_t n_nodes = static_cast<int64_t>(starts.size()),
                  n_active = static_cast<int64_t>(features.size());
    const int64_t n_features = static_cast<int64_t>(bins.shape(1));
    for (const auto size :
         {ends.size(), out_feature.size(), out_bin.size(), out_gain.size(), out_left_count.size()})
        require(size == starts.size(), "one number a node is wanted of every array");
    require_ranges(starts, ends, rows.size());
    require(missing_bin.size() == features.size(), "missing_bin: one number a feature");
    require(step > 0.0, "step: must be positive");
    for (int64_t f = 0; f < n_active; ++f)
        require(features.data()[f] >= 0 && features.data()[f] < n_features, "features: beyond bins");
    const bool masked = node_mask.shape(0) > 0;
    require(!masked || (static_cast<int64_t>(node_mask.shape(0)) == n_nodes &&
                        static_cast<int64_t>(node_mask.shape(1)) == n_active),
            "node_mask: (nodes, features), or no rows");
    GilRelease release;

    std::vector<int32_t> local_of(static_cast<size_t>(n_labels), -1);
    NodeResiduals node;
    for (int64_t v = 0; v < n_nodes; ++v) {
        const int32_t* own = rows.data() + starts.data()[v];
        const int64_t n = ends.data()[v] - starts.data()[v];
        with_loss(loss, [&](auto kind) {
            collect<kind()>(state, own, n, local_of, node);
            return 0;
        });
        const auto n_local = static_cast<int64_t>(node.total.size());
        TopSquares of_node(k);
        const double parent =
            of_node(n_local, [&](int64_t l) { return node.total[l]; }) / (static_cast<double>(n) + l2);
        // a step below 1 is a share of the node's rows
        const double rows_a_step = step < 1.0 ? std::ceil(step * static_cast<double>(n)) : step;
        const auto every = static_cast<int64_t>(std::clamp(rows_a_step, 1.0, static_cast<double>(n) + 1.0));
        std::vector<ExactCut> best(static_cast<size_t>(n_active));
        parallel_tasks(n_active, n_threads, [&](int64_t f, int) {
            if (masked && !node_mask.data()[v * n_active + f]) return;
            const int64_t missing = missing_bin.data()[f];
            const std::vector<uint64_t> order = sorted_rows(
                [&](int64_t i) {
                    return bins.data()[static_cast<int64_t>(own[i]) * n_features + features.data()[f]];
                },
                n, missing + 1);
            const auto bin_at = [&](int64_t i) { return static_cast<int64_t>(order[i] >> 32); };

            // The paper tests sample 1, 1 + S, 1 + 2S, …; equal values cannot be parted, so a test waits for
            // the end of their run. What has a value against what has none is a cut as well.
            std::vector<int64_t> cuts;  // rows on the left
            int64_t since = 0;
            for (int64_t i = 0; i + 1 < n && bin_at(i) != missing; ++i) {
                ++since;
                if (bin_at(i + 1) == bin_at(i) || (since < every && bin_at(i + 1) != missing)) continue;
                since = 0;
                if (i + 1 >= min_samples && n - i - 1 >= min_samples) cuts.push_back(i + 1);
            }
            if (cuts.empty()) return;

            std::vector<int64_t> left(static_cast<size_t>(n_local), 0);
            const auto add = [&](int64_t i, int64_t sign) {
                const auto place = static_cast<int64_t>(order[i] & 0xffffffffu);
                for (int64_t e = node.indptr[place]; e < node.indptr[place + 1]; ++e)
                    left[node.labels[e]] += sign * node.values[e];
            };
            int64_t done = 0;
            if (2 * cuts.front() >
                n) {  // a long first run, such as the zeros of a word: come from the other end
                left = node.total;
                for (done = n; done > cuts.front(); --done) add(done - 1, -1);
            }
            TopSquares squares(k);
            for (const int64_t n_left : cuts) {
                for (; done < n_left; ++done) add(done, 1);
                const double gain = squares(n_local, [&](int64_t l) { return left[l]; }) /
                                        (static_cast<double>(n_left) + l2) +
                                    squares(n_local, [&](int64_t l) { return node.total[l] - left[l]; }) /
                                        (static_cast<double>(n - n_left) + l2) -
                                    parent;
                if (best[f].bin < 0 || gain > best[f].gain)
                    best[f] = {gain, static_cast<int32_t>(bin_at(n_left - 1)), static_cast<int32_t>(n_left)};
            }
        });
        int64_t winner = -1;
        for (int64_t f = 0; f < n_active; ++f)
            if (best[f].bin >= 0 && (winner < 0 || best[f].gain > best[winner].gain)) winner = f;
        out_feature.data()[v] = static_cast<int32_t>(winner);
        out_bin.data()[v] = winner < 0 ? -1 : best[winner].bin;
        out_gain.data()[v] = winner < 0 ? 0.0 : best[winner].gain / (kResidualScale * kResidualScale);
        out_left_count.data()[v] = winner < 0 ? 0 : best[winner].left_count;
    }
}

}  // namespace
}  // namespace sparseleaf

void bind_exact(nb::module_& m) {
    using namespace sparseleaf;
    m.def("exact_splits", &exact_splits, nb::arg("blocks"), nb::arg("bins").noconvert(), nb::arg("rows"),
          nb::arg("starts"), nb::arg("ends"), nb::arg("features"), nb::arg("missing_bin"),
          nb::arg("node_mask"), nb::arg("n_labels"), nb::arg("loss"), nb::arg("k"), nb::arg("step"),
          nb::arg("l2"), nb::arg("min_samples"), nb::arg("out_feature").noconvert(),
          nb::arg("out_bin").noconvert(), nb::arg("out_gain").noconvert(),
          nb::arg("out_left_count").noconvert(), nb::arg("n_threads"));
}
