// The parts of a kernel's text that do not depend on its kind.
#include "jit/codegen/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/factors.h"
#include "ir/lists.h"
#include "ir/random.h"
#include "sched/kernels.h"

namespace coconet::jit {

namespace {

/// A comment to the end of the line, whatever names it holds: no byte of them ends or continues the
/// line, and none beyond ASCII makes an editor show another text than compilers read.
std::string comment(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~' || c == '\\') c = ' ';
  }
  return "// " + text;
}

}  // namespace

using ir::Node;
using ir::Op;
using ir::ValueId;
using sched::BufferId;

KernelWriter::KernelWriter(const sched::Plan& plan, const sched::KernelStep& step)
    : plan_(plan),
      step_(step),
      loads_(step.loads()),
      stores_(step.stores()),
      ranks_(step.is_collective ? plan.graph.mesh.axes()[static_cast<std::size_t>(step.axis)].size
                                : 1),
      names_{step.name + "_kernel", step.name + "_kernel_block"} {
  const auto is_scattered = [&](const auto& access) { return buffer(access.buffer).scattered; };
  by_bucket_ =
      std::ranges::any_of(loads_, is_scattered) || std::ranges::any_of(stores_, is_scattered) ||
      std::ranges::any_of(step.computed(),
                          [&](ValueId id) { return sched::tells_buffers(graph().at(id)); });
  const auto widen = [&](ValueId id) {
    const DType dtype = graph().at(id).dtype;
    if (graph().at(id).weak) return;
    lane_bytes_ = std::max(lane_bytes_, is_16_bit(dtype) ? 4 : static_cast<int>(size_of(dtype)));
  };
  for (const auto& load : loads_) widen(load.value);
  for (const auto& store : stores_) widen(store.value);
  for (const auto& phase : step.phases) std::ranges::for_each(phase.members, widen);
}

std::string KernelWriter::unique(std::string_view text) {
  const std::string stem = identifier(text);
  std::string name = stem;
  for (int number = 2; !names_.insert(name).second; ++number)
    name = stem + "_" + std::to_string(number);
  return name;
}

std::string KernelWriter::variable(ValueId value) {
  auto& name = variables_[value];
  if (name.empty()) name = unique(graph().at(value).name);
  return name;
}

std::string KernelWriter::argument(KernelArgument wanted) {
  for (const KernelArgument& known : arguments_) {
    if (known.kind == wanted.kind && known.buffer == wanted.buffer && known.value == wanted.value &&
        known.dim == wanted.dim) {
      return "a." + known.name;
    }
  }
  wanted.name = unique(wanted.name);
  arguments_.push_back(std::move(wanted));
  return "a." + arguments_.back().name;
}

std::string KernelWriter::pointer(BufferId id) {
  const std::string data = buffer(id).name + "_data";
  if (!buffer(id).scattered) return argument({KernelArgument::Kind::pointer, data, id});
  const std::string all =
      argument({KernelArgument::Kind::pointer, buffer(id).name + "_buffers", id});
  std::string& variable = in_bucket_[{id, false}];
  if (variable.empty()) variable = unique(data);
  bucket_variables_[variable] = "const auto " + variable + " = in_bucket(" + all + ", bucket);";
  return variable;
}

std::string KernelWriter::pointers(BufferId id) {
  const auto kind =
      step_.multicast ? KernelArgument::Kind::multicast : KernelArgument::Kind::pointers;
  const std::string all = argument({kind, buffer(id).name + "_ranks", id});
  if (!buffer(id).scattered) return all;
  std::string& variable = in_bucket_[{id, true}];
  if (variable.empty()) variable = unique(buffer(id).name + "_of_ranks");
  bucket_variables_[variable] =
      "const auto " + variable + " = in_bucket_of_ranks(" + all + ", bucket);";
  return variable + ".rank";
}

std::string KernelWriter::bucket_variables(const std::string& indent) {
  std::string text;
  for (const auto& [variable, definition] : bucket_variables_) text += indent + definition + "\n";
  bucket_variables_.clear();
  return text;
}

std::string KernelWriter::lanes_per_access() const {
  if (step_.knobs.vector_bytes != 0) return std::to_string(lanes_of(plan_, step_, 0));
  return fmt::format("VECTOR_BYTES / {}", widest_element(plan_, step_));
}

bool KernelWriter::is_linear(const Shape& shape, const ir::Placements& layout) const {
  if (shape != domain().shape) return false;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    const Placement mine = domain().layout[axis];
    if (layout[axis] == mine || graph().mesh.axes()[axis].size == 1) continue;
    const bool leading = (mine.kind != Placement::Kind::sliced || mine.dim == 0) &&
                         (layout[axis].kind != Placement::Kind::sliced || layout[axis].dim == 0);
    if (!leading) return false;
  }
  return true;
}

