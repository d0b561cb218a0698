// Candidate labels: the union of the trees' best labels and the neighbours' labels, with evidence for each.
//
// The result is a table of evidence per candidate, labels increasing within a row, or directly the best
// candidates by a weighted mean of score components. Every row is processed by one thread.
#include <cmath>

#include "pairs.hpp"
#include "postings.hpp"
#include "rerank.hpp"
#include "vectors.hpp"

namespace sparseleaf {
namespace {

// Columns of the table that are filled here; the caller fills the others.
enum Column : int {
    kScore = 0,          // of the trees; 0 if the label is not among their candidates
    kRelative = 1,       // score relative to the row's best
    kPlace = 2,          // log(1 + rank among the trees' candidates, or their number)
    kVotes = 3,          // Σ cosine over the neighbours with the label
    kSharp = 4,          // Σ cosine³
    kRelativeSharp = 5,  // relative to the row's largest
    kNearest = 6,        // largest cosine
    kVoters = 7,         // number of neighbours with the label
    kJoined = 8
};

struct Candidate {
    int32_t label;
    int32_t place;
    float score, votes, sharp, nearest, voters;
};

void collect(const int32_t* labels, const float* scores, int64_t width, const int32_t* rows,
             const float* closeness, int64_t n_rows, const IndexLists& theirs, const int32_t* named,
             int64_t n_named, std::vector<Candidate>& list) {
    list.clear();
    for (int64_t j = 0; j < width; ++j)
        if (labels[j] >= 0)
            list.push_back({labels[j], static_cast<int32_t>(j), scores[j], 0.0f, 0.0f, 0.0f, 0.0f});
    for (int64_t j = 0; j < n_rows; ++j) {
        if (rows[j] < 0) continue;
        const float c = closeness[j];
        theirs.each(rows[j], [&](int64_t, uint64_t label) {
            list.push_back(
                {static_cast<int32_t>(label), static_cast<int32_t>(width), 0.0f, c, c * c * c, c, 1.0f});
        });
    }
    for (int64_t j = 0; j < n_named; ++j)
        if (named[j] >= 0)
            list.push_back({named[j], static_cast<int32_t>(width), 0.0f, 0.0f, 0.0f, 0.0f, 0.0f});
    // stable: sums are in the order of the neighbours, after the trees' entry
    std::stable_sort(list.begin(), list.end(),
                     [](const Candidate& a, const Candidate& b) { return a.label < b.label; });
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
        if (kept > 0 && list[kept - 1].label == list[i].label) {
            Candidate& into = list[kept - 1];
            into.votes += list[i].votes;
            into.sharp += list[i].sharp;
            into.nearest = std::max(into.nearest, list[i].nearest);
            into.voters += list[i].voters;
        } else {
            list[kept++] = list[i];
        }
    }
    list.resize(kept);
}

void write(const std::vector<Candidate>& list, int32_t* labels, float* table, int64_t width) {
    float best = 0.0f, sharpest = 0.0f;
    for (const auto& c : list) {
        best = std::max(best, c.score);
        sharpest = std::max(sharpest, c.sharp);
    }
    for (size_t i = 0; i < list.size(); ++i) {
        const auto& c = list[i];
        float* line = table + static_cast<int64_t>(i) * width;
        labels[i] = c.label;
        line[kScore] = c.score;
        line[kRelative] = best > 0.0f ? c.score / best : 0.0f;
        line[kPlace] = std::log1p(static_cast<float>(c.place));
        line[kVotes] = c.votes;
        line[kSharp] = c.sharp;
        line[kRelativeSharp] = sharpest > 0.0f ? c.sharp / sharpest : 0.0f;
        line[kNearest] = c.nearest;
        line[kVoters] = c.voters;
        for (int64_t f = kJoined; f < width; ++f) line[f] = 0.0f;
    }
}

}  // namespace

