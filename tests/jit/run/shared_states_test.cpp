// Executables that share states.
#include <optional>

#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/run/state_checks.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// s += x, of one name and shape or another.
Executable compile_sum(const World& world, const std::string& state, DType dtype, std::int64_t n) {
  Program program("sum_up", Mesh::over(world));
  const Value x = program.input("x", dtype, {n}, local);
  const Value s = program.state(state, dtype, {n}, local);
  update(s, s + x);
  return compile(program, Schedule(), world);
}

}  // namespace

TEST_CASE("two executables that share states alternate for 1,000 steps") {
  for (const bool train_owns : {true, false}) {
    check_alternation(World::self(), 1000, train_owns);
    for (const int ranks : {2, 3}) {
      REQUIRE_NOTHROW(
          World::local(ranks, [&](World& world) { check_alternation(world, 1000, train_owns); }));
    }
  }
}

TEST_CASE("memory that one of them binds is the memory of both, whenever it does") {
  const World world = World::self();
  Executable one = compile_sum(world, "s", f32, 3), other = compile_sum(world, "s", f32, 3);
  one.write("x", std::vector<float>(3, 1));
  other.write("x", std::vector<float>(3, 10));
  std::vector<float> first = {1, 2, 3}, second = {5, 5, 5}, third = {7, 8, 9};
  one.bind("s", first);
  other.share_states(one);
  other.run();
  CHECK(first == std::vector<float>{11, 12, 13});
  other.bind("s", second);  // while both have run
  one.run();
  CHECK(second == std::vector<float>{6, 6, 6});
  CHECK(one.data<float>("s").data() == second.data());
  one.bind("s", third);
  other.run();
  CHECK(third == std::vector<float>{17, 18, 19});
  CHECK(first == std::vector<float>{11, 12, 13});
}

TEST_CASE("states live as long as one of the executables that share them") {
  for (const int ranks : {1, 2}) {
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      std::optional<Executable> owner = compile_train(world, 100);
      Executable look = compile_look(world, 100);
      owner->write("w", std::vector<float>(100, 4));
      owner->write("g", std::vector<float>(100, 1));
      look.share_states(*owner);
      owner->run({{"lr", 2}});
      owner.reset();
      look.run();
      REQUIRE_ON_RANK(elements_of(look, "seen") == std::vector<float>(100, 2));
      REQUIRE_ON_RANK(elements_of(look, "w") == std::vector<float>(100, 3));
    }));
  }
}

TEST_CASE("three executables may share one state, and an executable may change its owner") {
  const World world = World::self();
  Executable a = compile_sum(world, "s", f32, 2), b = compile_sum(world, "s", f32, 2);
  Executable c = compile_sum(world, "s", f32, 2), d = compile_sum(world, "s", f32, 2);
  for (Executable* one : {&a, &b, &c, &d}) one->write("x", std::vector<float>{1, 2});
  b.share_states(a);
  c.share_states(b);
  for (Executable* one : {&a, &b, &c}) one->run();
  CHECK(elements_of(b, "s") == std::vector<float>{3, 6});
  c.share_states(d);
  c.run();
  d.run();
  CHECK(elements_of(c, "s") == std::vector<float>{2, 4});
  CHECK(elements_of(a, "s") == std::vector<float>{3, 6});
}

