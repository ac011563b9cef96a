// Entries to bytes and back.
#include "jit/cache/entry.h"

#include <xxhash.h>

#include <array>
#include <cstring>

#include "jit/cache/little_endian.h"

namespace coconet::jit {
namespace {

constexpr std::string_view entry_magic = "coconetk";
constexpr std::size_t digest_at = entry_magic.size() + 4;
constexpr std::size_t lengths_at = digest_at + sizeof(Digest);

using Checksum = std::array<char, 16>;
static_assert(lengths_at + 3 * 8 == entry_header_bytes);
static_assert(entry_header_bytes + sizeof(Checksum) == least_entry_bytes);

// A checksum detects damage, not tampering; it is checked at every hit, so it has to be quick.
Checksum checksum(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Checksum result{};
  static_assert(sizeof(canonical) == sizeof(result));
  std::memcpy(result.data(), &canonical, sizeof(result));
  return result;
}

}  // namespace

std::string encode_entry(const CacheKey& key, const CachedBinary& binary) {
  std::string entry;
  entry.reserve(least_entry_bytes + key.text().size() + binary.log.size() + binary.payload.size());
  entry += entry_magic;
  append_little_endian(entry, entry_format);
  entry += bytes_of(key.digest());
  append_little_endian(entry, std::uint64_t{key.text().size()});
  append_little_endian(entry, std::uint64_t{binary.log.size()});
  append_little_endian(entry, std::uint64_t{binary.payload.size()});
  entry += key.text();
  entry += binary.log;
  entry += binary.payload;
  const Checksum sum = checksum(entry);
  entry.append(sum.data(), sum.size());
  return entry;
}

const char* decode_header(std::string_view start, std::size_t size, EntryLengths& into) {
  if (size < least_entry_bytes || start.size() < entry_header_bytes) return "it is too short";
  if (!start.starts_with(entry_magic)) return "it is not a kernel entry";
  if (little_endian<std::uint32_t>(start, entry_magic.size()) != entry_format)
    return "its format version is unknown";
  const std::size_t body = size - least_entry_bytes;
  const auto key = little_endian<std::uint64_t>(start, lengths_at);
  const auto log = little_endian<std::uint64_t>(start, lengths_at + 8);
  const auto payload = little_endian<std::uint64_t>(start, lengths_at + 16);
  if (key > body || log > body - key || payload != body - key - log) return "its length is wrong";
  into = {key, log, payload};
  return nullptr;
}

const char* decode_entry(std::string_view bytes, EntryView& into) {
  EntryLengths lengths;
  if (const char* wrong = decode_header(bytes, bytes.size(), lengths)) return wrong;
  const std::string_view body = bytes.substr(entry_header_bytes, bytes.size() - least_entry_bytes);
  const std::size_t checked = bytes.size() - sizeof(Checksum);
  const Checksum sum = checksum(bytes.substr(0, checked));
  if (bytes.substr(checked) != std::string_view(sum.data(), sum.size()))
    return "its checksum is wrong";
  into.digest = bytes.substr(digest_at, sizeof(Digest));
  into.key_text = body.substr(0, lengths.key);
  into.log = body.substr(lengths.key, lengths.log);
  into.payload = body.substr(lengths.key + lengths.log);
  return nullptr;
}

}  // namespace coconet::jit
