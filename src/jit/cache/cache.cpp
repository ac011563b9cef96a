// Keys, entries and the directory of the on-disk kernel cache; kernel_cache/README.md has the entry's grammar.
#include "jit/cache/cache.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "coconet/error.h"
#include "jit/cache/atomic_file.h"
#include "jit/config/log.h"

namespace coconet::jit {
namespace {

using Sha256 = std::array<char, 32>;

constexpr std::string_view magic = "coconetk";
constexpr std::uint32_t format_version = 1;
constexpr std::size_t header_bytes = magic.size() + 4 + sizeof(Sha256) + 8 + 8;
constexpr std::size_t least_bytes = header_bytes + sizeof(Sha256);
// Far above any kernel: what a reader allocates for a file that only claims to be one.
constexpr std::size_t most_bytes = std::size_t{256} << 20;

Sha256 sha256(std::string_view bytes) {
  Sha256 digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 EVP_sha256(), nullptr) != 1 ||
      size != digest.size()) {
    throw InternalError("OpenSSL cannot compute a SHA-256.");
  }
  return digest;
}

std::string_view view(const Sha256& digest) {
  return {digest.data(), digest.size()};
}

template <class Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
    bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

template <class Unsigned>
Unsigned little_endian(std::string_view bytes, std::size_t offset) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

std::string encode(const CacheKey& key, std::string_view payload) {
  std::string entry;
  entry.reserve(least_bytes + key.text().size() + payload.size());
  entry += magic;
  append_little_endian(entry, format_version);
  entry += view(sha256(key.text()));
  append_little_endian(entry, std::uint64_t{key.text().size()});
  append_little_endian(entry, std::uint64_t{payload.size()});
  entry += key.text();
  entry += payload;
  entry += view(sha256(entry));
  return entry;
}

// Turns `entry` into its payload. Returns what is wrong with it, or null. Every length is checked against the
// bytes that are really there before it is used.
const char* decode(std::string& entry, const CacheKey& key) {
  const std::string_view bytes = entry;
  if (bytes.size() < least_bytes) return "it is too short";
  if (!bytes.starts_with(magic)) return "it is not a kernel entry";
  if (little_endian<std::uint32_t>(bytes, magic.size()) != format_version)
    return "its format version is unknown";
  const std::string_view body = bytes.substr(header_bytes, bytes.size() - least_bytes);
  const auto key_bytes = little_endian<std::uint64_t>(bytes, header_bytes - 16);
  const auto payload_bytes = little_endian<std::uint64_t>(bytes, header_bytes - 8);
  if (key_bytes > body.size() || payload_bytes != body.size() - key_bytes)
    return "its length is wrong";
  const std::size_t checked = bytes.size() - sizeof(Sha256);
  if (view(sha256(bytes.substr(0, checked))) != bytes.substr(checked))
    return "its checksum is wrong";
  const std::string_view digest = bytes.substr(magic.size() + 4, sizeof(Sha256));
  if (body.substr(0, key_bytes) != key.text() || digest != view(sha256(key.text())))
    return "its key is another";
  entry.resize(header_bytes + key_bytes + payload_bytes);
  entry.erase(0, header_bytes + key_bytes);
  return nullptr;
}

struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number != -1) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void cannot_read(int error, const std::filesystem::path& path) {
  throw std::system_error(error, std::generic_category(), "cannot read '" + path.string() + "'");
}

// Fewer bytes than `size` when the file ends before. Throws std::system_error.
std::string read_bytes(int descriptor, std::size_t size, const std::filesystem::path& path) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = read(descriptor, bytes.data() + have, size - have);
    if (got == -1 && errno == EINTR) continue;
    if (got == -1) cannot_read(errno, path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

// Another process may have put a good entry there since ours was opened: only the file that was read is deleted.
void remove_if_same(const std::filesystem::path& path, const struct stat& opened) {
  struct stat now {};
  if (lstat(path.c_str(), &now) == 0 && now.st_dev == opened.st_dev &&
      now.st_ino == opened.st_ino) {
    unlink(path.c_str());
  }
}

bool refuses_writes(const std::error_code& error) {
  return error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
         error == std::errc::read_only_file_system;
}

bool has_tag(std::string_view text, std::string_view tag) {
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    if (text.substr(0, blank) == tag) return true;
    std::size_t length = 0;
    const auto [end, error] =
        std::from_chars(text.data() + blank + 1, text.data() + text.size(), length);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1 + length + 1);
  }
  return false;
}

