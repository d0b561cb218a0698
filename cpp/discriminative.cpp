// Naive Bayes over the most discriminative features of each label.
//
// fit_discriminative: from training rows, or from co-occurrence counts of labels and features, the features
// of every label whose count is most significantly above chance, and their evidence. DiscriminativeIndex:
// from a row's features to the labels they are evidence for, joined with the trees' candidates. Every label
// and every row is processed by one thread.
#include <bit>
#include <cmath>

#include "common.hpp"
#include "radix.hpp"
#include "topk.hpp"
#include "vectors.hpp"

namespace sparseleaf {
namespace {

constexpr int64_t kLabels = 16;  // per task: some labels have most rows

// Calls use(label, thread) for all labels in parallel.
template <typename Use>
void each_label(int64_t n_labels, int n_threads, Use use) {
    parallel_tasks((n_labels + kLabels - 1) / kLabels, n_threads, [&](int64_t task, int thread) {
        for (int64_t label = task * kLabels; label < std::min(n_labels, (task + 1) * kLabels); ++label)
            use(label, thread);
    });
}

// What the evidence of a feature depends on besides its count, and where it is written. For a label with m
// rows and a feature of rate q, c common rows have the significance c log(c / e) - (c - e) with e = m q, if c
// > e. With p = (c + s q) / (m + s), where s are pseudo-rows, absence is evidence log((1 - p) / (1 - q)), and
// presence adds log(p / q) minus that.
struct Selection {
    In1<double> label_rows, feature_shares;
    double smoothing;
    Out2<int32_t> found;
    Out2<float> weights, absent;

    struct Feature {
        double significance;
        int32_t number;
        float count;
    };
    using List = std::vector<Feature>;

    int64_t n_labels() const { return static_cast<int64_t>(label_rows.size()); }
    int64_t n_features() const { return static_cast<int64_t>(feature_shares.size()); }

    void check() const {
        require(static_cast<int64_t>(found.shape(0)) == n_labels() && found.shape(0) == weights.shape(0) &&
                    found.shape(0) == absent.shape(0) && found.shape(1) == weights.shape(1) &&
                    found.shape(1) == absent.shape(1),
                "found, weights, absent: must have shape (labels, most)");
    }

    // Adds a feature to the list of a label, unless it is above chance only by rounding: no evidence.
    void add(int64_t label, int32_t feature, float common, List& list) const {
        const double count = common, chance = label_rows.data()[label] * feature_shares.data()[feature];
        if (count > chance * (1.0 + 1e-9))
            list.push_back({count * std::log(count / chance) - (count - chance), feature, common});
    }

