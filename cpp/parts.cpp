// Evidence from linear models of the parts of label names: how well the parts of a candidate fit the row.
//
// Many labels share a part, so that its model has more rows than theirs. Every row is processed by one
// thread.
#include "vectors.hpp"

namespace sparseleaf {
namespace {

constexpr float kNoParts = -1.0f;  // of a label without a name: the margin of a certain negative

// Columns of evidence, over the parts of a label.
enum PartColumn : int { kMean = 0, kLeast = 1, kLargest = 2, kPartColumns = 3 };

// Margins of the parts that a row was compared with. Tables are thread-local: their allocation costs more
// than a row.
class KnownMargins {
  public:
    explicit KnownMargins(int64_t n_parts) : tables_(tables()) {
        tables_.known.make(static_cast<size_t>(n_parts));
        if (tables_.margin.size() < static_cast<size_t>(n_parts)) tables_.margin.resize(n_parts);
    }
    KnownMargins(const KnownMargins&) = delete;
    KnownMargins& operator=(const KnownMargins&) = delete;
    ~KnownMargins() { clear(); }

    template <typename F>
    float of(uint64_t part, F&& compute) {
        if (tables_.known[part] == 0.0f) {
            tables_.known[part] = 1.0f;
            parts_.push_back(part);
            tables_.margin[part] = compute();
        }
        return tables_.margin[part];
    }

    void clear() {
        for (const uint64_t part : parts_) tables_.known[part] = 0.0f;
        parts_.clear();
    }

  private:
    struct Tables {
        ZeroTable known;
        std::vector<float> margin;
    };
    static Tables& tables() {
        thread_local Tables tables;
        return tables;
    }

    Tables& tables_;
    std::vector<uint64_t> parts_;
};

}  // namespace

// Mean, least and largest margin of the parts of every candidate. The candidates of row i are
// labels[starts[i]:starts[i + 1]]; parts: lists of the parts of every label; weights: (parts, features);
// writes three columns of the table from `first` on.
void part_margins(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                  In1<int32_t> labels, const IndexLists& parts, const PackedVectors& weights, In1<float> bias,
                  Out2<float> table, int64_t first, int n_threads) {
    const auto n = static_cast<int64_t>(indptr.size()) - 1;
    const auto width = static_cast<int64_t>(table.shape(1));
    require(indices.size() == data.size(), "rows: indices, data: same size");
    require_indptr(indptr, data.size());
    require_indptr(starts, labels.size());
    require(starts.size() == indptr.size(), "starts: one more than rows");
    require(table.shape(0) == labels.size() && first >= 0 && first + kPartColumns <= width,
            "table: (candidates, columns)");
    require(parts.width() == weights.n_lines() && static_cast<int64_t>(bias.size()) == weights.n_lines(),
            "parts, weights, bias: as many parts");
    for (size_t e = 0; e < labels.size(); ++e)
        require(labels.data()[e] >= 0 && labels.data()[e] < parts.n_lines(), "labels: no such label");
    for (size_t e = 0; e < indices.size(); ++e)
        require(indices.data()[e] >= 0 && indices.data()[e] < weights.width(),
                "indices: a feature that the model does not have");
    GilRelease release;
    constexpr int64_t kBlock = 64;
    parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        SpreadRow x(weights.width());
        KnownMargins margins(parts.width());
        for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
            for (int64_t e = indptr.data()[row]; e < indptr.data()[row + 1]; ++e)
                x.set(indices.data()[e], data.data()[e]);
            for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c) {
                float* line = table.data() + c * width + first;
                float sum = 0.0f, count = 0.0f, least = kNoParts, largest = kNoParts;
                parts.each(labels.data()[c], [&](int64_t, uint64_t part) {
                    const float margin = margins.of(part, [&] {
                        return weights.product(static_cast<int32_t>(part), x) + bias.data()[part];
                    });
                    least = count == 0.0f ? margin : std::min(least, margin);
                    largest = count == 0.0f ? margin : std::max(largest, margin);
                    sum += margin;
                    count += 1.0f;
                });
                line[kMean] = count == 0.0f ? kNoParts : sum / count;
                line[kLeast] = least;
                line[kLargest] = largest;
            }
            x.clear();
            margins.clear();
        }
    });
}

}  // namespace sparseleaf

void bind_parts(nb::module_& m) {
    using namespace sparseleaf;
    m.def("part_margins", &part_margins, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
          nb::arg("starts"), nb::arg("labels"), nb::arg("parts"), nb::arg("weights"), nb::arg("bias"),
          nb::arg("table").noconvert(), nb::arg("first"), nb::arg("n_threads"));
}