bool is_tag_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const char byte : sha256(bytes)) {
    const auto value = static_cast<unsigned char>(byte);
    hex += digits[value >> 4];
    hex += digits[value & 15];
  }
  return hex;
}

void CacheKey::add(std::string_view tag, std::string_view value) {
  if (tag.empty() || !std::all_of(tag.begin(), tag.end(), is_tag_character)) {
    throw InternalError("The cache key tag '" + std::string(tag) +
                        "' is not made of a-z, 0-9 and _.");
  }
  if (has_tag(text_, tag))
    throw InternalError("The cache key has the tag '" + std::string(tag) + "' twice.");
  text_ += tag;
  text_ += ' ';
  text_ += std::to_string(value.size());
  text_ += '\n';
  text_ += value;
  text_ += '\n';
}

std::string CacheKey::digest() const {
  return sha256_hex(text_);
}

DiskCache::DiskCache(std::filesystem::path directory, CacheMode mode)
    : directory_(std::move(directory)), mode_(directory_.empty() ? CacheMode::off : mode) {}

// The format version is in the name, so that libraries with different formats can share a directory.
std::filesystem::path DiskCache::path_of(const CacheKey& key) const {
  const std::string digest = key.digest();
  return directory_ / digest.substr(0, 2) /
         (digest.substr(2) + ".v" + std::to_string(format_version));
}

std::optional<std::string> DiskCache::get(const CacheKey& key) {
  if (mode_ == CacheMode::off) return std::nullopt;
  const std::filesystem::path path = path_of(key);
  try {
    // O_NONBLOCK: a pipe of that name must not make us wait for a writer.
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.number == -1 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
    if (file.number == -1) cannot_read(errno, path);
    struct stat status {};
    if (fstat(file.number, &status) == -1) cannot_read(errno, path);
    if (!S_ISREG(status.st_mode)) cannot_read(S_ISDIR(status.st_mode) ? EISDIR : EINVAL, path);
    const char* wrong = "it is too long";
    if (status.st_size <= static_cast<off_t>(most_bytes)) {
      std::string entry = read_bytes(file.number, static_cast<std::size_t>(status.st_size), path);
      wrong = decode(entry, key);
      if (wrong == nullptr) return entry;
    }
    const bool removes = mode_ == CacheMode::read_write;
    log_warn("The cached kernel '" + path.string() + "' is damaged: " + wrong + ". It is " +
             (removes ? "removed" : "ignored") + ", and the kernel is compiled again.");
    if (removes) remove_if_same(path, status);
  } catch (const std::system_error& error) {
    // Says nothing about the content, so the entry stays.
    warn_once(error.what());
  }
  return std::nullopt;
}

void DiskCache::put(const CacheKey& key, std::string_view payload) {
  if (mode_ != CacheMode::read_write) return;
  const std::filesystem::path path = path_of(key);
  try {
    if (least_bytes + key.text().size() + payload.size() > most_bytes) {
      throw std::system_error(std::make_error_code(std::errc::file_too_large),
                              "cannot store '" + path.string() + "'");
    }
    create_private_directories(path.parent_path());
    AtomicFile file(path);
    file.write(encode(key, payload));
    file.commit();
  } catch (const std::system_error& error) {
    // A refusal holds for every later entry too: do not try again and again.
    if (refuses_writes(error.code())) mode_ = CacheMode::read_only;
    warn_once(error.what());
  }
}

void DiskCache::warn_once(const std::string& message) {
  if (warned_.exchange(true)) return;
  log_warn(
      "The kernel cache in '" + directory_.string() + "' does not work: " + message +
      ". Kernels are compiled again in every process; COCONET_CACHE_DIR names another directory.");
}

}  // namespace coconet::jit
