// One walk over the directory, then removal from the least recently used on.
#include "jit/cache/evict.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "jit/cache/locks.h"
#include "jit/config/log.h"
#include "jit/config/quiet_thread.h"

namespace coconet::jit {
namespace {

// Room for the next entries, or each of them would cause an eviction.
std::uint64_t target_of(std::uint64_t limit, std::uint64_t used) {
  return used > limit ? limit - limit / 5 : limit;
}

}  // namespace

Eviction evict(const CacheDirectory& directory, const Limits& limits, FileTime now) {
  Eviction result;
  std::vector<EntryFile> entries;
  directory.for_each(
      [&](int, const EntryFile& file) {
        entries.push_back(file);
        result.left.add(file.bytes());
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
  std::ranges::sort(entries, {}, [](const EntryFile& file) {
    return std::tuple(time_of(file.status), std::string_view(file.folder),
                      std::string_view(file.name));
  });
  for (const EntryFile& file : entries) {
    if (!target.exceeded_by(result.left)) break;
    const OpenFile folder = directory.folder(file.folder);
    // One that somebody else has removed is gone as well.
    if (unlinkat(folder.number(), file.name.c_str(), 0) == -1 && errno != ENOENT) continue;
    result.left.bytes -= file.bytes();
    --result.left.files;
    result.removed.add(file.bytes());
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
      return std::max(now, then) - then;
    };
    stats.totals = {done.left.bytes + since(stats.totals.bytes, before.bytes),
                    done.left.files + since(stats.totals.files, before.files)};
    stats.evicted = seconds_of(time_now());
  });
  return done;
}

void Evictor::finish() {
  std::thread running;
  // A forked process has the object and not the thread, and somebody may have held the lock.
  if (!process_.is_this()) {
    forget_thread(thread_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    running.swap(thread_);
  }
  if (running.joinable()) running.join();
}

void Evictor::start(std::shared_ptr<const CacheDirectory> directory) {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  if (evicting_ && process_.is_this()) return;
  if (!process_.is_this()) {
    forget_thread(thread_);
    process_ = OwnProcess();
  }
  if (thread_.joinable()) thread_.join();  // it has ended
  evicting_ = true;
  try {
    thread_ = start_without_signals(
        [this, evicted = std::move(directory)] { evict_while_wanted(*evicted); });
  } catch (const std::system_error&) {  // no more threads: the next entry tries again
    evicting_ = false;
  }
}

void Evictor::evict_while_wanted(const CacheDirectory& directory) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      evicting_ = std::exchange(wanted_, false);
      if (!evicting_) return;
    }
    try {
      evict_if_elected(directory);
    } catch (const std::system_error& error) {
      complain_(error.what());
    }
  }
}

// A process that finds the directory too large during another one's eviction leaves it to that one,
// which looks again after it has released the lock: one of the two sees what the other did.
void Evictor::evict_if_elected(const CacheDirectory& directory) {
  bool again = true;
  while (again) {
    const std::optional<Eviction> done = evict_alone(directory, limits_);
    if (!done) return;
    if (done->removed.files > 0) {
      log_info(fmt::format("the kernel cache in '{}' was too large: {} entries removed, {} left",
                           directory.path().string(), done->removed.files, done->left.files));
    }
    if (limits_.exceeded_by(done->left)) return;  // by what the file system does not let go
    try {
      again = limits_.exceeded_by(update_stats(directory).totals);
    } catch (const std::system_error&) {  // no locks
      return;
    }
  }
}

}  // namespace coconet::jit
