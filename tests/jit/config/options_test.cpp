// Options of worlds and executables, and their precedence: a variable of the environment wins over
// them.
#include "coconet/options.h"

#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "jit/config/parse.h"
#include "require_exit.h"

using namespace coconet;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

Config with(const Options& options, const std::vector<std::string>& set = {},
            std::vector<std::string> notes = {}) {
  Config base;
  base.cache_dir = "/home/me/.cache";
  base.tune_file = "/home/me/.cache/tuning.json";
  return jit::with_options(base, options, set, notes);
}

}  // namespace

TEST_CASE("every option reaches its field, and moves what depends on it") {
  const Config config = with({.backend = "cuda",
                              .overlap = "off",
                              .cores = 5,
                              .check = true,
                              .cache_dir = "/tmp/kernels",
                              .jit_jobs = 3,
                              .timeout = 1500ms,
                              .compile_timeout = 7s,
                              .log_level = "error"});
  CHECK(config.backend == "cuda");
  CHECK(config.overlap == "off");
  CHECK(config.cores == 5);
  CHECK(config.check);
  CHECK(config.cache_dir == "/tmp/kernels");
  CHECK(config.tune_file == "/tmp/kernels/tuning.json");
  CHECK(config.jit_jobs == 3);
  CHECK(config.timeout == 1500ms);
  CHECK(config.compile_timeout == 7s);
  CHECK(config.log_level == "error");
  CHECK(with({.cache_dir = "/tmp/kernels"}, {"COCONET_TUNE_FILE"}).tune_file ==
        "/home/me/.cache/tuning.json");
  CHECK(with({}) == with({}, {"COCONET_BACKEND"}));
}

TEST_CASE("a variable that is set wins over an option, which is told") {
  std::vector<std::string> notes;
  Config base;
  base.backend = "host";
  const Config config =
      jit::with_options(base, {.backend = "cuda", .jit_jobs = 2}, {"COCONET_BACKEND"}, notes);
  CHECK(config.backend == "host");
  CHECK(config.jit_jobs == 2);
  CHECK(notes ==
        std::vector<std::string>{
            "COCONET_BACKEND is set and wins over the program's Options::backend, 'cuda'"});
  notes.clear();
  (void)jit::with_options(base, {.backend = "host"}, {"COCONET_BACKEND"}, notes);
  CHECK(notes.empty());
}

TEST_CASE("a wrong option is refused by its name, its value and what it takes") {
  CHECK_THROWS_WITH(with({.backend = "gpu"}), "Options::backend is 'gpu'; it takes host or cuda");
  CHECK_THROWS_WITH(with({.overlap = ""}), Contains("Options::overlap is ''"));
  CHECK_THROWS_WITH(with({.cache_dir = ""}), Contains("Options::cache_dir is ''; it takes a dir"));
  CHECK_THROWS_WITH(with({.cores = 1025}), "Options::cores is '1025'; it takes 1 to 1024");
  CHECK_THROWS_WITH(with({.jit_jobs = 0}), "Options::jit_jobs is '0'; it takes 1 to 1024");
  CHECK_THROWS_WITH(with({.timeout = 0ms}),
                    "Options::timeout is '0'; it takes a number of seconds above 0");
  CHECK_THROWS_WITH(with({.log_level = "loud"}), Contains("Options::log_level is 'loud'"));
  // Where the environment wins, too: the mistake is there all the same.
  CHECK_THROWS_AS(with({.backend = "gpu"}, {"COCONET_BACKEND"}), ConfigError);
  CHECK_THROWS_AS(World::self({.backend = "gpu"}), ConfigError);
}

TEST_CASE("the directories of worlds and executables are their own") {
  (void)test::require_exit(
      test::run_test_case("options-directories", "env -u COCONET_CACHE_DIR -u COCONET_CACHE"));
}

TEST_CASE("one application: by the environment, by options, by both") {
  const test::ScratchDirectory scratch;
  const auto path = [&](const char* name) { return scratch.path() / name; };
  const auto run = [&](const std::string& environment) {
    const std::string said = test::require_exit(test::run_test_case(
        "options-application", "env " + environment + " HOME=" + path("home").string()));
    CHECK_THAT(said, Contains("sum 64") && Contains("kernel cache: "));
    return said;
  };
  (void)run("COCONET_CACHE_DIR=" + path("variable").string() + " COCONET_LOG=info");
  CHECK(test::files_in(path("variable")) > 0);

  (void)run("-u COCONET_CACHE_DIR -u COCONET_LOG TEST_CACHE=" + path("option").string());
  CHECK(test::files_in(path("option")) > 0);

  const std::string both = run("COCONET_LOG=info COCONET_CACHE_DIR=" + path("winner").string() +
                               " TEST_CACHE=" + path("loser").string());
  CHECK(test::files_in(path("winner")) > 0);
  CHECK(test::files_in(path("loser")) == 0);
  CHECK_THAT(both, Contains("COCONET_CACHE_DIR is set and wins over the program's "
                            "Options::cache_dir, '" +
                            path("loser").string() + "'"));
  CHECK(test::files_in(path("home")) == 0);
}