TEST_CASE("what cannot be shared is refused in a sentence") {
  const World world = World::self(), other_world = World::self();
  Executable step = compile_sum(world, "s", f32, 3);
  const auto said = [&](Executable owner) {
    return refusal<BackendError>([&] { step.share_states(owner); });
  };
  CHECK(said(compile_sum(other_world, "s", f32, 3)) ==
        "'sum_up' cannot share the states of 'sum_up', which was compiled for another world; "
        "compile both for one");
  CHECK(
      said(compile_sum(world, "s", f64, 3)) ==
      "state 's' cannot be shared: it is f32 [3], local in 'sum_up' and f64 [3], local in "
      "'sum_up'; give both the same dtype, extents and layout, or one of the states another name");
  CHECK_THAT(said(compile_sum(world, "s", f32, 4)),
             Catch::Contains("it is f32 [3], local in 'sum_up' and f32 [4], local in"));
  CHECK(said(compile_sum(world, "t", f32, 3)) ==
        "'sum_up' and 'sum_up' have no state in common: the one has 's', the other 't'; states are "
        "shared that both programs have under one name");
  CHECK(refusal<BackendError>([&] { step.share_states(step); }) ==
        "'sum_up' cannot share states with itself; name another executable");
  Executable owner = compile_sum(world, "s", f32, 3);
  const Executable moved_to = std::move(owner);
  CHECK(refusal<BackendError>([&] { step.share_states(owner); }) ==
        "'sum_up' cannot share the states of an executable that was moved from; name the one that "
        "it was moved to");
}

TEST_CASE("one memory for a shared state and for something else is refused in the other's step") {
  const World world = World::self();
  Executable one = compile_sum(world, "s", f32, 3), other = compile_sum(world, "s", f32, 3);
  other.share_states(one);
  std::vector<float> memory(3);
  one.bind("s", memory);
  other.bind("x", memory);
  CHECK_THAT(refusal<BackendError>([&] { other.run(); }),
             Catch::Contains("shares memory with 's'") ||
                 Catch::Contains("'s', 3 x f32 on rank 0, shares memory with 'x'"));
}

TEST_CASE("a state that is sliced in one and whole in the other is refused on every rank") {
  const auto ends = outcomes_of(2, [](World& world) {
    const Program adam = programs::adam(Mesh::over(world));
    Executable whole = compile(adam, Schedule::load("adam-unfused.json"), world, {{"n", 10}});
    Executable slices = compile(adam, Schedule::load("adam-fused.json"), world, {{"n", 10}});
    slices.share_states(whole);
  });
  check_outcomes(ends, "BackendError",
                 Catch::Contains("state 'm' cannot be shared: it is f32 [10], sliced(0) in 'adam' "
                                 "and f32 [10], replicated in 'adam'"));
}

TEST_CASE("states in memory that other ranks do not reach stay there, and each step copies") {
  for (const bool bound : {true, false}) {
    for (const bool train_owns : {true, false}) {
      World::local(2, [&](World& world) {
        Executable look = compile_look(world, 5), train = compile_train(world, 5);
        std::vector<float> memory(5), w(5);
        float* at = memory.data();
        const auto use = [&] {
          if (bound) {
            look.bind("w", memory);
          } else {
            at = look.data<float>("w").data();
          }
        };
        if (train_owns) {
          look.share_states(train);
          use();
        } else {
          use();
          train.share_states(look);
        }
        std::fill_n(at, 5, 1.0F);
        train.write("g", std::vector<float>(5, 1));
        train.run({{"lr", 0.5}});
        REQUIRE_ON_RANK(look.data<float>("w").data() == at);
        REQUIRE_ON_RANK(std::vector<float>(at, at + 5) == std::vector<float>(5, 0.5));
        std::fill_n(at, 5, 3.0F);
        train.run({{"lr", 0.5}});
        train.read("w", w);
        REQUIRE_ON_RANK(w == std::vector<float>(5, 2.5));
      });
    }
  }
}

TEST_CASE("ranks that name other owners are told so") {
  const auto ends = outcomes_of(2, [](World& world) {
    Executable a = compile_sum(world, "s", f32, 3), b = compile_sum(world, "s", f32, 3);
    Executable step = compile_sum(world, "s", f32, 3);
    step.share_states(world.rank() == 0 ? a : b);
  });
  CHECK(ends[0].kind == "CommError");
  CHECK(ends[1].what ==
        "all ranks must share the states of the same executable, but rank 1 has another owner, or "
        "other memory of it, than rank 0; rank 1 has 'sum_up', executable 2 of the world");
}
