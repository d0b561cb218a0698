// A sorted vocabulary with a hash table from terms to columns.
#pragma once

#include <string_view>

#include "common.hpp"

namespace sparseleaf {

class TermIndex {
  public:
    // The terms in UTF-8, concatenated, and their lengths; throws unless they are valid, sorted and distinct.
    TermIndex(In1<uint8_t> text, In1<uint32_t> lengths);

    int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }

    // The column of a term, or -1.
    int32_t find(uint64_t hash, std::string_view term) const {
        const auto tag = static_cast<uint32_t>(hash >> 32);
        for (size_t slot = hash & mask_; slots_[slot].column >= 0; slot = (slot + 1) & mask_)
            if (slots_[slot].tag == tag && this->term(slots_[slot].column) == term)
                return slots_[slot].column;
        return -1;
    }

  private:
    struct Slot {
        uint32_t tag;
        int32_t column;
    };

    std::string_view term(int64_t column) const {
        return {text_ + offsets_[column], static_cast<size_t>(offsets_[column + 1] - offsets_[column])};
    }

    In1<uint8_t> owner_;
    const char* text_;
    std::vector<int64_t> offsets_;
    std::vector<Slot> slots_;
    size_t mask_;
};

}  // namespace sparseleaf
