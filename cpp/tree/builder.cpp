// Tree builders: see builder.hpp.
#include "builder.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kMostEarly = 16;  // nodes that are split speculatively by a few threads
constexpr int kManyThreads = 8;     // they wait for one another at every batch, which takes longer than waste
constexpr int64_t kMostExchanged = 8;           // with several workers: a message costs more than a node
constexpr int64_t kRowsAtOnce = 8192;           // total rows of these nodes: larger nodes are split alone
constexpr int64_t kDeviceRowsAtOnce = 1 << 20;  // a batch takes a device as long as these rows
constexpr int64_t kScratchBytes = 1 << 26;
// with at most this fraction of the features sampled per node, histograms are built from rows only
constexpr int64_t kFewDrawn = 5, kOfFeatures = 2;

Limits limits_of(const GrowthRules& growth) {
    return {growth.max_depth, std::max<int64_t>(growth.min_samples, 1), growth.min_gain};
}

Frontier frontier_of(const GrowthRules& growth, int64_t n_rows, const Workers& workers, int n_threads) {
    const int64_t most = growth.max_leaves < 0 ? n_rows : std::min(growth.max_leaves - 1, n_rows);
    // all workers must take the same nodes, however many threads each has
    if (!workers.alone()) return {most, growth.best_first, {kMostEarly, kRowsAtOnce, kMostExchanged, false}};
    const int64_t rows = kRowsAtOnce * std::max(1, n_threads / 2);
    if (n_threads >= kManyThreads) return {most, growth.best_first, {kExtraSlots, rows, 0, true}};
    return {most, growth.best_first, {kMostEarly, rows, n_threads, false}};
}

void require_features(const In1<int32_t>& features, int64_t n_node_features, const FeatureTable& table) {
    require(features.size() > 0, "features: must not be empty");
    for (size_t i = 0; i < features.size(); ++i)
        require(features.data()[i] >= 0 && features.data()[i] < table.n() &&
                    (i == 0 || features.data()[i - 1] < features.data()[i]),
                "features: must be increasing indices into the table");
    require(n_node_features >= 1, "n_node_features: must be at least 1");
}

void require_sample(const TreeSample& sample, const FeatureTable& table, int64_t n_rows) {
    for (const auto& rows : {sample.rows, sample.oob_rows}) {
        int64_t n_wrong = 0;
        const auto limit = static_cast<uint32_t>(n_rows);  // one comparison: negative numbers are large ones
        for (size_t i = 0; i < rows.size(); ++i) n_wrong += static_cast<uint32_t>(rows.data()[i]) >= limit;
        require(n_wrong == 0, "rows: indices must be less than the number of rows");
    }
    require_features(sample.features, sample.n_node_features, table);
}

// Number of columns on a worker that has every `step`-th feature from `first` on.
int64_t n_columns_of(int64_t n, int64_t first, int64_t step) {
    return first < n ? (n - first + step - 1) / step : 0;
}

// Boundaries of the feature ranges that workers search, with about equal numbers of bins.
std::vector<int32_t> searched_features(const FeatureTable& table, int n_workers) {
    int64_t total = 0, so_far = 0;
    for (int64_t f = 0; f < table.n(); ++f) total += table.n_bins.data()[f];
    std::vector<int32_t> borders{0};
    for (int64_t f = 0; f < table.n(); ++f) {
        while (static_cast<int64_t>(borders.size()) < n_workers &&
               so_far * n_workers >= total * static_cast<int64_t>(borders.size()))
            borders.push_back(static_cast<int32_t>(f));
        so_far += table.n_bins.data()[f];
    }
    borders.resize(static_cast<size_t>(n_workers) + 1, static_cast<int32_t>(table.n()));
    return borders;
}

// The tree's features, and the subset that this worker searches.
struct TreeFeatures {
    TreeFeatures(const FeatureTable& table, const TreeSample& sample, const Workers& workers,
                 int64_t first_feature, int64_t feature_stride) {
        numbers.assign(sample.features.data(), sample.features.data() + sample.features.size());
        std::vector<int32_t> indices;
        if (workers.share_rows()) {
            const std::vector<int32_t> borders = searched_features(table, workers.size());
            everything = FeatureSet(table, numbers, 0, 1);
            for (const int32_t border : borders)
                bin_borders.push_back(
                    everything
                        .offsets[std::lower_bound(numbers.begin(), numbers.end(), border) - numbers.begin()]);
            for (const int32_t f : numbers)
                if (f >= borders[workers.rank()] && f < borders[workers.rank() + 1]) indices.push_back(f);
        } else {
            for (const int32_t f : numbers)
                if (f % feature_stride == first_feature) indices.push_back(f);
        }
        searched = FeatureSet(table, std::move(indices), first_feature, feature_stride);
    }

