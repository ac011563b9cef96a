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
#include <tuple>
#include <utility>

#include "coconet/error.h"
#include "jit/comm/memory/descriptors.h"
#include "jit/comm/memory/peer_memory.h"

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
std::string ticket_of(const Descriptor& file, std::string_view path) {
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) fail("cannot inspect shared memory");
  return fmt::format("{} {} {}", status.st_dev, status.st_ino, path);
}

/// `whose` is "rank 0's".
Descriptor open_ticket(const std::string& ticket, const std::string& whose) {
  const std::string path = ticket.substr(ticket.find('/'));
  Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) fail(fmt::format("cannot open {} shared memory, {}", whose, path));
  if (ticket_of(file, path) == ticket) return file;
  throw CommError(fmt::format(
      "{} is not {} shared memory here; ranks in several containers need one PID namespace or one "
      "/dev/shm, or a COCONET_HOST_ID for each container, which makes it a node",
      path, whose));
}

std::string random_name() {
  std::random_device random;
  return fmt::format("/coconet-{}-{}", random(), random());
}

/// Rank 0's part: makes a file of `size` bytes, and its ticket. `name` is empty for a memfd.
std::pair<Descriptor, std::string> make_file(const std::string& name, std::size_t size) {
  const bool named = !name.empty();
  if (named) require_room(size);
  Descriptor file(named ? shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)
                        : memfd_create("coconet", MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(size)) != 0)
    fail(fmt::format("cannot make {} bytes of shared memory", size));
  std::string ticket = ticket_of(
      file, named ? "/dev/shm" + name : fmt::format("/proc/{}/fd/{}", getpid(), file.get()));
  return {std::move(file), std::move(ticket)};
}

/// A mapping on every rank, or on every rank null and the same `error`.
std::shared_ptr<PeerMemory> map_file(int rank, const std::vector<int>& numbers, std::size_t bytes,
                                     const Exchange& exchange, SharedFile kind,
                                     std::string& error) {
  const int ranks = static_cast<int>(numbers.size());
  const std::string name = rank == 0 && kind == SharedFile::shm ? random_name() : std::string();
  const auto unlink = [](const std::string* unlinked) {
    if (!unlinked->empty()) shm_unlink(unlinked->c_str());
  };
  const std::unique_ptr<const std::string, decltype(unlink)> unlinked_at_end(&name, unlink);
  Descriptor file;
  std::string ticket;
  std::string mine;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const Error& e) {
      mine = e.what();
    }
  };
  if (rank == 0) {
    attempt([&] { std::tie(file, ticket) = make_file(name, file_bytes(ranks, bytes)); });
  }
  ticket = exchange(ticket).front();  // empty: there is no file to open
  std::shared_ptr<PeerMemory> memory;
  if (!ticket.empty()) {
    attempt([&] {
      if (rank != 0) file = open_ticket(ticket, fmt::format("rank {}'s", numbers.front()));
      memory = map_blocks(ranks, bytes, file.get(), rank);
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
