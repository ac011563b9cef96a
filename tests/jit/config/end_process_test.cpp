// A process that ends although one of its threads holds a stream.
#include "jit/config/end_process.h"

#include <catch2/catch.hpp>

#include "require_exit.h"

using namespace coconet;

TEST_CASE("a process ends, and says why, while a thread holds standard output for ever") {
  CHECK(test::require_exit(test::run_test_case("holds-a-stream", ""), 7) == "this is why\n");
}

TEST_CASE("a process that ends at once has printed what it was to print") {
  CHECK_THAT(test::require_exit(test::run_test_case("prints-before-its-end", ""), 8),
             Catch::Matchers::EndsWith("before"));
}