    std::vector<int32_t> numbers;
    FeatureSet searched, everything;
    std::vector<int64_t> bin_borders;
};

template <typename Bin>
GrownTree grow_tree(Node root, const FeatureTable& table, BinMatrix<Bin> bins, const TreeSample& sample,
                    const GrowthRules& growth, SplitFinder& finder, const Workers& workers, int64_t n_outputs,
                    int n_threads) {
    std::unique_ptr<Partition> partition;
    if (workers.share_features())
        partition = std::make_unique<SharedPartition<Bin>>(table, bins, sample.rows.data(),
                                                           sample.oob_rows.data(), workers, n_threads);
    else
        partition = std::make_unique<LocalPartition<Bin>>(table, bins, sample.rows.data(), workers.alone(),
                                                          n_threads);
    root.end = static_cast<int64_t>(sample.rows.size());
    root.oob_end = static_cast<int64_t>(sample.oob_rows.size());
    const int64_t n_rows = root.count;
    Grower grower(limits_of(growth), finder, *partition);
    grower.grow(std::move(root), frontier_of(growth, n_rows, workers, n_threads));
    return GrownTree(grower.nodes, table, n_outputs);
}

void require_columns(int64_t first_feature, int64_t feature_stride, const FeatureTable& table,
                     size_t n_columns) {
    require(feature_stride >= 1 && first_feature >= 0 && first_feature < feature_stride &&
                n_columns_of(table.n(), first_feature, feature_stride) == static_cast<int64_t>(n_columns),
            "bins: must have one column per feature of this worker");
}

void require_layout(const Workers& workers, int64_t first_feature, int64_t feature_stride, bool by_rows) {
    const bool all = by_rows || workers.alone();
    require(feature_stride == (all ? 1 : workers.size()) && first_feature == (all ? 0 : workers.rank()),
            "communicator: rank and size must match the distribution of the features");
}

// Rows that are partitioned along with the search.
class NoPartition final : public Partition {
  public:
    void split(const std::vector<Family*>&) override {}
};

// Rows to columns, in blocks that stay in cache.
std::vector<uint8_t> transposed(const uint8_t* bins, int64_t n_rows, int64_t n_columns) {
    constexpr int64_t kBlock = 64;
    std::vector<uint8_t> columns(static_cast<size_t>(n_rows * n_columns));
    for (int64_t row = 0; row < n_rows; row += kBlock)
        for (int64_t column = 0; column < n_columns; column += kBlock)
            for (int64_t c = column; c < std::min(n_columns, column + kBlock); ++c)
                for (int64_t r = row; r < std::min(n_rows, row + kBlock); ++r)
                    columns[c * n_rows + r] = bins[r * n_columns + c];
    return columns;
}

int64_t slot_bytes_of(const FeatureTable& table, const std::vector<int32_t>& features, int64_t n_columns) {
    int64_t n_bins = 0;
    for (const int32_t f : features) n_bins += table.n_bins.data()[f];
    return std::max<int64_t>(n_bins, 1) * (n_columns + 1) * 4;
}

int64_t n_slots_of(const HistogramRules& rules, int64_t slot_bytes, int64_t n_extra) {
    return std::max(kMinSlots, std::min(rules.budget / slot_bytes, rules.max_nodes + n_extra));
}

