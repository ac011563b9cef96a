// A job that saves until it is killed, in a process of its own.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "jit/run/checkpoint_checks.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("saves for ever", "[.][saves_for_ever]") {
  const char* const directory = std::getenv("CHECKPOINTS");
  const char* const started = std::getenv("STARTED");
  REQUIRE((directory != nullptr && started != nullptr));
  World::local(2, [&](World& world) {
    Executable step = compile_number(world, 1'000'000);
    const std::optional<Checkpoint> last =
        step.load_latest(directory, {.may_be_first_start = true});
    const int first = last ? std::stoi(last->metadata.at("n")) + 1 : 1;
    for (int number = first;; ++number) {
      save_number(step, directory, number, 2);
      if (number == first && world.rank() == 0) write_bytes_to(started, "");
    }
  });
}
