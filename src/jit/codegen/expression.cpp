// Pointwise ops, literals and names as dialect text.
#include "jit/codegen/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/ascii.h"
#include "ir/integers.h"

namespace coconet::jit {

namespace {

using ir::is_digit;
using ir::is_word;

/// Calls f(position) for each operand placeholder: a, b or c standing alone.
template <class F>
void for_each_placeholder(std::string_view device, F f) {
  for (std::size_t i = 0; i < device.size(); ++i) {
    const bool letter = device[i] == 'a' || device[i] == 'b' || device[i] == 'c';
    const bool alone =
        (i == 0 || !is_word(device[i - 1])) && (i + 1 == device.size() || !is_word(device[i + 1]));
    if (letter && alone) f(i);
  }
}

bool is_literal(std::string_view text) {
  return !text.empty() && is_digit(text.front()) &&
         text.find_first_of(" *+/") == std::string_view::npos;
}

/// A name, an element, a literal, or a whole call or parenthesis: what needs no parentheses around
/// it.
bool is_atom(std::string_view text) {
  if (is_literal(text)) return true;
  std::size_t at = 0;
  while (at < text.size() && (is_word(text[at]) || text[at] == '.')) ++at;
  if (at == text.size()) return true;
  if (text[at] != '(' && text[at] != '[') return false;
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == '(' || text[at] == '[' ? 1 : text[at] == ')' || text[at] == ']' ? -1 : 0;
    if (depth == 0) break;
  }
  return at + 1 == text.size();
}

}  // namespace

std::string_view storage_type(DType dtype) {
  return dtype == DType::boolean ? std::string_view("b8") : to_string(dtype);
}

std::string_view compute_type(DType dtype) {
  return is_16_bit(dtype) ? "f32" : storage_type(dtype);
}

bool exceeds_f32(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i64 || dtype == DType::i32;
}

std::string literal(double number, DType dtype) {
  if (!is_float(dtype)) {
    const std::int64_t integer = ir::saturated(dtype, number);
    // C++ has no literal of the least i64: its digits are too many before the sign.
    const std::string digits = integer == std::numeric_limits<std::int64_t>::min()
                                   ? std::to_string(integer + 1) + " - 1"
                                   : std::to_string(integer);
    return dtype == DType::i32 && number >= 0
               ? digits
               : std::string(storage_type(dtype)) + "(" + digits + ")";
  }
  const std::string type(compute_type(dtype));
  if (std::isnan(number)) return type + "(infinity - infinity)";
  if (std::isinf(number)) return type + (number > 0 ? "(infinity)" : "(-infinity)");
  std::array<char, 40> buffer{};
  const bool single = type == "f32";
  const auto end = single ? std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                          static_cast<float>(number))
                          : std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  std::string text(buffer.data(), end.ptr);
  if (single && std::isinf(static_cast<float>(number)))
    return type + (number > 0 ? "(infinity)" : "(-infinity)");
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += "f";
  return number < 0 || std::signbit(number) ? "(" + text + ")" : text;
}

std::string expand(std::string_view device, const std::string& a, const std::string& b,
                   const std::string& c) {
  std::string text;
  std::size_t copied = 0;
  for_each_placeholder(device, [&](std::size_t at) {
    const std::string& operand = device[at] == 'a' ? a : device[at] == 'b' ? b : c;
    text += device.substr(copied, at - copied);
    const bool whole_argument =
        at > 0 && (device[at - 1] == '(' || (at > 1 && device[at - 2] == ',')) &&
        at + 1 < device.size() && (device[at + 1] == ')' || device[at + 1] == ',');
    text += is_atom(operand) || whole_argument ? operand : "(" + operand + ")";
    copied = at + 1;
  });
  return text + std::string(device.substr(copied));
}

std::string with_numbers_of(DType dtype, std::string_view device) {
  if (compute_type(dtype) != "f32") return std::string(device);
  std::string text;
  for (std::size_t at = 0; at < device.size();) {
    const std::size_t start = at;
    const auto at_digit = [&] { return at < device.size() && is_digit(device[at]); };
    while (at < device.size() && is_word(device[at]) && !at_digit()) ++at;  // a name,
    const bool is_name = at > start;
    while (is_name && at < device.size() && is_word(device[at])) ++at;
    bool has_fraction = false;
    if (!is_name) {  // or a number,
      while (at_digit() || (at < device.size() && device[at] == '.')) {
        has_fraction = has_fraction || device[at] == '.';
        ++at;
      }
      if (at > start && at < device.size() && (device[at] == 'e' || device[at] == 'E')) {
        has_fraction = true;
        at += device[at + 1] == '-' || device[at + 1] == '+' ? 2 : 1;
        while (at_digit()) ++at;
      }
    }
    if (at == start) ++at;  // or a sign
    text += device.substr(start, at - start);
    if (has_fraction) text += 'f';
  }
  return text;
}

std::string with_defined_conversions(std::string_view device) {
  std::string text;
  for (std::size_t at = 0; at < device.size();) {
    const std::size_t start = at;
    while (at < device.size() && is_word(device[at])) ++at;
    if (at == start) ++at;  // a sign, or a space
    const std::string_view word = device.substr(start, at - start);
    const auto dtype = parse_dtype(word);
    text += dtype && is_integer(*dtype) ? fmt::format("to_integer<{}>", word) : std::string(word);
  }
  return text;
}

