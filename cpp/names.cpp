// Evidence from label names and a hierarchy of labels: which names occur in a row, and how well; scores of
// related candidates.
//
// A name is a set of words. A feature of a row, a term of its text, is similar to some words, from 0 to 1.
// Every row is processed by one thread.
#include <numeric>
#include <string_view>

#include "pairs.hpp"
#include "topk.hpp"
#include "vectors.hpp"

namespace sparseleaf {
namespace {

constexpr float kExact = 0.999f;   // similarity of equal words, after quantisation to 8 bits
constexpr float kProposed = 0.5f;  // fraction of a name's weight that must be found

// Columns of evidence.
enum NameColumn : int {
    kShare = 0,   // fraction of the name's weight that is found, by similarity
    kEqual = 1,   // fraction found as equal words
    kMass = 2,    // Σ value · similarity of the features found
    kWords = 3,   // number of words of the name
    kWeight = 4,  // weight of the name
    kAlike = 5,   // log(1 + number of names with the same heaviest word)
    kPlace = 6,   // log(1 + rank among the names found, or their number)
    kNameColumns = 7
};

// The words that a row has. Tables are thread-local: their allocation costs more than a row.
class FoundWords {
  public:
    explicit FoundWords(int64_t n_words) : tables_(tables()) {
        tables_.similarity.make(static_cast<size_t>(n_words));
        tables_.value.make(static_cast<size_t>(n_words));
        if (tables_.entry.size() < static_cast<size_t>(n_words)) tables_.entry.resize(n_words);
    }
    FoundWords(const FoundWords&) = delete;
    FoundWords& operator=(const FoundWords&) = delete;
    ~FoundWords() { clear(); }

    // A word is found by its most similar feature, the first in a tie.
    void add(uint64_t word, float similarity, float value, int64_t entry) {
        similarity = std::min(similarity, 1.0f);
        if (!(similarity > 0.0f)) return;
        float& best = tables_.similarity[word];
        if (best == 0.0f) words_.push_back(static_cast<int32_t>(word));
        if (similarity > best) {
            best = similarity;
            tables_.entry[word] = entry;
        }
        tables_.value[word] = std::max(tables_.value[word], similarity * std::max(value, 0.0f));
    }

    void clear() {
        for (const int32_t word : words_) tables_.similarity[word] = tables_.value[word] = 0.0f;
        words_.clear();
    }

    const std::vector<int32_t>& words() const { return words_; }
    float similarity(uint64_t word) const { return tables_.similarity[word]; }
    float value(uint64_t word) const { return tables_.value[word]; }
    int64_t entry(uint64_t word) const { return tables_.entry[word]; }

  private:
    struct Tables {
        ZeroTable similarity, value;
        std::vector<int64_t> entry;
    };
    static Tables& tables() {
        thread_local Tables tables;
        return tables;
    }

    Tables& tables_;
    std::vector<int32_t> words_;
};

struct Match {
    int64_t name = -1;
    float share = 0.0f, equal = 0.0f, mass = 0.0f;
    float words = 0.0f;
};

}  // namespace

class NameMatcher {
  public:
    // similar: (features, words); names: lists of words; weights: of the words; starts: the names of label i
    // are starts[i] to starts[i + 1] - 1.
    NameMatcher(const PackedVectors& similar, const IndexLists& names, In1<float> weights,
                In1<int64_t> starts)
        : similar_(similar), names_(names), weights_(weights), starts_(starts) {
        const auto n_words = static_cast<int64_t>(weights.size());
        require(similar.width() == n_words && names.width() == n_words, "weights: must have one per word");
        require_indptr(starts, static_cast<size_t>(names.n_lines()));
        for (size_t w = 0; w < weights.size(); ++w)
            require(std::isfinite(weights.data()[w]) && weights.data()[w] > 0.0f,
                    "weights: must be finite and positive");
        GilRelease release;
        std::vector<int32_t> heaviest(static_cast<size_t>(names.n_lines()), -1);
        totals_.assign(static_cast<size_t>(names.n_lines()), 0.0f);
        headed_starts_.assign(weights.size() + 1, 0);
        for (int64_t name = 0; name < names.n_lines(); ++name) {
            float most = 0.0f;
            names.each(name, [&](int64_t, uint64_t word) {
                const float weight = weights.data()[word];
                totals_[name] += weight;
                if (weight > most) {
                    most = weight;
                    heaviest[name] = static_cast<int32_t>(word);
                }
            });
            require(std::isfinite(totals_[name]), "weights: must have finite sums");
            if (heaviest[name] >= 0) ++headed_starts_[heaviest[name] + 1];
        }
        for (size_t w = 0; w < weights.size(); ++w) headed_starts_[w + 1] += headed_starts_[w];
        headed_.resize(static_cast<size_t>(headed_starts_.back()));
        label_of_.resize(static_cast<size_t>(names.n_lines()));
        alike_.assign(static_cast<size_t>(names.n_lines()), 0);
        for (int64_t label = 0; label < n_labels(); ++label)
            for (int64_t name = starts.data()[label]; name < starts.data()[label + 1]; ++name)
                label_of_[name] = static_cast<int32_t>(label);
        auto next = headed_starts_;
        for (int64_t name = 0; name < names.n_lines(); ++name)
            if (const int32_t word = heaviest[name]; word >= 0) {
                headed_[next[word]++] = static_cast<int32_t>(name);
                alike_[name] = static_cast<int32_t>(headed_starts_[word + 1] - headed_starts_[word]);
            }
    }

