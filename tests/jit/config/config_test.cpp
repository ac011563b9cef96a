// COCONET_* variables: defaults, values, sentences for malformed values and unknown names.
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <regex>

#include "captured_stderr.h"
#include "child_process.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "coconet/version.h"
#include "coconet/world.h"
#include "golden.h"
#include "jit/config/log.h"
#include "jit/config/parse.h"
#include "refusal.h"
#include "require_exit.h"

using namespace coconet;
using namespace coconet::jit;
using namespace coconet::test;
using Catch::Matchers::Contains;
using namespace std::chrono_literals;

namespace {

constexpr BuildDefaults installed{"/usr/bin/c++", ""};

Config parse(const Environment& environment) {
  return parse_config(environment, installed).config;
}

std::string refusal_of(const std::string& name, const std::string& value) {
  return refusal<ConfigError>([&] { (void)parse({{name, value}}); });
}

}  // namespace

TEST_CASE("an empty environment gives the documented defaults") {
  const ParsedConfig parsed = parse_config({}, installed);
  CHECK(parsed.warnings.empty());
  CHECK(parsed.config.log_level == "warn");
  CHECK(parsed.config.host_threads == 1);
  CHECK(parsed.config.knobs == Knobs{});
  CHECK(parsed.config.cxx == "/usr/bin/c++");
  CHECK(parsed.config.cxx_flags.empty());
  CHECK(parsed.config.arch.empty());
  CHECK_FALSE(parsed.config.line_info);
  CHECK(parsed.config.cache_dir.empty());
  CHECK(parsed.config.cache == "rw");
  CHECK(parsed.config.cache_path.empty());
  CHECK(parsed.config.cache_max_size == std::uint64_t{1} << 30);
  CHECK(parsed.config.cache_max_files == 20'000);
  CHECK(parsed.config.jit_jobs == 0);
  CHECK(parsed.config.dump_dir.empty());
  CHECK(parsed.config.host_id.empty());
  CHECK(parsed.config.tune_limit == 20s);
  CHECK(parsed.config.timeout == 300s);
  CHECK(parsed.config.compile_timeout == 120s);
}

TEST_CASE("every variable reaches its field") {
  const Config config = parse({{"COCONET_LOG", "debug"},
                               {"COCONET_BACKEND", "cuda"},
                               {"COCONET_GRAPH", "off"},
                               {"COCONET_OVERLAP", "on"},
                               {"COCONET_COLLECTIVES", "mpi"},
                               {"COCONET_FREE_MULTIPROCESSORS", "16"},
                               {"COCONET_CHECK", "1"},
                               {"COCONET_CORES", "12"},
                               {"COCONET_HOST_THREADS", "96"},
                               {"COCONET_ALGORITHM", "ring"},
                               {"COCONET_PROTOCOL", "ll128"},
                               {"COCONET_CHANNELS", "3"},
                               {"COCONET_THREADS", "64"},
                               {"COCONET_VECTOR_BYTES", "32"},
                               {"COCONET_CHUNK_BYTES", "2048"},
                               {"COCONET_CXX", "clang++"},
                               {"COCONET_CXXFLAGS", "-O2 -g"},
                               {"COCONET_ARCH", "sm_90a"},
                               {"COCONET_LINE_INFO", "1"},
                               {"COCONET_CUDA_PATH", "/opt/a::/opt/b:"},
                               {"COCONET_CACHE_DIR", "/var/kernels"},
                               {"COCONET_CACHE", "ro"},
                               {"COCONET_CACHE_PATH", ":/opt/site:/opt/vendor"},
                               {"COCONET_CACHE_MAX_SIZE", "500M"},
                               {"COCONET_CACHE_MAX_FILES", "300"},
                               {"COCONET_JIT_JOBS", "6"},
                               {"COCONET_DUMP_DIR", "/var/dump"},
                               {"COCONET_HOST_ID", "ada"},
                               {"COCONET_TUNE_S", "0.5"},
                               {"COCONET_TIMEOUT_S", "2.5"},
                               {"COCONET_COMPILE_TIMEOUT_S", "7"}});
  CHECK(config.log_level == "debug");
  CHECK(config.backend == "cuda");
  CHECK(config.graph == "off");
  CHECK(config.overlap == "on");
  CHECK(config.collectives == "mpi");
  CHECK(config.free_multiprocessors == 16);
  CHECK(config.cores == 12);
  CHECK(config.host_threads == 96);
  CHECK(config.knobs == Knobs{"ring", "ll128", 3, 64, 32, 2048});
  CHECK(config.cxx == "clang++");
  CHECK(config.cxx_flags == "-O2 -g");
  CHECK(config.arch == "sm_90a");
  CHECK(config.check);
  CHECK(config.line_info);
  CHECK(config.cuda_path == std::vector<std::filesystem::path>{"/opt/a", "/opt/b"});
  CHECK(config.cache_dir == "/var/kernels");
  CHECK(config.cache == "ro");
  CHECK(config.cache_path == std::vector<std::filesystem::path>{"/opt/site", "/opt/vendor"});
  CHECK(config.cache_max_size == std::uint64_t{500} << 20);
  CHECK(config.cache_max_files == 300);
  CHECK(config.jit_jobs == 6);
  CHECK(config.dump_dir == "/var/dump");
  CHECK(config.host_id == "ada");
  CHECK(config.tune_limit == 500ms);
  CHECK(config.timeout == 2500ms);
  CHECK(config.compile_timeout == 7s);
}

TEST_CASE("a malformed value is an error with the variable, the value and what it takes") {
  const struct {
    const char* name;
    const char* takes;
    std::vector<const char*> wrong;
  } variables[] = {
      {"COCONET_TIMEOUT_S",
       "a number of seconds above 0",
       {"abc", "0", "-0.0", "nan", "inf", "1s", "5 ", " 5", "0x10", "1e999"}},
      {"COCONET_COMPILE_TIMEOUT_S", "a number of seconds above 0", {"-1"}},
      {"COCONET_LOG", "trace, debug, info, warn, error or off", {"loud"}},
      {"COCONET_CACHE", "rw, ro or off", {"RW"}},
      {"COCONET_CACHE_MAX_SIZE",
       "bytes, such as 500M or 2G; 0: no limit",
       {"-1", "1.5G", "2GB", "G", "2 G", "2g", "20000000T", "1e9", "18446744073709551616"}},
      {"COCONET_CACHE_MAX_FILES", "a number; 0: no limit", {"-1", "2K", "1000000001", "many"}},
      {"COCONET_JIT_JOBS", "1 to 1024", {"0", "-1", "1025", "all"}},
      {"COCONET_ARCH",
       "a GPU architecture such as sm_90",
       {"sm_", "90", "sm_9x", "sm_90ab", "compute_90", "native"}},
      {"COCONET_CORES", "1 to 1024", {"0", "-1", "1025", "auto"}},
      {"COCONET_HOST_THREADS",
       "1, or a multiple of 32 up to 1024",
       {"0", "2", "33", "-32", "1056", "32.0", " 32"}},
      {"COCONET_ALGORITHM", "direct, ring, tree or multimem", {"mesh"}},
      {"COCONET_PROTOCOL", "simple, ll or ll128", {"LL"}},
      {"COCONET_CHANNELS", "1 to 1024", {"0"}},
      {"COCONET_THREADS", "a multiple of 32 up to 1024", {"100"}},
      {"COCONET_VECTOR_BYTES", "4, 8, 16, 32 or 64", {"12"}},
      {"COCONET_CHUNK_BYTES",
       "a power of two from 1024 to 1048576",
       {"512", "3000", "2097152", "1024k"}},
      {"COCONET_LINE_INFO", "0 or 1", {"yes"}},
  };
  for (const auto& [name, takes, wrong] : variables) {
    for (const char* value : wrong)
      CHECK(refusal_of(name, value) == fmt::format("{} is '{}'; it takes {}", name, value, takes));
  }
}

TEST_CASE("a relative directory is refused where the working directory is gone") {
  const std::filesystem::path before = std::filesystem::current_path();
  std::string directory, directories;
  {
    const test::ScratchDirectory gone;
    std::filesystem::current_path(gone.path());
    std::filesystem::remove(gone.path());
    directory = refusal_of("COCONET_CACHE_DIR", "here");
    directories = refusal_of("COCONET_CACHE_PATH", "/there:here:/elsewhere");
  }
  std::filesystem::current_path(before);
  CHECK(directory == "COCONET_CACHE_DIR is 'here'; it takes a directory");
  CHECK(directories ==
        "COCONET_CACHE_PATH is '/there:here:/elsewhere'; it takes directories, divided by colons");
}

TEST_CASE("the table's rows of algorithms and protocols are what their variables take") {
  for (const ConfigVariable& variable : config_variables()) {
    if (variable.name == "COCONET_ALGORITHM") {
#define COCONET_ALGORITHM(row, summary) \
  CHECK_THAT(std::string(variable.accepts), Catch::Contains(#row));
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
    }
    if (variable.name == "COCONET_PROTOCOL") {
#define COCONET_PROTOCOL(row, summary) \
  CHECK_THAT(std::string(variable.accepts), Catch::Contains(#row));
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL
    }
  }
}

TEST_CASE("sizes are in bytes, or in powers of 1024") {
  const auto bytes = [](const char* text) {
    return parse({{"COCONET_CACHE_MAX_SIZE", text}}).cache_max_size;
  };
  CHECK(bytes("0") == 0);
  CHECK(bytes("123") == 123);
  CHECK(bytes("3K") == 3 * 1024);
  CHECK(bytes("3M") == std::uint64_t{3} << 20);
  CHECK(bytes("3G") == std::uint64_t{3} << 30);
  CHECK(bytes("3T") == std::uint64_t{3} << 40);
  CHECK(bytes("16777215T") == std::uint64_t{16777215} << 40);
  CHECK(bytes("18446744073709551615") == ~std::uint64_t{0});
  CHECK(parse({{"COCONET_CACHE_MAX_FILES", "0"}}).cache_max_files == 0);
}

TEST_CASE("tiny and huge times stay usable") {
  CHECK(parse({{"COCONET_TIMEOUT_S", "1e-9"}}).timeout == 1ms);
  CHECK(parse({{"COCONET_TIMEOUT_S", "1e300"}}).timeout == 1'000'000'000s);
}

TEST_CASE("an unknown COCONET_ name warns with the nearest known one") {
  const auto near = parse_config({{"COCONET_TIMOUT_S", "1"}, {"PATH", "/bin"}}, installed).warnings;
  REQUIRE(near.size() == 1);
  CHECK(near[0] ==
        "COCONET_TIMOUT_S is not a variable of coconet-jit and is ignored; did you mean "
        "COCONET_TIMEOUT_S?");
  const auto far = parse_config({{"COCONET_ZZZZZZZZZZZZZZZZZZZZZZ", ""}}, installed).warnings;
  REQUIRE(far.size() == 1);
  CHECK(far[0] ==
        "COCONET_ZZZZZZZZZZZZZZZZZZZZZZ is not a variable of coconet-jit and is ignored; the known "
        "ones are COCONET_LOG, COCONET_BACKEND, COCONET_GRAPH, COCONET_OVERLAP, "
        "COCONET_COLLECTIVES, "
        "COCONET_FREE_MULTIPROCESSORS, COCONET_CHECK, COCONET_CORES, COCONET_HOST_THREADS, "
        "COCONET_ALGORITHM, COCONET_PROTOCOL, COCONET_CHANNELS, COCONET_THREADS, "
        "COCONET_VECTOR_BYTES, COCONET_CHUNK_BYTES, COCONET_CXX, COCONET_CXXFLAGS, "
        "COCONET_ARCH, COCONET_LINE_INFO, COCONET_CUDA_PATH, COCONET_CACHE_DIR, COCONET_CACHE, "
        "COCONET_CACHE_PATH, COCONET_CACHE_MAX_SIZE, COCONET_CACHE_MAX_FILES, COCONET_JIT_JOBS, "
        "COCONET_TUNE, COCONET_TUNE_S, COCONET_TUNE_FILE, "
        "COCONET_DUMP_DIR, "
        "COCONET_HOST_ID, COCONET_TIMEOUT_S, COCONET_COMPILE_TIMEOUT_S");
}

TEST_CASE("a variable that is set to nothing counts as not set") {
  for (const ConfigVariable& variable : config_variables()) {
    INFO(variable.name);
    const ParsedConfig parsed = parse_config({{std::string(variable.name), ""}}, installed);
    CHECK(parsed.warnings.empty());
    CHECK(parsed.config.cxx == "/usr/bin/c++");
    CHECK(parsed.config.timeout == 300s);
  }
}

TEST_CASE("of a repeated name the first counts, as getenv has it") {
  CHECK(parse({{"COCONET_CXX", "g++"}, {"COCONET_CXX", "clang++"}}).cxx == "g++");
}

TEST_CASE("the cache directory is the source tree's, else XDG's, else the home's, else none") {
  const Environment home{{"HOME", "/home/ada"}};
  const Environment xdg{{"HOME", "/home/ada"}, {"XDG_CACHE_HOME", "/fast/cache"}};
  const BuildDefaults in_tree{"/usr/bin/c++", "/src/coconet-jit/kernel_cache"};
  CHECK(parse_config(xdg, in_tree).config.cache_dir == "/src/coconet-jit/kernel_cache");
  CHECK(parse(xdg).cache_dir == "/fast/cache/coconet-jit");
  CHECK(parse(home).cache_dir == "/home/ada/.cache/coconet-jit");
  CHECK(parse({}).cache_dir.empty());
  SECTION("a relative XDG_CACHE_HOME is ignored, as its specification says") {
    CHECK(parse({{"HOME", "/home/ada"}, {"XDG_CACHE_HOME", "cache"}}).cache_dir ==
          "/home/ada/.cache/coconet-jit");
  }
  SECTION("COCONET_CACHE_DIR wins, and is absolute from then on") {
    const Environment relative{{"COCONET_CACHE_DIR", "kernels"}};
    CHECK(parse_config(relative, in_tree).config.cache_dir ==
          std::filesystem::current_path() / "kernels");
  }
}

TEST_CASE("config() reads the environment once") {
  const Config& first = config();
  CHECK(&first == &config());
  CHECK_FALSE(first.cxx.empty());
}

TEST_CASE("docs/configuration.md holds the table of variables") {
  INFO("The table should read:\n" << config_table());
  CHECK(source_text("docs/configuration.md").find(config_table()) != std::string::npos);
}

TEST_CASE("the log prints what its level allows, braces included") {
  const CapturedStderr printed;
  REQUIRE(set_log_level("info"));
  log_debug("not this");
  log_info("this {}");
  CHECK_FALSE(log_enabled(LogLevel::debug));
  CHECK(log_enabled(LogLevel::error));
  REQUIRE(set_log_level("off"));
  log_error("nor this");
  CHECK_FALSE(set_log_level("loud"));
  REQUIRE(set_log_level("warn"));
  CHECK(printed.count("not this") == 0);
  CHECK(printed.count("this {}") == 1);
  CHECK(printed.count("nor this") == 0);
  CHECK(printed.text().starts_with("[coconet "));
}

TEST_CASE("a line names the rank whose thread prints it") {
  const CapturedStderr printed;
  World::local(2, [](World& world) { log_warn(fmt::format("from {}", world.rank())); });
  log_warn("from nobody");
  const std::string text = printed.text();
  INFO(text);
  for (const int rank : {0, 1}) {
    CHECK_THAT(text, Contains(fmt::format("[coconet rank {} of 2, pid {}] warning: from {}\n", rank,
                                          getpid(), rank)));
  }
  CHECK_THAT(text, !Contains("of 2, pid " + std::to_string(getpid()) + "] warning: from nobody"));
}

TEST_CASE("a process's lines name its rank in the largest world, and before that the launcher's") {
  const std::string said = require_exit(run_test_case(
      "speaks",
      GENERATE("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 ", "PMI_RANK=2 PMI_SIZE=3 ",
               "SLURM_PROCID=2 SLURM_NTASKS=3 ", "PMIX_RANK=2 SLURM_PROCID=0 SLURM_NTASKS=3 ")));
  for (const char* const line : {"[coconet rank 2 of 3, pid N] warning: before any world\n",
                                 "[coconet rank 1 of 4, pid N] warning: in a world\n",
                                 "[coconet rank 1 of 4, pid N] warning: in a part of it\n"}) {
    CHECK_THAT(std::regex_replace(said, std::regex("pid [0-9]+"), "pid N"), Contains(line));
  }
}

TEST_CASE("an application's sink gets the messages that the level lets through") {
  std::vector<std::pair<LogLevel, std::string>> got;
  REQUIRE(set_log_level("info"));
  {
    const CapturedStderr captured;
    set_log_sink(
        [&](LogLevel level, std::string_view message) { got.emplace_back(level, message); });
    log_debug("not this");
    log_info("this {}");
    log_warn("and this");
    CHECK(captured.text().empty());
    set_log_sink({});
    log_info("printed");
    CHECK(captured.count("printed") == 1);
  }
  REQUIRE(set_log_level("warn"));
  CHECK(got == std::vector<std::pair<LogLevel, std::string>>{{LogLevel::info, "this {}"},
                                                             {LogLevel::warn, "and this"}});
}

TEST_CASE("the library's version is that of its headers") {
  CHECK(version() == std::to_string(COCONET_VERSION_MAJOR) + "." +
                         std::to_string(COCONET_VERSION_MINOR) + "." +
                         std::to_string(COCONET_VERSION_PATCH));
  CHECK(COCONET_VERSION >= 100);
}
