// Loaded kernels of the host: where they are in memory.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "child_process.h"
#include "coconet/config.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/host/shared_object.h"
#include "jit/platform/platform.h"

using namespace coconet;
using Catch::Matchers::StartsWith;

namespace {

struct Pages {
  int present = 0, missing = 0;
};

/// The readable pages of this process that are mapped from the file called `name`.
Pages pages_of(const std::string& name) {
  Pages pages;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  REQUIRE(pagemap >= 0);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) == std::string::npos) continue;
    std::istringstream words(line);
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    std::string access;
    words >> std::hex >> begin >> dash >> end >> access;
    if (access[0] != 'r') continue;
    for (std::uint64_t at = begin; at < end; at += page) {
      std::uint64_t entry = 0;
      const auto place = static_cast<off_t>(at / page * sizeof entry);
      REQUIRE(pread(pagemap, &entry, sizeof entry, place) == sizeof entry);
      ++((entry >> 63) == 1 ? pages.present : pages.missing);
    }
  }
  close(pagemap);
  return pages;
}

/// A kernel that does nothing, called `name`, behind `declarations`.
jit::CompileResult compile_kernel(const std::string& name, const std::string& declarations = "") {
  const jit::HostCompiler compiler(config().cxx, config().cxx_flags, config().compile_timeout);
  jit::CompileResult compiled =
      compiler.compile("extern \"C\" {\n" + declarations + "void " + name +
                       "(const void*, long long, long long) {}\n}\n");
  INFO(compiled.log);
  REQUIRE(compiled.ok);
  return compiled;
}

}  // namespace

TEST_CASE("no page of a loaded kernel is missing, so that no masked load waits for one") {
  const jit::CompileResult compiled = compile_kernel("pages_kernel",
                                                     "extern const int constants[16384];\n"
                                                     "const int constants[16384] = {7};\n");
  const auto kernel = jit::host_platform().load(compiled.binary, "pages_kernel");
  const Pages pages = pages_of("memfd:pages_kernel");
  CHECK(pages.present >= 16);
  CHECK(pages.missing == 0);
}

TEST_CASE("a kernel is loaded from the file that holds it, where profilers find its symbols") {
  const jit::CompileResult compiled = compile_kernel("in_file_kernel");
  const test::ScratchDirectory scratch;
  const std::filesystem::path path = scratch.path() / "in_file.so";
  std::ofstream(path, std::ios::binary) << compiled.binary;
  const auto from_file = jit::host_platform().load(compiled.binary, "in_file_kernel",
                                                   jit::open_at(AT_FDCWD, path, O_RDONLY));
  CHECK(pages_of(path.string()).present > 0);
  CHECK(pages_of("memfd:in_file_kernel").present == 0);
}

TEST_CASE("a kernel is in memory that nobody can change, whatever the length of its name") {
  const std::string name = std::string(300, 'k') + "_kernel";
  const jit::CompileResult compiled = compile_kernel(name);
  const auto kernel = jit::host_platform().load(compiled.binary, name);
  // The memory is open here, under its name's beginning.
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string leads_to = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (!leads_to.starts_with("/memfd:" + std::string(200, 'k'))) continue;
    ++found;
    const int descriptor = std::stoi(entry.path().filename().string());
    CHECK(fcntl(descriptor, F_GET_SEALS) ==
          (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    CHECK(pwrite(descriptor, "x", 1, 0) == -1);
    CHECK(ftruncate(descriptor, 0) == -1);
  }
  CHECK(found == 1);
}

TEST_CASE("no start of a shared object is given to the system's loader") {
  const jit::CompileResult compiled = compile_kernel("whole_kernel");
  CHECK(jit::shared_object_problem(compiled.binary).empty());
  for (std::size_t bytes = 0; bytes < compiled.binary.size(); ++bytes) {
    if (jit::shared_object_problem(compiled.binary.substr(0, bytes)).empty())
      FAIL("of " << compiled.binary.size() << " bytes, " << bytes << " are taken for all");
  }
  const std::string half = compiled.binary.substr(0, compiled.binary.size() / 2);
  CHECK_THROWS_WITH(jit::host_platform().load(half, "whole_kernel"),
                    StartsWith("kernel 'whole_kernel' cannot be loaded: it is cut off: it has " +
                               std::to_string(half.size()) + " bytes, and its headers speak of "));
  std::string other = compiled.binary;
  other[4] = other[4] == 1 ? 2 : 1;  // 32 bits for 64
  CHECK(jit::shared_object_problem(other) == "it is an ELF file for other machines");
  CHECK(jit::shared_object_problem("#!/bin/sh\n") == "it is no ELF file");
  CHECK(jit::shared_object_problem(std::string(1000, '\0')) == "it is no ELF file");
  const std::string header = compiled.binary.substr(0, 64);
  CHECK_THAT(jit::shared_object_problem(header), StartsWith("it is cut off: it has 64 bytes"));
  // Numbers that overflow are beyond its end, too: of program headers, of sections.
  for (const std::size_t offset : {32U, 40U}) {
    std::string far = compiled.binary;
    std::fill_n(far.begin() + static_cast<std::ptrdiff_t>(offset), 8, '\xff');
    CHECK_THAT(jit::shared_object_problem(far), StartsWith("it is cut off: it has "));
  }
}
