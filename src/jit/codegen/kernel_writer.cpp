// The parts of a kernel's text that do not depend on its kind.
#include "jit/codegen/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "coconet/error.h"
#include "ir/custom_op.h"
#include "ir/lists.h"
#include "ir/random.h"
#include "jit/codegen/expression.h"
#include "sched/kernels.h"

namespace coconet::jit {

namespace {

/// The device text of an op on integers of `dtype`, which wrap around: C++ defines no overflow of
/// i32 and i64, but of their unsigned types. Narrower ones are computed in wider lanes, or in int.
std::string device_text(const ir::PointwiseRow& row, DType dtype) {
  std::string_view unsigned_text;
  switch (row.op) {
    case ir::Op::add:
      unsigned_text = "{0}({1}(a) + {1}(b))";
      break;
    case ir::Op::subtract:
      unsigned_text = "{0}({1}(a) - {1}(b))";
      break;
    case ir::Op::multiply:
      unsigned_text = "{0}({1}(a) * {1}(b))";
      break;
    case ir::Op::square:
      unsigned_text = "{0}({1}(a) * {1}(a))";
      break;
    case ir::Op::negative:
      unsigned_text = "{0}(-{1}(a))";
      break;
    default:
      break;
  }
  if (unsigned_text.empty() || (dtype != DType::i32 && dtype != DType::i64))
    return std::string(row.device);
  return fmt::format(fmt::runtime(unsigned_text), storage_type(dtype),
                     dtype == DType::i32 ? "u32" : "u64");
}

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
  by_bucket_ = std::any_of(loads_.begin(), loads_.end(), is_scattered) ||
               std::any_of(stores_.begin(), stores_.end(), is_scattered) ||
               std::ranges::any_of(step.computed(), [&](ValueId id) {
                 return sched::tells_buffers(graph().at(id));
               });
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
  const auto all_of = [&](const auto& accesses) {
    return std::all_of(accesses.begin(), accesses.end(), linear);
  };
  return std::all_of(
             step_.phases.begin(), step_.phases.end(),
             [&](const auto& phase) { return all_of(phase.loads) && all_of(phase.stores); }) &&
         members_linear();
}

bool KernelWriter::is_of_buffers(const Shape& shape) const {
  return shape.size() == 1 && shape != domain().shape && !ir::counted_by(shape.front()).empty();
}

bool KernelWriter::members_linear() const {
  const std::vector<ValueId> members = indexed_members();
  return std::all_of(members.begin(), members.end(), [&](ValueId member) {
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
  return ir::draws_random(node.op) &&
         (node.op != Op::dropout || ir::dropout_threshold(node.attributes.probability) > 0);
}

std::string KernelWriter::random_words(ValueId member, const std::string& lanes,
                                       const std::string& index) {
  const Node& node = graph().at(member);
  const std::string random = unique(node.name + "_random");
  random_variables_ += fmt::format("  RandomWords {}{{u64({}), {}ull}};\n", random,
                                   read(node.operands[1], DType::i64), node.attributes.seed);
  return fmt::format("{}.of<{}>({})", random, lanes, index);
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

std::string KernelWriter::strided_index(const Shape& shape, const std::string& name, int dims,
                                        BufferId buffer, ValueId value) {
  const Shape& walked = domain().shape;
  std::string text = argument({KernelArgument::Kind::offset, name + "_at", buffer, value});
  for (int d = 0; d < dims; ++d) {
    const int own = d - static_cast<int>(walked.size() - shape.size());
    const bool repeats = own < 0 || (shape[static_cast<std::size_t>(own)] == Dim(1) &&
                                     !(walked[static_cast<std::size_t>(d)] == Dim(1)));
    if (repeats) continue;
    text +=
        " + c" + std::to_string(d) + " * " +
        argument({KernelArgument::Kind::stride, name + "_s" + std::to_string(d), buffer, value, d});
  }
  return text;
}

ValueId KernelWriter::resolve(ValueId value) const {
  const auto is_loaded = [&] {
    return std::any_of(loads_.begin(), loads_.end(),
                       [&](const auto& load) { return load.value == value && !load.combined; });
  };
  while (graph().at(value).op == Op::update && !is_loaded()) value = graph().at(value).operands[1];
  return value;
}

std::string KernelWriter::read_number(ValueId value, DType context, bool round) {
  const Node& node = graph().at(value);
  const bool is_bool = context == DType::boolean;
  if (node.op == Op::constant) {
    const double number =
        round ? round_to(context, node.attributes.number) : node.attributes.number;
    return is_bool ? (number != 0 ? "b8(1)" : "b8(0)") : literal(number, context);
  }
  const std::string from = argument({KernelArgument::Kind::number, node.name, -1, value});
  const std::string type(lane_type(context));
  const std::string suffix = (type == "f32" ? "" : "_" + type) + (round ? "_rounded" : "");
  const std::string wanted = from.substr(2) + "_" + (suffix.empty() ? "n" : suffix.substr(1));
  NumberVariable& variable = numbers_[{wanted, from}];
  if (!variable.name.empty()) return variable.name;
  variable.name = unique(wanted);
  // The one number that is read as an integer is an offset of random words, which is checked.
  const std::string converted = type + "(" + from + (is_bool ? " != 0)" : ")");
  const std::string initialiser =
      !round || is_bool ? converted : rounded(is_16_bit(context) ? from : converted, context);
  variable.statement = "const " + type + " " + variable.name + " = " + initialiser;
  return variable.name;
}

std::string KernelWriter::read(ValueId value, DType context) {
  const ValueId meant = resolve(value);
  if (graph().at(meant).weak) return read_number(meant, context, meant != value);
  if (const auto found = inlined_.find(meant); found != inlined_.end()) return found->second;
  if (!defined_.contains(meant))
    throw InternalError("'" + graph().at(meant).name + "' is read before it is computed");
  return variable(meant);
}

std::string KernelWriter::rounded(const std::string& text, DType dtype) const {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return "rounded<" + std::string(storage_type(dtype)) + ">(" + text + ")";
    case DType::i16:
    case DType::i8:
    case DType::u8:
      if (is_converted(dtype)) return fmt::format("wrapped<{}>({})", storage_type(dtype), text);
      [[fallthrough]];
    case DType::boolean:
      return fmt::format("{}({})", lane_type(dtype), text);
    default:
      return text;
  }
}

std::string KernelWriter::rounded_total(const std::string& text, std::string_view type,
                                        DType dtype) const {
  return rounded(is_16_bit(dtype) ? text : fmt::format("{}({})", type, text), dtype);
}

std::string KernelWriter::to_integer(const std::string& text, DType dtype) const {
  const std::string lanes =
      is_converted(dtype) ? fmt::format(", {}", lane_type(dtype)) : std::string();
  return fmt::format("to_integer<{}{}>({})", storage_type(dtype), lanes, text);
}

std::string_view KernelWriter::lane_type(DType dtype) const {
  const int bytes = static_cast<int>(size_of(dtype));
  const bool is_small = bytes < 4 && !is_float(dtype);
  if (!is_small || lane_bytes_ == bytes) return compute_type(dtype);
  return lane_bytes_ == 8 ? "i64" : lane_bytes_ == 4 ? "i32" : "i16";
}

std::string KernelWriter::loaded(const std::string& vector, DType dtype) const {
  if (is_16_bit(dtype)) return fmt::format("widened({})", vector);
  return is_converted(dtype) ? fmt::format("converted<{}>({})", lane_type(dtype), vector) : vector;
}

std::string KernelWriter::read_to_store(ValueId value, DType dtype) {
  const ValueId meant = resolve(value);
  const bool is_number = graph().at(meant).weak;
  return is_number && is_16_bit(dtype) ? read_number(meant, dtype, true) : read(value, dtype);
}

std::string KernelWriter::to_store(const std::string& vector, DType dtype) const {
  return fmt::format("{}<{}>({})", is_16_bit(dtype) ? "narrowed_exactly" : "converted",
                     storage_type(dtype), vector);
}

std::string KernelWriter::stored(const std::string& text, DType dtype) const {
  return is_16_bit(dtype) ? "narrow<" + std::string(storage_type(dtype)) + ">(" + text + ")" : text;
}

std::string KernelWriter::dropout(ValueId value) {
  const Node& node = graph().at(value);
  const std::string operand = read(node.operands[0], node.dtype);
  const std::string scale = literal(ir::dropout_scale(node.attributes.probability), node.dtype);
  if (!is_indexed(value)) return rounded(expand("a * b", operand, scale, ""), node.dtype);
  const std::uint64_t threshold = ir::dropout_threshold(node.attributes.probability);
  return rounded(
      fmt::format("dropout_({}, {}, {}u, {})", operand, words_.at(value), threshold - 1, scale),
      node.dtype);
}

std::string KernelWriter::halves(const Node& node) {
  const std::string name = std::string(to_string(node.op)) + "_";
  const std::string first = read(node.operands[0], graph().at(node.operands[0]).dtype);
  if (node.op == Op::upper_half) return fmt::format("{}({})", name, first);
  if (node.op == Op::join_halves)
    return fmt::format("{}({}, i32({}))", name, first, read(node.operands[1], DType::i16));
  const std::string bits = fmt::format("{}({}({}))", lane_type(node.dtype), name, first);
  return rounded(bits, node.dtype);
}

std::string KernelWriter::expression(ValueId value) {
  const Node& node = graph().at(value);
  if (node.op == Op::dropout) return dropout(value);
  if (node.op == Op::stochastic_cast) {
    return fmt::format("stochastic_cast_({}, {})", read(node.operands[0], DType::f32),
                       words_.at(value));
  }
  if (node.op == Op::upper_half || node.op == Op::lower_half || node.op == Op::join_halves)
    return halves(node);
  if (node.op == Op::cast || node.op == Op::copy) {
    const Node& from = graph().at(resolve(node.operands[0]));
    const std::string operand = read(node.operands[0], from.dtype);
    const std::string_view type = lane_type(node.dtype);
    if (node.dtype == DType::boolean) return fmt::format("{}({} != 0)", type, operand);
    if (is_float(from.dtype) && is_integer(node.dtype)) return to_integer(operand, node.dtype);
    if (is_16_bit(node.dtype) && exceeds_f32(from.dtype)) return rounded(operand, node.dtype);
    const bool to_float = is_integer(from.dtype) && is_float(node.dtype);
    const std::string convert = to_float ? fmt::format("to_float<{}>", type) : std::string(type);
    return rounded(fmt::format("{}({})", convert, operand), node.dtype);
  }
  if (node.op == Op::slice || node.op == Op::repeat) return read(node.operands[0], node.dtype);
  const ir::PointwiseRow& row = *ir::find_pointwise(node.op);
  DType typed = node.dtype;
  for (std::size_t i = row.rule == ir::DTypeRule::choose ? 1 : 0; i < node.operands.size(); ++i) {
    const Node& from = graph().at(node.operands[i]);
    if (!from.weak) typed = from.dtype;
  }
  std::string operands[3];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const bool condition = row.rule == ir::DTypeRule::choose && i == 0;
    const ValueId operand = resolve(node.operands[i]);
    const bool is_choice = !condition && graph().at(operand).weak && !needs_rounding(node);
    operands[i] = is_choice ? read_number(operand, typed, true)
                            : read(node.operands[i], condition ? DType::boolean : typed);
  }
  std::string result;
  if (ir::find_custom(node.op) == nullptr) {
    result = expand(device_text(row, node.dtype), operands[0], operands[1], operands[2]);
  } else {
    // Whatever type the application's text has, the result has the op's.
    const std::string device = with_defined_conversions(with_numbers_of(typed, row.device));
    const std::string text = expand(device, operands[0], operands[1], operands[2]);
    if (is_integer(node.dtype)) return to_integer(text, node.dtype);
    if (is_16_bit(node.dtype)) return rounded(text, node.dtype);
    result = fmt::format(fmt::runtime(node.dtype == DType::boolean ? "{}(({}) != 0)" : "{}({})"),
                         lane_type(node.dtype), text);
  }
  return needs_rounding(node) ? rounded(result, node.dtype) : result;
}

bool KernelWriter::needs_rounding(const Node& node) const {
  // What these make of 16-bit floats is a 16-bit float.
  static constexpr Op exact[] = {Op::negative, Op::abs,   Op::sign, Op::minimum, Op::maximum,
                                 Op::relu,     Op::floor, Op::ceil, Op::select};
  return !is_16_bit(node.dtype) || std::ranges::find(exact, node.op) == std::end(exact);
}

std::string KernelWriter::number_text(ValueId value) const {
  // Numbers that are read several times would make texts of any length.
  constexpr std::size_t longest = 200;
  std::set<ValueId> needed = {value};
  for (auto id = needed.rbegin(); id != needed.rend(); ++id)
    needed.insert(graph().at(*id).operands.begin(), graph().at(*id).operands.end());
  std::map<ValueId, std::string> texts;
  for (const ValueId id : needed) {
    const Node& node = graph().at(id);
    std::string& text = texts[id];
    if (node.op == Op::constant) {
      text = literal(node.attributes.number, DType::f64);
    } else if (node.op == Op::extent && !node.user_named) {
      text = "extent of " + node.attributes.extent.str();
    } else if (node.op != Op::scalar && !node.user_named) {
      std::string operands[3];
      for (std::size_t i = 0; i < node.operands.size(); ++i) operands[i] = texts[node.operands[i]];
      text = expand(ir::find_pointwise(node.op)->device, operands[0], operands[1], operands[2]);
    }
    if (text.empty() || text.size() > longest) text = node.name;
  }
  return texts[value];
}

bool KernelWriter::can_inline(ValueId value) const {
  // An op of the application's keeps its label, by which its errors are told.
  if (graph().at(value).user_named || ir::find_custom(graph().at(value).op) != nullptr)
    return false;
  int reads = 0;
  for (const ValueId user : graph().users()[value]) {
    const Node& node = graph().at(user);
    const ir::PointwiseRow* row = ir::find_pointwise(node.op);
    if (row == nullptr || !reads_once(row->device)) return false;
    reads += static_cast<int>(std::count(node.operands.begin(), node.operands.end(), value));
  }
  const bool is_stored = std::any_of(stores_.begin(), stores_.end(), [&](const auto& store) {
    return resolve(store.value) == value;
  });
  return reads == 1 && !is_stored;
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
  const int barriers = step_.is_collective ? static_cast<int>(step_.phases.size()) + 1 : 0;
  return {step_.name,   entry(), std::move(source), std::move(headers), arguments_, barriers,
          all_linear(), 1,       by_bucket_};
}

}  // namespace coconet::jit