    // The labels whose names are found best, best first, padded with -1: (rows, k). The heaviest word of a
    // name must be found, so that only the names with that word are compared.
    void propose(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, Out2<int32_t> labels,
                 int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1, k = static_cast<int64_t>(labels.shape(1));
        check_rows(indptr, indices, data);
        require(static_cast<int64_t>(labels.shape(0)) == n, "labels: (rows, k)");
        GilRelease release;
        each_row(n, n_threads, [&](int64_t row, FoundWords& found) {
            find(indptr, indices, data, row, found);
            thread_local std::vector<Scored> list;
            thread_local std::vector<float> scores;
            list.clear();
            for (const int32_t word : found.words())
                for (int64_t i = headed_starts_[word]; i < headed_starts_[word + 1]; ++i) {
                    const Match match = matched(headed_[i], found);
                    if (match.share >= kProposed)
                        list.push_back({match.share * match.share * match.mass, label_of_[headed_[i]]});
                }
            // of several names of a label, the best
            std::sort(list.begin(), list.end(), [](const Scored& a, const Scored& b) {
                return a.label != b.label ? a.label < b.label : a.score > b.score;
            });
            list.erase(std::unique(list.begin(), list.end(),
                                   [](const Scored& a, const Scored& b) { return a.label == b.label; }),
                       list.end());
            scores.resize(static_cast<size_t>(k));
            write_topk(list, k, labels.data() + row * k, scores.data());
        });
    }

    // Evidence for candidates: the best name of each. The candidates of row i are labels[starts[i]:starts[i +
    // 1]], `proposed` is what `propose` returns; writes columns of the table from `first` on.
    void evidence(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
                  In1<int32_t> labels, In2<int32_t> proposed, Out2<float> table, int64_t first,
                  int n_threads) const {
        const auto n = static_cast<int64_t>(indptr.size()) - 1, k = static_cast<int64_t>(proposed.shape(1));
        const auto width = static_cast<int64_t>(table.shape(1));
        check_rows(indptr, indices, data);
        require_indptr(starts, labels.size());
        require(starts.size() == indptr.size(), "starts: one more than rows");
        require(static_cast<int64_t>(proposed.shape(0)) == n, "proposed: (rows, k)");
        require(table.shape(0) == labels.size() && first >= 0 && first + kNameColumns <= width,
                "table: (candidates, columns)");
        for (size_t e = 0; e < labels.size(); ++e)
            require(labels.data()[e] >= 0 && labels.data()[e] < n_labels(), "labels: no such label");
        GilRelease release;
        each_row(n, n_threads, [&](int64_t row, FoundWords& found) {
            find(indptr, indices, data, row, found);
            for (int64_t c = starts.data()[row]; c < starts.data()[row + 1]; ++c) {
                const int32_t label = labels.data()[c];
                const Match match = best_name(label, found);
                const int32_t* begin = proposed.data() + row * k;
                float* line = table.data() + c * width + first;
                line[kShare] = match.share;
                line[kEqual] = match.equal;
                line[kMass] = match.mass;
                line[kWords] = match.words;
                line[kWeight] = match.name < 0 ? 0.0f : totals_[match.name];
                line[kAlike] = match.name < 0 ? 0.0f : std::log1p(static_cast<float>(alike_[match.name]));
                line[kPlace] = std::log1p(static_cast<float>(std::find(begin, begin + k, label) - begin));
            }
        });
    }

