// `coconet cache verify`: every way for an entry to be bad, each named.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "cli/command.h"
#include "cli/kernel_directory.h"
#include "jit/cache/digest.h"
#include "jit/cache/entry.h"

using Catch::Matchers::Contains;
using namespace coconet::test;

namespace fs = std::filesystem;
namespace jit = coconet::jit;

TEST_CASE("verify names each bad entry and what is wrong with it, and removes nothing") {
  const KernelDirectory kernels;
  const fs::path good = kernels.store(kernel_key("good"), "good");
  const std::string clean = kernels.str() + ": 1 good, 0 bad\n";
  CHECK(coconet_command("cache verify", kernels.variable()).out == clean);

  const auto require_bad = [&](const fs::path& file, const std::string& problem) {
    const Said said = coconet_command("cache verify", kernels.variable());
    INFO(said.out << said.err);
    CHECK(said.code == 1);
    CHECK_THAT(said.out, Contains("'" + file.string() + "': " + problem) &&
                             Contains(kernels.str() + ": 1 good, 1 bad\n") &&
                             Contains("Nothing was removed."));
    CHECK(fs::exists(fs::symlink_status(file)));
    fs::remove_all(file);
  };
  const auto store = [&] { return kernels.store(kernel_key("bad"), std::string(100, 'x')); };

  fs::path file = store();
  std::string bytes = read_file(file);
  bytes[bytes.size() - 20] ^= 1;
  write_file(file, bytes);
  require_bad(file, "its checksum is wrong.");

  file = store();
  fs::resize_file(file, fs::file_size(file) - 1);
  require_bad(file, "its length is wrong.");

  file = store();
  const fs::path renamed = file.parent_path() / (std::string(62, '1') + ".v2");
  fs::rename(file, renamed);
  require_bad(renamed, "its name is not the digest of its key.");

  file = store();
  fs::rename(file, kernels.path() / "elsewhere");
  fs::create_symlink(kernels.path() / "elsewhere", file);
  require_bad(file, "it is a symbolic link.");

  file = store();
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  require_bad(file, "other users may write to it.");

  file = store();
  fs::remove(file);
  fs::create_directory(file);
  require_bad(file, "it is a directory.");

  file = store();
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  require_bad(file, "it is no regular file.");

  const std::string no_fields = "a key without fields";
  const std::string digits = jit::sha256_hex(no_fields);
  std::string entry = jit::encode_entry({}, {});
  // Magic, version, digest, three lengths, and a checksum that nobody gets to.
  entry.resize(12);
  for (std::size_t i = 0; i < 64; i += 2)
    entry += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  entry += static_cast<char>(no_fields.size()) + std::string(23, '\0') + no_fields;
  entry += std::string(16, '\0');
  file = kernels.path() / digits.substr(0, 2) / (digits.substr(2) + ".v2");
  fs::create_directories(file.parent_path());
  write_file(file, entry);
  require_bad(file, "its checksum is wrong.");
  write_file(file, entry);
  CHECK_THAT(coconet_command("cache list", kernels.variable()).out,
             Contains(digits.substr(0, 12) + "  not usable: its key is not made of fields\n"));
  fs::remove(file);

  fs::create_directory(kernels.path() / "outside");
  const fs::path folder = kernels.path() / (good.parent_path().filename() == "ff" ? "fe" : "ff");
  fs::remove_all(folder);
  fs::create_directory_symlink(kernels.path() / "outside", folder);
  require_bad(folder, "it is a symbolic link.");
  CHECK(coconet_command("cache verify", kernels.variable()).out == clean);
}

TEST_CASE("verify reads the directories of COCONET_CACHE_PATH as well") {
  const KernelDirectory kernels;
  const KernelDirectory site("site");
  (void)kernels.store(kernel_key("own"), "own");
  const fs::path file = site.store(kernel_key("theirs"), "theirs");
  const std::string environment = kernels.variable() + " " + site.read_only_variable();
  CHECK(coconet_command("cache verify", environment).out ==
        kernels.str() + ": 1 good, 0 bad\n" + site.str() + ": 1 good, 0 bad\n");
  fs::resize_file(file, 3);
  const Said said = coconet_command("cache verify", environment);
  CHECK(said.code == 1);
  CHECK_THAT(said.out, Contains("'" + file.string() + "': it is too short.\n"));
}
