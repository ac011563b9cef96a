// The process of files_test.cpp that has less patience.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "child_process.h"
#include "coconet/error.h"
#include "jit/config/files.h"
#include "refusal.h"

using namespace coconet;
namespace fs = std::filesystem;

TEST_CASE("a pipe that nobody reads", "[.child][unread]") {
  const test::ScratchDirectory scratch;
  const std::string text(std::size_t{1} << 20, 'x');
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  CHECK(refusal<BackendError>([&] { jit::write_atomically(pipe, text, "--json"); }) ==
        "Cannot write the file '" + pipe.string() + "' of --json: nobody has read '" +
            pipe.string() + "' for 0.1 s, the limit that COCONET_TIMEOUT_S sets.");
  close(reader);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);  // which would block
  const std::string end = "/dev/fd/" + std::to_string(ends[1]);
  CHECK_THAT(refusal<BackendError>([&] { jit::write_atomically(end, text, "--json"); }),
             Catch::Contains("nobody has read '" + end + "' for 0.1 s"));
}
