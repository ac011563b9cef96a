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
  const ir::ValueId output = graph.find_output(name);
  return graph.at(output >= 0 ? output : graph.find(name));
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// NumPy has no bf16: those are f32 in files.
DType dtype_in_file(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

std::vector<std::byte> converted(DType from, DType to, std::vector<std::byte> elements) {
  if (from == to) return elements;
  const std::size_t count = elements.size() / size_of(from);
  std::vector<std::byte> made(count * size_of(to));
  for (std::size_t i = 0; i < count; ++i)
    store_element(to, made.data(), i, load_element(from, elements.data(), i));
  return made;
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
  return converted(array.dtype, dtype, std::move(array.elements));
}

std::string file_text(DType dtype, const std::vector<std::int64_t>& shape,
                      std::vector<std::byte> elements) {
  const DType in_file = dtype_in_file(dtype);
  return npy_text({in_file, shape, converted(dtype, in_file, std::move(elements))});
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
      jit::together(jit::comm_of(world), [&, &name = name] {
        step.read(name, dtype, elements.data(), count_of(shape));
      });
    } else {
      step.read_whole(name, dtype, elements.data(), count_of(shape));
    }
    jit::together(jit::comm_of(world), [&, &file = file] {
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
    if (!ir::states_type(op_of(name))) refuse("--input", name, "input or state");
  }
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::input && !inputs.empty() && !inputs.contains(node.name)) {
      throw UsageError(fmt::format(
          "--input is not given for '{}'; with data of your own all inputs need some.", node.name));
    }
  }
  for (const auto& [name, file] : outputs) {
    const bool is_output = graph.find_output(name) >= 0;
    if (!is_output && op_of(name) != ir::Op::state) refuse("--output", name, "state or output");
    if (is_local(node_of(graph, name)) && !is_by_rank(file)) {
      throw UsageError(fmt::format(
          "--output: every rank has a '{}' of its own; put %r into '{}', for its number.", name,
          file));
    }
  }
}

}  // namespace coconet::cli
