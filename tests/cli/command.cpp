// Runs the built `coconet` command; see command.h.
#include "cli/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace coconet::test {

Said coconet_command(const std::string& arguments, const std::string& environment) {
  const auto errors =
      std::filesystem::temp_directory_path() / ("coconet_cli_test." + std::to_string(getpid()));
  const std::string line = environment + " '" + COCONET_BIN_DIR + "/coconet' " + arguments +
                           " 2>'" + errors.string() + "' </dev/null";
  FILE* pipe = popen(line.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + line);
  Said said;
  char block[4096];
  while (const std::size_t got = std::fread(block, 1, sizeof block, pipe))
    said.out.append(block, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) said.code = WEXITSTATUS(status);
  std::ifstream stream(errors);
  said.err.assign(std::istreambuf_iterator<char>(stream), {});
  std::filesystem::remove(errors);
  return said;
}

}  // namespace coconet::test
