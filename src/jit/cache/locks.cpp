// Locks of open file descriptions: unlike those of processes, they exclude threads, too.
#include "jit/cache/locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "jit/cache/little_endian.h"
#include "jit/cache/stats.h"

namespace coconet::jit {
namespace {

struct flock range_of(LockPlace place, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = place.offset;
  range.l_len = 1;
  return range;
}

// Whether the lock was free.
bool take(const OpenFile& file, LockPlace place) {
  struct flock lock = range_of(place, F_WRLCK);
  if (uninterrupted([&] { return fcntl(file.number(), F_OFD_SETLK, &lock); }) != -1) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw_errno("cannot lock", stats_file);
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

// Machines that share the directory have compilers of their own.
LockPlace LockPlace::compiler(int slot) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  constexpr std::int64_t first = std::int64_t{1} << 40;
  constexpr std::int64_t most_slots = std::int64_t{1} << 16;
  constexpr std::uint64_t machines = std::uint64_t{1} << 20;
  return {first + static_cast<std::int64_t>(fnv1a(host.data()) % machines) * most_slots +
          slot % most_slots};
}

// Two keys with the same 61 bits of SHA-256 would only wait for each other.
LockPlace LockPlace::key(const Digest& digest) {
  constexpr std::uint64_t first = std::uint64_t{1} << 62;
  const auto bits = little_endian<std::uint64_t>(bytes_of(digest), 0);
  return {static_cast<std::int64_t>(first | (bits >> 3))};
}

// Closing is not enough: a process that was forked meanwhile has the file open, too.
Lock::~Lock() {
  if (!file_.is_open()) return;
  struct flock lock = range_of(place_, F_UNLCK);
  (void)fcntl(file_.number(), F_OFD_SETLK, &lock);
}

std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                 std::span<const LockPlace> places) {
  OpenFile file = open_at(directory.descriptor(), stats_file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file.is_open()) throw_errno("cannot open", (directory.path() / stats_file).string());
  for (const LockPlace place : places) {
    if (take(file, place)) return Lock(std::move(file), place);
  }
  return std::nullopt;
}

bool Backoff::wait() {
  constexpr std::chrono::microseconds longest{50'000};
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  std::this_thread::sleep_for(std::min(next_, left));
  next_ = std::min(2 * next_, longest);
  return true;
}

}  // namespace coconet::jit
