#include "text/analyzer.hpp"

namespace sparseleaf {
namespace {

constexpr int kMaxLength = 64;

// Calls each(folded character, its kind) for all characters of a text.
template <typename Each>
inline void for_each_character(const TextTables& tables, std::string_view text, Each each) {
    const char *p = text.data(), *const end = p + text.size();
    while (p < end) {
        const auto c = static_cast<unsigned char>(*p);
        if (c < 0x80) {
            ++p;
            each(static_cast<uint32_t>(tables.ascii_fold(c)), tables.ascii_kind(c));
        } else {
            tables.fold(next_character(p), [&](uint32_t folded) { each(folded, tables.kind(folded)); });
        }
    }
}

uint32_t size_of(const std::vector<char>& text) {
    return static_cast<uint32_t>(text.size());
}

}  // namespace

TextAnalyzer::TextAnalyzer(std::shared_ptr<TextTables> tables, int analyzer, int min_n, int max_n,
                           In1<uint8_t> stop_text, In1<uint32_t> stop_lengths, In1<float> field_weights,
                           bool binary)
    : tables_(std::move(tables)),
      analyzer_(analyzer),
      min_n_(min_n),
      max_n_(max_n),
      stop_text_(reinterpret_cast<const char*>(stop_text.data()), stop_text.size()),
      field_weights_(field_weights.data(), field_weights.data() + field_weights.size()),
      binary_(binary) {
    require(tables_ != nullptr, "tables: must not be None");
    require(analyzer >= word && analyzer <= character_in_word, "analyzer: must be 0, 1 or 2");
    require(1 <= min_n && min_n <= max_n && max_n <= kMaxLength, "min_n, max_n: must be 1 to 64, ascending");
    require(!field_weights_.empty(), "field_weights: must not be empty");
    size_t begin = 0;
    for (size_t i = 0; i < stop_lengths.size(); ++i) {
        require(stop_lengths.data()[i] <= stop_text_.size() - begin, "stop_lengths: beyond the text");
        stop_words_.insert(std::string_view(stop_text_).substr(begin, stop_lengths.data()[i]));
        begin += stop_lengths.data()[i];
    }
}

// Adds the word that was written to the end of the text, or removes it if it is short or a stop word.
void TextAnalyzer::end_word(ParsedText& parsed, size_t begin, int64_t n_characters, int64_t least) const {
    const std::string_view written(parsed.text.data() + begin, parsed.text.size() - begin);
    if (n_characters < least || (!stop_words_.empty() && stop_words_.contains(written))) {
        parsed.text.resize(begin);
        return;
    }
    parsed.words.push_back({static_cast<uint32_t>(begin), size_of(parsed.text)});
    parsed.text.push_back(' ');
}

// Splits a run of ideographs into overlapping pairs; a single one is a word.
void TextAnalyzer::end_run(ParsedText& parsed) const {
    const size_t n = parsed.run_starts.size();
    parsed.run_starts.push_back(size_of(parsed.run));
    for (size_t i = 0; i + 1 < n || i == 0; ++i) {
        const size_t begin = parsed.text.size(), end = parsed.run_starts[std::min(i + 2, n)];
        parsed.text.insert(parsed.text.end(), parsed.run.begin() + parsed.run_starts[i],
                           parsed.run.begin() + static_cast<std::ptrdiff_t>(end));
        end_word(parsed, begin, 1, 1);
    }
    parsed.run.clear();
    parsed.run_starts.clear();
}

void TextAnalyzer::parse_words(std::string_view text, ParsedText& parsed) const {
    constexpr int64_t kLeastCharacters = 2;
    Kind before = Kind::other;  // of the word that is being read
    size_t begin = 0;
    int64_t n_characters = 0;
    const auto finish = [&] {
        if (before == Kind::word) end_word(parsed, begin, n_characters, kLeastCharacters);
        if (before == Kind::ideograph) end_run(parsed);
        before = Kind::other;
    };
    for_each_character(*tables_, text, [&](uint32_t c, Kind kind) {
        if (kind == Kind::mark) kind = before;  // part of the word, if there is one
        if (kind != Kind::word && kind != Kind::ideograph) {
            finish();
            return;
        }
        const bool is_mark = tables_->kind(c) == Kind::mark;
        if (kind != before) {
            finish();
            before = kind;
            begin = parsed.text.size();
            n_characters = 0;
        }
        if (kind == Kind::word) {
            append_character(parsed.text, c);
            ++n_characters;
        } else {
            if (!is_mark) parsed.run_starts.push_back(size_of(parsed.run));
            append_character(parsed.run, c);
        }
    });
    finish();
}

void TextAnalyzer::parse_characters(std::string_view text, ParsedText& parsed) const {
    bool after_space = false;
    for_each_character(*tables_, text, [&](uint32_t c, Kind kind) {
        const bool space = kind == Kind::space;
        if (space && after_space) {  // two or more are one blank
            parsed.text.resize(parsed.starts.back());
            parsed.text.push_back(' ');
            return;
        }
        after_space = space;
        parsed.starts.push_back(size_of(parsed.text));
        append_character(parsed.text, c);
    });
    parsed.starts.push_back(size_of(parsed.text));
}

void TextAnalyzer::parse_padded_words(std::string_view text, ParsedText& parsed) const {
    bool in_word = false;
    const auto add = [&](uint32_t c) {
        parsed.starts.push_back(size_of(parsed.text));
        append_character(parsed.text, c);
    };
    const auto finish = [&] {
        if (!in_word) return;
        in_word = false;
        add(' ');
        parsed.words.back().end = static_cast<uint32_t>(parsed.starts.size());
        parsed.starts.push_back(size_of(parsed.text));  // the end of the word
    };
    for_each_character(*tables_, text, [&](uint32_t c, Kind kind) {
        if (kind == Kind::space) {
            finish();
            return;
        }
        if (!in_word) {
            in_word = true;
            parsed.words.push_back({static_cast<uint32_t>(parsed.starts.size()), 0});
            add(' ');
        }
        add(c);
    });
    finish();
}

std::vector<std::string> TextAnalyzer::terms(std::string_view text) const {
    ParsedText parsed;
    std::vector<std::string> terms;
    analyze(text, parsed, [&](uint32_t begin, uint32_t end) {
        terms.emplace_back(parsed.text.data() + begin, end - begin);
    });
    return terms;
}

}  // namespace sparseleaf
