// Properties of characters, from Python's Unicode database: what a character is folded to (lower case,
// accents removed) and whether it is part of a word.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "common.hpp"

namespace sparseleaf {

enum class Kind : uint8_t { other, word, mark, ideograph, space };

// Two-stage tables: pages of 256 characters, of which few differ.
//
//   page_of[c >> 8] -> page;  change[page][c & 255] -> folded character - c, or
//   kExpansion - i for the i-th expansion, a sequence of 0, 2 or more characters
class TextTables {
  public:
    static constexpr uint32_t kCharacters = 0x110000;
    static constexpr int32_t kExpansion = -0x200000;

    TextTables(In1<uint16_t> page_of, In1<int32_t> changes, In1<uint8_t> kinds, In1<int64_t> starts,
               In1<int32_t> expansions);

    Kind kind(uint32_t c) const { return kinds_[at(c)]; }

    // Calls each(character) for every character that c is folded to.
    template <typename Each>
    void fold(uint32_t c, Each each) const {
        const int32_t change = changes_[at(c)];
        if (change > kExpansion) {
            each(static_cast<uint32_t>(static_cast<int32_t>(c) + change));
        } else {
            const size_t i = static_cast<size_t>(kExpansion - change);
            for (int64_t k = starts_[i]; k < starts_[i + 1]; ++k) each(expansions_[k]);
        }
    }

    char ascii_fold(unsigned char c) const { return ascii_fold_[c]; }
    Kind ascii_kind(unsigned char c) const { return ascii_kind_[c]; }  // of the folded character

  private:
    size_t at(uint32_t c) const { return size_t{page_of_[c >> 8]} << 8 | (c & 255); }

    std::vector<uint16_t> page_of_;
    std::vector<int32_t> changes_;
    std::vector<Kind> kinds_;
    std::vector<int64_t> starts_;
    std::vector<uint32_t> expansions_;
    std::array<char, 128> ascii_fold_;
    std::array<Kind, 128> ascii_kind_;
};

// The character at `p`, which is moved past it. The text is UTF-8 as Python encodes it, with lone surrogates,
// which become the replacement character.
inline uint32_t next_character(const char*& p) {
    const auto byte = [&] { return static_cast<uint32_t>(static_cast<unsigned char>(*p++)); };
    const uint32_t first = byte();
    if (first < 0x80) return first;
    const auto low = [&] { return byte() & 0x3f; };
    if (first < 0xe0) return (first & 0x1f) << 6 | low();
    if (first < 0xf0) {
        uint32_t c = (first & 0x0f) << 12;
        c |= low() << 6;
        c |= low();
        return c >= 0xd800 && c < 0xe000 ? 0xfffd : c;
    }
    uint32_t c = (first & 0x07) << 18;
    c |= low() << 12;
    c |= low() << 6;
    return c | low();
}

inline void append_character(std::vector<char>& text, uint32_t c) {
    const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xc0 | c >> 6);
        put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        put(0xe0 | c >> 12);
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3f));
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    }
}

}  // namespace sparseleaf
