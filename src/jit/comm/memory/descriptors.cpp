// Descriptors travel as messages of Unix sockets with names in the abstract namespace, which no
// file system holds and which vanish with their process. /proc/PID/fd, by which memfds go, cannot
// open what a driver made.
#include "jit/comm/memory/descriptors.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

[[noreturn]] void fail(std::string_view what) {
  throw CommError(
      fmt::format("cannot hand memory to the other ranks: {}: {}", what, std::strerror(errno)));
}

/// An abstract name: its path begins with a zero.
struct Address {
  sockaddr_un name{};
  socklen_t length = 0;

  explicit Address(std::string_view text)
      : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size())) {
    name.sun_family = AF_UNIX;
    text.copy(name.sun_path + 1, text.size());
  }
};

/// A message of a rank's number with a descriptor beside it.
struct Message {
  int rank = -1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{&rank, sizeof rank};
  msghdr header{};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

void send_to(int socket, const std::string& to, int rank, int fd) {
  const Address address(to);
  Message message;
  message.rank = rank;
  message.header.msg_name = const_cast<sockaddr_un*>(&address.name);
  message.header.msg_namelen = address.length;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  if (sendmsg(socket, &message.header, 0) < 0) fail("sendmsg");
}

/// The next message, as (rank, descriptor); rank -1 when none comes in `patience`.
std::pair<int, OpenFile> receive(int socket, std::chrono::milliseconds patience) {
  pollfd ready{socket, POLLIN, 0};
  const int came = poll(&ready, 1, static_cast<int>(patience.count()));
  if (came < 0 && errno != EINTR) fail("poll");
  if (came <= 0) return {-1, OpenFile()};
  Message message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) < 0) fail("recvmsg");
  int fd = -1;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS)
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return {message.rank, OpenFile(fd)};
}

}  // namespace

std::vector<OpenFile> exchange_descriptors(Comm& comm, int mine) {
  std::random_device random;
  const std::string name = fmt::format("coconet-{}-{}", getpid(), random());
  OpenFile own;
  together(comm, [&] {
    own = OpenFile(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Address address(name);
    if (!own.is_open() ||
        bind(own.number(), reinterpret_cast<const sockaddr*>(&address.name), address.length) != 0) {
      fail("making a socket");
    }
  });
  const std::vector<std::string> names = comm.all_gather(name);

  // One round per distance: each rank has one message to take then, so that no queue of a socket,
  // which holds ten, overflows.
  std::vector<OpenFile> received(names.size());
  for (int distance = 1; distance < comm.size(); ++distance) {
    together(comm, [&] {
      const int to = (comm.rank() + distance) % comm.size();
      send_to(own.number(), names[to], comm.rank(), mine);
      auto [rank, descriptor] = receive(own.number(), comm.config().timeout);
      const int from = (comm.rank() + comm.size() - distance) % comm.size();
      if (rank != from || !descriptor.is_open()) {
        throw CommError(
            fmt::format("rank {} did not hand over its memory; it is late, stuck or gone",
                        comm.number_of(from)));
      }
      received[from] = std::move(descriptor);
    });
  }
  return received;
}

}  // namespace coconet::jit