// labels, scores: (rows, places), -1 is none; found, closeness: (rows, k) training rows, -1 is none;
// theirs: labels of the training rows; named: (rows, n) labels found by their names, -1 is none. Answers
// (starts, labels, table flattened), `width` numbers a candidate.
nb::tuple join_candidates(In2<int32_t> labels, In2<float> scores, In2<int32_t> found, In2<float> closeness,
                          const IndexLists& theirs, In2<int32_t> named, int64_t width, int n_threads) {
    const auto n = static_cast<int64_t>(labels.shape(0));
    const auto places = static_cast<int64_t>(labels.shape(1)), k = static_cast<int64_t>(found.shape(1));
    const auto n_named = static_cast<int64_t>(named.shape(1));
    require(static_cast<int64_t>(named.shape(0)) == n, "named: (rows, n)");
    require(scores.shape(0) == labels.shape(0) && scores.shape(1) == labels.shape(1), "scores: as labels");
    require(static_cast<int64_t>(found.shape(0)) == n && closeness.shape(0) == found.shape(0) &&
                closeness.shape(1) == found.shape(1),
            "found, closeness: (rows, k)");
    require(width >= kJoined && n_threads >= 1, "width: too small");
    const int64_t n_training = theirs.n_lines();
    for (int64_t i = 0; i < n * k; ++i)
        require(found.data()[i] >= -1 && found.data()[i] < n_training, "found: no such row");
    std::unique_ptr<int64_t[]> starts;
    std::unique_ptr<int32_t[]> joined;
    std::unique_ptr<float[]> table;
    {
        GilRelease release;
        starts = std::make_unique<int64_t[]>(static_cast<size_t>(n) + 1);
        constexpr int64_t kBlock = 64;
        const int64_t n_blocks = (n + kBlock - 1) / kBlock;
        std::vector<std::vector<Candidate>> lists(static_cast<size_t>(n));
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row)
                collect(labels.data() + row * places, scores.data() + row * places, places,
                        found.data() + row * k, closeness.data() + row * k, k, theirs,
                        named.data() + row * n_named, n_named, lists[row]);
        });
        for (int64_t row = 0; row < n; ++row)
            starts[row + 1] = starts[row] + static_cast<int64_t>(lists[row].size());
        joined.reset(new int32_t[static_cast<size_t>(starts[n])]);
        table.reset(new float[static_cast<size_t>(starts[n] * width)]);
        parallel_tasks(n_blocks, n_threads, [&](int64_t block, int) {
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row)
                write(lists[row], joined.get() + starts[row], table.get() + starts[row] * width, width);
        });
    }
    const int64_t total = starts[n];
    return nb::make_tuple(to_numpy(std::move(starts), static_cast<size_t>(n) + 1),
                          to_numpy(std::move(joined), static_cast<size_t>(total)),
                          to_numpy(std::move(table), static_cast<size_t>(total * width)));
}

// Inner products of rows with their candidates' sparse vectors.
class LabelVectors {
  public:
    explicit LabelVectors(const PackedVectors& vectors) : vectors_(vectors), n_features_(vectors.width()) {}

    // The candidates of row i are labels[starts[i]:starts[i + 1]].
    void products(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                  In1<int32_t> labels, Out1<float> out, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        const int64_t n_labels = vectors_.n_lines();
        require(indices.size() == data.size() && labels.size() == out.size(), "arrays: same size");
        require_indptr(indptr, data.size());
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= 0 && labels.data()[e] < n_labels, "labels: no such label");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < n_features_,
                    "indices: a feature that the model does not have");
        GilRelease release;
        constexpr int64_t kBlock = 64;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            SpreadRow x(n_features_);
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
                    x.set(indices.data()[e], data.data()[e]);
                for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c) {
                    if (c + 1 < starts.data()[row + 1]) vectors_.fetch(labels.data()[c + 1]);
                    out.data()[c] = vectors_.product(labels.data()[c], x);
                }
                x.clear();
            }
        });
    }

    // The terms of the products of pairs.
    void terms(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
               In1<int32_t> labels, In1<int64_t> offsets, Out1<double> out, int n_threads) const {
        const RowPairs pairs{indptr, indices, data, starts, labels, offsets, out};
        pairs.check(n_features_, n_labels());
        GilRelease release;
        pairs.each_row(n_threads, [&](int64_t row, int) {
            SpreadRow vector(n_features_);
            const int64_t begin = indptr.data()[row], n = indptr.data()[row + 1] - begin;
            for (int64_t p = starts.data()[row]; p < starts.data()[row + 1]; ++p) {
                vectors_.each_value(labels.data()[p], [&](uint64_t feature, float value) {
                    vector.set(static_cast<int32_t>(feature), value);
                });
                for (int64_t e = 0; e < n; ++e)
                    out.data()[offsets.data()[p] + e] =
                        static_cast<double>(data.data()[begin + e]) *
                        static_cast<double>(vector[static_cast<uint64_t>(indices.data()[begin + e])]);
                vector.clear();
            }
        });
    }

    int64_t n_labels() const { return vectors_.n_lines(); }
    int64_t n_features() const { return n_features_; }
    const PackedVectors& vectors() const { return vectors_; }

  private:
    const PackedVectors& vectors_;
    int64_t n_features_;
};

