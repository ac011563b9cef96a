// Whether a rank of another node still runs, asked where anybody can send.
#include "jit/mpi/pulse.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace coconet;

namespace {

std::uint16_t port_of(const jit::Pulse& pulse) {
  std::istringstream address(pulse.address());
  std::uint64_t token = 0;
  std::uint16_t port = 0;
  REQUIRE(address >> token >> port);
  return port;
}

/// Sends answers about processes that nobody asked for, questions with tokens that are nobody's,
/// and other bytes, to `port`, until `done`.
void flood(std::uint16_t port, const std::atomic<bool>& done) {
  constexpr std::uint64_t question = 0x636f636f3f717565, reply = 0x636f636f21616e73;
  const jit::OpenFile socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (std::uint64_t number = 0; !done; ++number) {
    const std::array<std::uint64_t, 3> words{number % 2 == 0 ? reply : question, number, number};
    (void)sendto(socket.number(), words.data(), 8 * (number % 4), MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
}

}  // namespace

TEST_CASE("a process that answers runs, and one that does not is silent") {
  jit::Pulse asking, answering;
  const jit::Pulse gone;
  asking.add(1, answering.address());
  asking.add(2, gone.address());
  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done) answering.answer();
  });
  CHECK(asking.silent(std::chrono::seconds(1)) == std::vector<int>{2});
  CHECK(asking.has_answered(1));
  CHECK_FALSE(asking.has_answered(2));
  done = true;
}

TEST_CASE("a process learns by and by that others answer, before it needs to know") {
  jit::Pulse asking, answering;
  asking.add(1, answering.address());
  CHECK_FALSE(asking.has_answered(1));
  // What is sent over the loopback is there when sendto returns.
  (void)asking.answer();
  (void)answering.answer();
  (void)asking.answer();
  CHECK(asking.has_answered(1));
}

TEST_CASE("a process that ends says why to those of other nodes") {
  jit::Pulse ending, told;
  ending.add(1, told.address());
  jit::RankStatus status{};
  status.state = 1;
  std::strcpy(status.reason, "rank 0 was inside MPI_Test");
  ending.tell({.rank = 0, .status = status});
  const std::vector<jit::Pulse::End> ends = told.answer();
  REQUIRE_FALSE(ends.empty());  // one for each address of the node
  CHECK(ends.front().rank == 0);
  CHECK(ends.front().status.reason == std::string("rank 0 was inside MPI_Test"));
  CHECK(told.answer().empty());
}

TEST_CASE("a stranger's datagrams do not answer for a process, and do not hold up who asks") {
  jit::Pulse asking;
  const jit::Pulse gone;
  asking.add(1, gone.address());
  const std::uint16_t port = port_of(asking);
  std::atomic<bool> done = false;
  std::jthread stranger([&] { flood(port, done); });
  asking.answer();  // comes back
  CHECK(asking.silent(std::chrono::seconds(1)) == std::vector<int>{1});
  done = true;
}
