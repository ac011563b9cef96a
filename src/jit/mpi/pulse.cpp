// Questions and answers by UDP.
#include "jit/mpi/pulse.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>
#include <sstream>
#include <utility>

namespace coconet::jit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t question = 0x636f636f3f717565, reply = 0x636f636f21616e73,
                        notice_of_end = 0x636f636f2e656e64;
constexpr std::chrono::milliseconds ask_again_after{100};

/// This node's IPv4 addresses; the loopback's too, for nodes that are one machine.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_UP) == 0)
      continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto& address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    if (inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr)
      addresses.emplace_back(text.data());
  }
  freeifaddrs(first);
  return addresses;
}

}  // namespace

Pulse::Pulse() {
  std::random_device random;
  token_ = std::uint64_t{random()} << 32 | random();
  OpenFile opened(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof own;
  if (!opened.is_open() ||
      bind(opened.number(), reinterpret_cast<const sockaddr*>(&own), length) != 0 ||
      getsockname(opened.number(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return;
  port_ = ntohs(own.sin_port);
  socket_ = std::move(opened);
}

std::string Pulse::address() const {
  if (!socket_.is_open()) return {};
  return fmt::format("{} {} {}", token_, port_, fmt::join(own_addresses(), " "));
}

void Pulse::add(int rank, std::string_view address) {
  std::istringstream from{std::string(address)};
  Peer peer{};
  std::uint16_t port = 0;
  if (!(from >> peer.token >> port)) return;
  for (std::string place; from >> place;) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    if (inet_pton(AF_INET, place.c_str(), &at.sin_addr) == 1) peer.places.push_back(at);
  }
  if (!peer.places.empty()) peers_[rank] = std::move(peer);
}

void Pulse::ask(const Peer& peer) const {
  const Datagram asked{question, peer.token};
  for (const sockaddr_in& place : peer.places) {
    (void)sendto(socket_.number(), &asked, sizeof asked, 0,
                 reinterpret_cast<const sockaddr*>(&place), sizeof place);
  }
}

std::vector<std::uint64_t> Pulse::take() {
  // Anybody can send here, and faster than this reads: it has other things to do.
  constexpr int most_at_once = 1000;
  std::vector<std::uint64_t> answered;
  for (int taken = 0; taken < most_at_once; ++taken) {
    EndNotice got{};
    sockaddr_in from{};
    socklen_t length = sizeof from;
    const ssize_t bytes = recvfrom(socket_.number(), &got, sizeof got, 0,
                                   reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < 0) break;
    if (bytes == sizeof got && got.magic == notice_of_end && got.token == token_)
      ended_.push_back(got.end);
    if (bytes != sizeof(Datagram)) continue;
    if (got.magic == reply) answered.push_back(got.token);
    if (got.magic != question || got.token != token_) continue;
    const Datagram answer{reply, token_};
    (void)sendto(socket_.number(), &answer, sizeof answer, 0,
                 reinterpret_cast<const sockaddr*>(&from), length);
  }
  for (auto& [rank, peer] : peers_)
    peer.has_answered |= std::ranges::find(answered, peer.token) != answered.end();
  return answered;
}

std::vector<Pulse::End> Pulse::answer() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !socket_.is_open()) return {};
  (void)take();
  // A few at a time, so that many ranks do not drown each other; again, as datagrams get lost.
  constexpr int at_once = 16, most_times = 50;
  int asked = 0;
  for (auto& [rank, peer] : peers_) {
    if (peer.has_answered || peer.introductions == most_times) continue;
    ++peer.introductions;
    ask(peer);
    if (++asked == at_once) break;
  }
  return std::exchange(ended_, {});
}

void Pulse::tell(const End& end) {
  if (!socket_.is_open()) return;
  for (const auto& [to, peer] : peers_) {
    const EndNotice notice{notice_of_end, peer.token, end};
    for (const sockaddr_in& place : peer.places) {
      (void)sendto(socket_.number(), &notice, sizeof notice, 0,
                   reinterpret_cast<const sockaddr*>(&place), sizeof place);
    }
  }
}

std::vector<int> Pulse::silent(std::chrono::milliseconds within) {
  std::map<std::uint64_t, int> waiting;  // ranks by token
  if (!socket_.is_open()) return {};     // nobody was asked
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_) waiting[peer.token] = rank;
  const auto end = Clock::now() + within;
  while (!waiting.empty() && Clock::now() < end) {
    // A datagram may be lost.
    for (const auto& [token, rank] : waiting) ask(peers_[rank]);
    const auto next = Clock::now() + ask_again_after;
    while (!waiting.empty() && Clock::now() < next) {
      pollfd polled{socket_.number(), POLLIN, 0};
      (void)poll(&polled, 1, 10);
      for (const std::uint64_t token : take()) waiting.erase(token);
    }
  }
  std::vector<int> ranks;
  for (const auto& [token, rank] : waiting) ranks.push_back(rank);
  std::ranges::sort(ranks);
  return ranks;
}

bool Pulse::has_answered(int rank) {
  const std::lock_guard lock(mutex_);
  const auto peer = peers_.find(rank);
  return peer != peers_.end() && peer->second.has_answered;
}

}  // namespace coconet::jit
