// Agreement on the best splits: see exchange.hpp.
#include "exchange.hpp"

#include <cstring>

namespace sparseleaf {
namespace {

// The message for one node: a worker's best split, followed by the sums of its left side.
struct Message {
    double gain;
    int32_t feature, bin, left_count;
    uint8_t missing_left;
    uint8_t set[kSetBytes];
};

Message message_of(const Node& node) {
    Message message{};
    message.gain = node.split.gain;
    message.feature = node.split.feature;
    message.bin = node.split.bin;
    message.left_count = node.split.left_count;
    message.missing_left = node.split.missing_left;
    std::copy_n(node.set, kSetBytes, message.set);
    return message;
}

}  // namespace

void exchange_splits(const Workers& workers, const std::vector<Node*>& nodes, int64_t n_sums, int64_t room) {
    if (workers.alone() || nodes.empty()) return;
    const size_t sums_size = 4 * static_cast<size_t>(n_sums), size = sizeof(Message) + sums_size;
    std::vector<uint8_t> bytes(nodes.size() * size, 0);
    for (size_t i = 0; i < nodes.size(); ++i) {
        const Message message = message_of(*nodes[i]);
        std::memcpy(bytes.data() + i * size, &message, sizeof(Message));
        if (message.feature >= 0)
            std::memcpy(bytes.data() + i * size + sizeof(Message), nodes[i]->left.data(), sums_size);
    }
    const std::vector<std::vector<uint8_t>> all = workers.allgather(std::move(bytes));
    for (const std::vector<uint8_t>& one : all)
        require(one.size() == nodes.size() * size, "allgather: must return one split per node");
    for (size_t i = 0; i < nodes.size(); ++i) {
        Node& node = *nodes[i];
        for (const std::vector<uint8_t>& one : all) {
            Message message;
            std::memcpy(&message, one.data() + i * size, sizeof(Message));
            const Split split{message.gain, message.feature, message.bin, message.left_count,
                              message.missing_left != 0};
            if (!better(split, node.split)) continue;
            node.split = split;
            std::copy_n(message.set, kSetBytes, node.set);
            node.left.assign(static_cast<size_t>(room), 0);
            std::memcpy(node.left.data(), one.data() + i * size + sizeof(Message), sums_size);
        }
    }
}

}  // namespace sparseleaf