    // The terms of the share of pairs: those of the features by which the words of the best name are found.
    void terms(In1<int64_t> indptr, In1<int32_t> indices, In1<float> data, In1<int64_t> starts,
               In1<int32_t> labels, In1<int64_t> offsets, Out1<double> out, int n_threads) const {
        const RowPairs pairs{indptr, indices, data, starts, labels, offsets, out};
        pairs.check(similar_.n_lines(), n_labels());
        std::fill(out.data(), out.data() + out.size(), 0.0);
        GilRelease release;
        pairs.each_row(n_threads, [&](int64_t row, int) {
            FoundWords found(static_cast<int64_t>(weights_.size()));
            find(indptr, indices, data, row, found);
            for (int64_t p = starts.data()[row]; p < starts.data()[row + 1]; ++p) {
                const Match match = best_name(labels.data()[p], found);
                if (match.name < 0) continue;
                double* terms = out.data() + offsets.data()[p];
                names_.each(match.name, [&](int64_t, uint64_t word) {
                    if (found.similarity(word) > 0.0f)
                        terms[found.entry(word)] += static_cast<double>(weights_.data()[word]) *
                                                    found.similarity(word) / totals_[match.name];
                });
            }
        });
    }

    int64_t n_labels() const { return static_cast<int64_t>(starts_.size()) - 1; }

  private:
    void check_rows(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data) const {
        require(indices.size() == data.size(), "rows: indices, data: same size");
        require_indptr(indptr, data.size());
        for (size_t e = 0; e < indices.size(); ++e)
            require(indices.data()[e] >= 0 && indices.data()[e] < similar_.n_lines(),
                    "indices: a feature that the model does not have");
    }

    template <typename F>
    void each_row(int64_t n, int n_threads, F&& use) const {
        constexpr int64_t kBlock = 64;
        parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            FoundWords found(static_cast<int64_t>(weights_.size()));
            for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
                use(row, found);
                found.clear();
            }
        });
    }

    // Entries of the row count from its first.
    void find(const In1<int64_t>& indptr, const In1<int32_t>& indices, const In1<float>& data, int64_t row,
              FoundWords& found) const {
        const int64_t begin = indptr.data()[row];
        for (int64_t e = begin; e < indptr.data()[row + 1]; ++e)
            similar_.each_value(indices.data()[e], [&](uint64_t word, float similarity) {
                found.add(word, similarity, data.data()[e], e - begin);
            });
    }

    Match matched(int64_t name, const FoundWords& found) const {
        Match match{name};
        names_.each(name, [&](int64_t, uint64_t word) {
            const float similarity = found.similarity(word), weight = weights_.data()[word];
            match.words += 1.0f;
            match.share += weight * similarity;
            if (similarity >= kExact) match.equal += weight;
            match.mass += found.value(word);
        });
        if (totals_[name] > 0.0f) {
            match.share /= totals_[name];
            match.equal /= totals_[name];
        }
        return match;
    }

    // The name of largest share, then mass; the first in a tie.
    Match best_name(int32_t label, const FoundWords& found) const {
        Match best;
        for (int64_t name = starts_.data()[label]; name < starts_.data()[label + 1]; ++name) {
            const Match match = matched(name, found);
            if (best.name < 0 || match.share > best.share ||
                (match.share == best.share && match.mass > best.mass))
                best = match;
        }
        return best;
    }

    const PackedVectors& similar_;
    const IndexLists& names_;
    In1<float> weights_;
    In1<int64_t> starts_;
    std::vector<float> totals_;
    std::vector<int64_t> headed_starts_;  // names by their heaviest word
    std::vector<int32_t> headed_;
    std::vector<int32_t> label_of_, alike_;
};

