// Optimizers of 16-bit floats in kernels: what a fused step stores of zero, tiny and huge gradients
// is what f64 gives, to 2 units in the last place.
#include "narrow_steps.h"

#include "coconet/coconet.h"
#include "jit/kernels/compile_ahead.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// `elements` in the dtype that `step` has for `name`.
std::vector<std::byte> packed(DType dtype, const ir::Data& elements) {
  std::vector<std::byte> bytes(elements.size() * size_of(dtype));
  for (std::size_t i = 0; i < elements.size(); ++i)
    store_element(dtype, bytes.data(), i, elements[i]);
  return bytes;
}

ir::Data unpacked(DType dtype, const std::vector<std::byte>& bytes) {
  ir::Data elements(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = load_element(dtype, bytes.data(), i);
  return elements;
}

/// The states after the step of `before`: those that are not in it begin with zeros.
NarrowStep::Tensors after(Executable& step, const ir::Graph& graph,
                          const NarrowStep::Tensors& before) {
  const auto count_of = [&](const ir::Node& node) {
    if (node.shape.empty()) return std::size_t{1};
    return before.at(node.shape == graph.at(graph.require("w")).shape ? "w" : "lr_scale").size();
  };
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::state && node.op != ir::Op::input) continue;
    const auto given = before.find(node.name);
    const std::vector<std::byte> bytes =
        packed(node.dtype, given != before.end() ? given->second : ir::Data(count_of(node)));
    step.write_whole(node.name, node.dtype, bytes.data(), bytes.size() / size_of(node.dtype));
  }
  std::vector<ScalarValue> scalars;
  for (const auto& [name, value] : NarrowStep::scalars()) {
    if (graph.find(name) >= 0) scalars.emplace_back(name, value);
  }
  step.run(scalars);
  NarrowStep::Tensors states;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::state) continue;
    std::vector<std::byte> bytes(count_of(node) * size_of(node.dtype));
    step.read_whole(node.name, node.dtype, bytes.data(), count_of(node));
    states[node.name] = unpacked(node.dtype, bytes);
  }
  return states;
}

}  // namespace

TEST_CASE("a fused step of any optimizer in 16 bits stores what f64 gives, to 2 units") {
  std::vector<NarrowStep> drawn;
  CompileAhead kernels;
  const auto schedule_of = [](const NarrowStep& step) {
    return Schedule::load(step.program().name() + "-fused.json");
  };
  for (const NarrowStep& step : narrow_steps()) {
    if (!draw()) continue;
    drawn.push_back(step);
    kernels.add(step.program(), schedule_of(step));
  }
  kernels.compile();
  for (const NarrowStep& step : drawn) {
    const Program program = step.program();
    INFO(step.name());
    std::vector<NarrowStep::Tensors> results;
    REQUIRE_NOTHROW(World::local(2, [&](World& world) {
      Executable executable = compile(program, schedule_of(step), world, NarrowStep::sizes(),
                                      NarrowStep::lists(program));
      for (const Gradients gradients : all_gradients) {
        const NarrowStep::Tensors states =
            after(executable, *ir::graph_of(program), step.before(gradients));
        if (world.rank() == 0) results.push_back(states);
        world.barrier();
      }
    }));
    for (std::size_t i = 0; i < results.size(); ++i)
      step.check(step.before(all_gradients[i]), results[i]);
  }
}
