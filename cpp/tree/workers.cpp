// Calls of the Python communicator: see workers.hpp.
#include "workers.hpp"

namespace sparseleaf {
namespace {

// As a numpy array, which others may hold on to: workers in one process are handed what was sent itself.
template <typename T>
nb::object given_away(std::vector<T> values) {
    require_room_for_handles();
    auto* held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(Numpy1<T>(held->data(), {held->size()}, owner));
}

template <typename T>
std::vector<T> copied(const nb::object& array) {
    const auto found = nb::cast<In1<T>>(array);
    return {found.data(), found.data() + found.size()};
}

}  // namespace

Workers::Workers(nb::object communicator, bool by_rows)
    : communicator_(std::move(communicator)),
      by_rows_(by_rows),
      rank_(nb::cast<int>(communicator_.attr("rank"))),
      size_(nb::cast<int>(communicator_.attr("size"))) {
    require(size_ >= 1 && rank_ >= 0 && rank_ < size_, "communicator: rank must be below size");
}

void Workers::allreduce(std::vector<int64_t>& values) const {
    if (alone()) return;
    GilAcquire acquire;
    const nb::object total = communicator_.attr("allreduce")(given_away(values));
    const std::vector<int64_t> sums = copied<int64_t>(total);
    require(sums.size() == values.size(), "allreduce: arrays of different sizes");
    values = sums;
}

std::vector<std::vector<uint8_t>> Workers::allgather(std::vector<uint8_t> bytes) const {
    if (alone()) return {std::move(bytes)};
    GilAcquire acquire;
    const nb::object all = communicator_.attr("allgather")(given_away(std::move(bytes)));
    std::vector<std::vector<uint8_t>> found;
    for (const nb::handle one : all) found.push_back(copied<uint8_t>(nb::borrow(one)));
    require(static_cast<int>(found.size()) == size_, "allgather: an array per worker");
    return found;
}

std::vector<int32_t> Workers::reduce_scatter(std::vector<int32_t> values,
                                             const std::vector<int64_t>& counts) const {
    if (alone()) return values;
    GilAcquire acquire;
    nb::list sizes;
    for (const int64_t count : counts) sizes.append(count);
    const nb::object own = communicator_.attr("reduce_scatter")(given_away(std::move(values)), sizes);
    std::vector<int32_t> found = copied<int32_t>(own);
    require(static_cast<int64_t>(found.size()) == counts[rank_], "reduce_scatter: this worker's block");
    return found;
}

}  // namespace sparseleaf
