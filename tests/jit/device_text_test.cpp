// The embedded device prelude is the text of src/jit/device, byte for byte.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/device/embedded.h"

namespace fs = std::filesystem;

TEST_CASE("every header of the device prelude is embedded byte for byte") {
  int headers = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(COCONET_SOURCE_DIR) / "src/jit/device")) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".h" || name == "embedded.h") continue;
    INFO(name);
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    CHECK(coconet::jit::device::file(name) == text.str());
    ++headers;
  }
  CHECK(headers > 0);
}

TEST_CASE("a prelude header that does not exist is empty") {
  CHECK(coconet::jit::device::file("no_such_header.h").empty());
  CHECK(coconet::jit::device::file("embedded.h").empty());
}
