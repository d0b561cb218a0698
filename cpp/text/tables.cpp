#include "text/tables.hpp"

namespace sparseleaf {

TextTables::TextTables(In1<uint16_t> page_of, In1<int32_t> changes, In1<uint8_t> kinds, In1<int64_t> starts,
                       In1<int32_t> expansions)
    : page_of_(page_of.data(), page_of.data() + page_of.size()),
      changes_(changes.data(), changes.data() + changes.size()),
      starts_(starts.data(), starts.data() + starts.size()),
      expansions_(expansions.data(), expansions.data() + expansions.size()) {
    require(page_of.size() == kCharacters >> 8, "page_of: must have one entry per 256 characters");
    require(changes.size() == kinds.size() && changes.size() % 256 == 0,
            "changes, kinds: must have the same pages of 256 entries");
    for (const uint16_t page : page_of_)
        require((size_t{page} + 1) << 8 <= changes.size(), "page_of: must be pages of the tables");
    require_indptr(starts, expansions.size());
    for (const uint32_t c : expansions_) require(c < kCharacters, "expansions: must be characters");
    for (size_t i = 0; i < kinds.size(); ++i) {
        require(kinds.data()[i] <= static_cast<uint8_t>(Kind::space), "kinds: must be at most 4");
        kinds_.push_back(static_cast<Kind>(kinds.data()[i]));
    }
    const auto n_expansions = static_cast<int32_t>(starts.size()) - 1;
    for (uint32_t c = 0; c < kCharacters; ++c) {
        const int32_t change = changes_[at(c)];
        const int64_t folded = int64_t{c} + change;
        require(
            change > kExpansion ? folded >= 0 && folded < kCharacters : kExpansion - change < n_expansions,
            "changes: must lead to characters or expansions");
    }
    for (uint32_t c = 0; c < 128; ++c) {
        const int64_t folded = int64_t{c} + changes_[at(c)];
        require(folded >= 0 && folded < 128, "changes: ASCII must be folded to ASCII");
        ascii_fold_[c] = static_cast<char>(folded);
        ascii_kind_[c] = kind(static_cast<uint32_t>(folded));
    }
}

}  // namespace sparseleaf
