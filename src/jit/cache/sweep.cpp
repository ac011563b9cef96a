// One walk over the directory, then removal from the least recently used on.
#include "jit/cache/sweep.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>
#include <vector>

namespace coconet::jit {
namespace {

struct Candidate {
  FileTime used;
  std::string folder;
  std::string name;
  std::uint64_t bytes;
  [[nodiscard]] auto order() const { return std::tie(used, folder, name); }
};

// Room for the next ones, or a sweep would follow every entry.
std::uint64_t aim(std::uint64_t limit, bool exceeded) {
  return exceeded ? limit - limit / 5 : limit;
}

}  // namespace

Sweep sweep(const CacheDirectory& directory, const Limits& limits, FileTime now) {
  Sweep result;
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

  const Limits target{aim(limits.bytes, limits.bytes != 0 && result.left.bytes > limits.bytes),
                      aim(limits.files, limits.files != 0 && result.left.files > limits.files)};
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

std::optional<Sweep> sweep_alone(const CacheDirectory& directory, const Limits& limits) {
  std::optional<Lock> office;
  try {
    office = lock_if_free(directory, LockPlace::sweep());
  } catch (const std::system_error&) {
    return sweep(directory, limits, time_now());
  }
  if (!office) return std::nullopt;
  const Totals before = update_ledger(directory).totals;
  const Sweep done = sweep(directory, limits, time_now());
  (void)update_ledger(directory, [&](LedgerState& ledger) {
    // What was published during the sweep may have been counted by it: at worst the next one comes early.
    const auto since = [](std::uint64_t now, std::uint64_t then) {
      return now > then ? now - then : 0;
    };
    ledger.totals = {done.left.bytes + since(ledger.totals.bytes, before.bytes),
                     done.left.files + since(ledger.totals.files, before.files)};
    ledger.swept = std::chrono::floor<std::chrono::seconds>(time_now()).time_since_epoch().count();
  });
  return done;
}

}  // namespace coconet::jit