// The root, with the sums of all workers' rows.
Node make_root(const GradientColumns& gradients, const TreeSample& sample, const Workers& workers,
               int n_threads) {
    constexpr int64_t kChunk = 512;  // a row was last written by another core, as a rule
    const auto n_rows = static_cast<int64_t>(sample.rows.size());
    const auto m = static_cast<int64_t>(gradients.values.shape(1)), room = m + 2 * kWide;
    const int64_t n_chunks = (n_rows + kChunk - 1) / kChunk;
    std::vector<int32_t> sums(static_cast<size_t>(n_chunks * room), 0);
    parallel_tasks(n_chunks, n_threads, [&](int64_t chunk, int) {
        add_up(gradients.values.data(), m, sample.rows.data() + chunk * kChunk,
               std::min(kChunk, n_rows - chunk * kChunk), sums.data() + chunk * room);
    });
    std::vector<int64_t> total(static_cast<size_t>(room) + 1, 0);
    for (size_t i = 0; i < sums.size(); ++i) total[i % room] += sums[i];
    total[room] = n_rows;
    if (workers.share_rows()) workers.allreduce(total);
    require(total[room] <= INT32_MAX, "rows: must be fewer than 2^31 over all workers");
    Node root(0, 0, total[room], sample.key);
    root.total.assign(total.begin(), total.end() - 1);
    return root;
}

}  // namespace

HistogramTreeBuilder::HistogramTreeBuilder(In2<uint8_t> bins, In1<int32_t> common,
                                           std::shared_ptr<const FeatureTable> table, GrowthRules growth,
                                           HistogramRules rules, int64_t first_feature,
                                           int64_t feature_stride, int n_threads)
    : bins_(std::move(bins)),
      table_(std::move(table)),
      growth_(growth),
      rules_(rules),
      first_feature_(first_feature),
      feature_stride_(feature_stride),
      n_threads_(n_threads) {
    require(n_threads >= 1, "n_threads: must be at least 1");
    require_columns(first_feature, feature_stride, *table_, bins_.shape(1));
    require(common.size() == bins_.shape(1), "common: must have one entry per column of bins");
    std::vector<int32_t> n_bins;
    for (int64_t f = first_feature; f < table_->n(); f += feature_stride)
        n_bins.push_back(table_->n_bins.data()[f]);
    GilRelease release;
    sparse_ = std::make_unique<SparseColumns>(
        bins_.data(), static_cast<int64_t>(bins_.shape(0)), std::move(n_bins),
        std::vector<int32_t>(common.data(), common.data() + common.size()), n_threads);
}

GrownTree HistogramTreeBuilder::build(const GradientColumns& gradients, const TreeSample& sample,
                                      const nb::object& communicator, bool by_rows) {
    const auto n = static_cast<int64_t>(bins_.shape(0)), m = static_cast<int64_t>(gradients.values.shape(1));
    const Workers workers(communicator, by_rows);
    require(
        static_cast<int64_t>(gradients.values.shape(0)) == n && m % kLanes == 0 && gradients.count_column < m,
        "gradients: must have one row per row of bins and a multiple of 4 columns");
    require_sample(sample, *table_, n);
    require_layout(workers, first_feature_, feature_stride_, by_rows);
    const Limits limits = limits_of(growth_);
    const Scoring scoring(m, gradients.hessian, gradients.weight, gradients.lambda, gradients.step, rules_.l2,
                          rules_.top, rules_.shared, limits.min_samples, rules_.min_hessian);
    require(
        !table_->constrained() ||
            (rules_.top == 0 && gradients.hessian != kMatrix && gradients.first_output >= 0 &&
             gradients.first_output + scoring.outputs <= static_cast<int64_t>(table_->directions.shape(1))),
        "directions: must have one column per output, and are not supported with top or a matrix of "
        "hessians");
    GilRelease release;

    const TreeFeatures features(*table_, sample, workers, first_feature_, feature_stride_);
    const Gradients columns{gradients.values.data(), m, gradients.count_column};
    const Accumulator searched(features.searched, bins_.data(), n, *sparse_, columns);
    std::optional<Accumulator> everything;
    if (workers.share_rows()) everything.emplace(features.everything, bins_.data(), n, *sparse_, columns);
    const FeatureSampler sampler(features.numbers, sample.n_node_features);
    Node root = make_root(gradients, sample, workers, n_threads_);
    root.live = searched.all();

    // agreed by all workers: they must search the same nodes together
    std::vector<int64_t> has_sparse{searched.has_sparse()};
    if (workers.share_features()) workers.allreduce(has_sparse);
    const bool direct = !workers.share_rows() && !sampler.all() && has_sparse[0] == 0 &&
                        kFewDrawn * sampler.count() <= kOfFeatures * sampler.n();
    const int64_t slot_bytes = slot_bytes_of(*table_, features.numbers, m),
                  n_slots = n_slots_of(rules_, slot_bytes, kExtraSlots);
    const int64_t n_scratch =
        n_threads_ > 1 ? std::min<int64_t>(2 * n_threads_, kScratchBytes / slot_bytes) : 0;
    HistogramFinder finder({*table_, searched, everything ? &*everything : nullptr, features.bin_borders,
                            sample.rows.data(), sampler, gradients.first_output},
                           scoring, limits, direct, n_slots, n_scratch, memory_, workers, n_threads_);
    return grow_tree<uint8_t>(std::move(root), *table_, {bins_.data(), static_cast<int64_t>(bins_.shape(1))},
                              sample, growth_, finder, workers, scoring.outputs, n_threads_);
}

