// A compilation that is killed, in a process of its own.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "jit/platform/host/process.h"

TEST_CASE("a compilation that is killed", "[.][leftovers-of-a-compiler]") {
  const coconet::jit::TemporaryDirectory directory;
  std::ofstream(directory.path() / "kernel.cpp") << "int x;";
  raise(SIGKILL);
}
