// A compilation that is killed together with what watches over it, in a process of its own.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "jit/platform/host/process.h"

TEST_CASE("a compilation that is killed with its supervisor", "[.][leftovers-of-a-compiler]") {
  (void)coconet::jit::run_program(
      {.arguments = {"/bin/sh", "-c",
                     "job=" + std::to_string(getpid()) +
                         "; (kill -STOP $job; kill -KILL $PPID; kill -KILL $job) & wait"},
       .timeout = std::chrono::seconds(60),
       .input_name = "kernel.cpp"});
}
