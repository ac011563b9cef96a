// Descriptors travel as messages of Unix sockets with names in the abstract namespace, which no
// file system holds and which vanish with their process. /proc/PID/fd, by which memfds go, cannot
// open what a driver made.
//
// Every process of the machine sees these names and may send to them. So two ranks have a socket
// each for the other alone, and connect them with each other: from then on the system refuses
// whatever others send. What came before is thrown away, and a message counts only if its sender is
// the rank's process, for which the system vouches, and knows the secret that the world was told.
#include "jit/comm/memory/descriptors.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

[[noreturn]] void fail_to_hand(std::string_view what) {
  throw CommError(
      fmt::format("cannot hand memory to the other ranks: {}: {}", what, std::strerror(errno)));
}

using Secret = std::array<char, 32>;  // hexadecimal digits

Secret draw_secret() {
  std::random_device random;
  Secret secret{};
  for (std::size_t at = 0; at < secret.size(); at += 8)
    fmt::format_to_n(secret.data() + at, 8, "{:08x}", random());
  return secret;
}

std::string_view text_of(const Secret& secret) {
  return {secret.data(), secret.size()};
}

/// What numbers processes here, as "pid:[4026531836]"; empty where the system does not say.
std::string process_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

/// What a rank tells the others about itself, over the world's own channel.
struct Introduction {
  std::string name;     ///< what its sockets' names begin with
  Secret secret{};      ///< which whoever sends to it must know
  pid_t process = 0;    ///< its process,
  std::string numbers;  ///< as this namespace numbers it

  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {} {}", name, text_of(secret), process, numbers);
  }
};

Introduction introduce() {
  return {fmt::format("coconet-{}", text_of(draw_secret())), draw_secret(), getpid(),
          process_namespace()};
}

Introduction parse_introduction(const std::string& text) {
  Introduction rank;
  std::string digits;
  std::istringstream(text) >> rank.name >> digits >> rank.process >> rank.numbers;
  digits.copy(rank.secret.data(), rank.secret.size());
  return rank;
}

/// An abstract name, whose path begins with a zero: of the socket that the rank called `name` has
/// for `other`.
struct Address {
  sockaddr_un path{};
  socklen_t length = 0;

  Address(std::string_view name, int other) {
    const std::string text = fmt::format("{}-{}", name, other);
    path.sun_family = AF_UNIX;
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                    text.copy(path.sun_path + 1, sizeof path.sun_path - 1));
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&path); }
};

/// What a message holds: the receiver's secret, beside it a descriptor, and whose it is.
struct Parcel {
  Secret secret{};
  OpenFile descriptor;
  ucred sender{};
};

void send_message(const OpenFile& socket, Secret secret, int descriptor) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptor)> control{};
  iovec part{secret.data(), secret.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const one = CMSG_FIRSTHDR(&header);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(one), &descriptor, sizeof descriptor);
  }
  if (uninterrupted([&] { return sendmsg(socket.number(), &header, MSG_NOSIGNAL); }) < 0)
    fail_to_hand("sendmsg");
}

/// The next message; nothing where none is there.
std::optional<Parcel> take_message(const OpenFile& socket) {
  Parcel parcel;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof parcel.sender)>
      control{};
  // A byte more than a message of ranks has, so that a longer one shows.
  std::array<char, sizeof(Secret) + 1> bytes{};
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = uninterrupted(
      [&] { return recvmsg(socket.number(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT); });
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (size < 0) fail_to_hand("recvmsg");
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET) continue;
    const std::size_t length = one->cmsg_len - CMSG_LEN(0);
    if (one->cmsg_type == SCM_CREDENTIALS && length == sizeof parcel.sender)
      std::memcpy(&parcel.sender, CMSG_DATA(one), length);
    // There may be several, which are open here now: the last one is kept, the others are closed.
    for (std::size_t at = 0; one->cmsg_type == SCM_RIGHTS && at < length; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(one) + at, sizeof descriptor);
      parcel.descriptor = OpenFile(descriptor);
    }
  }
  if (size == sizeof parcel.secret) std::copy_n(bytes.begin(), size, parcel.secret.begin());
  return parcel;
}

/// One end of what two ranks have for each other.
class Channel {
 public:
  /// This rank's, called `own`, for the rank `other`.
  Channel(const Introduction& own, int other)
      : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), own_(own) {
    const int yes = 1;
    const Address address(own.name, other);
    if (!socket_.is_open() ||
        setsockopt(socket_.number(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
        bind(socket_.number(), address.get(), address.length) != 0)
      fail_to_hand("making a socket");
  }

  /// Joins it with the end that `peer` has for this rank, `me`; then nobody else's messages come,
  /// and those that came are thrown away. No rank sends before all have joined.
  void join(const Introduction& peer, int me) {
    const Address address(peer.name, me);
    if (connect(socket_.number(), address.get(), address.length) != 0)
      fail_to_hand("connecting sockets");
    peer_ = peer;
    while (take_message(socket_)) continue;
  }

  /// -1: no descriptor.
  void send(int descriptor) const { send_message(socket_, peer_.secret, descriptor); }

  /// The peer's next message; nothing where none comes before `deadline`.
  [[nodiscard]] std::optional<Parcel> receive(
      std::chrono::steady_clock::time_point deadline) const {
    for (;;) {
      std::optional<Parcel> parcel = take_message(socket_);
      if (parcel && is_of_peer(*parcel)) return parcel;
      if (parcel) continue;
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return std::nullopt;
      constexpr std::chrono::milliseconds longest{1000};
      pollfd ready{socket_.number(), POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(std::min(left, longest).count())) < 0 && errno != EINTR)
        fail_to_hand("poll");
    }
  }

 private:
  /// Processes in other namespaces have other numbers here.
  [[nodiscard]] bool is_of_peer(const Parcel& parcel) const {
    const bool comparable = !own_.numbers.empty() && own_.numbers == peer_.numbers;
    return parcel.secret == own_.secret && parcel.sender.uid == getuid() &&
           (!comparable || parcel.sender.pid == peer_.process);
  }

  OpenFile socket_;
  Introduction own_, peer_;
};

}  // namespace

std::vector<OpenFile> exchange_descriptors(Comm& comm, int mine) {
  const Introduction own = introduce();
  std::map<int, Channel> channels;  // by rank
  const std::vector<std::string> introductions = gather_together(comm, [&] {
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank != comm.rank()) channels.try_emplace(rank, own, rank);
    }
    return own.text();
  });
  together(comm, [&] {
    for (auto& [rank, channel] : channels)
      channel.join(parse_introduction(introductions[rank]), comm.rank());
  });
  const auto exchange = [&](int descriptor, const auto& take) {
    together(comm, [&] {
      for (const auto& [rank, channel] : channels) channel.send(descriptor);
      const auto deadline = std::chrono::steady_clock::now() + comm.config().timeout;
      for (const auto& [rank, channel] : channels) {
        std::optional<Parcel> parcel = channel.receive(deadline);
        if (!parcel || (descriptor >= 0 && !parcel->descriptor.is_open())) {
          throw CommError(
              fmt::format("rank {} did not hand over its memory; it is late, stuck or gone",
                          comm.number_of(rank)));
        }
        take(rank, std::move(parcel->descriptor));
      }
    });
  };
  // Greetings first: the name of a rank that has ended meanwhile may be a stranger's, who gets
  // none.
  exchange(-1, [](int, OpenFile) {});
  std::vector<OpenFile> received(introductions.size());
  exchange(mine, [&](int rank, OpenFile descriptor) { received[rank] = std::move(descriptor); });
  return received;
}

}  // namespace coconet::jit
