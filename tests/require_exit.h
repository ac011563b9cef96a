// Processes of a test that must end with an exit code.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "child_process.h"

namespace coconet::test {

/// What `child` has said, which must have ended with `code`.
inline std::string require_exit(const ChildOutput& child, int code = 0) {
  INFO(child.text);
  REQUIRE(child.code == code);
  return child.text;
}

}  // namespace coconet::test
