// Histogram memory, reused from tree to tree.
#pragma once

#include <mutex>

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
        free_.clear();
        for (auto slot = static_cast<int32_t>(n_slots); slot-- > 0;) free_.push_back(slot);
    }

    Histogram slot(int64_t number) const {
        return {sums_.data() + number * n_bins_ * columns_,
                counted_apart_ ? counts_.data() + number * n_bins_ : nullptr};
    }
    Histogram scratch(int64_t number) const { return slot(n_slots_ + number); }

    int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

    // Thread-safe. Last released, first taken: it is likely still in cache.
    int32_t take() {
        const std::lock_guard lock(mutex_);
        require(!free_.empty(), "histograms: not enough slots");
        const int32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    void give_back(int32_t slot) {
        const std::lock_guard lock(mutex_);
        free_.push_back(slot);
    }

  private:
    AlignedInts sums_, counts_;
    int64_t n_bins_ = 1, columns_ = 0, n_slots_ = 0;
    bool counted_apart_ = false;
    std::mutex mutex_;
    std::vector<int32_t> free_;
};

}  // namespace sparseleaf
