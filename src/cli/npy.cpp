// Reading and writing .npy files.
#include "cli/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "coconet/error.h"
#include "ir/read_file.h"

namespace coconet::cli {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t short_header = 10, long_header = 12;  // where the header begins, by version

/// The dtypes as NumPy names them, behind the order of their bytes.
struct Descr {
  DType dtype;
  std::string_view text;
};
constexpr Descr descrs[] = {{DType::f64, "f8"}, {DType::f32, "f4"}, {DType::f16, "f2"},
                            {DType::i64, "i8"}, {DType::i32, "i4"}, {DType::i16, "i2"},
                            {DType::i8, "i1"},  {DType::u8, "u1"},  {DType::boolean, "b1"}};

/// How NumPy writes it: the order of bytes is none where there is one.
std::string descr_of(DType dtype) {
  const auto* const found = std::ranges::find(descrs, dtype, &Descr::dtype);
  return fmt::format("{}{}", size_of(dtype) == 1 ? '|' : '<', found->text);
}

/// Of "<f4", or "=f4", which is this machine's order; nothing where it cannot be read.
std::optional<DType> parse_descr(std::string_view text) {
  const char order = text.empty() ? '\0' : text.front();
  const bool has_order = std::string_view("<>=|").find(order) != std::string_view::npos;
  if (has_order) text.remove_prefix(1);
  const auto* const found = std::ranges::find(descrs, text == "?" ? "b1" : text, &Descr::text);
  if (found == std::end(descrs)) return std::nullopt;
  const bool is_ours = order != '>' && order != '|';
  return is_ours || size_of(found->dtype) == 1 ? std::optional(found->dtype) : std::nullopt;
}

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, a literal of Python, in any
/// order of keys.
class Header {
 public:
  Header(std::string_view text, const std::string& file) : rest_(text), file_(file) {
    if (!take('{')) return;  // then it has no keys
    while (!take('}')) {
      const std::string_view key = string("a key");
      if (!take(':')) fail(fmt::format("its header has no ':' behind '{}'", key));
      if (key == "descr") {
        descr_ = descr();
      } else if (key == "fortran_order") {
        is_fortran_ = truth();
      } else if (key == "shape") {
        shape_ = tuple();
      } else {
        fail(
            fmt::format("its header has the key '{}', beside descr, fortran_order and shape", key));
      }
      if (!take(',') && next() != '}') fail("its header has no ',' or '}' where one belongs");
    }
  }

  [[nodiscard]] std::string_view dtype_text() const { return required(descr_, "descr"); }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return required(shape_, "shape"); }
  /// Whether elements that lie side by side in the file do not in an array that is row-major.
  [[nodiscard]] bool is_turned() const {
    const bool is_fortran = required(is_fortran_, "fortran_order");
    const auto long_ones = std::ranges::count_if(shape(), [](std::int64_t n) { return n > 1; });
    return is_fortran && long_ones > 1 && std::ranges::find(shape(), 0) == shape().end();
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw ConfigError(fmt::format("'{}' is no .npy file that can be read: {}", file_, why));
  }

 private:
  template <class Value>
  const Value& required(const std::optional<Value>& value, const char* key) const {
    if (!value) fail(fmt::format("its header has no '{}'", key));
    return *value;
  }

  /// The next character that is no blank; 0 at the end.
  char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char token) {
    if (next() != token) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view string(const char* what) {
    const char quote = next();
    const std::size_t end = rest_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos)
      fail(fmt::format("its header does not have {} where one belongs", what));
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::string_view descr() {
    if (const char quote = next(); quote != '\'' && quote != '"')
      fail("its 'descr' is no text, as that of arrays with several fields is not");
    return string("a text");
  }
  bool truth() {
    (void)next();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail("its 'fortran_order' is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    if (!take('(')) fail("its 'shape' is no tuple");
    std::vector<std::int64_t> shape;
    while (!take(')')) {
      std::int64_t extent = 0;
      (void)next();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) fail("its 'shape' has something else than extents");
      shape.push_back(extent);
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      (void)take('L');  // a long one of Python 2
      if (!take(',') && next() != ')') fail("its 'shape' has something else than extents");
    }
    return shape;
  }

  std::string_view rest_;  ///< what is not read yet
  const std::string& file_;
  std::optional<std::string_view> descr_;
  std::optional<bool> is_fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
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
  const std::optional<DType> dtype = parse_descr(header.dtype_text());
  if (!dtype) {
    std::string known;
    for (const Descr& one : descrs) known += (known.empty() ? "" : ", ") + descr_of(one.dtype);
    header.fail(fmt::format("its elements are '{}'; those that can be read are {}",
                            header.dtype_text(), known));
  }
  array.dtype = *dtype;
  if (header.is_turned())
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
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   descr_of(array.dtype), shape);
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
