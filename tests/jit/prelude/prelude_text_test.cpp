// The embedded prelude is the text of src/jit/prelude, byte for byte.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/prelude/embedded.h"

namespace fs = std::filesystem;

TEST_CASE("every header of the prelude is embedded byte for byte") {
  int headers = 0;
  const fs::path prelude = fs::path(COCONET_SOURCE_DIR) / "src/jit/prelude";
  for (const auto& entry : fs::recursive_directory_iterator(prelude)) {
    const std::string name = entry.path().lexically_relative(prelude);
    if (entry.path().extension() != ".h" || name == "embedded.h") continue;
    INFO(name);
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    CHECK(coconet::jit::prelude_file(name) == text.str());
    ++headers;
  }
  CHECK(headers > 0);
}

TEST_CASE("a prelude header that does not exist is empty") {
  CHECK(coconet::jit::prelude_file("no_such_header.h").empty());
  CHECK(coconet::jit::prelude_file("embedded.h").empty());
}
