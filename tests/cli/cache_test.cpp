// `coconet cache`: what it says of directories with good and bad entries, and what it removes.
#include <fcntl.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/kernel_directory.h"
#include "jit/cache/file.h"

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using namespace coconet::test;

namespace {

namespace fs = std::filesystem;
namespace jit = coconet::jit;

const std::vector<std::string> subcommands{"list", "verify", "explain", "prune", "stats", "clear"};

std::string arguments_of(const std::string& subcommand) {
  return "cache " + subcommand + (subcommand == "explain" ? " adam --schedule fused" : "");
}

/// As if the entry had been asked for then.
void use(const fs::path& file, std::chrono::hours ago) {
  const jit::OpenFile opened = jit::open_at(AT_FDCWD, file.string(), O_RDONLY);
  (void)jit::set_time(opened.number(), jit::time_now() - ago);
}

std::string digits_of(const fs::path& file) {
  return file.parent_path().filename().string() + file.filename().string().substr(0, 62);
}

std::size_t position(const std::string& text, const std::string& part) {
  INFO(text);
  REQUIRE(text.find(part) != std::string::npos);
  return text.find(part);
}

}  // namespace

TEST_CASE("cache and its subcommands have help with examples, and wrong ones are told") {
  const std::string all = printed("cache --help");
  CHECK_THAT(all, Contains("Examples:"));
  for (const std::string& one : subcommands) {
    CHECK_THAT(all, Contains("  " + one + " "));
    CHECK_THAT(printed("cache " + one + " --help"),
               Contains("Example") && Contains("coconet cache " + one));
  }
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"cache", "A subcommand is required (see coconet cache --help)"},
      {"cache lst", "There is no subcommand 'lst' of coconet cache; did you mean 'list'?"},
      {"cache frobnicate",
       "There is no subcommand 'frobnicate' of coconet cache; see coconet cache --help"},
      {"cahce list", "There is no subcommand 'cahce'; did you mean 'cache'?"},
      {"cache explain", "PROGRAM is required (see coconet cache explain --help)"},
      {"cache explain adm", "There is no program 'adm'"},
      {"cache prune --max-size lots",
       "--max-size takes bytes such as 100000, 500M or 2G, not 'lots'."},
      {"cache prune --max-size -1", "--max-size takes bytes"},
      {"cache prune --max-size 99999999999T", "--max-size takes bytes"},
      {"cache prune --max-files -1", "--max-files"},
      {"cache verify --all", "--all"}};
  for (const auto& [arguments, sentence] : wrong) require_usage_error(arguments, sentence);
}

TEST_CASE("a directory that is missing or empty has no kernels, and that is no failure") {
  const KernelDirectory kernels;
  for (const bool is_there : {false, true}) {
    if (is_there) {
      fs::create_directory(kernels.path());
      fs::permissions(kernels.path(), fs::perms::owner_all);
    }
    for (const std::string one : {"list", "stats"}) {
      CHECK_THAT(printed("cache " + one, kernels.variable()),
                 Contains(kernels.str()) && Contains("no kernels"));
    }
    for (const std::string one : {"verify", "prune", "clear"}) {
      const std::string said = printed("cache " + one, kernels.variable());
      CHECK_THAT(said, StartsWith(kernels.str() + ": "));
      if (!is_there) CHECK(said == kernels.str() + ": no kernels\n");
    }
    CHECK(fs::exists(kernels.path()) == is_there);
  }
}

TEST_CASE("list shows what is there, used last first, as a table and as JSON") {
  const KernelDirectory kernels;
  const fs::path old = kernels.store(kernel_key("old_one"), "1");
  const fs::path unused = kernels.store(kernel_key("unused_one", "sm_100"), "22");
  const fs::path recent = kernels.store(kernel_key("recent_one"), "333");
  use(old, std::chrono::hours(100));
  use(recent, std::chrono::hours(1));
  jit::CacheKey identity;
  identity.add("kind", "identity");
  identity.add("what", "C++ compiler");
  use(kernels.store(identity, "g++"), std::chrono::hours(200));
  fs::create_directories(kernels.path() / "ab");
  write_file(kernels.path() / "ab" / (std::string(62, '0') + ".v1"), "of another time");
  use(kernels.path() / "ab" / (std::string(62, '0') + ".v1"), std::chrono::hours(300));

  const std::string said = printed("cache list", kernels.variable());
  CHECK_THAT(said, StartsWith(kernels.str() + ": 5 entries\n"));
  CHECK(position(said, "recent_one") < position(said, "unused_one"));
  CHECK(position(said, "unused_one") < position(said, "old_one"));
  CHECK_THAT(said, Contains(digits_of(unused).substr(0, 12) + "  unused_one              cuda"));
  CHECK_THAT(said,
             Contains("sm_100") && Contains("  not yet\n") && Contains("identity: C++ compiler") &&
                 Contains("ab0000000000  of the format v1, for another version of the library\n"));

  const auto json =
      nlohmann::json::parse(coconet_command("cache list --json", kernels.variable()).out);
  CHECK(json.at("cache") == "rw");
  REQUIRE(json.at("directories").size() == 1);
  const auto& directory = json.at("directories").at(0);
  CHECK(directory.at("path") == kernels.str());
  CHECK(directory.at("read_only") == false);
  REQUIRE(directory.at("entries").size() == 5);
  const auto& first = directory.at("entries").at(0);
  CHECK(first.at("digest") == digits_of(recent));
  CHECK(first.at("kind") == "kernel");
  CHECK(first.at("name") == "recent_one");
  CHECK(first.at("target") == "cuda");
  CHECK(first.at("arch") == "sm_90");
  CHECK(first.at("bytes") == fs::file_size(recent));
  CHECK_THAT(first.at("used").get<std::string>(), EndsWith("Z"));
  CHECK(first.at("problem") == "");
  CHECK(directory.at("entries").at(1).at("used").is_null());
}