namespace {

// Terms in UTF-8, concatenated.
class Strings {
  public:
    Strings(const In1<uint8_t>& text, const In1<uint32_t>& lengths)
        : text_(reinterpret_cast<const char*>(text.data())) {
        offsets_.push_back(0);
        for (size_t i = 0; i < lengths.size(); ++i) offsets_.push_back(offsets_.back() + lengths.data()[i]);
        require(offsets_.back() == static_cast<int64_t>(text.size()),
                "lengths: must add up to the size of the text");
    }

    int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
    std::string_view operator[](int64_t i) const {
        return {text_ + offsets_[i], static_cast<size_t>(offsets_[i + 1] - offsets_[i])};
    }

  private:
    const char* text_;
    std::vector<int64_t> offsets_;
};

bool starts_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

int64_t count_characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(), starts_character);
}

// The first n characters; empty if there are fewer.
std::string_view first_characters(std::string_view text, int64_t n) {
    for (size_t i = 0; i < text.size(); ++i)
        if (starts_character(text[i]) && n-- == 0) return text.substr(0, i);
    return n == 0 ? text : std::string_view();
}

int64_t common_characters(std::string_view a, std::string_view b) {
    size_t i = 0;
    while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
    while (i > 0 && ((i < a.size() && !starts_character(a[i])) || (i < b.size() && !starts_character(b[i]))))
        --i;
    return count_characters(a.substr(0, i));
}

}  // namespace

// For each word the terms that are similar to it: equal, or with a common prefix of at least `prefix`
// characters and similarity 2 · common / (sum of lengths) >= `least`. Terms of several words are left out.
// Terms are sorted. Answers (indptr, terms, similarities).
nb::tuple similar_terms(In1<uint8_t> term_text, In1<uint32_t> term_lengths, In1<uint8_t> word_text,
                        In1<uint32_t> word_lengths, int64_t prefix, double least, int n_threads) {
    const Strings terms(term_text, term_lengths), words(word_text, word_lengths);
    require(prefix >= 1 && least > 0.0, "prefix, least: must be positive");
    for (int64_t i = 1; i < terms.size(); ++i) require(terms[i - 1] < terms[i], "terms: must be sorted");
    std::vector<std::vector<std::pair<int32_t, float>>> lists(static_cast<size_t>(words.size()));
    std::vector<int64_t> numbers(static_cast<size_t>(terms.size()));
    std::iota(numbers.begin(), numbers.end(), 0);
    const auto first_from = [&](std::string_view text) {
        return std::lower_bound(numbers.begin(), numbers.end(), text,
                                [&](int64_t i, std::string_view other) { return terms[i] < other; }) -
               numbers.begin();
    };
    {
        GilRelease release;
        constexpr int64_t kBlock = 256;
        parallel_tasks((words.size() + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
            for (int64_t w = block * kBlock; w < std::min(words.size(), (block + 1) * kBlock); ++w) {
                const std::string_view word = words[w], head = first_characters(word, prefix);
                const int64_t length = count_characters(word);
                if (head.empty()) {
                    const int64_t i = first_from(word);
                    if (i < terms.size() && terms[i] == word) lists[w].emplace_back(i, 1.0f);
                    continue;
                }
                for (int64_t i = first_from(head); i < terms.size() && terms[i].starts_with(head); ++i) {
                    if (terms[i].find(' ') != std::string_view::npos) continue;
                    const double similarity = 2.0 * static_cast<double>(common_characters(word, terms[i])) /
                                              static_cast<double>(length + count_characters(terms[i]));
                    if (similarity >= least)
                        lists[w].emplace_back(static_cast<int32_t>(i), static_cast<float>(similarity));
                }
            }
        });
    }
    auto indptr = std::make_unique<int64_t[]>(static_cast<size_t>(words.size()) + 1);
    for (int64_t w = 0; w < words.size(); ++w)
        indptr[w + 1] = indptr[w] + static_cast<int64_t>(lists[w].size());
    const auto total = static_cast<size_t>(indptr[words.size()]);
    std::unique_ptr<int32_t[]> columns(new int32_t[total]);
    std::unique_ptr<float[]> similarities(new float[total]);
    size_t at = 0;
    for (const auto& list : lists)
        for (const auto& [column, similarity] : list) {
            columns[at] = column;
            similarities[at++] = similarity;
        }
    return nb::make_tuple(to_numpy(std::move(indptr), static_cast<size_t>(words.size()) + 1),
                          to_numpy(std::move(columns), total), to_numpy(std::move(similarities), total));
}

