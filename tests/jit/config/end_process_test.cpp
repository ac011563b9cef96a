// A process that ends although one of its threads holds a stream.
#include "jit/config/end_process.h"

#include <catch2/catch.hpp>

#include "child_process.h"

using namespace coconet;

TEST_CASE("a process ends, and says why, while a thread holds standard output for ever") {
  const test::ChildOutput output = test::run_test_case("holds-a-stream", "");
  CHECK(output.code == 7);
  CHECK(output.text == "this is why\n");
}

TEST_CASE("a process that ends at once has printed what it was to print") {
  const test::ChildOutput output = test::run_test_case("prints-before-its-end", "");
  CHECK(output.code == 8);
  CHECK_THAT(output.text, Catch::Matchers::EndsWith("before"));
}