bool KernelWriter::all_linear() const {
  const auto linear = [&](const auto& access) {
    return is_of_buffers(buffer(access.buffer).shape) ||
           is_linear(buffer(access.buffer).shape, buffer(access.buffer).layout);
  };
  return members_linear() && std::ranges::all_of(step_.phases, [&](const auto& phase) {
           return std::ranges::none_of(phase.loads, &Load::viewed) &&
                  std::ranges::all_of(phase.loads, linear) &&
                  std::ranges::all_of(phase.stores, linear);
         });
}

bool KernelWriter::is_of_buffers(const Shape& shape) const {
  return shape.size() == 1 && shape != domain().shape && !ir::counted_by(shape.front()).empty();
}

bool KernelWriter::members_linear() const {
  const std::vector<ValueId> members = indexed_members();
  return std::ranges::all_of(members, [&](ValueId member) {
    return is_linear(graph().at(member).shape, replicated_layout());
  });
}

std::vector<ValueId> KernelWriter::indexed_members() const {
  std::vector<ValueId> members;
  for (const sched::KernelStep::Phase& phase : step_.phases) {
    for (const ValueId member : phase.members) {
      if (is_indexed(member)) members.push_back(member);
    }
  }
  return members;
}

bool KernelWriter::is_indexed(ValueId member) const {
  const Node& node = graph().at(member);
  if (node.op == Op::iota) return true;
  return ir::draws_random(node.op) &&
         (node.op != Op::dropout || ir::dropout_threshold(node.attributes.probability) > 0);
}

std::string KernelWriter::place(ValueId member, bool one, const std::string& index,
                                const std::string& indent) {
  const Node& node = graph().at(member);
  if (node.op == Op::iota) {
    const std::string first = unique(node.name + "_first");
    placed_[member] = fmt::format("{}({}{})", lane_type(node.dtype), first, one ? "" : " + l");
    return fmt::format("{}const index_t {} = {};\n", indent, first, index);
  }
  const std::string words = unique(node.name + "_words");
  const std::string random = unique(node.name + "_random");
  random_variables_ += fmt::format("  RandomWords {}{{u64({}), {}ull}};\n", random,
                                   read(node.operands[1], DType::i64), node.attributes.seed);
  placed_[member] = words + (one ? "[0]" : "[l]");
  return fmt::format("{}const auto {} = {}.of<{}>({});\n", indent, words, random, one ? "1" : "N",
                     index);
}

std::string KernelWriter::linear_index(BufferId id) {
  const sched::PlanBuffer& of = buffer(id);
  return index_from(of.shape, of.layout, of.name, id, -1);
}

std::string KernelWriter::linear_index_in_whole(ValueId member) {
  const Node& node = graph().at(member);
  return index_from(node.shape, replicated_layout(), node.name, -1, member);
}

std::string KernelWriter::index_from(const Shape& shape, const ir::Placements& layout,
                                     const std::string& name, BufferId buffer, ValueId value) {
  if (!is_linear(shape, layout)) throw InternalError("'" + name + "' has no linear index");
  bool same = true;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    const bool mine = domain().layout[axis].kind == Placement::Kind::sliced;
    same = same && mine == (layout[axis].kind == Placement::Kind::sliced);
  }
  if (same) return "i";
  return argument({KernelArgument::Kind::offset, name + "_at", buffer, value}) + " + i";
}

KernelWriter::Along KernelWriter::along_row(const ir::Factors& factors) const {
  const int last = static_cast<int>(domain().shape.size()) - 1;
  const auto is_row = [&](const ir::Factor& factor) {
    return factor.kind != ir::Factor::Kind::repeats && last >= 0 && factor.of_result == last;
  };
  if (std::ranges::none_of(factors, is_row)) return Along::repeats;
  const ir::Factor& own = factors.back();
  return is_row(own) && own.step == 1 ? Along::follows : Along::strides;
}

std::string KernelWriter::strided_index(const ir::Factors& factors, const std::string& name,
                                        int dims, BufferId buffer, ValueId value) {
  std::string text = argument({KernelArgument::Kind::offset, name + "_at", buffer, value});
  for (const ir::Factor& factor : factors) {
    if (factor.kind == ir::Factor::Kind::repeats || factor.of_result < 0 ||
        factor.of_result >= dims)
      continue;
    text += " + c" + std::to_string(factor.of_result) + " * " +
            stride(name, factor.of_result, buffer, value);
  }
  return text;
}

std::string KernelWriter::strided_index(int dims, BufferId id, ValueId view) {
  return strided_index(sched::factors_in(plan_, step_, id, view), buffer(id).name, dims, id, view);
}

std::string KernelWriter::strided_index(int dims, ValueId value) {
  const Node& node = graph().at(value);
  return strided_index(ir::aligned(node.shape, domain().shape), node.name, dims, -1, value);
}