TEST_CASE("prune removes what was used the longest ago, and temporary files that are stale") {
  const KernelDirectory kernels;
  std::vector<fs::path> files;
  for (int i = 0; i < 10; ++i) {
    files.push_back(kernels.store(kernel_key("kernel_" + std::to_string(i)), "x"));
    use(files.back(), std::chrono::hours(10 + i));
  }
  const fs::path stale = files[0].parent_path() / ".tmp-host-1-1";
  const fs::path fresh = files[0].parent_path() / ".tmp-host-1-2";
  write_file(stale, "x");
  write_file(fresh, "x");
  use(stale, std::chrono::hours(2));

  CHECK_THAT(printed("cache prune --max-files 10", kernels.variable()),
             Contains(": removed 0 entries, 0 bytes and 1 stale temporary file; 10 entries, ") &&
                 Contains(" left (limits: 1.0 GiB, 10 entries)\n"));
  CHECK(!fs::exists(stale));
  CHECK(fs::exists(fresh));

  CHECK_THAT(printed("cache prune --max-files 5", kernels.variable()),
             Contains(": removed 6 entries, ") && Contains("; 4 entries, "));
  for (std::size_t i = 0; i < files.size(); ++i) CHECK(fs::exists(files[i]) == (i < 4));

  const auto size = fs::file_size(files[0]);
  const Said small = coconet_command("cache prune --max-size " + std::to_string(3 * size),
                                     kernels.variable() + " COCONET_CACHE_MAX_FILES=0");
  CHECK_THAT(small.out, Contains(": removed 2 entries, ") && Contains("; 2 entries, "));
  CHECK_THAT(coconet_command("cache prune --max-size 1K --max-files 1", kernels.variable()).out,
             Contains("(limits: 1.0 KiB, 1 entry)\n"));
  CHECK_THAT(coconet_command("cache stats", kernels.variable()).out, !Contains("never"));
}

TEST_CASE("stats counts by target and architecture, and says what the limits are") {
  const KernelDirectory kernels;
  const KernelDirectory site("site");
  (void)kernels.store(kernel_key("one"), "1");
  (void)kernels.store(kernel_key("two"), "2");
  const fs::path file = kernels.store(kernel_key("one", "sm_100"), "3");
  write_file(file.parent_path() / ".tmp-host-1-1", "x");
  (void)site.store(kernel_key("three"), "3");
  CHECK_THAT(printed("cache stats", kernels.variable() + " " + site.read_only_variable() +
                                        " COCONET_CACHE_MAX_SIZE=3M COCONET_CACHE_MAX_FILES=7"),
             StartsWith(kernels.str() + "\n  entries      3 entries, ") &&
                 Contains("               cuda sm_90: 2 entries, ") &&
                 Contains("               cuda sm_100: 1 entry, ") &&
                 Contains("  limits       3.0 MiB, 7 entries\n") &&
                 Contains("  temporaries  1\n") && Contains("  last sweep   ") &&
                 Contains(site.str() + " (only read)\n  entries      1 entry, "));
}

