// The bytes of the stats, as kernel_cache/README.md has them.
#include "jit/cache/stats.h"

#include <fcntl.h>

#include <cerrno>
#include <random>
#include <system_error>

#include "jit/cache/little_endian.h"
#include "jit/cache/locks.h"

namespace coconet::jit {
namespace {

constexpr std::string_view stats_magic = "coconetl";
constexpr std::size_t id_bytes = 16;
constexpr std::size_t stats_bytes = stats_magic.size() + id_bytes + 3 * 8;

std::string random_bytes(std::size_t count) {
  std::random_device random;
  std::string bytes;
  while (bytes.size() < count) bytes += static_cast<char>(random());
  return bytes;
}

std::optional<CacheStats> decode(std::string_view bytes) {
  if (bytes.size() != stats_bytes || !bytes.starts_with(stats_magic)) return std::nullopt;
  const auto number = [&](std::size_t index) {
    return little_endian<std::uint64_t>(bytes, stats_magic.size() + id_bytes + 8 * index);
  };
  return CacheStats{hex(bytes.substr(stats_magic.size(), id_bytes)),
                    {number(0), number(1)},
                    static_cast<std::int64_t>(number(2))};
}

// A process that is stopped while it holds the lock must not stop all others.
Lock lock_stats(const CacheDirectory& directory) {
  Backoff backoff(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  do {
    if (auto lock = lock_if_free(directory, LockPlace::stats())) return std::move(*lock);
  } while (backoff.wait());
  errno = ETIMEDOUT;
  throw_errno("cannot lock", stats_file);
}

}  // namespace

std::optional<CacheStats> read_stats(const CacheDirectory& directory) {
  const OpenFile file =
      open_at(directory.descriptor(), stats_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.is_open()) return std::nullopt;
  try {
    return decode(read_bytes(file.number(), stats_bytes));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

CacheStats update_stats(const CacheDirectory& directory,
                        const std::function<void(CacheStats&)>& change) {
  const Lock lock = lock_stats(directory);
  const std::string bytes = read_bytes(lock.file(), stats_bytes);
  const std::optional<CacheStats> there = decode(bytes);
  if (there && !change) return *there;
  const std::string id =
      there ? bytes.substr(stats_magic.size(), id_bytes) : random_bytes(id_bytes);
  CacheStats stats = there.value_or(CacheStats{});
  stats.id = hex(id);
  if (change) change(stats);
  std::string changed(stats_magic);
  changed += id;
  append_little_endian(changed, stats.totals.bytes);
  append_little_endian(changed, stats.totals.files);
  append_little_endian(changed, static_cast<std::uint64_t>(stats.evicted));
  write_bytes(lock.file(), changed);
  return stats;
}

}  // namespace coconet::jit
