// Worlds of one process: self, and local with its ranks on threads.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "coconet/mesh.h"
#include "coconet/world.h"
#include "jit/comm/access.h"
#include "jit/comm/checks_16_bit.h"
#include "jit/comm/collectives/combine.h"
#include "jit/comm/comm.h"
#include "jit/comm/comm_checks.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/mpi/world.h"
#include "refusal.h"
#include "sample.h"

using namespace coconet;
using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

TEST_CASE("the self world does what every world does", "[comm]") {
  const auto comm = jit::make_self_comm();
  CHECK(comm->kind() == "self");
  CHECK(comm->size() == 1);
  REQUIRE_NOTHROW(test::check_world(*comm));
}

TEST_CASE("local worlds of 1 to 5 ranks do what every world does", "[comm]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
    test::expect(world.kind() == "local" && world.size() == ranks,
                 "a local world knows its kind and size");
    test::expect(Mesh::over(world) == Mesh({{"world", ranks}}), "a mesh over it has one axis");
    test::check_world(jit::comm_of(world));
    test::Group group(jit::comm_of(world));
    test::Bytes in(200000), out(200000);
    test::check_calls_at_once(group, in.size() / sizeof(float), in.data(), out.data());
  }));
}

TEST_CASE("16-bit floats of threads are added in f32 and rounded once", "[comm]") {
  REQUIRE_NOTHROW(World::local(GENERATE(2, 3, 4),
                               [&](World& world) { test::check_16_bit(jit::comm_of(world)); }));
}

TEST_CASE("combine takes its operands in order", "[comm]") {
  const float in = 0.0F;
  float inout = -0.0F;
  jit::combine(f32, Reduction::max, &in, &inout, 1);
  CHECK(std::signbit(inout));
  CHECK_THROWS_WITH(jit::combine(f32, Reduction::mean, &in, &inout, 1),
                    "a mean was asked for where only sums are taken, or of integers");
  CHECK_THROWS_AS(jit::divide(i32, &inout, 1, 2), InternalError);
}

TEST_CASE("f16 is combined in f32 and rounded once, by whatever the processor converts it",
          "[comm]") {
  // All numbers of 16 bits, each beside others, and some that fill no vector.
  constexpr std::size_t count = 65536 + 5;
  std::vector<std::vector<Half>> parts(3, std::vector<Half>(count));
  std::vector<std::vector<float>> wide(3, std::vector<float>(count));
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t i = 0; i < count; ++i)
      parts[part][i].bits = static_cast<std::uint16_t>(i * (1 + 40502 * part) + 17 * part);
    convert(parts[part], std::span(wide[part]));
  }
  for (const std::size_t ranks : {2, 3}) {
    std::vector<const void*> in;
    std::vector<float> sum(count, -0.0F);
    for (std::size_t part = 0; part < ranks; ++part) {
      in.push_back(parts[part].data());
      for (std::size_t i = 0; i < count; ++i) sum[i] += wide[part][i];
    }
    for (float& x : sum) x /= static_cast<float>(ranks);
    std::vector<Half> expected(count), out(count);
    convert(sum, std::span(expected));
    jit::combine_in_order(f16, Reduction::mean, in, count,
                          std::vector{jit::Destination{out.data()}});
    std::size_t differing = 0;
    const auto is_nan = [](Half x) { return (x.bits & 0x7fffU) > 0x7c00U; };
    for (std::size_t i = 0; i < count; ++i) {
      const bool both_nan = is_nan(out[i]) && is_nan(expected[i]);
      differing += both_nan || out[i].bits == expected[i].bits ? 0 : 1;
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("buffers of a world are typed, zeroed and seen by every rank", "[comm]") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    const Buffer buffer = world.allocate(f32, 10);
    test::expect(buffer.dtype() == f32 && buffer.count() == 10 && buffer.as<float>()[9] == 0,
                 "a buffer's facts");
    buffer.as<float>()[0] = static_cast<float>(world.rank()) + 1;
    world.barrier();
    test::expect(buffer.of<float>(1 - world.rank())[0] == static_cast<float>(2 - world.rank()),
                 "the other rank's block is in reach");
    test::expect(buffer.of<float>(world.rank()).data() == buffer.as<float>().data(),
                 "the own block is among those of all ranks");
    world.barrier();
  }));
  const Buffer buffer = World::self().allocate(f16, 3);
  CHECK_THROWS_WITH((void)buffer.as<float>(), "the buffer holds f16, but is read as f32");
  CHECK_THROWS_WITH((void)buffer.of<float>(0), "the buffer holds f16, but is read as f32");
  CHECK_THROWS_WITH((void)buffer.of<Half>(1),
                    "a buffer of rank 1 was asked for; the world has the ranks 0 to 0");
  CHECK_THROWS_WITH(
      (void)Buffer().of<float>(0),
      "a buffer of rank 0 was asked for; this one is empty: World::allocate makes one");
  CHECK_THROWS_WITH((void)World::self().allocate(f64, SIZE_MAX / 4),
                    Contains("elements of f64: their size in bytes does not fit 64 bits"));
}

TEST_CASE("memory outlives the world that it came from", "[comm]") {
  std::vector<Buffer> buffers(2);
  World::local(2, [&](World& world) { buffers[world.rank()] = world.allocate(i64, 4); });
  buffers[0].as<std::int64_t>()[3] = 7;
  CHECK(buffers[1].of<std::int64_t>(0)[3] == 7);
}

TEST_CASE("a world needs a rank", "[comm]") {
  CHECK_THROWS_WITH(World::local(0, [](World&) {}),
                    "a local world of 0 ranks was asked for; it needs at least 1");
}

