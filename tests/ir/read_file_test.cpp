// Reading files: what is missing, what cannot be read and what is empty are told apart, and nothing
// is waited for.
#include "ir/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "child_process.h"
#include "second_user.h"

using namespace coconet;
namespace fs = std::filesystem;

TEST_CASE("the bytes of a file are read, also where it has no length before") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / "file";
  std::string bytes(std::size_t{300'000}, 'x');
  bytes[7] = '\0';
  std::ofstream(file, std::ios::binary) << bytes;
  CHECK(ir::read_file(file).bytes == bytes);
  std::ofstream(file, std::ios::trunc).flush();
  CHECK(ir::read_file(file).bytes == "");
  CHECK_THAT(ir::read_file("/proc/self/status").bytes.value(), Catch::Contains("\nPid:"));
}

TEST_CASE("a file without a length that is too long is refused, and not cut") {
  const fs::path pages = "/proc/self/pagemap";  // of the whole address space
  if (access(pages.c_str(), R_OK) != 0) {
    WARN("this system has no " << pages);
    return;
  }
  const ir::FileText read = ir::read_file(pages);
  CHECK_FALSE(read.bytes);
  CHECK(read.problem == "it does not say its length, and has more than 64 MiB");
}

TEST_CASE("a file that is missing is not one that cannot be read") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / "file";
  for (const fs::path& path : {file, file / "x"}) {
    const ir::FileText missing = ir::read_file(path);
    CHECK(missing.is_missing);
    CHECK_FALSE(missing.bytes);
    std::ofstream(file).flush();
  }
  REQUIRE(chmod(file.c_str(), 0) == 0);
  REQUIRE(chmod(scratch.path().c_str(), 0755) == 0);
  const test::AsNobody other;
  const ir::FileText refused = ir::read_file(file);
  CHECK_FALSE(refused.is_missing);
  CHECK_FALSE(refused.is_no_file);
  CHECK_FALSE(refused.bytes);
  CHECK(refused.problem == "Permission denied");
}

TEST_CASE("what is no file is not read, and its other end not waited for") {
  const test::ScratchDirectory scratch;
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const struct {
    fs::path path;
    const char* problem;
  } rows[] = {{pipe, "it is a pipe, and only files are read"},
              {scratch.path(), "it is a directory"},
              {"/dev/zero", "it is a device or a socket, and only files are read"}};
  for (const auto& row : rows) {
    const ir::FileText read = ir::read_file(row.path);
    CHECK(read.is_no_file);
    CHECK_FALSE(read.is_missing);
    CHECK_FALSE(read.bytes);
    CHECK(read.problem == row.problem);
  }
}