    // Writes the most significant features of the list (ties: lower feature), padded with -1.
    void write(int64_t label, List& list) const {
        const auto most = static_cast<int64_t>(found.shape(1));
        const auto kept = std::min<int64_t>(most, static_cast<int64_t>(list.size()));
        std::partial_sort(list.begin(), list.begin() + kept, list.end(),
                          [](const Feature& a, const Feature& b) {
                              return a.significance != b.significance ? a.significance > b.significance
                                                                      : a.number < b.number;
                          });
        int32_t* numbers = found.data() + label * most;
        float *presence = weights.data() + label * most, *absence = absent.data() + label * most;
        // apart from the loop: with -fno-trapping-math, GCC 12 moves such stores behind those of the features
        std::fill(numbers, numbers + most, -1);
        std::fill(presence, presence + most, 0.0f);
        std::fill(absence, absence + most, 0.0f);
        for (int64_t j = 0; j < kept; ++j) {
            const Feature& feature = list[static_cast<size_t>(j)];
            const double q = feature_shares.data()[feature.number];
            const double p = (feature.count + smoothing * q) / (label_rows.data()[label] + smoothing);
            const double lacking = std::log1p(-p) - std::log1p(-q);
            const auto weight = static_cast<float>(std::log(p / q) - lacking);
            if (weight <= 0.0f) continue;  // only rounding, no evidence
            numbers[j] = feature.number;
            presence[j] = weight;
            absence[j] = static_cast<float>(lacking);
        }
    }
};

// From training rows, CSR with an entry for every feature that is not 0, and the rows of every label, CSC.
// row_weights: empty if all are 1.
void fit_discriminative(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> label_indptr,
                        In1<int32_t> label_members, In1<double> row_weights, In1<double> label_rows,
                        In1<double> feature_shares, double smoothing, Out2<int32_t> found,
                        Out2<float> weights, Out2<float> absent, int n_threads) {
    const Selection selection{label_rows, feature_shares, smoothing, found, weights, absent};
    selection.check();
    const auto n_rows = static_cast<int64_t>(indptr.size()) - 1;
    require(indices.size() == data.size(), "indices, data: must have equal sizes");
    require_indptr(indptr, data.size());
    require_indptr(label_indptr, label_members.size());
    require(label_indptr.size() == label_rows.size() + 1, "label_indptr: must have one list per label");
    require(row_weights.size() == 0 || static_cast<int64_t>(row_weights.size()) == n_rows,
            "row_weights: must be empty or have one entry per row");
    struct State {
        std::vector<double> counts;  // of all features, 0 between labels
        std::vector<int32_t> touched;
        Selection::List list;
    };
    GilRelease release;
    std::vector<State> states(static_cast<size_t>(n_threads));
    each_label(selection.n_labels(), n_threads, [&](int64_t label, int thread) {
        auto& [counts, touched, list] = states[static_cast<size_t>(thread)];
        if (counts.empty()) counts.assign(feature_shares.size(), 0.0);
        for (int64_t m = label_indptr.data()[label]; m < label_indptr.data()[label + 1]; ++m) {
            const int64_t row = label_members.data()[m];
            require(row >= 0 && row < n_rows, "label_members: no such row");
            const double weight = row_weights.size() ? row_weights.data()[row] : 1.0;
            for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e) {
                const int32_t feature = indices.data()[e];
                require(feature >= 0 && feature < selection.n_features(), "indices: no such feature");
                if (data.data()[e] == 0.0f) continue;
                double& count = counts[static_cast<size_t>(feature)];
                if (count == 0.0) touched.push_back(feature);
                count += weight;
            }
        }
        for (const int32_t feature : touched) {
            double& count = counts[static_cast<size_t>(feature)];
            selection.add(label, feature, static_cast<float>(std::exchange(count, 0.0)), list);
        }
        selection.write(label, list);
        touched.clear();
        list.clear();
    });
}

// From the numbers of rows with both label and feature: CSR (labels, features), each positive.
void select_discriminative(In1<int64_t> indptr, In1<int32_t> features, In1<float> counts,
                           In1<double> label_rows, In1<double> feature_shares, double smoothing,
                           Out2<int32_t> found, Out2<float> weights, Out2<float> absent, int n_threads) {
    const Selection selection{label_rows, feature_shares, smoothing, found, weights, absent};
    selection.check();
    require(features.size() == counts.size(), "features, counts: must have equal sizes");
    require_indptr(indptr, counts.size());
    require(indptr.size() == label_rows.size() + 1, "label_rows: must have one entry per label");
    for (size_t e = 0; e < features.size(); ++e)
        require(features.data()[e] >= 0 && features.data()[e] < selection.n_features(),
                "features: no such feature");
    GilRelease release;
    each_label(selection.n_labels(), n_threads, [&](int64_t label, int) {
        Selection::List list;
        for (int64_t e = indptr.data()[label]; e < indptr.data()[label + 1]; ++e)
            selection.add(label, features.data()[e], counts.data()[e], list);
        selection.write(label, list);
    });
}

// The first `most` features of every label and their weights: CSR with increasing features.
nb::tuple first_features(In2<int32_t> features, In2<float> weights, int64_t most, int n_threads) {
    const auto n = static_cast<int64_t>(features.shape(0)), width = static_cast<int64_t>(features.shape(1));
    require(features.shape(0) == weights.shape(0) && features.shape(1) == weights.shape(1),
            "features, weights: must have equal shapes");
    require(most >= 0 && most <= width, "most: must be at most the number of columns");
    auto indptr = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
    std::unique_ptr<int32_t[]> indices;
    std::unique_ptr<float[]> data;
    {
        GilRelease release;
        each_label(n, n_threads, [&](int64_t label, int) {
            const int32_t* line = features.data() + label * width;
            indptr[label + 1] =
                std::count_if(line, line + most, [](int32_t feature) { return feature >= 0; });
        });
        for (int64_t label = 0; label < n; ++label) indptr[label + 1] += indptr[label];
        indices.reset(new int32_t[static_cast<size_t>(indptr[n])]);
        data.reset(new float[static_cast<size_t>(indptr[n])]);
        each_label(n, n_threads, [&](int64_t label, int) {
            std::vector<std::pair<int32_t, float>> list;
            for (int64_t at = label * width; at < label * width + most; ++at)
                if (features.data()[at] >= 0) list.emplace_back(features.data()[at], weights.data()[at]);
            std::sort(list.begin(), list.end());
            int64_t at = indptr[label];
            for (const auto& [feature, weight] : list) {
                indices[at] = feature;
                data[at++] = weight;
            }
        });
    }
    const auto size = static_cast<size_t>(indptr[n]);
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(indices), size), to_numpy(std::move(data), size));
}

