// Collectives by the Python communicator: see workers.hpp.
#include "workers.hpp"

#include <mutex>

namespace sparseleaf {
namespace {

std::mutex spare_mutex;
std::vector<int32_t> spare;

template <typename T>
void recycle(std::vector<T>& values) {
    if constexpr (std::is_same_v<T, int32_t>) {
        const std::lock_guard lock(spare_mutex);
        if (values.capacity() > spare.capacity()) values.swap(spare);
    }
}

// Moves values into a numpy array that outlives the call: workers in the same process receive the array
// itself.
template <typename T>
nb::object to_numpy(std::vector<T> values) {
    require_room_for_handles();
    auto* held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void* p) noexcept {
        auto* values = static_cast<std::vector<T>*>(p);
        recycle(*values);
        delete values;
    });
    return nb::cast(Numpy1<T>(held->data(), {held->size()}, owner));
}

template <typename T>
std::vector<T> copied(const nb::object& array) {
    const auto values = nb::cast<In1<T>>(array);
    return {values.data(), values.data() + values.size()};
}

}  // namespace

Workers::Workers(nb::object communicator, bool by_rows)
    : communicator_(std::move(communicator)),
      by_rows_(by_rows),
      rank_(nb::cast<int>(communicator_.attr("rank"))),
      size_(nb::cast<int>(communicator_.attr("size"))) {
    require(size_ >= 1 && rank_ >= 0 && rank_ < size_, "communicator: rank must be less than size");
}

void Workers::allreduce(std::vector<int64_t>& values) const {
    if (alone()) return;
    GilAcquire acquire;
    const nb::object total = communicator_.attr("allreduce")(to_numpy(values));
    const std::vector<int64_t> sums = copied<int64_t>(total);
    require(sums.size() == values.size(), "allreduce: workers must pass arrays of equal size");
    values = sums;
}

std::vector<std::vector<uint8_t>> Workers::allgather(std::vector<uint8_t> bytes) const {
    if (alone()) return {std::move(bytes)};
    GilAcquire acquire;
    const nb::object all = communicator_.attr("allgather")(to_numpy(std::move(bytes)));
    std::vector<std::vector<uint8_t>> received;
    for (const nb::handle one : all) received.push_back(copied<uint8_t>(nb::borrow(one)));
    require(static_cast<int>(received.size()) == size_, "allgather: must return one array per worker");
    return received;
}

void Workers::reduce_scatter(std::vector<int32_t> values, const std::vector<int64_t>& counts,
                             const std::function<void(const int32_t*)>& use) const {
    if (alone()) return use(values.data());
    GilAcquire acquire;
    nb::list sizes;
    for (const int64_t count : counts) sizes.append(count);
    const nb::object block = communicator_.attr("reduce_scatter")(to_numpy(std::move(values)), sizes);
    const auto sums = nb::cast<In1<int32_t>>(block);
    require(static_cast<int64_t>(sums.size()) == counts[rank_],
            "reduce_scatter: must return this worker's block");
    use(sums.data());
}

std::vector<int32_t> Workers::room() {
    std::vector<int32_t> values;
    const std::lock_guard lock(spare_mutex);
    values.swap(spare);
    values.clear();
    return values;
}

}  // namespace sparseleaf
