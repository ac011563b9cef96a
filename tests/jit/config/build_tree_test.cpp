// The cache directory of what runs in a build tree.
#include "jit/config/build_tree.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "child_process.h"

using namespace coconet;
using namespace coconet::jit;

TEST_CASE("a program's cache directory is what the file beside it names") {
  const test::ScratchDirectory scratch;
  const auto program = scratch.path() / "program";
  CHECK(build_tree_cache_dir(program).empty());
  std::ofstream(scratch.path() / build_tree_file) << "/src/coconet-jit/kernel_cache\nmore\n";
  CHECK(build_tree_cache_dir(program) == "/src/coconet-jit/kernel_cache");
}

TEST_CASE("a path that depends on the working directory is none") {
  const test::ScratchDirectory scratch;
  std::ofstream(scratch.path() / build_tree_file) << "kernel_cache\n";
  CHECK(build_tree_cache_dir(scratch.path() / "program").empty());
  CHECK(build_tree_cache_dir("program").empty());
  CHECK(build_tree_cache_dir({}).empty());
}

TEST_CASE("this program finds the file that the build wrote beside it") {
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream stream(beside / build_tree_file);
  std::string written;
  std::getline(stream, written);
  CHECK(build_tree_cache_dir() == written);
}
