// The embedded prelude is the text of src/jit/prelude and src/jit/abi, byte for byte.
#include <catch2/catch.hpp>

#include <filesystem>

#include "files.h"
#include "jit/prelude/embedded.h"

namespace fs = std::filesystem;

namespace {

/// Checks the text of the headers below `folder`, which are embedded as `prefix` + where they are
/// there.
void check_headers(const fs::path& folder, const std::string& prefix,
                   const std::string& library_header) {
  int headers = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = prefix + entry.path().lexically_relative(folder).string();
    if (entry.path().extension() != ".h" || name == library_header) continue;
    INFO(name);
    CHECK(coconet::jit::prelude_file(name) == coconet::test::read_file(entry.path()));
    ++headers;
  }
  CHECK(headers > 0);
}

}  // namespace

TEST_CASE("every header of the prelude and of the ABI is embedded byte for byte") {
  const fs::path jit = fs::path(COCONET_SOURCE_DIR) / "src/jit";
  check_headers(jit / "prelude", "", "embedded.h");
  check_headers(jit / "abi", "abi/", "abi/abi.h");
}

TEST_CASE("a prelude header that does not exist is empty") {
  CHECK(coconet::jit::prelude_file("no_such_header.h").empty());
  CHECK(coconet::jit::prelude_file("embedded.h").empty());
  CHECK(coconet::jit::prelude_file("abi/abi.h").empty());
}
