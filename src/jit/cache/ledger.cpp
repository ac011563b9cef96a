// The ledger's bytes, as kernel_cache/README.md has them, and locks of open file descriptions, which exclude threads
// as they do processes.
#include "jit/cache/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>
#include <thread>

#include "jit/cache/little_endian.h"

namespace coconet::jit {
namespace {

constexpr std::string_view magic = "coconetl";
constexpr std::size_t id_bytes = 16;
constexpr std::size_t ledger_bytes = magic.size() + id_bytes + 3 * 8;
const std::string ledger_name = "ledger";

OpenFile open_ledger(const CacheDirectory& directory) {
  OpenFile file = open_at(directory.descriptor(), ledger_name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!file.is_open()) throw_errno("cannot open", (directory.path() / ledger_name).string());
  return file;
}

struct flock range_of(LockPlace place, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = place.offset();
  range.l_len = 1;
  return range;
}

// Whether the lock was free.
bool take(const OpenFile& file, LockPlace place) {
  struct flock lock = range_of(place, F_WRLCK);
  while (fcntl(file.number(), F_OFD_SETLK, &lock) == -1) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw_errno("cannot lock", ledger_name);
  }
  return true;
}

std::string random_bytes(std::size_t count) {
  std::random_device random;
  std::string bytes;
  while (bytes.size() < count) bytes += static_cast<char>(random());
  return bytes;
}

std::optional<LedgerState> decode(std::string_view bytes) {
  if (bytes.size() != ledger_bytes || !bytes.starts_with(magic)) return std::nullopt;
  constexpr std::size_t at = magic.size() + id_bytes;
  LedgerState state;
  state.id = hex(bytes.substr(magic.size(), id_bytes));
  state.totals = {little_endian<std::uint64_t>(bytes, at),
                  little_endian<std::uint64_t>(bytes, at + 8)};
  state.swept = static_cast<std::int64_t>(little_endian<std::uint64_t>(bytes, at + 16));
  return state;
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
  return LockPlace(first + static_cast<std::int64_t>(fnv1a(host.data()) % machines) * most_slots +
                   slot % most_slots);
}

// Two keys that meet in 61 bits of SHA-256 would only wait for each other.
LockPlace LockPlace::key(const Digest& digest) {
  constexpr std::uint64_t first = std::uint64_t{1} << 62;
  const auto bits = little_endian<std::uint64_t>(bytes_of(digest), 0);
  return LockPlace(static_cast<std::int64_t>(first | (bits >> 3)));
}

// Closing is not enough: a process that was forked meanwhile has the file open, too.
Lock::~Lock() {
  if (!file_.is_open()) return;
  struct flock lock = range_of(place_, F_UNLCK);
  (void)fcntl(file_.number(), F_OFD_SETLK, &lock);
}

std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                 std::span<const LockPlace> places) {
  OpenFile file = open_ledger(directory);
  for (const LockPlace place : places) {
    if (take(file, place)) return Lock(std::move(file), place);
  }
  return std::nullopt;
}

bool Naps::nap() {
  constexpr std::chrono::microseconds longest{50'000};
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  std::this_thread::sleep_for(std::min(next_, left));
  next_ = std::min(2 * next_, longest);
  return true;
}

std::optional<LedgerState> read_ledger(const CacheDirectory& directory) {
  const OpenFile file =
      open_at(directory.descriptor(), ledger_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.is_open()) return std::nullopt;
  try {
    return decode(read_bytes(file.number(), ledger_bytes));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

LedgerState update_ledger(const CacheDirectory& directory,
                          const std::function<void(LedgerState&)>& change) {
  OpenFile file = open_ledger(directory);
  // A process that is stopped while it has the lock must not stop all others.
  Naps naps(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  while (!take(file, LockPlace::totals())) {
    if (naps.nap()) continue;
    errno = ETIMEDOUT;
    throw_errno("cannot lock", ledger_name);
  }
  const int number = file.number();
  const Lock lock(std::move(file), LockPlace::totals());
  const std::string bytes = read_bytes(number, ledger_bytes);
  const std::optional<LedgerState> there = decode(bytes);
  if (there && !change) return *there;
  const std::string id = there ? bytes.substr(magic.size(), id_bytes) : random_bytes(id_bytes);
  LedgerState state = there.value_or(LedgerState{});
  state.id = hex(id);
  if (change) change(state);
  std::string changed(magic);
  changed += id;
  append_little_endian(changed, state.totals.bytes);
  append_little_endian(changed, state.totals.files);
  append_little_endian(changed, static_cast<std::uint64_t>(state.swept));
  write_bytes(number, changed);
  return state;
}

}  // namespace coconet::jit