// The labels of every feature, from the features of every label; entries of 0 are left out.
struct Postings {
    int64_t n_labels, n_features;
    std::vector<int32_t> features;  // with postings, increasing
    std::vector<int64_t> indptr;
    std::vector<int32_t> labels;  // increasing for each feature
    std::vector<float> weights;

    Postings(const PackedVectors& vectors, int n_threads)
        : n_labels(vectors.n_lines()), n_features(vectors.width()) {
        struct Entry {
            uint32_t feature;
            int32_t label;
            float weight;
        };
        constexpr int64_t kBlock = 1024;
        const int64_t n_blocks = (n_labels + kBlock - 1) / kBlock;
        std::vector<std::vector<Entry>> blocks(static_cast<size_t>(n_blocks));
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            for (int64_t label = block * kBlock; label < std::min(n_labels, (block + 1) * kBlock); ++label)
                vectors.each_value(label, [&](uint64_t feature, float weight) {
                    require(weight >= 0.0f && std::isfinite(weight),
                            "vectors must be non-negative and finite");
                    if (weight > 0.0f)
                        blocks[static_cast<size_t>(block)].push_back(
                            {static_cast<uint32_t>(feature), static_cast<int32_t>(label), weight});
                });
        });
        std::vector<size_t> starts{0};
        for (const auto& block : blocks) starts.push_back(starts.back() + block.size());
        const size_t n = starts.back();
        require(n <= std::numeric_limits<uint32_t>::max(), "vectors: too many entries");
        std::vector<Entry> entries(n);
        std::vector<uint64_t> order(n);  // feature, and position by label
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            size_t at = starts[static_cast<size_t>(block)];
            for (const Entry& entry : blocks[static_cast<size_t>(block)]) {
                order[at] = static_cast<uint64_t>(entry.feature) << 32 | at;
                entries[at++] = entry;
            }
        });
        blocks.clear();
        radix_sort_in_threads(order, std::bit_width(static_cast<uint64_t>(n_features)), n_threads);
        for (size_t at = 0; at < n; ++at) {
            const auto feature = static_cast<int32_t>(order[at] >> 32);
            if (!features.empty() && features.back() == feature) continue;
            features.push_back(feature);
            indptr.push_back(static_cast<int64_t>(at));
        }
        indptr.push_back(static_cast<int64_t>(n));
        labels.resize(n);
        weights.resize(n);
        constexpr size_t kEntries = 1 << 14;
        parallel_tasks(static_cast<int64_t>((n + kEntries - 1) / kEntries), n_threads,
                       [&](int64_t task, int) {
                           const size_t begin = static_cast<size_t>(task) * kEntries;
                           for (size_t at = begin; at < std::min(n, begin + kEntries); ++at) {
                               const Entry& entry = entries[order[at] & 0xffffffffu];
                               labels[at] = entry.label;
                               weights[at] = entry.weight;
                           }
                       });
    }
};

template <typename T>
Numpy1<T> copied(const std::vector<T>& values) {
    std::unique_ptr<T[]> copy(new T[values.size()]);
    std::copy(values.begin(), values.end(), copy.get());
    return to_numpy(std::move(copy), values.size());
}