// The largest value among the broader, narrower and sibling candidates of every candidate, 0 without any.
// The candidates of row i are labels[starts[i]:starts[i + 1]], increasing; broader: lists of labels. Writes
// three columns of the table from `first` on.
void related_values(In1<int64_t> starts, In1<int32_t> labels, In1<float> values, const IndexLists& broader,
                    Out2<float> table, int64_t first, int n_threads) {
    const auto n = static_cast<int64_t>(starts.size()) - 1;
    const auto width = static_cast<int64_t>(table.shape(1));
    require_indptr(starts, labels.size());
    require(values.size() == labels.size() && table.shape(0) == labels.size(), "values: one per candidate");
    require(first >= 0 && first + 3 <= width, "table: (candidates, columns)");
    for (size_t e = 0; e < labels.size(); ++e)
        require(labels.data()[e] >= 0 && labels.data()[e] < broader.n_lines(), "labels: no such label");
    GilRelease release;
    constexpr int64_t kBlock = 64;
    parallel_tasks((n + kBlock - 1) / kBlock, n_threads, [&](int64_t block, int) {
        std::vector<std::pair<uint64_t, int64_t>> by_parent;  // a broader label, which may be no candidate
        for (int64_t row = block * kBlock; row < std::min(n, (block + 1) * kBlock); ++row) {
            const int64_t begin = starts.data()[row], end = starts.data()[row + 1];
            const int32_t* listed = labels.data();
            const auto line = [&](int64_t c) { return table.data() + c * width + first; };
            by_parent.clear();
            for (int64_t c = begin; c < end; ++c) {
                std::fill(line(c), line(c) + 3, 0.0f);
                broader.each(listed[c], [&](int64_t, uint64_t parent) { by_parent.emplace_back(parent, c); });
            }
            std::sort(by_parent.begin(), by_parent.end());
            for (size_t i = 0, next = 0; i < by_parent.size(); i = next) {
                const uint64_t parent = by_parent[i].first;
                float best = 0.0f, second = 0.0f;
                for (next = i; next < by_parent.size() && by_parent[next].first == parent; ++next) {
                    const float value = values.data()[by_parent[next].second];
                    second = std::max(second, std::min(best, value));
                    best = std::max(best, value);
                }
                const int32_t* at =
                    std::lower_bound(listed + begin, listed + end, static_cast<int64_t>(parent));
                const int64_t place = at - listed;
                const bool there = place < end && *at == static_cast<int64_t>(parent);
                if (there) line(place)[1] = best;
                for (size_t j = i; j < next; ++j) {
                    const int64_t c = by_parent[j].second;
                    const float value = values.data()[c];
                    if (there) line(c)[0] = std::max(line(c)[0], values.data()[place]);
                    line(c)[2] = std::max(line(c)[2], value == best ? second : best);
                }
            }
        }
    });
}

}  // namespace sparseleaf

void bind_names(nb::module_& m) {
    using namespace sparseleaf;
    nb::class_<NameMatcher>(m, "NameMatcher")
        .def(nb::init<const PackedVectors&, const IndexLists&, In1<float>, In1<int64_t>>(),
             nb::arg("similar"), nb::arg("names"), nb::arg("weights"), nb::arg("starts"),
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("propose", &NameMatcher::propose, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("labels").noconvert(), nb::arg("n_threads"))
        .def("evidence", &NameMatcher::evidence, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("proposed"), nb::arg("table").noconvert(),
             nb::arg("first"), nb::arg("n_threads"))
        .def("terms", &NameMatcher::terms, nb::arg("indptr"), nb::arg("indices"), nb::arg("data"),
             nb::arg("starts"), nb::arg("labels"), nb::arg("offsets"), nb::arg("out").noconvert(),
             nb::arg("n_threads"));
    m.def("similar_terms", &similar_terms, nb::arg("term_text"), nb::arg("term_lengths"),
          nb::arg("word_text"), nb::arg("word_lengths"), nb::arg("prefix"), nb::arg("least"),
          nb::arg("n_threads"));
    m.def("related_values", &related_values, nb::arg("starts"), nb::arg("labels"), nb::arg("values"),
          nb::arg("broader"), nb::arg("table").noconvert(), nb::arg("first"), nb::arg("n_threads"));
}
