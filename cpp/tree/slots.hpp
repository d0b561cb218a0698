// Histogram memory, reused from tree to tree.
#pragma once

#include "accumulator.hpp"

namespace sparseleaf {

// Integers aligned to cache lines, so that no 64-byte vector straddles two lines. Pages are committed on
// first write.
class AlignedInts {
  public:
    // Room for at least `size` numbers; does not preserve the contents.
    void reserve(int64_t size) {
        if (size <= size_) return;
        data_.reset();
        data_.reset(static_cast<int32_t*>(::operator new[](static_cast<size_t>(size) * 4, kLine)));
        size_ = size;
    }
    int32_t* data() const { return data_.get(); }

  private:
    static constexpr std::align_val_t kLine{64};
    struct Free {
        void operator()(int32_t* p) const { ::operator delete[](p, kLine); }
    };
    std::unique_ptr<int32_t[], Free> data_;
    int64_t size_ = 0;
};

// Histograms of nodes that wait to be split ("slots"), and of blocks of rows that threads build concurrently
// ("scratch").
class HistogramMemory {
  public:
    void start_tree(int64_t n_slots, int64_t n_scratch, int64_t n_bins, int64_t columns, bool counted_apart) {
        n_bins_ = std::max<int64_t>(n_bins, 1);
        columns_ = columns;
        counted_apart_ = counted_apart;
        n_slots_ = n_slots;
        sums_.reserve((n_slots + n_scratch) * n_bins_ * columns_);
        if (counted_apart) counts_.reserve((n_slots + n_scratch) * n_bins_);
    }

    Histogram slot(int64_t number) const {
        return {sums_.data() + number * n_bins_ * columns_,
                counted_apart_ ? counts_.data() + number * n_bins_ : nullptr};
    }
    Histogram scratch(int64_t number) const { return slot(n_slots_ + number); }

  private:
    AlignedInts sums_, counts_;
    int64_t n_bins_ = 1, columns_ = 0, n_slots_ = 0;
    bool counted_apart_ = false;
};

}  // namespace sparseleaf
