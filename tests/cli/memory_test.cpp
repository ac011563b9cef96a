// What the command says where a process may not have as much memory as it needs.
#include <catch2/catch.hpp>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "child_process.h"
#include "jit/comm/comm.h"
#include "jit/config/build_info.h"

using namespace coconet;
using Catch::Matchers::Contains;

TEST_CASE("a run for whose numbers there is no memory says of which tensor they are") {
  if (!jit::build_info::sanitize.empty()) return;  // sanitizers reserve more than any limit
  // Room for the tensors, 4 of 800 MB, but not for their numbers in double beside them.
  const test::ChildOutput output = test::run_command(
      "run adam --schedule fused --set n=200000000 --world self --iters 1", "ulimit -v 4600000 &&");
  CHECK(output.code == 1);
  CHECK_THAT(output.text,
             Contains("coconet: There is no memory to make up the 200000000 elements of 'g' on "
                      "this rank; make the sizes smaller, or run fewer ranks on a machine."));
}

TEST_CASE("a process without memory is told so in a sentence, wherever that happens") {
  const std::string sentence =
      "There is no more memory for this process: make the sizes smaller, or run fewer ranks on a "
      "machine.";
  CHECK(jit::message_of(std::make_exception_ptr(std::bad_alloc())) == sentence);
  CHECK(jit::message_of(std::make_exception_ptr(std::length_error("vector::reserve"))) == sentence);
}
