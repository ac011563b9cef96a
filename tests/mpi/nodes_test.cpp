// Worlds of several nodes, on all ranks of an mpirun: every rank runs the same checks. NODES has a
// letter for each rank, which is its COCONET_HOST_ID.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <string>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/access.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/mpi/world.h"

using namespace coconet;
using Catch::Matchers::Contains;

namespace {

// The program has other tests, too, which run without it.
const std::string letters = std::getenv("NODES") == nullptr ? "" : std::getenv("NODES");

/// The ranks whose node has `letter`.
std::vector<int> ranks_on(char letter) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < letters.size(); ++rank) {
    if (letters[rank] == letter) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

char letter_of(const jit::Comm& comm) {
  return letters[static_cast<std::size_t>(comm.rank())];
}

}  // namespace

TEST_CASE("COCONET_HOST_ID says which ranks are on which node") {
  const auto comm = jit::make_mpi_comm();
  REQUIRE(comm->size() == static_cast<int>(letters.size()));
  const jit::Nodes& nodes = comm->nodes();
  CHECK(nodes.count() == std::count_if(letters.begin(), letters.end(), [&](const char& letter) {
          return letters.find(letter) == static_cast<std::size_t>(&letter - letters.data());
        }));
  for (int rank = 0; rank < comm->size(); ++rank)
    CHECK(nodes.beside(rank) == ranks_on(letters[static_cast<std::size_t>(rank)]));
  CHECK_THAT(nodes.places({0, comm->size() - 1}), Contains("rank 0 on a; rank "));
}

TEST_CASE("the ranks of a node are a world of their own") {
  const auto comm = jit::make_mpi_comm();
  jit::Comm& node = comm->node();
  const std::vector<int> here = ranks_on(letter_of(*comm));
  REQUIRE(node.size() == static_cast<int>(here.size()));
  CHECK(here[static_cast<std::size_t>(node.rank())] == comm->rank());
  CHECK(node.number_of(node.rank()) == comm->rank());
  CHECK(&node.node() == &node);
  CHECK(node.nodes().count() == 1);
  CHECK(node.all_gather("x") == std::vector<std::string>(here.size(), "x"));
  REQUIRE_NOTHROW(test::check_memory(node));
  REQUIRE_NOTHROW(test::check_groups(node));
}

TEST_CASE("a failure in a node is told to all by the number that the rank has in the world") {
  const auto comm = jit::make_mpi_comm();
  const int last = comm->size() - 1;
  const auto body = [&] {
    together(comm->node(), [&] {
      if (comm->rank() == last) throw BackendError("no room");
    });
  };
  const std::string heard = refusal<Error>([&] { together(*comm, body); });
  const std::string who = "rank " + std::to_string(last) + ": no room";
  CHECK(heard.ends_with(comm->rank() == last ? "no room" : who));
}

TEST_CASE("collectives inside nodes, across them, and of groups that are some of both") {
  const auto comm = jit::make_mpi_comm();
  const std::vector<int> here = ranks_on(letter_of(*comm));
  test::Group inside(*comm, here);
  REQUIRE_NOTHROW(test::check_all_collectives(inside));

  // Those at the same place in their node.
  const auto place = std::find(here.begin(), here.end(), comm->rank()) - here.begin();
  std::vector<int> across;
  for (int rank = 0; rank < comm->size(); ++rank) {
    const std::vector<int>& beside = comm->nodes().beside(rank);
    if (static_cast<std::ptrdiff_t>(beside.size()) > place &&
        beside[static_cast<std::size_t>(place)] == rank)
      across.push_back(rank);
  }
  test::Group between(*comm, across);
  CHECK(between.size() == static_cast<int>(across.size()));
  REQUIRE_NOTHROW(test::check_all_collectives(between));

  // The first two ranks, and the rest.
  std::vector<int> pair{0, 1};
  std::vector<int> rest(static_cast<std::size_t>(comm->size()) - 2);
  std::iota(rest.begin(), rest.end(), 2);
  test::Group mixed(*comm, comm->rank() < 2 ? pair : rest);
  REQUIRE_NOTHROW(test::check_all_collectives(mixed));

  // All of them in turn, again, and with messages that go in pieces.
  test::Group again(*comm, across);
  for (test::Group* group : {&inside, &between, &mixed, &again}) {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(group->size()),
                                          jit::DirectCollectives::capacity + 1);
    REQUIRE_NOTHROW(test::check_collectives(*group, counts, f32, Reduction::sum));
  }
}

TEST_CASE("long control messages go between nodes") {
  const auto comm = jit::make_mpi_comm();
  const std::string mine(static_cast<std::size_t>(5 << 20), static_cast<char>('a' + comm->rank()));
  const std::vector<std::string> all = comm->all_gather(mine);
  for (int rank = 0; rank < comm->size(); ++rank)
    CHECK((all[static_cast<std::size_t>(rank)] ==
           std::string(mine.size(), static_cast<char>('a' + rank))));
  const int last = comm->size() - 1;
  CHECK((comm->broadcast(mine, last) == all.back()));
  CHECK_THROWS_AS((void)comm->broadcast(mine, comm->size()), InternalError);
}

TEST_CASE("a buffer of a rank on another node is out of reach, in a sentence") {
  const World world = World::mpi();
  const Buffer buffer = world.allocate(f32, 10);
  const std::vector<int> here = ranks_on(letter_of(jit::comm_of(world)));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (std::find(here.begin(), here.end(), rank) != here.end()) {
      CHECK(buffer.of<float>(rank).size() == 10);
      continue;
    }
    CHECK_THROWS_WITH((void)buffer.of<float>(rank),
                      "the buffer of rank " + std::to_string(rank) + " was asked for on rank " +
                          std::to_string(world.rank()) +
                          ", which is on another node and shares no memory with it; exchange the "
                          "elements by a collective");
  }
}

TEST_CASE("a rank that cannot run a step of several nodes stops it on all, and the next one runs") {
  const World world = World::mpi();
  if (letters != "aabb") return;  // the mesh's nodes are the world's
  const Mesh mesh({{"node", world.nodes()}, {"gpu", world.size() / world.nodes()}});
  const std::size_t n = 10;
  Executable step = compile(programs::sgd(mesh), Schedule::load("sgd-hierarchical.json"), world,
                            {{"n", static_cast<std::int64_t>(n)}});
  const std::vector<float> gradient(n, static_cast<float>(world.rank()));
  step.write("w", std::vector<float>(n, 2));
  if (world.rank() != 3) step.write("g", gradient);
  if (world.rank() == 3) {
    CHECK_THROWS_WITH(step.run({{"lr", 1}}), Contains("'g'") && Contains("has no memory"));
    step.write("g", gradient);
  } else {
    CHECK_THROWS_WITH(step.run({{"lr", 1}}),
                      Contains("rank 3 could not run the step, no rank did: 'g'"));
  }
  step.run({{"lr", 1}});
  CHECK(test::elements_of(step, "w") == std::vector<float>(n, 0.5F));  // 2 less the mean of 0 to 3
}

TEST_CASE("all ranks agree on whether there are cores for threads") {
  const auto comm = jit::make_mpi_comm();
  const std::string mine = jit::have_cores(*comm, 1) ? "1" : "0";
  CHECK(comm->all_gather(mine) == std::vector<std::string>(letters.size(), mine));
  CHECK_FALSE(jit::have_cores(*comm, 1024));
}