// Ranks candidates by a weighted mean of four score components from 0 to 1: the trees' score relative to the
// row's best, the cosine with the label's centroid, the logistic function of its linear model's margin, and
// the neighbours' votes relative to the row's largest.
class LinearRanker {
  public:
    static constexpr int kComponents = 4;

    // index: null without neighbours; lists: labels of the indexed rows; feature_weights: factors of the
    // features before normalisation, or empty.
    LinearRanker(const CentroidReranker& centroids, const LabelVectors& linear, In1<float> bias,
                 const PostingIndex* index, const IndexLists& lists, In1<float> feature_weights,
                 In1<float> weights, int64_t n_neighbours, int64_t row_features, float steepness)
        : centroids_(centroids),
          linear_(linear),
          bias_(bias),
          index_(index),
          lists_(lists),
          feature_weights_(feature_weights),
          weights_(weights),
          n_neighbours_(n_neighbours),
          row_features_(row_features),
          steepness_(steepness) {
        const int64_t n_labels = centroids.n_labels(), n_features = centroids.n_features();
        require(linear.n_labels() == n_labels && static_cast<int64_t>(bias.size()) == n_labels &&
                    linear.n_features() == n_features,
                "linear: as the centroids");
        require(lists.width() <= n_labels, "lists: no such label");
        require(index == nullptr || (index->n_features() == n_features && index->n_rows() == lists.n_lines()),
                "index: as the centroids, a list of labels for every row");
        require(feature_weights.size() == 0 || static_cast<int64_t>(feature_weights.size()) == n_features,
                "feature_weights: must be empty or have one entry per feature");
        require(weights.size() == kComponents, "weights: four");
        require(n_neighbours >= 0 && row_features >= 0, "n_neighbours, row_features: not negative");
        for (size_t f = 0; f < feature_weights.size(); ++f)
            require(std::isfinite(feature_weights.data()[f]), "feature_weights must be finite");
    }

