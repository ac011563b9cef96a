// Runs the built `coconet` command, as a shell would, and keeps what it said.
#pragma once

#include <string>

namespace coconet::test {

struct Said {
  int code = -1;  ///< exit code; -1 when it died by a signal
  std::string out;
  std::string err;
};

/// `coconet ARGUMENTS`, with `environment` ("NAME=VALUE NAME=VALUE") in front, both in shell
/// syntax.
[[nodiscard]] Said coconet_command(const std::string& arguments,
                                   const std::string& environment = "");

}  // namespace coconet::test
