// Runs the built `coconet` command, as a shell would, and keeps what it said.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "child_process.h"
#include "files.h"

namespace coconet::test {

struct Said {
  int code = -1;  ///< exit code
  std::string out;
  std::string err;
};

/// `coconet ARGUMENTS`, with `environment` ("NAME=VALUE NAME=VALUE") in front, both in shell
/// syntax.
[[nodiscard]] inline Said coconet_command(const std::string& arguments,
                                          const std::string& environment = "") {
  const ScratchDirectory scratch;
  const std::filesystem::path errors = scratch.path() / "errors";
  const ChildOutput output = run_command(arguments + " 2>'" + errors.string() + "'", environment);
  return {output.code, output.text, read_file(errors)};
}

/// What the command prints, which must succeed.
[[nodiscard]] inline std::string printed(const std::string& arguments,
                                         const std::string& environment = "") {
  const Said said = coconet_command(arguments, environment);
  INFO("coconet " << arguments << "\n" << said.out << said.err);
  CHECK(said.code == 0);
  return said.out;
}

/// What the command says of its failure, with that exit code.
[[nodiscard]] inline std::string complaint(const std::string& arguments,
                                           const std::string& environment = "", int code = 1) {
  const Said said = coconet_command(arguments, environment);
  INFO("coconet " << arguments << "\n" << said.out << said.err);
  CHECK(said.code == code);
  return said.err;
}

/// A wrong command line: exit code 2, nothing on stdout, one line on stderr.
inline void require_usage_error(const std::string& arguments, const std::string& sentence) {
  const Said said = coconet_command(arguments);
  INFO("coconet " << arguments);
  CHECK(said.code == 2);
  CHECK(said.out.empty());
  CHECK_THAT(said.err, Catch::StartsWith("coconet: "));
  CHECK_THAT(said.err, Catch::Contains(sentence));
  CHECK(std::count(said.err.begin(), said.err.end(), '\n') == 1);
}

}  // namespace coconet::test