    // labels, scores: the trees' candidates, (rows, places), -1 for none; best, ranked: (rows, k).
    void topk(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In2<int32_t> labels,
              In2<float> scores, Out2<int32_t> best, Out2<float> ranked, int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1;
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        require_candidates(labels, scores, best, ranked, n);
        for (size_t i = 0; i < labels.size(); ++i)
            require(labels.data()[i] >= -1 && labels.data()[i] < centroids_.n_labels(),
                    "labels: no such label");
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < centroids_.n_features(),
                    "indices: a feature that the model does not have");
        const auto places = static_cast<int64_t>(labels.shape(1)), k = static_cast<int64_t>(best.shape(1));
        GilRelease release;
        constexpr int64_t kBlock = 16;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            Work work(centroids_.n_features());
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                const int64_t begin = indptr.data()[row];
                make_unit(indices.data() + begin, data.data() + begin, indptr.data()[row + 1] - begin, work);
                rank(labels.data() + row * places, scores.data() + row * places, places, work);
                write_topk(work.ranked, k, best.data() + row * k, ranked.data() + row * k);
            }
        });
    }

  private:
    struct Work {
        explicit Work(int64_t n_features) : x(n_features) {}
        SpreadRow x;
        std::vector<int32_t> features;  // of the row
        std::vector<float> values;
        std::vector<double> wide;
        std::vector<int32_t> order, short_features, neighbours;
        std::vector<float> short_values, closeness;
        std::vector<Candidate> list;
        std::vector<Scored> ranked;
    };

    // Weights and normalises the row in double precision, in which squares of floats cannot overflow.
    void make_unit(const int32_t* indices, const float* data, int64_t n, Work& work) const {
        work.features.assign(indices, indices + n);
        work.wide.resize(static_cast<size_t>(n));
        double squares = 0.0;
        for (int64_t e = 0; e < n; ++e) {
            const double weight = feature_weights_.size() ? feature_weights_.data()[indices[e]] : 1.0;
            work.wide[e] = static_cast<double>(data[e]) * weight;
            squares += work.wide[e] * work.wide[e];
        }
        const double length = squares > 0.0 ? std::sqrt(squares) : 1.0;
        work.values.resize(static_cast<size_t>(n));
        for (int64_t e = 0; e < n; ++e) work.values[e] = static_cast<float>(work.wide[e] / length);
    }

    // The entries of largest magnitude (ties: the first), by increasing feature.
    void shorten(Work& work) const {
        const size_t n = work.features.size(), most = static_cast<size_t>(row_features_);
        work.short_features = work.features;
        work.short_values = work.values;
        if (n <= most) return;
        work.order.resize(n);
        for (size_t e = 0; e < n; ++e) work.order[e] = static_cast<int32_t>(e);
        std::nth_element(work.order.begin(), work.order.begin() + static_cast<int64_t>(most),
                         work.order.end(), [&](int32_t a, int32_t b) {
                             const float x = std::abs(work.values[a]), y = std::abs(work.values[b]);
                             return x != y ? x > y : a < b;
                         });
        std::sort(work.order.begin(), work.order.begin() + static_cast<int64_t>(most));
        for (size_t e = 0; e < most; ++e) {
            work.short_features[e] = work.features[work.order[e]];
            work.short_values[e] = work.values[work.order[e]];
        }
        work.short_features.resize(most);
        work.short_values.resize(most);
    }

    void rank(const int32_t* labels, const float* scores, int64_t places, Work& work) const {
        const int64_t k = index_ ? n_neighbours_ : 0;
        work.neighbours.resize(static_cast<size_t>(k));
        work.closeness.resize(static_cast<size_t>(k));
        if (index_) {
            shorten(work);
            index_->nearest_rows(work.short_features.data(), work.short_values.data(),
                                 static_cast<int64_t>(work.short_features.size()), -1, k,
                                 work.neighbours.data(), work.closeness.data());
        }
        collect(labels, scores, places, work.neighbours.data(), work.closeness.data(), k, lists_, nullptr, 0,
                work.list);
        float highest = 0.0f, sharpest = 0.0f, norm = 0.0f;
        for (const Candidate& c : work.list) {
            highest = std::max(highest, c.score);
            sharpest = std::max(sharpest, c.sharp);
        }
        for (size_t e = 0; e < work.features.size(); ++e) {
            work.x.set(work.features[e], work.values[e]);
            norm += work.values[e] * work.values[e];
        }
        const PackedVectors& models = linear_.vectors();
        const float* weights = weights_.data();
        work.ranked.clear();
        for (size_t i = 0; i < work.list.size(); ++i) {
            const Candidate& c = work.list[i];
            if (i + 1 < work.list.size()) {
                centroids_.fetch(work.list[i + 1].label);
                models.fetch(work.list[i + 1].label);
            }
            const float trees = highest > 0.0f ? std::clamp(c.score / highest, 0.0f, 1.0f) : 0.0f;
            const float cosine = std::clamp(centroids_.cosine(c.label, work.x, norm), 0.0f, 1.0f);
            const float margin = models.product(c.label, work.x) + bias_.data()[c.label];
            const float votes = sharpest > 0.0f ? c.sharp / sharpest : 0.0f;
            const float mean = weights[0] * trees + weights[1] * cosine +
                               weights[2] / (1.0f + std::exp(-steepness_ * margin)) + weights[3] * votes;
            work.ranked.push_back({std::isfinite(mean) ? mean : 0.0f, c.label});
        }
        work.x.clear();
    }

    const CentroidReranker& centroids_;
    const LabelVectors& linear_;
    In1<float> bias_;
    const PostingIndex* index_;
    const IndexLists& lists_;
    In1<float> feature_weights_, weights_;
    int64_t n_neighbours_, row_features_;
    float steepness_;
};

}  // namespace sparseleaf

void bind_candidates(nb::module_& m) {
    using namespace sparseleaf;
    m.def("join_candidates", &join_candidates, nb::arg("labels"), nb::arg("scores"), nb::arg("found"),
          nb::arg("closeness"), nb::arg("theirs"), nb::arg("named"), nb::arg("width"), nb::arg("n_threads"));
    nb::class_<LabelVectors>(m, "LabelVectors")
        .def(nb::init<const PackedVectors&>(), nb::arg("vectors"), nb::keep_alive<1, 2>())
        .def("products", &LabelVectors::products, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("out").noconvert(), nb::arg("n_threads"))
        .def("terms", &LabelVectors::terms, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("offsets"), nb::arg("out").noconvert(),
             nb::arg("n_threads"));
    nb::class_<LinearRanker>(m, "LinearRanker")
        .def(nb::init<const CentroidReranker&, const LabelVectors&, In1<float>, const PostingIndex*,
                      const IndexLists&, In1<float>, In1<float>, int64_t, int64_t, float>(),
             nb::arg("centroids"), nb::arg("linear"), nb::arg("bias"), nb::arg("index").none(),
             nb::arg("lists"), nb::arg("feature_weights"), nb::arg("weights"), nb::arg("n_neighbours"),
             nb::arg("row_features"), nb::arg("steepness"), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
             nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>())
        .def("topk", &LinearRanker::topk, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("labels"), nb::arg("scores"), nb::arg("best").noconvert(), nb::arg("ranked").noconvert(),
             nb::arg("n_threads"));
}