class DiscriminativeIndex {
  public:
    // vectors: (labels, features); bias: evidence for a label without features.
    DiscriminativeIndex(const PackedVectors& vectors, In1<float> bias, int n_threads) : bias_(bias) {
        {
            GilRelease release;
            postings_ = std::make_shared<const Postings>(vectors, n_threads);
        }
        check_bias();
    }

    // A copy with another bias, which shares the postings.
    DiscriminativeIndex with_bias(In1<float> bias) const {
        DiscriminativeIndex other(*this);
        other.bias_ = bias;
        other.check_bias();
        return other;
    }

    // Copies: features, indptr, labels, weights.
    nb::tuple postings() const {
        const Postings& all = *postings_;
        return nb::make_tuple(copied(all.features), copied(all.indptr), copied(all.labels),
                              copied(all.weights));
    }

    // Trees' labels and scores: (rows, places), -1 is none. Returns the union of these and of the `most`
    // labels of highest evidence, as lists of increasing labels: (starts, labels, logarithm of `floor` plus
    // the trees' score relative to the row's best, evidence).
    nb::tuple join(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<int32_t> labels,
                   In2<float> scores, int64_t most, float floor, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const auto n_labels = static_cast<int64_t>(bias_.size());
        const auto places = static_cast<int64_t>(labels.shape(1));
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require(static_cast<int64_t>(labels.shape(0)) == n && labels.shape(0) == scores.shape(0) &&
                    labels.shape(1) == scores.shape(1),
                "labels, scores: (rows, places)");
        require(most >= 0 && n_threads >= 1, "most: not negative; n_threads: at least 1");
        const auto log_of = [](float x) { return static_cast<float>(std::log(static_cast<double>(x))); };
        const float lowest = log_of(floor);
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < postings_->n_features,
                    "indices: a feature that the model does not have");
        for (int64_t i = 0; i < n * places; ++i)
            require(labels.data()[i] >= -1 && labels.data()[i] < n_labels, "labels: no such label");
        std::unique_ptr<int64_t[]> starts;
        std::unique_ptr<int32_t[]> joined;
        std::unique_ptr<float[]> logs, evidence;
        {
            GilRelease release;
            starts = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
            std::vector<std::vector<Candidate>> lists(static_cast<size_t>(n));
            std::vector<ThreadState> states(static_cast<size_t>(n_threads));
            constexpr int64_t kBlock = 16;
            const int64_t n_blocks = (n + kBlock - 1) / kBlock;
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int thread) {
                auto& state = states[static_cast<size_t>(thread)];
                if (state.sums.empty()) state.sums.assign(static_cast<size_t>(n_labels), 0.0f);
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    const auto begin = indptr.data()[row], end = indptr.data()[row + 1];
                    collect(indices.data() + begin, data.data() + begin, end - begin,
                            labels.data() + row * places, scores.data() + row * places, places, most, state,
                            lists[static_cast<size_t>(row)]);
                }
            });
            for (int64_t row = 0; row < n; ++row)
                starts[row + 1] = starts[row] + static_cast<int64_t>(lists[static_cast<size_t>(row)].size());
            const auto total = static_cast<size_t>(starts[n]);
            joined.reset(new int32_t[total]);
            logs.reset(new float[total]);
            evidence.reset(new float[total]);
            parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
                for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                    int64_t at = starts[row];
                    for (const auto& c : lists[static_cast<size_t>(row)]) {
                        joined[at] = c.label;
                        // in double precision: the last bit of logarithms depends on the C library
                        logs[at] = c.relative == 0.0f ? lowest : log_of(c.relative + floor);
                        evidence[at++] = c.evidence;
                    }
                }
            });
        }
        const auto total = static_cast<size_t>(starts[n]);
        return nb::make_tuple(to_numpy(std::move(starts), static_cast<size_t>(n) + 1),
                              to_numpy(std::move(joined), total), to_numpy(std::move(logs), total),
                              to_numpy(std::move(evidence), total));
    }

  private:
    struct Candidate {
        int32_t label;
        float relative, evidence;
    };

    // Buffers of a thread: sums of all labels, 0 between rows, and the labels with a sum.
    struct ThreadState {
        std::vector<float> sums;
        std::vector<int32_t> touched;
        std::vector<Scored> best;
    };

    void collect(const int32_t* features, const float* values, int64_t n_values, const int32_t* labels,
                 const float* scores, int64_t places, int64_t most, ThreadState& state,
                 std::vector<Candidate>& list) const {
        state.touched.clear();
        const Postings& all = *postings_;
        for (int64_t e = 0; e < n_values; ++e) {
            if (values[e] == 0.0f) continue;
            const auto at = std::lower_bound(all.features.begin(), all.features.end(), features[e]);
            if (at == all.features.end() || *at != features[e]) continue;
            const int64_t* ends = all.indptr.data() + (at - all.features.begin());
            for (int64_t p = ends[0]; p < ends[1]; ++p) {
                float& sum = state.sums[static_cast<size_t>(all.labels[static_cast<size_t>(p)])];
                if (sum == 0.0f) state.touched.push_back(all.labels[static_cast<size_t>(p)]);
                sum += all.weights[static_cast<size_t>(p)];
            }
        }
        state.best.clear();
        for (const int32_t label : state.touched) state.best.push_back({evidence(label, state), label});
        if (static_cast<int64_t>(state.best.size()) > most) {
            std::nth_element(state.best.begin(), state.best.begin() + most, state.best.end(), ranks_before);
            state.best.resize(static_cast<size_t>(most));
        }
        float highest = 0.0f;
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0) highest = std::max(highest, scores[j]);
        list.clear();
        for (int64_t j = 0; j < places; ++j)
            if (labels[j] >= 0)
                list.push_back({labels[j], highest > 0.0f ? std::max(0.0f, scores[j] / highest) : 0.0f,
                                evidence(labels[j], state)});
        for (const auto& b : state.best) list.push_back({b.label, 0.0f, b.score});
        // the trees' entry comes first and is kept
        std::stable_sort(list.begin(), list.end(),
                         [](const Candidate& a, const Candidate& b) { return a.label < b.label; });
        list.erase(std::unique(list.begin(), list.end(),
                               [](const Candidate& a, const Candidate& b) { return a.label == b.label; }),
                   list.end());
        for (const int32_t label : state.touched) state.sums[static_cast<size_t>(label)] = 0.0f;
    }

    float evidence(int32_t label, const ThreadState& state) const {
        return bias_.data()[label] + state.sums[static_cast<size_t>(label)];
    }

    void check_bias() const {
        require(static_cast<int64_t>(bias_.size()) == postings_->n_labels,
                "bias: must have one entry per label");
        for (size_t i = 0; i < bias_.size(); ++i)
            require(std::isfinite(bias_.data()[i]), "bias must be finite");
    }

    std::shared_ptr<const Postings> postings_;
    In1<float> bias_;
};

}  // namespace
}  // namespace sparseleaf