TEST_CASE("clear removes entries and temporary files, and nothing else") {
  const KernelDirectory kernels;
  const KernelDirectory site("site");
  const fs::path one = kernels.store(kernel_key("one"), "1");
  (void)kernels.store(kernel_key("two"), "2");
  const fs::path theirs = site.store(kernel_key("one"), "1");
  const fs::path folder = one.parent_path();
  write_file(folder / ".tmp-host-1-1", "x");
  write_file(folder / "notes", "x");
  write_file(kernels.path() / "README.md", "x");
  const fs::path outside = kernels.path() / "outside";
  fs::create_directory(outside);
  fs::rename(one, outside / one.filename());
  fs::create_symlink(outside / one.filename(), one);
  const fs::path linked = kernels.path() / (folder.filename() == "ff" ? "fe" : "ff");
  fs::remove_all(linked);
  fs::create_directory_symlink(outside, linked);
  const std::string environment = kernels.variable() + " " + site.read_only_variable();

  for (const std::string mode : {"ro", "off"}) {
    for (const std::string command : {"clear", "prune --max-files 1"}) {
      CHECK_THAT(complaint("cache " + command, environment + " COCONET_CACHE=" + mode),
                 Contains("COCONET_CACHE is '" + mode +
                          "', so nothing is removed from the cache; unset it"));
    }
  }
  CHECK_THAT(
      printed("cache clear", environment),
      StartsWith(kernels.str() + ": removed 2 entries, ") && EndsWith(" and 1 temporary file\n"));
  CHECK(!fs::exists(fs::symlink_status(one)));
  CHECK(fs::exists(outside / one.filename()));
  CHECK(fs::exists(folder / "notes"));
  CHECK(fs::exists(kernels.path() / "README.md"));
  CHECK(fs::exists(theirs));
  CHECK_THAT(coconet_command("cache list", kernels.variable()).out, Contains(": no kernels\n"));
}

TEST_CASE("a directory that cannot be trusted or opened is a failure, and doctor says it as well") {
  const KernelDirectory kernels;
  (void)kernels.store(kernel_key("one"), "1");
  const auto require_failure = [&](const std::string& sentence) {
    for (const std::string& one : subcommands) {
      CHECK_THAT(complaint(arguments_of(one), kernels.variable()),
                 StartsWith("coconet: ") && Contains(sentence));
    }
    CHECK_THAT(
        coconet_command("doctor", kernels.variable()).out,
        Contains("[--] cache           " + sentence) &&
            Contains("to get it: mend that, or name another directory with COCONET_CACHE_DIR\n"));
  };
  fs::permissions(kernels.path(), fs::perms(0755));
  require_failure("'" + kernels.str() +
                  "' is open to other users (its mode is 0755), and what runs as code must be in a "
                  "directory of one's own; chmod 700 '" +
                  kernels.str() + "'\n");
  // To read from, it is good enough.
  CHECK(coconet_command("cache list", kernels.variable() + " COCONET_CACHE=ro").code == 0);
  fs::remove_all(kernels.path());
  write_file(kernels.path(), "a file");
  require_failure("cannot open the directory '" + kernels.str() + "': Not a directory");
}

TEST_CASE("directories of COCONET_CACHE_PATH are judged one by one, by doctor as well") {
  const KernelDirectory own("own");
  const KernelDirectory good("good");
  const KernelDirectory open("open");
  const KernelDirectory missing("missing");
  (void)good.store(kernel_key("one"), "1");
  fs::permissions(good.path(), fs::perms(0755));
  (void)open.store(kernel_key("two"), "2");
  fs::permissions(open.path(), fs::perms(0777));
  const std::string environment = own.variable() + " COCONET_CACHE_PATH='" + good.str() + ":" +
                                  open.str() + ":" + missing.str() + "'";
  const std::string sentence = "other users may write in '" + open.str() +
                               "' (its mode is 0777), and so put code there; chmod go-w '" +
                               open.str() + "'\n";
  const Said said = coconet_command("cache list", environment);
  CHECK(said.code == 1);
  CHECK(said.err == "coconet: " + sentence);
  CHECK_THAT(said.out,
             StartsWith(own.str() + ": no kernels\n" + good.str() + " (only read): 1 entry\n") &&
                 EndsWith(missing.str() + " (only read): no kernels\n"));
  CHECK_THAT(coconet_command("doctor", environment).out,
             Contains("[ok] cache to read   " + good.str() + "\n") &&
                 Contains("[--] cache to read   " + sentence) &&
                 Contains("mend that, or take it out of COCONET_CACHE_PATH\n") &&
                 Contains("[--] cache to read   there is no directory " + missing.str() + "\n"));
}

TEST_CASE("what COCONET_CACHE turns off is said") {
  const KernelDirectory kernels;
  (void)kernels.store(kernel_key("one"), "1");
  CHECK_THAT(
      printed("cache list", kernels.variable() + " COCONET_CACHE=off"),
      StartsWith(
          "COCONET_CACHE is 'off': no kernel is read from a directory, and none is written.\n" +
          kernels.str() + ": 1 entry\n"));
  CHECK_THAT(printed("cache stats", kernels.variable() + " COCONET_CACHE=ro"),
             StartsWith("COCONET_CACHE is 'ro': kernels are read, and not written.\n"));
}
