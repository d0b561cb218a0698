// Texts to terms: n-grams of words or characters, as scikit-learn's analyzers form them.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include "text/tables.hpp"

namespace sparseleaf {

// A range of bytes of the normalised text.
struct Slice {
    uint32_t begin, end;
};

// A normalised text in which every term is a slice: words are separated by one space, so that an n-gram of
// words is contiguous, too. Reused from text to text.
struct ParsedText {
    std::vector<char> text;
    std::vector<Slice> words;      // bytes of words; for char_wb, ranges of `starts`
    std::vector<uint32_t> starts;  // of characters
    std::vector<char> run;         // ideographs since the last other character
    std::vector<uint32_t> run_starts;

    void clear() {
        text.clear();
        words.clear();
        starts.clear();
    }
};

class TextAnalyzer {
  public:
    enum Analyzer : int { word, character, character_in_word };

    TextAnalyzer(std::shared_ptr<TextTables> tables, int analyzer, int min_n, int max_n,
                 In1<uint8_t> stop_text, In1<uint32_t> stop_lengths, In1<float> field_weights, bool binary);

    // Appends the terms of a text in UTF-8; visit(begin, end) is called for each, in no particular order.
    template <typename Visit>
    void analyze(std::string_view text, ParsedText& parsed, Visit visit) const {
        parsed.words.clear();
        parsed.starts.clear();
        if (analyzer_ == word) {
            parse_words(text, parsed);
            const auto n_words = static_cast<int64_t>(parsed.words.size());
            for (int64_t n = min_n_; n <= std::min(max_n_, n_words); ++n)
                for (int64_t i = 0; i + n <= n_words; ++i)
                    visit(parsed.words[i].begin, parsed.words[i + n - 1].end);
        } else if (analyzer_ == character) {
            parse_characters(text, parsed);
            const auto size = static_cast<int64_t>(parsed.starts.size()) - 1;
            for (int64_t n = min_n_; n <= std::min(max_n_, size); ++n)
                for (int64_t i = 0; i + n <= size; ++i) visit(parsed.starts[i], parsed.starts[i + n]);
        } else {
            parse_padded_words(text, parsed);
            for (const Slice padded : parsed.words) {
                const uint32_t* starts = parsed.starts.data() + padded.begin;
                const int64_t size = padded.end - padded.begin;
                for (int64_t n = min_n_; n <= max_n_; ++n) {
                    for (int64_t i = 0; i + n <= size; ++i) visit(starts[i], starts[i + n]);
                    if (n > size) visit(starts[0], starts[size]);
                    if (n >= size) break;  // a short word counts once
                }
            }
        }
    }

    size_t n_fields() const { return field_weights_.size(); }
    float field_weight(size_t field) const { return field_weights_[field]; }
    bool binary() const { return binary_; }

    std::vector<std::string> terms(std::string_view text) const;

  private:
    void parse_words(std::string_view text, ParsedText& parsed) const;
    void parse_characters(std::string_view text, ParsedText& parsed) const;
    void parse_padded_words(std::string_view text, ParsedText& parsed) const;
    void end_word(ParsedText& parsed, size_t begin, int64_t n_characters, int64_t least) const;
    void end_run(ParsedText& parsed) const;

    std::shared_ptr<TextTables> tables_;
    int analyzer_;
    int64_t min_n_, max_n_;
    std::string stop_text_;
    std::unordered_set<std::string_view> stop_words_;
    std::vector<float> field_weights_;
    bool binary_;
};

}  // namespace sparseleaf