DeviceTreeBuilder::DeviceTreeBuilder(std::shared_ptr<const FeatureTable> table, GrowthRules growth,
                                     HistogramRules rules)
    : table_(std::move(table)), growth_(growth), rules_(rules) {
    const uint8_t* categorical = table_->categorical.data();
    require(std::none_of(categorical, categorical + table_->n(), [](uint8_t c) { return c != 0; }),
            "categorical: not supported on a device");
    require(rules.top == 0, "top: not supported on a device");
}

GrownTree DeviceTreeBuilder::build(const GradientColumns& gradients, int64_t n_sample, int64_t n_here,
                                   const In1<int64_t>& totals, const In1<int32_t>& features,
                                   int64_t n_node_features, uint64_t key, const DeviceChunks& chunks,
                                   const nb::object& search, const nb::object& partition) {
    const auto m = static_cast<int64_t>(totals.size());
    require(m % kLanes == 0 && gradients.count_column < m, "gradients: must have a multiple of 4 columns");
    require(gradients.hessian != kMatrix, "gradients: a matrix of hessians is not supported on a device");
    require(0 <= n_here && n_here <= n_sample && n_sample <= INT32_MAX, "rows: must be fewer than 2^31");
    require_features(features, n_node_features, *table_);
    const Limits limits = limits_of(growth_);
    const Scoring scoring(m, gradients.hessian, gradients.weight, gradients.lambda, gradients.step, rules_.l2,
                          0, false, limits.min_samples, rules_.min_hessian);
    GilRelease release;
    const std::vector<int32_t> numbers(features.data(), features.data() + features.size());
    const FeatureSet set(*table_, numbers, 0, 1);
    const FeatureSampler sampler(numbers, n_node_features);
    Node root(0, 0, n_sample, key);
    root.end = n_here;
    root.total.assign(static_cast<size_t>(m) + 2 * kWide, 0);
    std::copy(totals.data(), totals.data() + m, root.total.begin());
    const int64_t most = growth_.max_leaves < 0 ? n_sample : std::min(growth_.max_leaves - 1, n_sample);
    DeviceFinder finder(
        *table_, scoring, limits, set, sampler, gradients.count_column, gradients.first_output,
        n_slots_of(rules_, slot_bytes_of(*table_, numbers, m), kExtraDeviceSlots), chunks, search, partition);
    NoPartition none;
    Grower grower(limits, finder, none);
    grower.grow(std::move(root),
                Frontier(most, growth_.best_first, {kExtraDeviceSlots, kDeviceRowsAtOnce, 0, true}));
    return GrownTree(grower.nodes, *table_, scoring.outputs);
}

ExactTreeBuilder::ExactTreeBuilder(In2<uint32_t> bins, std::shared_ptr<const FeatureTable> table,
                                   GrowthRules growth, ExactRules rules, int64_t first_feature,
                                   int64_t feature_stride, int n_threads)
    : bins_(std::move(bins)),
      table_(std::move(table)),
      growth_(growth),
      rules_(rules),
      first_feature_(first_feature),
      feature_stride_(feature_stride),
      n_threads_(n_threads) {
    require(rules.step > 0.0, "step: must be positive");
    require_columns(first_feature, feature_stride, *table_, bins_.shape(1));
}

