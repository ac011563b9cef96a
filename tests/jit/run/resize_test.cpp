// Executables that change their extents.

#include "elements.h"
#include "jit/kernels/kernel_store.h"
#include "jit/run/state_checks.h"
#include "refusal.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

std::uint64_t kernels_asked_for() {
  const CacheCounters now = jit::cache_counters();
  return now.miss + now.hit_disk + now.hit_memory + now.hit_peer;
}

}  // namespace

TEST_CASE("1,000 resizes back and forth compile nothing, keep states, and do not grow") {
  for (const int ranks : {1, 2, 3}) {
    for (const bool fused : {false, true}) {
      INFO(ranks << (fused ? " ranks, fused" : " ranks, unfused"));
      std::string grown;
      std::uint64_t asked[2] = {};
      REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
        Executable first = compile_rows(world, 2, fused);  // so that all kernels are there
        world.barrier();
        if (world.rank() == 0) asked[0] = kernels_asked_for();
        world.barrier();
        const std::string mine = growth_of_resizes(world, 1000, fused);
        world.barrier();
        if (world.rank() > 0) return;
        asked[1] = kernels_asked_for();
        grown = mine;
      }));
      // The one compilation found its kernels in memory, each rank each.
      const std::uint64_t kernels = asked[1] - asked[0];
      CHECK(kernels % static_cast<std::uint64_t>(ranks) == 0);
      CHECK((kernels > 0 && kernels <= 4 * static_cast<std::uint64_t>(ranks)));
      CHECK(grown == "");
    }
  }
}

TEST_CASE("what does not depend on a resized dimension keeps its binding and its elements") {
  const World world = World::self();
  Executable step = compile_rows(world, 2, false);
  std::vector<float> w(100, 3), x(200, 1), longer(300, 2);
  step.bind("w", w);
  step.bind("x", x);
  step.run();
  CHECK(w == std::vector<float>(100, 1));
  step.resize({{"B", 3}});
  CHECK(refusal<BackendError>([&] { step.run(); }) ==
        "'x', 300 x f32 on rank 0, has no memory; bind data to it, write it, or fill "
        "Executable::data(\"x\")");
  step.bind("x", longer);
  step.run();
  CHECK(w == std::vector<float>(100, -5));
  CHECK(step.local_stats().runs == 1);
  step.resize({{"B", 3}});  // to what it is: nothing changes
  step.run();
  CHECK(step.local_stats().runs == 2);
  step.resize({{"k", 7}});
  CHECK(step.count("w") == 7);
  CHECK(step.count("x") == 21);
  CHECK(elements_of(step, "w") == std::vector<float>(7, 0));
}

TEST_CASE("a sliced state and all that is in one kernel follow their dimension") {
  REQUIRE_NOTHROW(World::local(3, [](World& world) {
    Executable adam = compile_shipped(world, "adam", "fused", 10);
    Executable fresh = compile_shipped(world, "adam", "fused", 5003);
    adam.resize({{"n", 5003}});
    std::vector<float> g(5003);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i % 17) - 8;
    for (Executable* one : {&adam, &fresh}) {
      one->write("g", g);
      one->run({{"lr", 0.1}, {"t", 1}});
    }
    REQUIRE_ON_RANK(elements_of(adam, "w") == elements_of(fresh, "w"));
    REQUIRE_ON_RANK(elements_of(adam, "w")[0] != 0);
    REQUIRE_ON_RANK(adam.count("m") == fresh.count("m"));
  }));
}

TEST_CASE("scattered tensors are resized by their lists") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable step =
        compile(programs::sgd(Mesh::over(world), f32, {}, programs::Storage::scattered),
                Schedule::load("sgd-fused.json"), world, {}, {{"n", {3, 1}}});
    REQUIRE_ON_RANK(
        refusal<ProgramError>([&] {
          step.resize({{"n", 5}});
        }) ==
        "dimension 'n' of program 'sgd_scattered' is scattered over 2 buffers; give resize their "
        "lengths in lists, {{\"n\", {3, 1}}}");
    step.resize({}, {{"n", {2, 4100, 5}}});
    REQUIRE_ON_RANK(step.buffers("w") == 3);
    step.write("w", std::vector<float>(4107, 3));
    step.write("g", std::vector<float>(4107, 2));
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>(4107, 1));
  }));
}

TEST_CASE("a shared state stays shared over a resize that does not touch it") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable small = compile_rows(world, 2, true), large = compile_rows(world, 5, true);
    small.share_states(large);
    for (const std::int64_t rows : {3, 4, 2}) {
      small.resize({{"B", rows}});
      small.write("x", std::vector<float>(static_cast<std::size_t>(rows) * 100, 1));
      small.run();
    }
    REQUIRE_ON_RANK(elements_of(large, "w") == std::vector<float>(100, -9));
    REQUIRE_ON_RANK(refusal<BackendError>([&] {
                      small.resize({{"k", 7}});
                    }) ==
                    "state 'w' is shared with another executable and would have other extents, f32 "
                    "[7], replicated instead of f32 [100], replicated; resize dimensions that no "
                    "shared state has");
    REQUIRE_ON_RANK(small.count("w") == 100);
    small.run();  // nothing has changed
  }));
}

TEST_CASE("extents that are wrong are refused on every rank, and the step goes on") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable step = compile_rows(world, 2, true);
    step.write("x", std::vector<float>(200, 1));
    const auto said = [&](const Sizes& sizes) { return refusal([&] { step.resize(sizes); }); };
    REQUIRE_ON_RANK(said({{"rows", 3}}) ==
                    "program 'rows' has no dimension 'rows'; its dimensions are k, B");
    REQUIRE_ON_RANK(said({{"B", 0}}) ==
                    "dimension 'B' of program 'rows' has the extent 0; it must be at least 1");
    REQUIRE_ON_RANK(said({{"B", std::int64_t{1} << 55}}).find("more than memory can hold") !=
                    std::string::npos);
    const std::string differ = said({{"B", 3 + world.rank()}});
    REQUIRE_ON_RANK(
        differ.starts_with("all ranks must resize to the same, but rank 1 has other "
                           "sizes than rank 0; rank "));
    step.run();
    REQUIRE_ON_RANK(step.data<float>("w").front() == -2);
  }));
}

TEST_CASE("an executable that was moved from says so") {
  Executable step = compile_rows(World::self(), 2, false);
  const Executable moved = std::move(step);
  const std::string sentence = "this executable was moved from; use the one that it was moved to";
  CHECK(refusal<BackendError>([&] { step.run(); }) == sentence);
  CHECK(refusal<BackendError>([&] { step.resize({}); }) == sentence);
  CHECK(refusal<BackendError>([&] { (void)step.count("x"); }) == sentence);
  CHECK(refusal<BackendError>([&] { (void)step.data<float>("x"); }) == sentence);
}