TEST_CASE(
    "when a rank throws, the ranks that wait for it fail at once and World::local throws the cause",
    "[comm]") {
  std::vector<std::string> heard(3);
  const auto start = Clock::now();
  CHECK_THROWS_AS(World::local(3,
                               [&](World& world) {
                                 if (world.rank() == 1) throw ProgramError("no such op");
                                 try {
                                   world.barrier();
                                 } catch (const CommError& e) {
                                   heard[world.rank()] = e.what();
                                   throw;
                                 }
                               }),
                  ProgramError);
  CHECK(test::is_within(start, 10s));
  for (const int rank : {0, 2})
    CHECK_THAT(heard[rank], Contains("failed: ") && Contains("no such op"));
}

TEST_CASE("World::local throws the cause, not what other ranks were told of it", "[comm]") {
  // Rank 0 hears of rank 1's failure and ends long before rank 1 does.
  CHECK_THROWS_AS(World::local(2,
                               [](World& world) {
                                 try {
                                   together(jit::comm_of(world), [&] {
                                     if (world.rank() == 1) throw CompileError("no compiler");
                                   });
                                 } catch (const CompileError&) {
                                   std::this_thread::sleep_for(20ms);
                                   throw;
                                 }
                               }),
                  CompileError);
}

TEST_CASE("collectives refuse counts and roots that do not fit the group", "[comm]") {
  World::local(2, [](World& world) {
    test::Group group(jit::comm_of(world), {0, 1});
    const std::size_t counts[] = {1, 2, 3};
    double data[6] = {};
    const auto message = [](auto body) { return refusal<InternalError>(body); };
    test::expect_contains(message([&] { group.all_gather(data, data + 3, counts, f64); }),
                          "all_gather was given 3 counts; the group has 2 ranks");
    test::expect_contains(message([&] { group.broadcast(data, data, 1, f64, 2); }),
                          "broadcast was given the root 2; the group has the ranks 0 to 1");
    test::expect_contains(message([&] { (void)jit::comm_of(world).broadcast("", 7); }),
                          "broadcast from rank 7 of a world of 2");
  });
}

TEST_CASE("ranks crowd a core where they are bound to it", "[comm]") {
  const auto cores = [](std::initializer_list<int> list) {
    jit::Cores set;
    for (const int core : list) set.set(core);
    return set;
  };
  const auto all = cores({0, 1, 2, 3});
  CHECK(jit::ranks_per_core({all}) == 1);
  CHECK(jit::ranks_per_core({all, all, all, all}) == 1);
  CHECK(jit::ranks_per_core({all, all, all, all, all}) == 2);
  CHECK(jit::ranks_per_core({cores({0}), cores({1})}) == 1);
  CHECK(jit::ranks_per_core({cores({0}), cores({0}), all}) == 2);
  CHECK(jit::available_cores().any());
}

TEST_CASE("a rank has the cores that no other rank needs", "[comm]") {
  const auto cores = [](std::initializer_list<int> list) {
    jit::Cores set;  // far from this machine's, whose siblings are not known
    for (const int core : list) set.set(900 + core);
    return set;
  };
  const auto all = cores({0, 1, 2, 3, 4});
  CHECK(jit::cores_of_each({all}) == 5);
  CHECK(jit::cores_of_each({all, all}) == 2);
  CHECK(jit::cores_of_each({all, all, all, all, all, all}) == 1);
  CHECK(jit::cores_of_each({cores({0, 1, 2}), cores({3, 4})}) == 2);
  CHECK(jit::cores_of_each({cores({0}), all}) == 1);
  CHECK(jit::cores_of_each({cores({0, 1}), cores({0, 1}), cores({2, 3, 4})}) == 1);
}

TEST_CASE("nodes are told by who shares memory, whatever they are called", "[comm]") {
  const jit::Nodes nodes({0, 1, 0, 3}, {"ada", "bob", "ada", "ada"});
  CHECK(nodes.count() == 3);
  CHECK(nodes.beside(2) == std::vector<int>{0, 2});
  CHECK(nodes.share({0, 2}));
  CHECK_FALSE(nodes.share({2, 3}));
  CHECK(nodes.places({0, 1, 2, 3}) == "ranks 0 and 2 on ada; rank 1 on bob; rank 3 on ada");
  CHECK(nodes.places({1, 2}) == "rank 2 on ada; rank 1 on bob");
  const jit::Nodes one(3);
  CHECK(one.count() == 1);
  CHECK(one.beside(1) == std::vector<int>{0, 1, 2});
  CHECK(one.share({0, 1, 2}));
}

TEST_CASE("shared memory that does not fit /dev/shm is refused with its free space", "[comm]") {
  const jit::Exchange alone = [](std::string_view mine) {
    return std::vector<std::string>{std::string(mine)};
  };
  CHECK_THROWS_WITH(
      jit::map_across_processes(0, {0}, std::size_t{1} << 45, alone, jit::SharedFile::shm),
      Contains("rank 0: /dev/shm has ") &&
          Contains(" MiB free, but the ranks need 33554432 MiB; enlarge "));
  for (const auto kind : {jit::SharedFile::memfd, jit::SharedFile::shm}) {
    const auto memory = jit::map_across_processes(0, {3}, 10, alone, kind);
    memory->base(0)[9] = std::byte{1};
    CHECK(memory->bytes() == 10);
  }
}

TEST_CASE("a library without MPI says so", "[comm]") {
  const jit::MpiFacts facts = jit::mpi_facts();
  if (facts.built) {
    CHECK_FALSE(facts.version.empty());
  } else {
    CHECK_THROWS_WITH((void)World::mpi(),
                      Contains("was built without MPI") && Contains("-DCOCONET_MPI=ON"));
  }
}
