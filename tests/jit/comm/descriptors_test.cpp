// Handing open files from rank to rank beside strangers who send, flood and connect.
#include "jit/comm/memory/descriptors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coconet/world.h"
#include "jit/comm/access.h"
#include "second_user.h"

using namespace coconet;

namespace {

/// An open file that holds `text`.
jit::OpenFile file_of(const std::string& text) {
  jit::OpenFile file(memfd_create("descriptors_test", MFD_CLOEXEC));
  jit::write_bytes(file.number(), text);
  return file;
}

/// The abstract names of this process's exchanges, a line each.
std::string names_of_sockets() {
  std::set<std::string> files;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ended;
    files.insert(std::filesystem::read_symlink(descriptor, ended).string());
  }
  std::string names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream row(line);
    std::string other, number, name;
    for (int column = 0; column < 6; ++column) row >> other;
    row >> number >> name;
    if (name.starts_with("@coconet-") && files.contains("socket:[" + number + "]"))
      names += name.substr(1) + "\n";
  }
  return names;
}

/// The address of an abstract name, and its length.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

jit::OpenFile socket_called(const std::string& name) {
  jit::OpenFile made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto [address, length] = address_of(name);
  if (bind(made.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    throw std::runtime_error("cannot make the socket " + name);
  return made;
}

/// Sends `bytes` and a descriptor, -1 for none, from `socket` to `name`; 0, or why that failed.
int send_to(int socket, const std::string& name, std::string bytes, int descriptor) {
  auto [address, length] = address_of(name);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptor)> control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_name = &address;
  header.msg_namelen = length;
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
  return sendmsg(socket, &header, MSG_DONTWAIT) < 0 ? errno : 0;
}

/// Sends a stranger's memory to each of the sockets `names` until none takes more: as any rank,
/// with no text, with too much, and with as many bytes as a secret has. How many messages were
/// taken.
int flood(const std::string& names) {
  const jit::OpenFile memory = file_of("a stranger's");
  std::vector<std::string> texts{"", std::string(32, '0'), std::string(1000, 'x')};
  for (int rank = 0; rank < 3; ++rank)
    texts.emplace_back(reinterpret_cast<const char*>(&rank), sizeof rank);
  int taken = 0;
  std::istringstream lines(names);
  for (std::string name; std::getline(lines, name);) {
    const jit::OpenFile socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    for (std::size_t message = 0; message < 1000; ++message) {
      if (send_to(socket.number(), name, texts[message % texts.size()], memory.number()) != 0)
        break;
      ++taken;
    }
  }
  return taken;
}

/// Another user who floods this process's sockets: all see their names, but only this process knows
/// which are its own.
class Stranger {
 public:
  int flood() {
    const std::string names = names_of_sockets();
    if (ftruncate(names_.number(), 0) != 0 || pwrite(names_.number(), names.data(), names.size(),
                                                     0) != static_cast<ssize_t>(names.size()))
      throw std::runtime_error("cannot tell the names");
    return user_.act();
  }

 private:
  jit::OpenFile names_ = file_of("");
  test::SecondUser user_{[this] { return ::flood(jit::read_bytes(names_.number(), 10'000)); }};
};

/// A world whose rank 0 does something before the end of each of its gathers.
class Watched final : public jit::Comm {
 public:
  Watched(jit::Comm& world, std::function<void(int gather)> watch)
      : Comm(world.kind(), world.rank(), world.nodes(), world.membership(), world.ranks_per_core(),
             world.shared_config()),
        world_(world),
        watch_(std::move(watch)) {}
  std::shared_ptr<jit::PeerMemory> allocate(std::size_t bytes) override {
    return world_.allocate(bytes);
  }

 private:
  std::vector<std::string> gather(std::string_view mine, std::string_view) override {
    std::vector<std::string> all = world_.all_gather(mine);
    if (rank() == 0) watch_(gathers_++);
    (void)world_.all_gather("");  // nobody goes on before
    return all;
  }
  std::shared_ptr<jit::Collectives> make_collectives(const std::vector<int>& ranks,
                                                     const Division&) override {
    return world_.collectives(ranks);
  }

  jit::Comm& world_;
  std::function<void(int gather)> watch_;
  int gathers_ = 0;
};

/// Three ranks exchange files, and `watch` is called on rank 0 in every gather; whether each rank
/// has got the other ranks' files.
bool is_exchanged(const std::function<void(int gather)>& watch) {
  std::atomic<int> right = 0;
  World::local(
      3,
      [&](World& world) {
        Watched comm(jit::comm_of(world), watch);
        const jit::OpenFile mine = file_of("of rank " + std::to_string(world.rank()));
        const std::vector<jit::OpenFile> files = jit::exchange_descriptors(comm, mine.number());
        for (int rank = 0; rank < world.size(); ++rank) {
          const auto& file = files[static_cast<std::size_t>(rank)];
          if (rank == world.rank()) {
            right += file.is_open() ? 0 : 1;
          } else if (jit::read_bytes(file.number(), 100) == "of rank " + std::to_string(rank)) {
            ++right;
          }
        }
      },
      {.timeout = std::chrono::seconds(300)});
  return right == 9;
}

}  // namespace

TEST_CASE("a stranger's messages are not taken for a rank's, and stop no exchange") {
  if (!test::can_be_nobody()) WARN(test::needs_root);
  Stranger stranger;
  std::vector<int> taken;
  CHECK(is_exchanged([&](int) { taken.push_back(stranger.flood()); }));
  INFO("messages that were taken, gather by gather: "
       << Catch::StringMaker<std::vector<int>>::convert(taken));
  REQUIRE(taken.size() == 4);
  CHECK(taken[0] >= 6);  // the six sockets are there, and whoever knows their names may send
  for (const std::size_t later : {1U, 2U, 3U}) CHECK(taken[later] == 0);  // all have joined
}

TEST_CASE("descriptors that a stranger sends are closed") {
  const auto open_files = [] {
    int files = 0;
    for (int descriptor = 0; descriptor < 1000; ++descriptor)
      files += fcntl(descriptor, F_GETFD) != -1 ? 1 : 0;
    return files;
  };
  Stranger stranger;
  const int before = open_files();
  CHECK(is_exchanged([&](int) { (void)stranger.flood(); }));
  CHECK(open_files() == before);
}

namespace {

enum class Greeting { with_wrong_secret, from_other_process, right };

/// Rank 0 exchanges files with a rank 1 whose socket somebody else has, who greets it. What rank 0
/// says of it; "handed over" where it trusts him.
std::string said_to_a_thief(Greeting greeting) {
  std::string said;
  const auto be_rank_1 = [&](jit::Comm& comm) {
    const std::string name = "coconet-test-" + std::to_string(getpid());
    const jit::OpenFile socket = socket_called(name + "-0");
    const auto numbers = std::filesystem::read_symlink("/proc/self/ns/pid").string();
    std::istringstream rank_0(comm.all_gather("+" + name + " " + std::string(32, '1') + " " +
                                              std::to_string(getpid()) + " " + numbers)[0]
                                  .substr(1));
    std::string its_name, its_secret;
    rank_0 >> its_name >> its_secret;
    (void)comm.all_gather("+");  // it joins its socket with the thief's
    const jit::OpenFile memory = file_of("the thief's");
    const auto greet = [&] {
      if (greeting == Greeting::with_wrong_secret) its_secret = std::string(32, '0');
      const auto send = [&](int descriptor) {
        return send_to(socket.number(), its_name + "-1", its_secret, descriptor);
      };
      return send(-1) + send(memory.number());
    };
    if (greeting == Greeting::from_other_process) {
      CHECK(test::SecondUser(greet).act() == 0);
    } else {
      CHECK(greet() == 0);
    }
    (void)comm.all_gather("+");  // it waits for the greeting
    (void)comm.all_gather("+");  // it hands over
  };
  World::local(2,
               [&](World& world) {
                 jit::Comm& comm = jit::comm_of(world);
                 try {
                   if (world.rank() == 1) {
                     be_rank_1(comm);
                   } else {
                     (void)jit::exchange_descriptors(comm, file_of("rank 0's").number());
                     said = "handed over";
                   }
                 } catch (const CommError& error) {
                   if (world.rank() == 0) said = error.what();
                 }
               },
               {.timeout = std::chrono::seconds(greeting == Greeting::right ? 300 : 5)});
  return said;
}

}  // namespace

TEST_CASE(
    "who has taken the socket of a rank is handed nothing without its secret and its process") {
  if (!test::can_be_nobody()) WARN(test::needs_root);
  const std::string nothing = "rank 1 did not hand over its memory; it is late, stuck or gone";
  CHECK(said_to_a_thief(Greeting::with_wrong_secret) == nothing);
  CHECK(said_to_a_thief(Greeting::from_other_process) == nothing);
  CHECK(said_to_a_thief(Greeting::right) ==
        "handed over");  // so the attacks fail for no other reason
}
