// Loaded kernels of the host: where they are in memory.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "child_process.h"
#include "coconet/config.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/platform.h"

using namespace coconet;

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

}  // namespace

TEST_CASE("no page of a loaded kernel is missing, so that no masked load waits for one") {
  const jit::HostCompiler compiler(config().cxx, config().cxx_flags, config().compile_timeout);
  const jit::CompileResult compiled = compiler.compile(
      "extern \"C\" {\n"
      "extern const int constants[16384];\n"
      "const int constants[16384] = {7};\n"
      "void pages_kernel(const void*, long long, long long) {}\n"
      "}\n");
  INFO(compiled.log);
  REQUIRE(compiled.ok);
  const auto kernel = jit::host_platform().load(compiled.binary, "pages_kernel");
  const Pages pages = pages_of("memfd:pages_kernel");
  CHECK(pages.present >= 16);
  CHECK(pages.missing == 0);
}

TEST_CASE("a kernel is loaded from the file that holds it, where profilers find its symbols") {
  const jit::HostCompiler compiler(config().cxx, config().cxx_flags, config().compile_timeout);
  const jit::CompileResult compiled =
      compiler.compile("extern \"C\" void in_file_kernel(const void*, long long, long long) {}\n");
  INFO(compiled.log);
  REQUIRE(compiled.ok);
  const test::ScratchDirectory scratch;
  const std::filesystem::path same = scratch.path() / "same.so",
                              other = scratch.path() / "other.so";
  std::ofstream(same, std::ios::binary) << compiled.binary;
  std::ofstream(other, std::ios::binary) << compiled.binary << "more";
  const auto from_file = jit::host_platform().load(compiled.binary, "in_file_kernel", same);
  CHECK(pages_of(same.string()).present > 0);
  CHECK(pages_of("memfd:in_file_kernel").present == 0);
  const auto from_memory = jit::host_platform().load(compiled.binary, "in_file_kernel", other);
  CHECK(pages_of(other.string()).present == 0);
  CHECK(pages_of("memfd:in_file_kernel").present > 0);
}
