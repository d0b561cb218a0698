// Python bindings of the tree builders and their argument structs.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "builder.hpp"

namespace sparseleaf {
namespace {

template <typename T>
nb::object as_numpy(const std::vector<T>& values, std::initializer_list<size_t> shape) {
    require_room_for_handles();
    std::unique_ptr<T[]> data(new T[values.size()]);
    std::copy(values.begin(), values.end(), data.get());
    T* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(raw, shape, owner));
}

template <typename T>
auto column(std::vector<T> GrownTree::* member) {
    return [member](const GrownTree& tree) { return as_numpy(tree.*member, {(tree.*member).size()}); };
}

auto bounds(std::vector<double> GrownTree::* member) {
    return [member](const GrownTree& tree) {
        const size_t n = tree.starts.size(), size = (tree.*member).size();
        return as_numpy(tree.*member, {n, size / n});
    };
}

void bind_structs(nb::module_& m) {
    nb::class_<FeatureTable>(m, "FeatureTable")
        .def(nb::init<In1<int32_t>, In1<int32_t>, In1<uint8_t>, In1<uint8_t>, In2<int8_t>>(),
             nb::arg("n_bins"), nb::arg("missing_bin"), nb::arg("has_missing"), nb::arg("categorical"),
             nb::arg("directions"));
    nb::class_<GrowthRules>(m, "GrowthRules")
        .def(nb::init<bool, int64_t, int64_t, int64_t, double>(), nb::arg("best_first"),
             nb::arg("max_leaves"), nb::arg("max_depth"), nb::arg("min_samples"), nb::arg("min_gain"));
    nb::class_<HistogramRules>(m, "HistogramRules")
        .def(nb::init<double, int64_t, bool, double, int64_t, int64_t>(), nb::arg("l2"), nb::arg("top"),
             nb::arg("shared"), nb::arg("min_hessian"), nb::arg("budget"), nb::arg("max_nodes"));
    nb::class_<ExactRules>(m, "ExactRules")
        .def(nb::init<int64_t, double, double>(), nb::arg("k"), nb::arg("step"), nb::arg("l2"));
    nb::class_<BinPositions>(m, "BinPositions")
        .def(nb::init<In1<int64_t>, In1<double>>(), nb::arg("offsets"), nb::arg("values"));
    nb::class_<GradientColumns>(m, "GradientColumns")
        .def(nb::init<In2<int16_t>, int64_t, int, In1<double>, In1<double>, In1<double>, int64_t>(),
             nb::arg("values").noconvert(), nb::arg("count_column"), nb::arg("hessian"), nb::arg("weight"),
             nb::arg("lambda_"), nb::arg("step"), nb::arg("first_output"))
        .def_ro("values", &GradientColumns::values)
        .def_ro("count_column", &GradientColumns::count_column)
        .def_ro("hessian", &GradientColumns::hessian)
        .def_ro("weight", &GradientColumns::weight)
        .def_ro("lambda_", &GradientColumns::lambda)
        .def_ro("step", &GradientColumns::step)
        .def_ro("first_output", &GradientColumns::first_output);
    nb::class_<ResidualBlocks>(m, "ResidualBlocks")
        .def(nb::init<std::vector<Block>, int64_t, int, std::optional<LossWeights>>(), nb::arg("blocks"),
             nb::arg("n_labels"), nb::arg("loss"), nb::arg("weights") = nb::none());
    nb::class_<TreeSample>(m, "TreeSample")
        .def(nb::init<Out1<int32_t>, Out1<int32_t>, In1<int32_t>, int64_t, uint64_t>(),
             nb::arg("rows").noconvert(), nb::arg("oob_rows").noconvert(), nb::arg("features"),
             nb::arg("n_node_features"), nb::arg("key"));
    nb::class_<DeviceChunks>(m, "DeviceChunks")
        .def(nb::init<int64_t, int64_t, int64_t, int64_t>(), nb::arg("most"), nb::arg("fewest"),
             nb::arg("blocks_per_chunk"), nb::arg("n_blocks"));
    nb::class_<DeviceBatch>(m, "DeviceBatch")
        .def_prop_ro("bytes",
                     [](const DeviceBatch& batch) { return as_numpy(batch.bytes, {batch.bytes.size()}); })
        .def_ro("places", &DeviceBatch::places)
        .def_ro("built_slots", &DeviceBatch::built_slots)
        .def_ro("n_partitions", &DeviceBatch::n_partitions)
        .def_ro("n_partition_chunks", &DeviceBatch::n_partition_chunks)
        .def_ro("n_builds", &DeviceBatch::n_builds)
        .def_ro("n_build_chunks", &DeviceBatch::n_build_chunks)
        .def_ro("n_several", &DeviceBatch::n_several)
        .def_ro("n_searches", &DeviceBatch::n_searches)
        .def_ro("n_slots", &DeviceBatch::n_slots);
    nb::class_<GrownTree>(m, "GrownTree")
        .def_prop_ro("feature", column(&GrownTree::feature))
        .def_prop_ro("bin", column(&GrownTree::bin))
        .def_prop_ro("gain", column(&GrownTree::gain))
        .def_prop_ro("missing_left", column(&GrownTree::missing_left))
        .def_prop_ro("child", column(&GrownTree::child))
        .def_prop_ro("count", column(&GrownTree::count))
        .def_prop_ro("categorical", column(&GrownTree::categorical))
        .def_prop_ro("sets",
                     [](const GrownTree& tree) {
                         return as_numpy(tree.sets, {tree.categorical.size(), size_t{kSetBytes}});
                     })
        .def_prop_ro("starts", column(&GrownTree::starts))
        .def_prop_ro("ends", column(&GrownTree::ends))
        .def_prop_ro("oob_starts", column(&GrownTree::oob_starts))
        .def_prop_ro("oob_ends", column(&GrownTree::oob_ends))
        .def_prop_ro("low", bounds(&GrownTree::low))
        .def_prop_ro("high", bounds(&GrownTree::high));
}

}  // namespace
}  // namespace sparseleaf

