// One walk over the directory, then removal from the least recently used on.
#include "jit/cache/evict.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <vector>

#include "jit/cache/locks.h"

namespace coconet::jit {
namespace {

struct Candidate {
  FileTime used;
  std::string folder;
  std::string name;
  std::uint64_t bytes;
  [[nodiscard]] auto order() const { return std::tie(used, folder, name); }
};

// Room for the next entries, or each of them would cause an eviction.
std::uint64_t target_of(std::uint64_t limit, std::uint64_t used) {
  return used > limit ? limit - limit / 5 : limit;
}

}  // namespace

Eviction evict(const CacheDirectory& directory, const Limits& limits, FileTime now) {
  Eviction result;
  std::vector<Candidate> candidates;
  directory.for_each(
      [&](int, const EntryFile& file) {
        const auto bytes = static_cast<std::uint64_t>(file.status.st_size);
        candidates.push_back({time_of(file.status), file.folder, file.name, bytes});
        result.left.bytes += bytes;
        ++result.left.files;
      },
      [&](int folder, const EntryFile& file) {
        if (now - time_of(file.status) > std::chrono::hours(1) &&
            unlinkat(folder, file.name.c_str(), 0) == 0) {
          ++result.temporaries;
        }
      });
  if (!limits.exceeded_by(result.left)) return result;

  const Limits target{target_of(limits.bytes, result.left.bytes),
                      target_of(limits.files, result.left.files)};
  std::ranges::sort(candidates, {}, [](const Candidate& one) { return one.order(); });
  for (const Candidate& candidate : candidates) {
    if (!target.exceeded_by(result.left)) break;
    const OpenFile folder = directory.folder(candidate.folder);
    // One that somebody else has removed is gone as well.
    if (unlinkat(folder.number(), candidate.name.c_str(), 0) == -1 && errno != ENOENT) continue;
    result.left.bytes -= candidate.bytes;
    --result.left.files;
    result.removed.bytes += candidate.bytes;
    ++result.removed.files;
  }
  return result;
}

std::optional<Eviction> evict_alone(const CacheDirectory& directory, const Limits& limits) {
  std::optional<Lock> lock;
  try {
    lock = lock_if_free(directory, LockPlace::eviction());
  } catch (const std::system_error&) {
    return evict(directory, limits, time_now());
  }
  if (!lock) return std::nullopt;
  const Totals before = update_stats(directory).totals;
  const Eviction done = evict(directory, limits, time_now());
  (void)update_stats(directory, [&](CacheStats& stats) {
    // What was published meanwhile may be counted twice: at worst the next eviction comes early.
    const auto since = [](std::uint64_t now, std::uint64_t then) {
      return now > then ? now - then : 0;
    };
    stats.totals = {done.left.bytes + since(stats.totals.bytes, before.bytes),
                    done.left.files + since(stats.totals.files, before.files)};
    stats.evicted = std::chrono::floor<std::chrono::seconds>(time_now()).time_since_epoch().count();
  });
  return done;
}

}  // namespace coconet::jit
