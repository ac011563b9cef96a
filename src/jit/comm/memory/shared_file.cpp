// Memory that the processes of one machine share: a file that rank 0 makes, the others open and
// nobody can see.
//
// An MPI shared-memory window would do, but freeing one is collective, its blocks need not start at
// a page, and Open MPI backs it by a file in /dev/shm, which containers limit to 64 MB by default.
// A memfd has none of these limits, takes part in huge pages, and vanishes with the last process
// that maps it, however that one ends.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

#include "coconet/error.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/config/leftovers.h"

namespace coconet::jit {

namespace {

[[noreturn]] void fail(std::string_view what) {
  throw CommError(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Throws when /dev/shm has no room for `bytes`: writing to a full one ends in SIGBUS, not in an
/// error.
void require_room(std::size_t bytes) {
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) != 0) fail("cannot read the free space of /dev/shm");
  const std::size_t room = shm.f_bavail * shm.f_frsize;
  if (bytes <= room) return;
  throw CommError(fmt::format(
      "/dev/shm has {} MiB free, but the ranks need {} MiB; enlarge it, with --shm-size for a "
      "container or mount -o remount,size=... /dev/shm",
      room >> 20, (bytes + (1U << 20) - 1) >> 20));
}

/// What rank 0 tells the others of `file`: "DEVICE INODE PATH". The inode shows that they opened
/// what rank 0 made: where processes number each other differently (containers), the same path
/// leads elsewhere.
std::string ticket_of(const OpenFile& file, std::string_view path) {
  struct stat status = {};
  if (fstat(file.number(), &status) != 0) fail("cannot inspect shared memory");
  return fmt::format("{} {} {}", status.st_dev, status.st_ino, path);
}

/// `whose` is "rank 0's".
OpenFile open_ticket(const std::string& ticket, const std::string& whose) {
  const std::string path = ticket.substr(ticket.find('/'));
  OpenFile file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) fail(fmt::format("cannot open {} shared memory, {}", whose, path));
  if (ticket_of(file, path) == ticket) return file;
  throw CommError(fmt::format(
      "{} is not {} shared memory here; ranks in several containers need one PID namespace or one "
      "/dev/shm, or a COCONET_HOST_ID for each container, which makes it a node",
      path, whose));
}

constexpr std::string_view shared_prefix = "coconet-jit-";

std::string random_name() {
  std::random_device random;
  return fmt::format("/{}{}-{}", shared_prefix, random(), random());
}

/// A file of rank 0's that the others open. The destructor takes its name away.
struct MadeFile {
  OpenFile file;
  OpenFile lock;     ///< of a file with a name
  std::string name;  ///< of one below /dev/shm, "/coconet-jit-1-2", else empty
  std::string ticket;

  MadeFile() = default;
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  ~MadeFile() {
    if (!name.empty()) shm_unlink(name.c_str());
  }
};

/// Rank 0's part: makes a file of `size` bytes.
void make_file(SharedFile kind, std::size_t size, MadeFile& made) {
  const auto require = [&](bool holds) {
    if (!holds) fail(fmt::format("cannot make {} bytes of shared memory", size));
  };
  if (kind == SharedFile::shm) {
    // Those of jobs that were killed before all had mapped them; the names of others are gone.
    try_remove_leftovers("/dev/shm", shared_prefix);
    require_room(size);
    const auto make = [&] {
      made.name = random_name();
      made.file = OpenFile(shm_open(made.name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
      require(made.file.is_open());
      return "/dev/shm" + made.name;
    };
    try {
      require(!make_locked(make, made.lock).empty());
    } catch (const std::system_error& error) {
      errno = error.code().value();
      require(false);
    }
  } else {
    made.file = OpenFile(memfd_create("coconet", MFD_CLOEXEC));
  }
  require(made.file.is_open() && ftruncate(made.file.number(), static_cast<off_t>(size)) == 0);
  made.ticket =
      ticket_of(made.file, kind == SharedFile::shm
                               ? "/dev/shm" + made.name
                               : fmt::format("/proc/{}/fd/{}", getpid(), made.file.number()));
}

/// A mapping on every rank, or on every rank null and the same `error`.
std::shared_ptr<PeerMemory> map_file(int rank, const std::vector<int>& numbers, std::size_t bytes,
                                     const Exchange& exchange, SharedFile kind,
                                     std::string& error) {
  const int ranks = static_cast<int>(numbers.size());
  MadeFile made;
  std::string mine;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const Error& e) {
      mine = e.what();
    }
  };
  if (rank == 0) {
    attempt([&] { make_file(kind, file_bytes(ranks, bytes), made); });
  }
  // Empty: there is no file to open.
  const std::string ticket = exchange(made.ticket).front();
  std::shared_ptr<PeerMemory> memory;
  if (!ticket.empty()) {
    attempt([&] {
      if (rank != 0) made.file = open_ticket(ticket, fmt::format("rank {}'s", numbers.front()));
      memory = map_blocks(ranks, bytes, made.file.number(), rank);
    });
  }
  // Rank 0 keeps the file until here, when every rank has mapped it or never will.
  const std::vector<std::string> errors = exchange(mine);
  const auto failed = std::ranges::find_if(errors, [](const auto& one) { return !one.empty(); });
  if (failed == errors.end()) return memory;
  error = fmt::format("rank {}: {}", numbers[failed - errors.begin()], *failed);
  return nullptr;
}

}  // namespace

std::shared_ptr<PeerMemory> map_across_processes(int rank, const std::vector<int>& numbers,
                                                 std::size_t bytes, const Exchange& exchange,
                                                 std::optional<SharedFile> only) {
  std::string unnamed, named;
  std::shared_ptr<PeerMemory> memory;
  if (only != SharedFile::shm)
    memory = map_file(rank, numbers, bytes, exchange, SharedFile::memfd, unnamed);
  if (!memory && only != SharedFile::memfd)
    memory = map_file(rank, numbers, bytes, exchange, SharedFile::shm, named);
  if (memory) return memory;
  if (only) throw CommError(unnamed + named);
  throw CommError(
      fmt::format("the ranks found no way to share {} bytes each. By memfd: {}. By /dev/shm: {}",
                  bytes, unnamed, named));
}

}  // namespace coconet::jit