bool reads_once(std::string_view device) {
  std::array<int, 3> reads{};
  for_each_placeholder(
      device, [&](std::size_t at) { ++reads[static_cast<std::size_t>(device[at] - 'a')]; });
  return std::ranges::all_of(reads, [](int count) { return count <= 1; });
}

namespace {

template <std::size_t N>
bool has_any(std::string_view text, const std::string_view (&signs)[N]) {
  return std::ranges::any_of(
      signs, [&](std::string_view sign) { return text.find(sign) != std::string_view::npos; });
}

constexpr std::string_view waves[] = {"sin_(", "cos_("};
// clang-format off
constexpr std::string_view other_functions[] = {
    "exp_(", "expm1_(", "log_(", "log1p_(", "tanh_(", "erf_(", "gelu_(", "pow_(", "power_<",
    "root_("};
constexpr std::string_view choices[] = {
    "?", "&&", "||", "rounded<", "to_float<", "to_integer<", "dropout_(", "stochastic_cast_(",
    "upper_half_(", "join_halves_(", "abs_(", "sign_("};
// clang-format on

}  // namespace

bool calls_waves(std::string_view text) {
  return has_any(text, waves);
}
bool calls_functions(std::string_view text) {
  return calls_waves(text) || has_any(text, other_functions);
}
bool chooses(std::string_view text) {
  return has_any(text, choices);
}

std::string lanes_over(std::string_view text) {
  if (calls_waves(text))
    return "wave_lanes<N, VECTOR_BYTES / W>([&](int l, auto sin_, auto cos_) INLINED {";
  if (has_any(text, other_functions)) return "function_lanes<N>([&](int l) INLINED {";
  return chooses(text) ? "choosing_lanes<N>([&](int l) {" : "lanes<N>([&](int l) INLINED {";
}

std::string identifier(std::string_view text) {
  // clang-format off
  static constexpr std::string_view reserved[] = {
      "a", "block", "i", "j", "l", "N", "W", "o", "row", "load", "store", "lanes", "vec", "width",
      "wide", "widened", "narrow", "narrowed", "narrowed_exactly", "Args", "Block", "Sync",
      "Fault", "signal", "observe", "now", "relax", "LIBRARY", "STREAMING", "VECTORIZE",
      "bits_of", "float_of", "rounded", "limits", "infinity", "for_each", "block_reduce", "f64",
      "reduce_segments", "begin", "end",
      "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "b8", "u32", "u64", "index_t", "auto",
      "bool", "break", "case", "catch", "char", "class", "const", "continue", "default", "delete",
      "do", "double", "else", "enum", "export", "extern", "false", "float", "for", "friend",
      "goto", "if", "inline", "int", "long", "new", "namespace", "operator", "private", "public",
      "register", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template",
      "this", "DEVICE", "DEVICE_BODY", "UNROLL", "KERNEL_ENTRY", "VECTOR_BYTES", "FLAG_STRIDE",
      "reduce_ranks", "store_ranks", "rank_barrier", "to_float", "is_leader", "alone", "throw",
      "true", "try", "typedef", "typename", "union", "unsigned", "using", "virtual", "void",
      "volatile", "while",
      "and", "or", "not", "xor",
      "at", "combined", "owner", "own", "make", "keep", "value", "simple", "ll", "ll128", "ring",
      "star", "tree", "Mailboxes", "Tiles", "Slices", "Totals", "exchange", "Exchange",
      "load_slice", "store_slice", "in_rows", "no_totals", "lane_totals", "block_total",
      "put_total", "send_total", "all_totals",
      "grid_barrier", "total_type", "send_on", "pass_on", "bucket", "bucket_mode", "fit", "Bucket",
      "data", "Buckets", "InBucket", "in_bucket", "in_bucket_of_ranks", "address_in",
      "for_each_bucket", "for_each_of", "for_each_share", "order_streams", "Rows", "turn",
      "choosing_lanes", "wave_lanes", "function_lanes", "INLINED", "By", "BY_VECTORS",
      "BY_ELEMENTS", "BY_EITHER", "streams", "length", "stream_ranks", "stream_copy", "own_of",
      "converted", "wrapped", "to_integer",
      "c", "start", "kept", "reduced", "reduce_rows", "reduce_columns", "ROLLED", "TO_MEMORY",
      "VECTOR_BY_VECTOR",
      "fetch", "buffer", "BufferRows", "BufferTotals", "put_buffer_total", "put_empty_totals",
      "block_barrier", "all_buffer_totals", "reduce_buffers", "is_last",
      "Multicast", "RandomWords", "MULTICAST_AFTER", "MULTICAST_BEFORE"};
  // clang-format on
  std::string name(text);
  for (char& c : name) {
    if (!is_word(c)) c = '_';
  }
  if (name.empty() || is_digit(name.front())) name.insert(0, "_");
  const bool prelude_like = name.ends_with("_") || name.ends_with("_of") || name.ends_with("_to");
  const bool word = std::find(std::begin(reserved), std::end(reserved), name) != std::end(reserved);
  if (prelude_like || word) name += "_v";
  return name;
}

}  // namespace coconet::jit
