// An application without MPI: two processes that find each other by a socket, and share a step.
// Usage: sockets RANK PORT, for the ranks 0 and 1 on one machine.
#include <arpa/inet.h>
#include <coconet/coconet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>

using namespace coconet;

namespace {

constexpr int patience_ms = 10000;

/// The socket to the other rank: rank 0 listens, rank 1 tries until it answers.
int connect(int rank, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  for (int tries = 0; tries < patience_ms / 50; ++tries) {
    const int end = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
      const int yes = 1;
      setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      pollfd coming{end, POLLIN, 0};
      if (bind(end, name, sizeof address) != 0 || listen(end, 1) != 0 ||
          poll(&coming, 1, patience_ms) != 1)
        throw std::runtime_error("rank 1 did not come");
      const int peer = accept(end, nullptr, nullptr);
      close(end);
      return peer;
    }
    if (connect(end, name, sizeof address) == 0) return end;
    close(end);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw std::runtime_error("rank 0 did not come");
}

void send_all(int peer, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t sent = send(peer, at + done, bytes - done, MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the other rank is gone");
    done += static_cast<std::size_t>(sent);
  }
}

void receive_all(int peer, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    pollfd coming{peer, POLLIN, 0};
    const ssize_t got =
        poll(&coming, 1, patience_ms) == 1 ? recv(peer, at + done, bytes - done, 0) : 0;
    if (got <= 0) throw std::runtime_error("the other rank is late or gone");
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace

int main(int, char** arguments) try {
  const int rank = std::atoi(arguments[1]);
  const int peer = connect(rank, static_cast<std::uint16_t>(std::atoi(arguments[2])));
  const Bootstrap bootstrap{rank, 2, [&](std::string_view mine) {
                              const std::uint64_t length = mine.size();
                              send_all(peer, &length, sizeof length);
                              send_all(peer, mine.data(), mine.size());
                              std::uint64_t other_length = 0;
                              receive_all(peer, &other_length, sizeof other_length);
                              std::string other(other_length, '\0');
                              receive_all(peer, other.data(), other.size());
                              std::vector<std::string> all{std::string(mine), other};
                              if (rank == 1) std::swap(all[0], all[1]);
                              return all;
                            }};
  const World world = World::from(bootstrap);
  Program p("average", Mesh::over(world));
  const auto n = p.dim("n", 1000);
  p.output("avg", all_reduce(p.input("g", f32, {n}, local), mean).named("sum"));
  auto step = compile(p, Schedule().fuse("average", "all_reduce", {"sum"}), world);
  step.write("g", std::vector<float>(1000, static_cast<float>(rank)));
  step.run();
  std::vector<float> average(1000);
  step.read("avg", average);
  world.barrier();
  std::cout << "rank " << rank << " of " << world.size() << ": " << average.back() << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
