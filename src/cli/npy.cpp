// Reading and writing .npy files.
#include "cli/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>

#include "coconet/error.h"
#include "ir/read_file.h"

namespace coconet::cli {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t short_header = 10, long_header = 12;  // where the header begins, by version

struct Descr {
  DType dtype;
  std::string_view text;
};
constexpr Descr descrs[] = {{DType::f64, "<f8"}, {DType::f32, "<f4"}, {DType::f16, "<f2"},
                            {DType::i64, "<i8"}, {DType::i32, "<i4"}, {DType::i16, "<i2"},
                            {DType::i8, "|i1"},  {DType::u8, "|u1"},  {DType::boolean, "|b1"}};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, in any order of keys.
class Header {
 public:
  Header(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  [[nodiscard]] std::string_view descr() const {
    const std::string_view value = after("descr");
    const char quote = value.empty() ? ' ' : value.front();
    const std::size_t end = value.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos)
      fail("its 'descr' is no text, as that of arrays with several fields is not");
    return value.substr(1, end - 1);
  }
  [[nodiscard]] bool fortran_order() const { return after("fortran_order").starts_with("True"); }
  [[nodiscard]] std::vector<std::int64_t> shape() const {
    std::string_view value = after("shape");
    if (!value.starts_with('(')) fail("its 'shape' is no tuple");
    std::vector<std::int64_t> shape;
    for (value.remove_prefix(1);;) {
      value.remove_prefix(std::min(value.find_first_not_of(", "), value.size()));
      if (value.starts_with(')')) return shape;
      std::int64_t extent = 0;
      const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), extent);
      if (error != std::errc() || extent < 0) fail("its 'shape' has something else than extents");
      shape.push_back(extent);
      value.remove_prefix(static_cast<std::size_t>(rest - value.data()));
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw ConfigError(fmt::format("'{}' is no .npy file that can be read: {}", file_, why));
  }

 private:
  /// What follows `key` and its colon.
  [[nodiscard]] std::string_view after(std::string_view key) const {
    for (const char quote : {'\'', '"'}) {
      const std::size_t at = text_.find(fmt::format("{0}{1}{0}:", quote, key));
      if (at == std::string_view::npos) continue;
      std::string_view value = text_.substr(at + key.size() + 3);
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      return value;
    }
    fail(fmt::format("its header has no '{}'", key));
  }

  std::string_view text_;
  const std::string& file_;
};

/// Bytes of an array, or nothing where that does not fit.
bool bytes_of(const std::vector<std::int64_t>& shape, DType dtype, std::size_t& bytes) {
  bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return false;
  }
  return true;
}

}  // namespace

NpyArray read_npy(const std::string& file) {
  const ir::FileText read = ir::read_file(file);
  if (!read.bytes)
    throw ConfigError(fmt::format("cannot read the file '{}': {}", file, read.problem));
  return parse_npy(*read.bytes, file);
}

NpyArray parse_npy(std::string_view text, const std::string& file) {
  const Header nothing({}, file);
  if (!text.starts_with(magic) || text.size() < long_header)
    nothing.fail("it does not begin as one");
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
  };
  const bool is_short = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3) nothing.fail(fmt::format("its version is {}", byte(6)));
  const std::size_t begin = is_short ? short_header : long_header;
  std::size_t length = byte(8) | byte(9) << 8;
  if (!is_short) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - begin) nothing.fail("it ends within its header");

  const Header header(text.substr(begin, length), file);
  NpyArray array;
  const std::string_view descr = header.descr();
  const auto* const found = std::ranges::find(descrs, descr, &Descr::text);
  if (found == std::end(descrs)) {
    std::string known;
    for (const Descr& one : descrs)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.text);
    header.fail(fmt::format("its elements are '{}'; those that can be read are {}", descr, known));
  }
  array.dtype = found->dtype;
  if (header.fortran_order())
    header.fail("it is in Fortran's order; save numpy.ascontiguousarray of it");
  array.shape = header.shape();
  std::size_t bytes = 0;
  const std::string_view elements = text.substr(begin + length);
  if (!bytes_of(array.shape, array.dtype, bytes) || bytes != elements.size()) {
    header.fail(fmt::format("its {} bytes of elements are not what its shape and dtype need",
                            elements.size()));
  }
  array.elements.resize(bytes);
  if (bytes > 0) std::memcpy(array.elements.data(), elements.data(), bytes);
  return array;
}

std::string npy_text(const NpyArray& array) {
  std::string shape;
  for (const std::int64_t extent : array.shape) shape += fmt::format("{}, ", extent);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.pop_back();
  const auto* const descr = std::ranges::find(descrs, array.dtype, &Descr::dtype);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr->text, shape);
  // Elements begin at a multiple of 64.
  constexpr std::size_t aligned = 64;
  header.resize(
      (short_header + header.size() + 1 + aligned - 1) / aligned * aligned - short_header - 1, ' ');
  header += '\n';
  std::string text(magic);
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  text += header;
  text.append(reinterpret_cast<const char*>(array.elements.data()), array.elements.size());
  return text;
}

}  // namespace coconet::cli
