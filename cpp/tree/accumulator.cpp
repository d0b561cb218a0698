// Histogram construction: see accumulator.hpp.
#include "accumulator.hpp"

namespace sparseleaf {

Accumulator::Accumulator(const FeatureSet& set, const uint8_t* bins, int64_t n_rows,
                         const SparseColumns& sparse, const Gradients& gradients)
    : set_(set),
      bins_(bins),
      n_rows_(std::max<int64_t>(n_rows, 1)),
      sparse_(sparse),
      gradients_(gradients),
      places_(sparse, set),
      add_rows_(add_rows_of(gradients.columns)),
      add_entries_(add_entries_of(gradients.columns, sparse)) {
    auto all = std::make_shared<LiveFeatures>();
    for (int32_t f = 0; f < static_cast<int32_t>(set.n); ++f)
        sparse.sparse(set.columns[f]) ? all->add_sparse(set, f) : all->add_dense(set, f);
    all_ = all;
    for (const int32_t border : sparse.groups)
        group_begins_.push_back(
            static_cast<int32_t>(std::partition_point(all->sparse.begin(), all->sparse.end(),
                                                      [&](int32_t f) { return set.columns[f] < border; }) -
                                 all->sparse.begin()));
    for (int64_t g = 0; g < sparse.n_groups(); ++g)
        if (places_.walked[g])
            entries_per_row_ += static_cast<double>(sparse.n_entries[g]) / static_cast<double>(n_rows_);
}

int64_t Accumulator::effort(int64_t n_rows, int64_t n_dense, int64_t n_bins) const {
    return n_rows * n_dense + static_cast<int64_t>(entries_per_row_ * static_cast<double>(n_rows)) +
           kEffortPerBin * n_bins;
}

void Accumulator::add_parts(const std::vector<int64_t>& effort, bool sparse, int64_t min_parts,
                            int64_t n_bins, std::vector<Part>& parts) const {
    const int64_t n = std::max(min_parts, n_bins * gradients_.columns * 4 / kCacheBytes + 1);
    int32_t begin = 0;
    for (int64_t p = 1; p <= n; ++p) {
        const auto end = static_cast<int32_t>(
            std::lower_bound(effort.begin(), effort.end(), effort.back() * p / n) - effort.begin());
        if (begin < end) parts.push_back({sparse, begin, end, effort[end] - effort[begin]});
        begin = std::max(begin, end);
    }
}

std::vector<Part> Accumulator::parts(const LiveFeatures& live, int64_t n_rows, int64_t min_parts) const {
    std::vector<Part> parts;
    if (min_parts <= 1 && live.n_bins * gradients_.columns * 4 < kCacheBytes) {  // one of each kind
        const auto n_dense = static_cast<int32_t>(live.dense.size());
        const int64_t all = effort(n_rows, n_dense, live.n_bins);
        const int64_t in_dense = live.sparse.empty() ? all : n_rows * n_dense;
        if (n_dense > 0) parts.push_back({false, 0, n_dense, in_dense});
        if (!live.sparse.empty())
            parts.push_back({true, 0, static_cast<int32_t>(sparse_.n_groups()), all - in_dense});
        return parts;
    }
    int64_t n_dense_bins = 0;
    std::vector<int64_t> so_far{0};
    for (const int32_t f : live.dense) {
        n_dense_bins += set_.n_bins_of(f);
        so_far.push_back(so_far.back() + n_rows + kEffortPerBin * set_.n_bins_of(f));
    }
    add_parts(so_far, false, min_parts, n_dense_bins, parts);
    if (live.sparse.empty()) return parts;
    // all entries of a group are visited, those of features that are not live included
    so_far.assign(1, 0);
    auto f = live.sparse.begin();
    for (int64_t g = 0; g < sparse_.n_groups(); ++g) {
        int64_t n_bins = 0;
        for (; f < live.sparse.end() && set_.columns[*f] < sparse_.groups[g + 1]; ++f)
            n_bins += set_.n_bins_of(*f);
        const double share = static_cast<double>(n_rows) / static_cast<double>(n_rows_);
        const double adds = n_bins > 0 ? share * static_cast<double>(sparse_.n_entries[g]) : 0.0;
        so_far.push_back(so_far.back() + static_cast<int64_t>(adds) + kEffortPerBin * n_bins);
    }
    add_parts(so_far, true, min_parts, live.n_bins - n_dense_bins, parts);
    return parts;
}

FeatureRange Accumulator::features_of(const LiveFeatures& live, const Part& part) const {
    if (!part.sparse) return {live.dense.data() + part.begin, live.dense.data() + part.end};
    const auto place_of = [&](int32_t border) {
        return live.sparse.data() +
               (std::partition_point(live.sparse.begin(), live.sparse.end(),
                                     [&](int32_t f) { return set_.columns[f] < border; }) -
                live.sparse.begin());
    };
    return {place_of(sparse_.groups[part.begin]), place_of(sparse_.groups[part.end])};
}

void Accumulator::clear(const LiveFeatures& live, const Part& part, const Histogram& into) const {
    const int64_t m = gradients_.columns;
    // all entries of a group are added, those of features that are not live included
    const FeatureRange features = part.sparse ? FeatureRange{all_->sparse.data() + group_begins_[part.begin],
                                                             all_->sparse.data() + group_begins_[part.end]}
                                              : features_of(live, part);
    each_run(features, [&](int64_t first, int64_t last) {
        std::fill(into.sums + first * m, into.sums + last * m, 0);
        if (into.counts) std::fill(into.counts + first, into.counts + last, 0);
    });
}

void Accumulator::add(const LiveFeatures& live, const Part& part, const int32_t* rows, int64_t n,
                      const Histogram& into) const {
    if (!part.sparse) {
        add_rows_(bins_, static_cast<int64_t>(sparse_.common.size()), gradients_.data, gradients_.columns,
                  rows, n, live.dense_columns.data(), live.dense_offsets.data(), part.begin, part.end,
                  into.sums, into.counts);
        return;
    }
    const int32_t* bin_at = places_.bin_at.empty() ? nullptr : places_.bin_at.data();
    places_.each_run(part.begin, part.end, [&](int64_t group, int64_t last_group) {
        add_entries_(sparse_, bin_at, gradients_.data, gradients_.columns, rows, n, group, last_group,
                     into.sums, into.counts);
    });
}

void Accumulator::add_histogram(const LiveFeatures& live, const Part& part, const Histogram& from,
                                const Histogram& into) const {
    const int64_t m = gradients_.columns;
    each_run(features_of(live, part), [&](int64_t first, int64_t last) {
        add_numbers(into.sums + first * m, from.sums + first * m, (last - first) * m);
        if (into.counts) add_numbers(into.counts + first, from.counts + first, last - first);
    });
}

void Accumulator::fill_common_bins(const LiveFeatures& live, const Part& part, const int32_t* total,
                                   int64_t n, const Histogram& into) const {
    if (!part.sparse) return;
    for (const int32_t f : features_of(live, part))
        fill_common(into.sums, counts_of(into), count_step(), gradients_.columns, set_.offsets[f],
                    set_.offsets[f + 1], sparse_.common[set_.columns[f]], total, n);
}

void Accumulator::subtract(const FeatureRange& features, const Histogram& from, const Histogram& less) const {
    const int64_t m = gradients_.columns;
    each_run(features, [&](int64_t first, int64_t last) {
        subtract_numbers(from.sums + first * m, less.sums + first * m, (last - first) * m);
        if (from.counts) subtract_numbers(from.counts + first, less.counts + first, last - first);
    });
}

}  // namespace sparseleaf
