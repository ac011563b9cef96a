// Integers only: the kernels that are read here compute with nothing else.
#include "ptx/arithmetic.h"

#include <algorithm>
#include <map>

namespace coconet::test::ptx {

namespace {

using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;
using Binary = u64 (*)(u64 a, u64 b, bool is_signed, int bits);

u64 high(u64 a, u64 b, bool is_signed, int bits) {
  if (is_signed) return static_cast<u64>((i128{static_cast<i64>(a)} * static_cast<i64>(b)) >> bits);
  return static_cast<u64>((u128{a} * b) >> bits);
}

const std::map<std::string, Binary, std::less<>> binaries = {
    {"add", [](u64 a, u64 b, bool, int) { return a + b; }},
    {"sub", [](u64 a, u64 b, bool, int) { return a - b; }},
    {"and", [](u64 a, u64 b, bool, int) { return a & b; }},
    {"or", [](u64 a, u64 b, bool, int) { return a | b; }},
    {"xor", [](u64 a, u64 b, bool, int) { return a ^ b; }},
    {"div",
     [](u64 a, u64 b, bool is_signed, int) {
       return is_signed ? static_cast<u64>(static_cast<i64>(a) / static_cast<i64>(b)) : a / b;
     }},
    {"rem",
     [](u64 a, u64 b, bool is_signed, int) {
       return is_signed ? static_cast<u64>(static_cast<i64>(a) % static_cast<i64>(b)) : a % b;
     }},
    {"min",
     [](u64 a, u64 b, bool is_signed, int) {
       return (is_signed ? static_cast<i64>(a) < static_cast<i64>(b) : a < b) ? a : b;
     }},
    {"max",
     [](u64 a, u64 b, bool is_signed, int) {
       return (is_signed ? static_cast<i64>(a) > static_cast<i64>(b) : a > b) ? a : b;
     }},
    {"shl", [](u64 a, u64 b, bool, int bits) { return b < static_cast<u64>(bits) ? a << b : 0; }},
    {"shr",
     [](u64 a, u64 b, bool is_signed, int bits) {
       if (is_signed) return static_cast<u64>(static_cast<i64>(a) >> std::min<u64>(b, bits - 1));
       return b < static_cast<u64>(bits) ? a >> b : 0;
     }},
};

std::optional<bool> compare(const std::string& how, u64 a, u64 b, bool is_signed) {
  const bool less = is_signed ? static_cast<i64>(a) < static_cast<i64>(b) : a < b;
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt" || how == "lo") return less;
  if (how == "le" || how == "ls") return less || a == b;
  if (how == "gt" || how == "hi") return !less && a != b;
  if (how == "ge" || how == "hs") return !less;
  return {};
}

/// bfi: bits of a in b, from `at` on.
u64 insert_bits(u64 a, u64 b, u64 at, u64 count) {
  const u64 mask = count >= 64 ? ~u64{0} : (u64{1} << count) - 1;
  return (b & ~(mask << at)) | (a & mask) << at;
}

std::optional<u64> multiply(const Instruction& instruction, std::span<const u64> in,
                            const Type& type) {
  const std::string& part = instruction.parts[1];
  const u64 a = type.cut(in[0]);
  const u64 b = type.cut(in[1]);
  const u64 more = in.size() > 2 ? in[2] : 0;
  if (part == "wide") return a * b + more;
  if (part == "lo") return type.cut(a * b + more);
  if (part == "hi") return type.cut(high(a, b, type.is_signed, type.bits) + more);
  return {};
}

}  // namespace

Type::Type(const std::string& name) : bits(name == "pred" ? 1 : 0), is_signed(name[0] == 's') {
  if (name.size() > 1 && std::string("bsuf").find(name[0]) != std::string::npos)
    bits = std::atoi(name.c_str() + 1);
}

u64 Type::cut(u64 value) const {
  if (bits >= 64 || bits <= 0) return value;
  const u64 mask = (u64{1} << bits) - 1;
  const bool negative = is_signed && (value >> (bits - 1) & 1) != 0;
  return negative ? value | ~mask : value & mask;
}

std::optional<u64> compute(const Instruction& instruction, std::span<const u64> in) {
  const std::vector<std::string>& parts = instruction.parts;
  const std::string& name = parts.front();
  const Type type(parts.back());
  const bool is_float = parts.back()[0] == 'f';
  if (type.bits == 0 || (is_float && name != "mov" && name != "selp")) return {};
  const std::size_t plain = 2;  // parts of "add.s64"
  if (const auto binary = binaries.find(name);
      binary != binaries.end() && in.size() == 2 && parts.size() == plain) {
    const bool shifts = name == "shl" || name == "shr";
    const u64 second = shifts ? in[1] & 0xffffffffu : type.cut(in[1]);
    if (second == 0 && (name == "div" || name == "rem")) return {};
    return type.cut(binary->second(type.cut(in[0]), second, type.is_signed, type.bits));
  }
  if ((name == "mul" || name == "mad") && parts.size() == plain + 1 &&
      in.size() == (name == "mul" ? 2 : 3))
    return multiply(instruction, in, type);
  if (name == "setp" && parts.size() == plain + 1 && in.size() == 2) {
    if (const auto is = compare(parts[1], type.cut(in[0]), type.cut(in[1]), type.is_signed))
      return *is ? 1 : 0;
    return {};
  }
  if (name == "selp" && in.size() == 3) return type.cut((in[2] & 1) != 0 ? in[0] : in[1]);
  if (name == "bfi" && in.size() == 4)
    return type.cut(insert_bits(in[0], in[1], in[2] & 0xff, in[3] & 0xff));
  if (in.size() != 1) return {};
  if ((name == "mov" && parts.size() == plain) || name == "cvta") return type.cut(in[0]);
  if (name == "not" && parts.size() == plain) return type.cut(~in[0]);
  if (name == "neg" && parts.size() == plain) return type.cut(0 - in[0]);
  // From the type behind to the one before: integers are cut, or extended.
  if (name == "cvt" && parts.size() == plain + 1 && parts[1][0] != 'f')
    return Type(parts[1]).cut(type.cut(in[0]));
  return {};
}

}  // namespace coconet::test::ptx