std::string KernelWriter::load_of_row(const Load& load, const std::string& row,
                                      const std::string& at) {
  const std::string data = pointer(load.buffer) + " + " + row + " + " + at;
  if (!is_strided(load)) return fmt::format("load<N>({})", data);
  const int last = static_cast<int>(domain().shape.size()) - 1;
  const std::string apart = stride(buffer(load.buffer).name, last, load.buffer, load.view());
  return fmt::format("load_strided<N>({} * {}, {})", data, apart, apart);
}

void KernelWriter::gather_from(const Load& load, const std::string& row, const std::string& at) {
  std::string first = pointer(load.buffer) + " + " + row;
  const Along along = along_row(load);
  if (along != Along::repeats) {
    const int last = static_cast<int>(domain().shape.size()) - 1;
    const std::string apart = stride(buffer(load.buffer).name, last, load.buffer, load.view());
    first += along == Along::follows ? fmt::format(" + {} + l", at)
                                     : fmt::format(" + ({} + l) * {}", at, apart);
  }
  gathered_[load.value] = first;
}

std::string KernelWriter::label(ValueId value) const {
  const Node& node = graph().at(value);
  // A value that the application did not name is known by the update that stores it.
  std::string name = node.name;
  for (const ValueId user : graph().users()[value]) {
    const Node& update = graph().at(user);
    if (!node.user_named && update.op == Op::update && update.operands[1] == value)
      name = update.name;
  }
  return comment("op " + name + " (" + std::string(to_string(node.op)) + ")" +
                 (node.origin.empty() ? "" : ", by " + node.origin));
}

void KernelWriter::begin_phase(const std::set<ValueId>& kept) {
  inlined_.clear();
  defined_ = kept;
}

std::string KernelWriter::compute_members(const std::vector<ValueId>& members,
                                          const std::string& indent, bool inlining) {
  constexpr std::size_t longest_inlined = 60;
  std::string text;
  for (const ValueId member : members) {
    const Node& node = graph().at(member);
    if (!ir::is_elementwise(node.op)) continue;
    const std::string value = expression(member);
    if (inlining && can_inline(member) && value.size() <= longest_inlined) {
      inlined_[member] = value;
      continue;
    }
    text += indent + label(member) + "\n";
    text += fmt::format("{}const {} {} = {};\n", indent, lane_type(node.dtype), variable(member),
                        value);
    define(member);
  }
  return text;
}

std::string KernelWriter::number_variables() const {
  std::string text;
  for (const auto& [wanted, variable] : numbers_) text += "  " + variable.statement + ";\n";
  return text;
}

std::string KernelWriter::field(const KernelArgument& argument) const {
  static constexpr std::string_view fields[] = {
#define COCONET_ARGUMENT(kind, field, head, by_rank) field,
#include "jit/codegen/arguments.def"
#undef COCONET_ARGUMENT
  };
  std::string element;
  if (argument.buffer >= 0) {
    element = storage_type(buffer(argument.buffer).dtype);
    if (buffer(argument.buffer).scattered) element += "* const";
  }
  const bool is_number = argument.kind == KernelArgument::Kind::number;
  const TotalsOf totals = totals_of(graph(), step_);
  return fmt::format(
      fmt::runtime(fields[static_cast<std::size_t>(argument.kind)]),
      fmt::arg("name", argument.name), fmt::arg("element", element), fmt::arg("ranks", ranks_),
      fmt::arg("totals", totals.whole), fmt::arg("buffer_totals", totals.per_buffer),
      fmt::arg("number", is_number ? comment(number_text(argument.value)) : std::string()));
}

KernelText KernelWriter::finish(const std::string& body, std::vector<std::string> headers) const {
  // Only a kernel of several ranks names the mesh: others are the same text, and one binary, on all
  // of them.
  const std::string mesh = ranks_ > 1 ? " on " + graph().mesh.str() : "";
  std::string source =
      comment("kernel " + step_.name + " of program " + graph().name + mesh) + "\n";
  source += "struct Args {\n";
  for (const KernelArgument& argument : arguments_) source += "  " + field(argument) + "\n";
  source += "};\n\n" + body + "KERNEL_ENTRY(" + entry() + ")\n";
  if (!indexed_members().empty()) headers.insert(headers.end(), {"philox.h", "random_words.h"});
  if (by_bucket_) headers.emplace_back("buckets.h");
  if (tells_buffers_in(step_, graph())) headers.emplace_back("buffers.h");
  if (std::ranges::any_of(loads_, [&](const Load& load) { return is_strided(load); }))
    headers.emplace_back("strided.h");
  if (!gathered_.empty()) headers.emplace_back("lookups.h");
  if (calls_functions(body)) headers.emplace_back("functions.h");
  const int barriers = step_.is_collective ? static_cast<int>(step_.phases.size()) + 1 : 0;
  return {step_.name,   entry(), std::move(source), std::move(headers), arguments_, barriers,
          all_linear(), 1,       by_bucket_};
}

}  // namespace coconet::jit
