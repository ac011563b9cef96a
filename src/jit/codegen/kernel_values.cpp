// How a kernel's text reads, computes, rounds and stores values.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "coconet/error.h"
#include "ir/custom_op.h"
#include "ir/random.h"
#include "jit/codegen/expression.h"
#include "jit/codegen/kernel_writer.h"

namespace coconet::jit {

using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// The device text of an op on integers of `dtype`, which wrap around: C++ defines no overflow of
/// i32 and i64, but of their unsigned types. Narrower ones are computed in wider lanes, or in int.
std::string device_text(const ir::PointwiseRow& row, DType dtype) {
  static const std::map<Op, std::string_view> unsigned_texts{
      {Op::add, "{0}({1}(a) + {1}(b))"},      {Op::subtract, "{0}({1}(a) - {1}(b))"},
      {Op::multiply, "{0}({1}(a) * {1}(b))"}, {Op::square, "{0}({1}(a) * {1}(a))"},
      {Op::negative, "{0}(-{1}(a))"},
  };
  const auto found = unsigned_texts.find(row.op);
  if (found == unsigned_texts.end() || (dtype != DType::i32 && dtype != DType::i64))
    return std::string(row.device);
  return fmt::format(fmt::runtime(found->second), storage_type(dtype),
                     dtype == DType::i32 ? "u32" : "u64");
}

/// The device text of `pow` to a power that is a number: products and roots, where they are exact.
std::string_view power_text(const ir::PointwiseRow& pow, double exponent) {
  static const std::map<double, std::string_view> texts{
      {-2, "power_<-2>(a)"},
      {-1, "1 / a"},
      {-0.5, "1 / root_(a)"},
      {0.5, "root_(a)"},
      {1, "a"},
      {2, "power_<2>(a)"},
      {3, "power_<3>(a)"},
      {4, "power_<4>(a)"},
  };
  const auto found = texts.find(exponent);
  return found == texts.end() ? pow.device : found->second;
}

}  // namespace

ValueId KernelWriter::resolve(ValueId value) const {
  const auto is_loaded = [&] {
    return std::ranges::any_of(
        loads_, [&](const auto& load) { return load.value == value && !load.combined; });
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
      fmt::format("dropout_({}, {}, {}u, {})", operand, placed_.at(value), threshold - 1, scale),
      node.dtype);
}

std::string KernelWriter::take(ValueId value) {
  const Node& node = graph().at(value);
  const ValueId numbers = node.operands[1];
  const std::string lookup =
      argument({KernelArgument::Kind::lookup, node.name + "_lookup", -1, value});
  return fmt::format("{}(taken({}, {}, {}))", lane_type(node.dtype), gathered_.at(value),
                     read(numbers, graph().at(numbers).dtype), lookup);
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

std::string KernelWriter::conversion(const Node& node) {
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

std::string KernelWriter::expression(ValueId value) {
  const Node& node = graph().at(value);
  if (node.op == Op::iota) return placed_.at(value);
  if (node.op == Op::take) return take(value);
  if (node.op == Op::dropout) return dropout(value);
  if (node.op == Op::stochastic_cast) {
    return fmt::format("stochastic_cast_({}, {})", read(node.operands[0], DType::f32),
                       placed_.at(value));
  }
  if (node.op == Op::upper_half || node.op == Op::lower_half || node.op == Op::join_halves)
    return halves(node);
  if (node.op == Op::cast || node.op == Op::copy) return conversion(node);
  if (ir::hands_on(node.op)) {
    const ValueId from = resolve(node.operands[0]);
    return graph().at(from).weak ? read_number(from, node.dtype, true) : read(from, node.dtype);
  }
  const ir::PointwiseRow* const found = ir::find_pointwise(node.op);
  if (found == nullptr)
    throw InternalError(fmt::format("no text of {} in kernels", to_string(node.op)));
  const ir::PointwiseRow& row = *found;
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
    const Node* const last = row.op == Op::pow ? &graph().at(resolve(node.operands[1])) : nullptr;
    const bool is_number = last != nullptr && last->op == Op::constant;
    const std::string device = is_number ? std::string(power_text(row, last->attributes.number))
                                         : device_text(row, node.dtype);
    result = expand(device, operands[0], operands[1], operands[2]);
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
    reads += static_cast<int>(std::ranges::count(node.operands, value));
  }
  const bool is_stored = std::ranges::any_of(
      stores_, [&](const auto& store) { return resolve(store.value) == value; });
  return reads == 1 && !is_stored;
}

}  // namespace coconet::jit
