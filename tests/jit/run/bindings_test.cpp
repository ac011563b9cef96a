// Whose memory tensors are, in every form in which it is given.
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <optional>
#include <vector>

#include "coconet/coconet.h"
#include "refusal.h"

using namespace coconet;

namespace {

/// y = x where `mask`, else 0.
Executable compile_masked(const World& world) {
  Program program("masked", Mesh::over(world));
  const Value x = program.input("x", f32, {4}, replicated);
  const Value mask = program.input("mask", boolean, {4}, replicated);
  program.output("y", select(mask, x, x * 0).named("y"));
  program.output("inverse", logical_not(mask).named("inverse"));
  return compile(program, Schedule(), world);
}

// What does not compile: memory that would be gone when the step runs, and elements of no dtype.
template <class T>
concept Binds = requires(Executable& step, T&& data) {
  step.bind("x", std::forward<T>(data));
};
static_assert(Binds<std::vector<float>&> && Binds<const std::vector<float>&>);
static_assert(Binds<std::span<float>> && Binds<std::array<float, 3>&>);
static_assert(Binds<std::vector<std::vector<float>>&> && Binds<std::vector<std::span<float>>>);
static_assert(Binds<const Buffer&> && Binds<std::vector<Buffer>&>);
static_assert(!Binds<std::vector<float>> && !Binds<std::vector<std::vector<float>>>);
static_assert(!Binds<std::vector<bool>&> && !Binds<std::vector<char16_t>&>);

}  // namespace

TEST_CASE("bool tensors take and give bytes, which must be 0 or 1") {
  const World world = World::self();
  Executable step = compile_masked(world);
  step.write("x", std::vector<float>{1, 2, 3, 4});
  const std::vector<std::uint8_t> mask = {1, 0, 0, 1};
  std::vector<float> y(4);
  std::array<std::byte, 4> inverse{};
  const auto check = [&] {
    step.run();
    step.read("y", y);
    step.read("inverse", inverse);
    CHECK(y == std::vector<float>{1, 0, 0, 4});
    CHECK(inverse == std::array{std::byte{0}, std::byte{1}, std::byte{1}, std::byte{0}});
  };
  step.write("mask", mask);
  check();
  step.bind("mask", mask);
  check();
  std::vector<std::byte> bytes = {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}};
  step.bind("mask", bytes);
  check();
  CHECK(step.data<std::uint8_t>("mask").size() == 4);
  CHECK(step.data<bool>("mask")[3]);
  CHECK(refusal<BackendError>([&] {
          step.write("mask", std::vector<std::uint8_t>{1, 0, 2, 1});
        }) == "'mask', 4 x bool on rank 0, is given the byte 2 at 2; bool is 0 or 1");
  check();
  CHECK(refusal<BackendError>([&] { step.write("mask", std::vector<std::int8_t>(4)); }) ==
        "'mask', 4 x bool on rank 0, is used as i8; use it as bool");
  CHECK(refusal<BackendError>([&] { step.write("x", std::vector<std::uint8_t>(4)); }) ==
        "'x', 4 x f32 on rank 0, is used as u8; use it as f32");
}

TEST_CASE("data gives the memory that is bound, and constant memory as such only") {
  const World world = World::self();
  Executable step = compile_masked(world);
  const std::vector<float> x(4);
  step.bind("x", x);
  CHECK(step.data<const float>("x").data() == x.data());
  CHECK(
      refusal<BackendError>([&] { step.data<float>("x"); }) ==
      "'x', 4 x f32 on rank 0, is bound to constant memory; ask for data<const T>, or bind memory "
      "that may be written");
  CHECK(refusal<BackendError>([&] { step.write("x", x); }) ==
        "'x', 4 x f32 on rank 0, is bound to constant memory, which cannot be written");
}

TEST_CASE("all forms serve a dtype that is known at run time only") {
  const World world = World::self();
  Executable step = compile_masked(world);
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  const std::vector<std::uint8_t> mask(4, 1);
  step.bind("x", f32, x.data(), x.size());
  step.bind("mask", boolean, static_cast<const void*>(mask.data()), mask.size());
  const Executable::Piece own = step.data("y", f32);
  step.run();
  step.read("y", f32, y.data(), y.size());
  CHECK(y == x);
  CHECK(static_cast<const float*>(own.data)[3] == 4);
  CHECK(step.data("mask", boolean, 0, false).data == mask.data());
  const std::vector<float> other(4, 7);
  step.write("x", f32, other.data(), other.size());
  CHECK(x == other);
}

TEST_CASE("a Buffer of another world is refused") {
  const World one = World::self();
  std::optional<Buffer> of_two;
  Executable step = compile_masked(one);
  World::local(2, [&](World& world) {
    const Buffer buffer = world.allocate(f32, 4);
    if (world.rank() == 1) of_two = buffer;
    world.barrier();
  });
  CHECK(refusal<BackendError>([&] { step.bind("x", *of_two); }) ==
        "'x', 4 x f32 on rank 0, is bound to a Buffer of rank 1 of 2 of another world; allocate it "
        "in the world that the program was compiled for");
}