void bind_tree(nb::module_& m) {
    using namespace sparseleaf;
    bind_structs(m);
    m.attr("MIN_SLOTS") = kMinSlots;
    m.attr("EXTRA_SLOTS") = kExtraSlots;
    nb::class_<HistogramTreeBuilder>(m, "HistogramTreeBuilder")
        .def(nb::init<In2<uint8_t>, In1<int32_t>, std::shared_ptr<const FeatureTable>, GrowthRules,
                      HistogramRules, int64_t, int64_t, int>(),
             nb::arg("bins").noconvert(), nb::arg("common"), nb::arg("table"), nb::arg("growth"),
             nb::arg("rules"), nb::arg("first_feature"), nb::arg("feature_stride"), nb::arg("n_threads"))
        .def("build", &HistogramTreeBuilder::build, nb::arg("gradients"), nb::arg("sample"),
             nb::arg("communicator"), nb::arg("by_rows"));
    nb::class_<DeviceTreeBuilder>(m, "DeviceTreeBuilder")
        .def(nb::init<std::shared_ptr<const FeatureTable>, GrowthRules, HistogramRules>(), nb::arg("table"),
             nb::arg("growth"), nb::arg("rules"))
        .def("build", &DeviceTreeBuilder::build, nb::arg("gradients"), nb::arg("n_sample"), nb::arg("n_here"),
             nb::arg("totals"), nb::arg("features"), nb::arg("n_node_features"), nb::arg("key"),
             nb::arg("chunks"), nb::arg("search"), nb::arg("partition").none());
    nb::class_<ExactTreeBuilder>(m, "ExactTreeBuilder")
        .def(nb::init<In2<uint32_t>, std::shared_ptr<const FeatureTable>, GrowthRules, ExactRules, int64_t,
                      int64_t, int>(),
             nb::arg("bins").noconvert(), nb::arg("table"), nb::arg("growth"), nb::arg("rules"),
             nb::arg("first_feature"), nb::arg("feature_stride"), nb::arg("n_threads"))
        .def("build", &ExactTreeBuilder::build, nb::arg("residuals"), nb::arg("sample"),
             nb::arg("communicator"), nb::arg("by_rows"));
    nb::class_<RowTreeBuilder>(m, "RowTreeBuilder")
        .def(nb::init<In2<uint8_t>, std::shared_ptr<const FeatureTable>, BinPositions, GrowthRules, double,
                      bool>(),
             nb::arg("bins").noconvert(), nb::arg("table"), nb::arg("positions"), nb::arg("growth"),
             nb::arg("l2"), nb::arg("random"))
        .def("build", &RowTreeBuilder::build, nb::arg("gradients"), nb::arg("sample"),
             nb::arg("communicator"), nb::arg("by_rows"));
}
