// Moving tensors between files and executables.
#include "cli/user_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/commands.h"
#include "cli/npy.h"
#include "coconet/error.h"
#include "ir/access.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/files.h"

namespace coconet::cli {
namespace {

constexpr std::string_view rank_mark = "%r";

std::string of_rank(std::string file, int rank) {
  for (std::size_t at = file.find(rank_mark); at != std::string::npos; at = file.find(rank_mark))
    file.replace(at, rank_mark.size(), std::to_string(rank));
  return file;
}

/// The input, state or output `name` of the scheduled program.
const ir::Node& node_of(const ir::Graph& graph, const std::string& name) {
  for (const ir::Output& output : graph.outputs()) {
    if (output.name == name) return graph.at(output.value);
  }
  return graph.at(graph.find(name));
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// NumPy has no bf16: those are f32 in files.
DType dtype_in_file(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

/// The elements of `file` as the tensor's.
std::vector<std::byte> elements_of(const std::string& file, const std::string& name, DType dtype,
                                   const std::vector<std::int64_t>& shape) {
  NpyArray array = read_npy(file);
  if (array.dtype != dtype_in_file(dtype) || array.shape != shape) {
    throw ConfigError(fmt::format("'{}' has {} {}, and '{}' takes {} {}", file,
                                  to_string(array.dtype), to_text(array.shape), name,
                                  to_string(dtype_in_file(dtype)), to_text(shape)));
  }
  if (dtype != DType::bf16) return std::move(array.elements);
  const std::size_t count = array.elements.size() / sizeof(float);
  std::vector<std::byte> narrow(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i)
    store_element(dtype, narrow.data(), i, load_element(DType::f32, array.elements.data(), i));
  return narrow;
}

std::string file_text(DType dtype, const std::vector<std::int64_t>& shape,
                      std::vector<std::byte> elements) {
  if (dtype == DType::bf16) {
    std::vector<std::byte> wide(elements.size() * 2);
    for (std::size_t i = 0; i < elements.size() / size_of(dtype); ++i)
      store_element(DType::f32, wide.data(), i, load_element(dtype, elements.data(), i));
    elements = std::move(wide);
  }
  return npy_text({dtype_in_file(dtype), shape, std::move(elements)});
}

std::size_t count_of(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(ir::product(shape));
}

}  // namespace

bool is_by_rank(const std::string& file) {
  return file.find(rank_mark) != std::string::npos;
}

bool is_local(const ir::Node& node) {
  return std::ranges::any_of(node.layout, [](const Placement& placement) {
    return placement.kind == Placement::Kind::local;
  });
}

void give(Executable& step, const World& world, const DataFiles& files) {
  const Program program = step.program();
  jit::together(jit::comm_of(world), [&] {
    for (const auto& [name, file] : files) {
      const DType dtype = node_of(*ir::graph_of(program), name).dtype;
      const Executable::Slice slice = step.slice_of(name);
      if (is_by_rank(file)) {
        const auto elements = elements_of(of_rank(file, world.rank()), name, dtype, slice.extent);
        step.write(name, dtype, elements.data(), count_of(slice.extent));
      } else {
        const auto elements = elements_of(file, name, dtype, slice.whole);
        step.write_whole(name, dtype, elements.data(), count_of(slice.whole));
      }
    }
  });
}

void take(Executable& step, const World& world, const DataFiles& files, std::string_view option) {
  const Program program = step.program();
  for (const auto& [name, file] : files) {
    const DType dtype = node_of(*ir::graph_of(program), name).dtype;
    const Executable::Slice slice = step.slice_of(name);
    const std::vector<std::int64_t>& shape = is_by_rank(file) ? slice.extent : slice.whole;
    std::vector<std::byte> elements(count_of(shape) * size_of(dtype));
    if (is_by_rank(file)) {
      jit::together(jit::comm_of(world),
                    [&] { step.read(name, dtype, elements.data(), count_of(shape)); });
    } else {
      step.read_whole(name, dtype, elements.data(), count_of(shape));
    }
    jit::together(jit::comm_of(world), [&] {
      if (!is_by_rank(file) && world.rank() != 0) return;
      jit::write_atomically(of_rank(file, world.rank()),
                            file_text(dtype, shape, std::move(elements)), option);
    });
  }
}

void require_tensors(const Program& program, const DataFiles& inputs, const DataFiles& outputs) {
  const ir::Graph& graph = *ir::graph_of(program);
  const auto refuse = [&](const char* option, const std::string& name, const char* what) {
    throw UsageError(
        fmt::format("{}: the program '{}' has no {} '{}'.", option, graph.name, what, name));
  };
  const auto op_of = [&](const std::string& name) {
    const ir::ValueId id = graph.find(name);
    return id < 0 ? ir::Op::constant : graph.at(id).op;
  };
  for (const auto& [name, file] : inputs) {
    if (op_of(name) != ir::Op::input && op_of(name) != ir::Op::state)
      refuse("--input", name, "input or state");
  }
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::input && !inputs.empty() && !inputs.contains(node.name)) {
      throw UsageError(fmt::format(
          "--input is not given for '{}'; with data of your own all inputs need some.", node.name));
    }
  }
  for (const auto& [name, file] : outputs) {
    const bool is_output =
        std::ranges::any_of(graph.outputs(), [&](const auto& one) { return one.name == name; });
    if (!is_output && op_of(name) != ir::Op::state) refuse("--output", name, "state or output");
    if (is_local(node_of(graph, name)) && !is_by_rank(file)) {
      throw UsageError(fmt::format(
          "--output: every rank has a '{}' of its own; put %r into '{}', for its number.", name,
          file));
    }
  }
}

}  // namespace coconet::cli
