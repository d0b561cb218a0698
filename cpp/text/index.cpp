#include "text/index.hpp"

#include <bit>
#include <limits>

#include "text/document.hpp"

namespace sparseleaf {
namespace {

// Whether bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text) {
    const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    for (size_t i = 0; i < text.size();) {
        const unsigned char first = at(i);
        if (first < 0x80) {
            ++i;
            continue;
        }
        const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                              : first >= 0xe0 && first < 0xf0 ? 3
                              : first >= 0xf0 && first < 0xf5 ? 4
                                                              : 0;
        if (length == 0 || length > text.size() - i) return false;
        for (size_t k = 1; k < length; ++k)
            if ((at(i + k) & 0xc0) != 0x80) return false;
        const unsigned char second = at(i + 1);
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
            (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90))
            return false;
        i += length;
    }
    return true;
}

}  // namespace

TermIndex::TermIndex(In1<uint8_t> text, In1<uint32_t> lengths)
    : owner_(text), text_(reinterpret_cast<const char*>(text.data())) {
    require(lengths.size() <= std::numeric_limits<int32_t>::max(), "terms: must be fewer than 2^31");
    offsets_.push_back(0);
    for (size_t i = 0; i < lengths.size(); ++i) {
        require(lengths.data()[i] > 0, "terms: must not be empty");
        offsets_.push_back(offsets_.back() + lengths.data()[i]);
    }
    require(offsets_.back() == static_cast<int64_t>(text.size()),
            "lengths: must add up to the size of the terms");
    mask_ = std::bit_ceil(2 * lengths.size() + 1) - 1;
    slots_.assign(mask_ + 1, Slot{0, -1});
    for (int64_t i = 0; i < size(); ++i) {
        require(is_utf8(term(i)), "terms: must be UTF-8");
        require(i == 0 || term(i - 1) < term(i), "terms: must be sorted and distinct");
        const uint64_t hash = hash_bytes(term(i).data(), term(i).size());
        size_t slot = hash & mask_;
        while (slots_[slot].column >= 0) slot = (slot + 1) & mask_;
        slots_[slot] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(i)};
    }
}

}  // namespace sparseleaf
