// Where temporary files go: not where others could put something else under their names.
#include "jit/config/temporary_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "captured_stderr.h"
#include "child_process.h"
#include "second_user.h"

using namespace coconet;
namespace fs = std::filesystem;

namespace {

/// A directory of `mode` in TMPDIR's place.
struct Place {
  test::ScratchDirectory scratch;
  fs::path directory = scratch.path() / "here";
  const char* const before = std::getenv("TMPDIR");
  Place() {
    fs::create_directory(directory);
    setenv("TMPDIR", directory.c_str(), 1);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", before, 1); }
  [[nodiscard]] fs::path with_mode(mode_t mode) const {
    REQUIRE(chmod(directory.c_str(), mode) == 0);
    return jit::temporary_place();
  }
};

}  // namespace

TEST_CASE_METHOD(Place, "temporary files lie where no other user can rename them") {
  for (const mode_t mode : {0700U, 0755U, 01777U, 01770U}) CHECK(with_mode(mode) == directory);
  const jit::CapturedStderr said;
  for (const mode_t mode : {0777U, 0775U, 0722U}) CHECK(with_mode(mode) == "/tmp");
  const std::string it = "'" + directory.string() + "'";
  CHECK(
      said.count("temporary files go to /tmp, not to where TMPDIR says: other users may write in " +
                 it + " (its mode is 0777), and so put code there; chmod +t " + it) == 1);
  CHECK(said.count("\n") == 1);
}

TEST_CASE_METHOD(Place, "temporary files do not lie in another user's directory") {
  if (test::lacks_root()) return;
  REQUIRE(chown(directory.c_str(), test::nobody, test::nobody) == 0);
  CHECK(with_mode(01777) == "/tmp");
}
