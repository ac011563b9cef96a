// Memory that the processes of one machine share: a file that rank 0 makes, the others open and
// nobody can see.
//
// An MPI shared-memory window would do, but freeing one is collective, its blocks need not start at
// a page, and Open MPI backs it by a file in /dev/shm, which containers limit to 64 MB by default.
// A memfd has none of these limits, takes part in huge pages, and vanishes with the last process
// that maps it, however that one ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <tuple>
#include <utility>

#include "coconet/error.h"
#include "jit/comm/memory/peer_memory.h"

namespace coconet::jit {

namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

/// A name in /dev/shm, removed at the latest when this goes.
class ShmName {
 public:
  explicit ShmName(std::string name) : name_(std::move(name)) {}
  ShmName(const ShmName&) = delete;
  ShmName& operator=(const ShmName&) = delete;
  ~ShmName() {
    if (!name_.empty()) shm_unlink(name_.c_str());
  }

 private:
  std::string name_;
};

[[noreturn]] void fail(const std::string& what) {
  throw CommError(what + ": " + std::strerror(errno));
}

/// Throws when /dev/shm has no room for `bytes`: writing to a full one ends in SIGBUS, not in an
/// error.
void require_room(std::size_t bytes) {
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) != 0) fail("cannot read the free space of /dev/shm");
  const std::size_t room = shm.f_bavail * shm.f_frsize;
  if (bytes > room) {
    throw CommError(
        "/dev/shm has " + std::to_string(room >> 20) + " MiB free, but the ranks need " +
        std::to_string((bytes + (1U << 20) - 1) >> 20) +
        " MiB; enlarge it, with --shm-size for a container or mount -o remount,size=... /dev/shm");
  }
}

/// What rank 0 tells the others. The inode shows that they opened what rank 0 made: where processes
/// number each other differently (containers), the same path leads elsewhere.
struct Ticket {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;

  [[nodiscard]] std::string str() const {
    return std::to_string(device) + " " + std::to_string(inode) + " " + path;
  }
  static Ticket parse(const std::string& text) {
    Ticket ticket;
    std::istringstream stream(text);
    stream >> ticket.device >> ticket.inode >> ticket.path;
    return ticket;
  }
};

Ticket ticket_of(const File& file, std::string path) {
  struct stat status = {};
  if (fstat(file.fd(), &status) != 0) fail("cannot inspect shared memory");
  return {std::move(path), status.st_dev, status.st_ino};
}

/// `whose` is "rank 0's".
File open_ticket(const Ticket& ticket, const std::string& whose) {
  File file(open(ticket.path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.fd() < 0) fail("cannot open " + whose + " shared memory, " + ticket.path);
  const Ticket found = ticket_of(file, ticket.path);
  if (found.device != ticket.device || found.inode != ticket.inode) {
    throw CommError(ticket.path + " is not " + whose +
                    " shared memory here; ranks in several containers need one PID namespace or "
                    "one /dev/shm, or a COCONET_HOST_ID for each container, which makes it a node");
  }
  return file;
}

/// The error of the first rank that has one, or "".
std::string first_error(const std::vector<std::string>& errors, const std::vector<int>& numbers) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) return "rank " + std::to_string(numbers[rank]) + ": " + errors[rank];
  }
  return {};
}

std::string random_name() {
  std::random_device random;
  return "/coconet-" + std::to_string(random()) + "-" + std::to_string(random());
}

/// Rank 0's part: makes a file of `size` bytes. `name` is empty for a memfd.
std::pair<File, Ticket> make_file(const std::string& name, std::size_t size) {
  const bool named = !name.empty();
  if (named) require_room(size);
  File file(named ? shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)
                  : memfd_create("coconet", MFD_CLOEXEC));
  if (file.fd() < 0 || ftruncate(file.fd(), static_cast<off_t>(size)) != 0) {
    fail("cannot make " + std::to_string(size) + " bytes of shared memory");
  }
  std::string path = named
                         ? "/dev/shm" + name
                         : "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.fd());
  Ticket ticket = ticket_of(file, std::move(path));
  return {std::move(file), std::move(ticket)};
}

/// A mapping on every rank, or on every rank the same sentence that says why not.
struct Outcome {
  std::shared_ptr<PeerMemory> memory;
  std::string error;
};

Outcome attempt(int rank, const std::vector<int>& numbers, std::size_t bytes,
                const Exchange& exchange, SharedFile kind) {
  const int ranks = static_cast<int>(numbers.size());
  const std::string first = "rank " + std::to_string(numbers.front());
  const std::string name = rank == 0 && kind == SharedFile::shm ? random_name() : std::string();
  const ShmName unlinked_at_end(name);

  std::string error;
  File file(-1);
  Ticket ticket;
  if (rank == 0) {
    try {
      std::tie(file, ticket) = make_file(name, Mapping::file_bytes(ranks, bytes));
    } catch (const Error& e) {
      error = e.what();
    }
  }
  const std::string from_root = exchange(error.empty() ? ticket.str() : "!" + error)[0];
  if (from_root.starts_with("!")) return {nullptr, first + ": " + from_root.substr(1)};

  std::shared_ptr<const Mapping> mapping;
  try {
    if (rank != 0) file = open_ticket(Ticket::parse(from_root), first + "'s");
    mapping = std::make_shared<const Mapping>(ranks, bytes, file.fd());
  } catch (const Error& e) {
    error = e.what();
  }
  // Rank 0 keeps the file until here, when every rank has mapped it or never will.
  std::string failed = first_error(exchange(error), numbers);
  if (!failed.empty()) return {nullptr, std::move(failed)};
  return {std::make_shared<MappedMemory>(std::move(mapping), rank), {}};
}

}  // namespace

std::shared_ptr<PeerMemory> map_across_processes(int rank, const std::vector<int>& numbers,
                                                 std::size_t bytes, const Exchange& exchange,
                                                 SharedFile kind) {
  Outcome outcome = attempt(rank, numbers, bytes, exchange, kind);
  if (!outcome.memory) throw CommError(outcome.error);
  return std::move(outcome.memory);
}

std::shared_ptr<PeerMemory> map_across_processes(int rank, const std::vector<int>& numbers,
                                                 std::size_t bytes, const Exchange& exchange) {
  Outcome unnamed = attempt(rank, numbers, bytes, exchange, SharedFile::memfd);
  if (unnamed.memory) return std::move(unnamed.memory);
  Outcome named = attempt(rank, numbers, bytes, exchange, SharedFile::shm);
  if (named.memory) return std::move(named.memory);
  throw CommError("the ranks found no way to share " + std::to_string(bytes) +
                  " bytes each. By memfd: " + unnamed.error + ". By /dev/shm: " + named.error);
}

void agree_on_bytes(std::size_t bytes, const Exchange& exchange) {
  const std::vector<std::string> asked = exchange(std::to_string(bytes));
  for (std::size_t rank = 1; rank < asked.size(); ++rank) {
    if (asked[rank] != asked[0]) {
      throw CommError("rank " + std::to_string(rank) + " allocates " + asked[rank] +
                      " bytes, but rank 0 " + asked[0] +
                      "; allocate is collective, all ranks must ask for the same size");
    }
  }
}

}  // namespace coconet::jit
