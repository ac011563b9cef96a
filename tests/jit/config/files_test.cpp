// Files that an option names: what is no regular file is written through, and links stay.
#include "jit/config/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>

#include "child_process.h"
#include "coconet/error.h"
#include "files.h"
#include "refusal.h"
#include "require_exit.h"
#include "second_user.h"

using namespace coconet;
using test::read_file;
namespace fs = std::filesystem;

namespace {

ino_t inode_of(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

void write(const fs::path& file, const std::string& text) {
  jit::write_atomically(file, text, "--json");
}

}  // namespace

TEST_CASE("what a symbolic link leads to is replaced as a whole, and the link stays") {
  const test::ScratchDirectory scratch;
  const fs::path& at = scratch.path();
  fs::create_directory(at / "folder");
  std::ofstream(at / "folder/file") << "old";
  fs::create_symlink("folder/second", at / "first");
  fs::create_symlink("file", at / "folder/second");
  const ino_t before = inode_of(at / "folder/file");
  write(at / "first", "new");
  CHECK(fs::is_symlink(at / "first"));
  CHECK(fs::is_symlink(at / "folder/second"));
  CHECK(read_file(at / "folder/file") == "new");
  CHECK(inode_of(at / "folder/file") != before);
  fs::create_symlink(at / "folder/made", at / "dangling");
  write(at / "dangling", "made");
  CHECK(read_file(at / "folder/made") == "made");
  fs::create_symlink("loop", at / "loop");
  CHECK_THAT(refusal<BackendError>([&] { write(at / "loop", "x"); }),
             Catch::Contains("Too many levels of symbolic links"));
}

TEST_CASE("a file's name may be as long as the file system takes") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / std::string(255, 'n');
  for (const char* const text : {"first", "second"}) {
    write(file, text);
    CHECK(read_file(file) == text);
  }
  CHECK(test::files_in(scratch.path()) == 1);
}

TEST_CASE("a pipe is written through, also where its reader comes late or leaves early") {
  const test::ScratchDirectory scratch;
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text(std::size_t{1} << 20, 'x');
  std::string found;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    found = read_file(pipe);
  });
  write(pipe, text);
  reader.join();
  CHECK(found == text);
  CHECK(fs::is_fifo(pipe));
  std::thread early([&] {
    char byte = 0;
    const int opened = open(pipe.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(read(opened, &byte, 1) == 1);
    close(opened);
  });
  CHECK_THAT(refusal<BackendError>([&] { write(pipe, text); }), Catch::Contains("(Broken pipe)"));
  early.join();
}

TEST_CASE("a pipe that is open and not read is given up, and named") {
  (void)test::require_exit(test::run_test_case("unread", "COCONET_TIMEOUT_S=0.1"));
}

TEST_CASE("a descriptor of the process is written through") {
  const test::ScratchDirectory scratch;
  const fs::path file = scratch.path() / "file";
  const int number = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(write(number, "before ", 7) == 7);
  const ino_t before = inode_of(file);
  write("/dev/fd/" + std::to_string(number), "behind ");
  write("/proc/self/fd/" + std::to_string(number), "it");
  fs::create_symlink("/dev/fd/" + std::to_string(number), scratch.path() / "link");
  write(scratch.path() / "link", " all");
  close(number);
  CHECK(read_file(file) == "before behind it all");
  CHECK(inode_of(file) == before);
}

TEST_CASE("a device is written through") {
  const test::ScratchDirectory scratch;
  fs::path device = scratch.path() / "null";
  if (mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) == -1) device = "/dev/null";
  REQUIRE_NOTHROW(write(device, "text"));
  CHECK(fs::is_character_file(device));
}

TEST_CASE("a link that a stranger made where everybody may write is not followed") {
  if (test::lacks_root()) return;
  const test::ScratchDirectory scratch;
  const fs::path shared = scratch.path() / "shared", victim = scratch.path() / "victim";
  fs::create_directory(shared);
  REQUIRE(chmod(shared.c_str(), 01777) == 0);
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, shared / "result.json");
  REQUIRE(mkfifo((shared / "pipe").c_str(), 0666) == 0);
  for (const char* name : {"result.json", "pipe"}) {
    REQUIRE(lchown((shared / name).c_str(), test::nobody, test::nobody) == 0);
    CHECK(refusal<BackendError>([&] { write(shared / name, "x"); }) ==
          "Cannot write the file '" + (shared / name).string() +
              "' of --json: another user made '" + (shared / name).string() +
              "', in a directory that everybody may write in.");
  }
  CHECK(read_file(victim) == "precious");
  REQUIRE(lchown((shared / "result.json").c_str(), 0, 0) == 0);
  write(shared / "result.json", "mine");
  CHECK(read_file(victim) == "mine");
}