void bind_discriminative(nb::module_& m) {
    using namespace sparseleaf;
    m.def("fit_discriminative", &fit_discriminative, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("label_indptr"), nb::arg("label_members"), nb::arg("row_weights"), nb::arg("label_rows"),
          nb::arg("feature_shares"), nb::arg("smoothing"), nb::arg("found").noconvert(),
          nb::arg("weights").noconvert(), nb::arg("absent").noconvert(), nb::arg("n_threads"));
    m.def("select_discriminative", &select_discriminative, nb::arg("indptr"), nb::arg("features"),
          nb::arg("counts"), nb::arg("label_rows"), nb::arg("feature_shares"), nb::arg("smoothing"),
          nb::arg("found").noconvert(), nb::arg("weights").noconvert(), nb::arg("absent").noconvert(),
          nb::arg("n_threads"));
    m.def("first_features", &first_features, nb::arg("features"), nb::arg("weights"), nb::arg("most"),
          nb::arg("n_threads"));
    nb::class_<DiscriminativeIndex>(m, "DiscriminativeIndex")
        .def(nb::init<const PackedVectors&, In1<float>, int>(), nb::arg("vectors"), nb::arg("bias"),
             nb::arg("n_threads"))
        .def("with_bias", &DiscriminativeIndex::with_bias, nb::arg("bias"))
        .def("postings", &DiscriminativeIndex::postings)
        .def("join", &DiscriminativeIndex::join, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("labels"), nb::arg("scores"), nb::arg("most"), nb::arg("floor"), nb::arg("n_threads"));
}