GrownTree ExactTreeBuilder::build(const ResidualBlocks& residuals, const TreeSample& sample,
                                  const nb::object& communicator, bool by_rows) {
    const Workers workers(communicator, by_rows);
    const RowBlocks state(residuals.blocks);
    const WeightView weights = view_of(residuals.weights ? &*residuals.weights : nullptr, state.n_rows());
    require(state.n_rows() == static_cast<int64_t>(bins_.shape(0)),
            "residuals: must have one row per row of bins");
    require(!workers.share_rows(), "communicator: the exact search requires all rows on every worker");
    require_sample(sample, *table_, static_cast<int64_t>(bins_.shape(0)));
    require_layout(workers, first_feature_, feature_stride_, by_rows);
    GilRelease release;

    const TreeFeatures features(*table_, sample, workers, first_feature_, feature_stride_);
    const FeatureSampler sampler(features.numbers, sample.n_node_features);
    const BinMatrix<uint32_t> bins{bins_.data(), static_cast<int64_t>(bins_.shape(1))};
    ExactFinder finder({*table_, features.searched, bins, sample.rows.data(), state, residuals.n_labels,
                        residuals.loss, weights, sampler},
                       rules_, limits_of(growth_), workers, n_threads_);
    return grow_tree<uint32_t>(Node(0, 0, static_cast<int64_t>(sample.rows.size()), sample.key), *table_,
                               bins, sample, growth_, finder, workers, 0, n_threads_);
}

RowTreeBuilder::RowTreeBuilder(In2<uint8_t> bins, std::shared_ptr<const FeatureTable> table,
                               BinPositions positions, GrowthRules growth, double l2, bool random)
    : n_rows_(static_cast<int64_t>(bins.shape(0))),
      table_(std::move(table)),
      positions_(std::move(positions)),
      growth_(growth),
      l2_(l2),
      random_(random) {
    const int64_t n = table_->n();
    require_columns(0, 1, *table_, bins.shape(1));
    require_indptr(positions_.offsets, positions_.values.size());
    require(static_cast<int64_t>(positions_.offsets.size()) == n + 1,
            "positions: must have one range per feature");
    require(!table_->constrained(), "directions: are not supported");
    columns_ = transposed(bins.data(), n_rows_, n);
    for (int64_t f = 0; f < n; ++f) {
        const int64_t missing = table_->missing_bin.data()[f];
        const uint8_t* column = columns_.data() + f * n_rows_;
        require(missing >= 1 && missing < kByteBins &&
                    (n_rows_ == 0 || *std::max_element(column, column + n_rows_) <= missing) &&
                    positions_.offsets.data()[f + 1] - positions_.offsets.data()[f] == missing,
                "positions: must have one entry per bin, without that of missing values");
    }
}

GrownTree RowTreeBuilder::build(const GradientColumns& gradients, const TreeSample& sample,
                                const nb::object& communicator, bool by_rows) const {
    const auto m = static_cast<int64_t>(gradients.values.shape(1));
    const Workers workers(communicator, by_rows);
    require(workers.alone(), "communicator: must have one worker");
    require(
        static_cast<int64_t>(gradients.values.shape(0)) == n_rows_ && m % kLanes == 0 &&
            gradients.hessian != kMatrix,
        "gradients: must have one row per row of bins, a multiple of 4 columns and no matrix of hessians");
    require_sample(sample, *table_, n_rows_);
    const Limits limits = limits_of(growth_);
    const Scoring scoring(m, gradients.hessian, gradients.weight, gradients.lambda, gradients.step, l2_, 0,
                          false, limits.min_samples, 0.0);
    GilRelease release;

    const BinColumns bins{columns_.data(), n_rows_};
    std::vector<int32_t> features(sample.features.data(), sample.features.data() + sample.features.size());
    RowFinder finder({*table_, bins, positions_, gradients.values.data(), std::move(features),
                      sample.n_node_features, sample.rows.data(), random_},
                     scoring, limits);
    ColumnPartition partition(*table_, bins, sample.rows.data());
    const auto n = static_cast<int64_t>(sample.rows.size());
    Node root(0, 0, n, sample.key);
    root.end = n;
    Grower grower(limits, finder, partition);
    grower.grow(std::move(root), frontier_of(growth_, n, workers, 1));
    return GrownTree(grower.nodes, *table_, scoring.outputs);
}

}  // namespace sparseleaf
