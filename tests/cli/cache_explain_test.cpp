// `coconet cache explain`: where kernels are, why they are not there, and kernels that were built
// elsewhere.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/kernel_directory.h"
#include "cli/key_difference.h"
#include "jit/cache/inspect.h"
#include "jit/platform/cuda/nvrtc.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using coconet::cli::describe;
using namespace coconet::test;

namespace {

namespace fs = std::filesystem;
namespace jit = coconet::jit;

using Lines = std::vector<std::string>;

Lines described(const std::string& tag, const std::string& wanted, const std::string& found) {
  return describe({tag, wanted, found, 0});
}

/// The only kernel in a directory.
fs::path only_kernel(const KernelDirectory& kernels) {
  fs::path found;
  const auto directory = jit::CacheDirectory::open(kernels.path(), jit::Ownership::vetted);
  REQUIRE(directory);
  jit::inspect_all(*directory, jit::InspectDepth::key, [&](const jit::InspectedEntry& entry) {
    if (jit::field_of(entry.key_text, "kind") != "kernel") return;
    CHECK(found.empty());
    found = kernels.path() / entry.file.folder / entry.file.name;
  });
  REQUIRE(!found.empty());
  return found;
}

bool run(const std::string& line) {
  return std::system(line.c_str()) == 0;
}

}  // namespace

TEST_CASE("an entry that cannot be looked at is not one that is missing") {
  const KernelDirectory kernels("unreadable_kernels");
  const fs::path folder = kernels.store(kernel_key("one"), "payload").parent_path();
  const auto directory = jit::CacheDirectory::open(kernels.path(), jit::Ownership::vetted);
  REQUIRE(directory);
  const auto look = [&] {
    return jit::inspect(*directory, kernel_key("one"), jit::InspectDepth::all);
  };
  CHECK(look()->problem.empty());
  fs::remove_all(folder);
  CHECK_FALSE(look());
  write_file(folder, "no directory");
  CHECK(look()->problem == "it cannot be read: Not a directory");
}

TEST_CASE("a difference is told by the line, the words or the place that differ") {
  CHECK(described("arch", "sm_90", "sm_100") == Lines{"wanted: sm_90", "found:  sm_100"});
  CHECK(described("options", "-O3\n-fPIC\n", "-O3\n-g\n-fPIC\n") ==
        Lines{"line 2, wanted: no such line", "line 2, found:  -g"});
  CHECK(described("options", "-O3\n-fPIC\n-w\n", "-O3\n-fPIC\n") ==
        Lines{"line 3, wanted: -w", "line 3, found:  no such line"});
  CHECK(described("source", "a\nb\nc\nd\n", "a\nX\nY\nd\n") ==
        Lines{"line 2, wanted: b", "line 2, found:  X"});
  CHECK(described("source", "a\nb", "a\nb\n") == Lines{"the same lines, with another end"});
  CHECK(described("arch", "x86 6 143\navx avx2 fma", "x86 6 143\navx sse4a") ==
        Lines{"features only wanted: avx2 fma", "features only found:  sse4a"});
  CHECK(described("arch", "x86 6 143\navx", "x86 6 85\navx") ==
        Lines{"wanted: x86 6 143", "found:  x86 6 85"});
  CHECK(describe({"abi", "64 bits", std::nullopt, 0}) ==
        Lines{"wanted: 64 bits", "found:  no such field"});
  const Lines cut = described("entry", std::string(5000, 'a') + "one" + std::string(5000, 'b'),
                              std::string(5000, 'a') + "two\x1b" + std::string(5000, 'b'));
  CHECK(cut[0] == "wanted: ..." + std::string(30, 'a') + "one" + std::string(67, 'b') + "...");
  CHECK(cut[1] == "found:  ..." + std::string(30, 'a') + "two?" + std::string(66, 'b') + "...");
}

TEST_CASE(
    "the nearest entry has the most equal fields, then the latest difference, then the latest "
    "use") {
  const KernelDirectory kernels;
  (void)kernels.store(kernel_key("other"), "1");  // entry and source differ
  const fs::path same_entry = kernels.store(kernel_key("asked", "sm_80"), "2");  // arch differs
  jit::CacheKey other_kind;
  other_kind.add("kind", "identity");
  (void)kernels.store(other_kind, "3");
  const std::vector directories{jit::CacheDirectory::open(kernels.path(), jit::Ownership::vetted)};
  const std::vector keys{kernel_key("asked"), kernel_key("other"), kernel_key("new", "sm_1")};
  const auto nearest = jit::find_nearest(directories, keys);
  REQUIRE(nearest.size() == 3);
  REQUIRE(nearest[0]);
  CHECK(nearest[0]->path == same_entry);
  CHECK(nearest[0]->difference.tag == "arch");
  CHECK(nearest[0]->difference.equal == 4);
  CHECK(nearest[0]->prefix == 3);
  REQUIRE(nearest[1]);  // itself is no neighbour
  CHECK(nearest[1]->path == same_entry);
  REQUIRE(nearest[2]);
  CHECK(nearest[2]->difference.tag == "entry");

  jit::CacheKey unknown;
  unknown.add("kind", "something else");
  CHECK(!jit::find_nearest(directories, std::vector{unknown})[0]);
}

TEST_CASE("explain says where a kernel is, or which field of the nearest entry differs and how") {
  const KernelDirectory kernels;
  const std::string explain = "cache explain adam --schedule fused";
  CHECK_THAT(
      printed(explain, kernels.variable()),
      StartsWith("adam_fused               host     in no directory, and no other kernel is\n"));

  REQUIRE(coconet_command("compile adam --schedule fused", kernels.variable()).code == 0);
  const fs::path file = only_kernel(kernels);
  CHECK_THAT(coconet_command(explain, kernels.variable()).out,
             StartsWith("adam_fused               host     in '" + file.string() + "', "));

  CHECK_THAT(printed(explain, kernels.variable() + " COCONET_CXXFLAGS=-DMUTATED"),
             Contains("in no directory; the nearest, '" + file.string() + "' (") &&
                 Contains("), differs in options:\n") && Contains(", wanted: -DMUTATED\n") &&
                 Contains(", found:  no such line\n") && !Contains("  and in "));
  const Said ranks = coconet_command(explain + " --ranks 3", kernels.variable());
  CHECK_THAT(ranks.out, Contains("differs in source:\n  line ") && Contains(", wanted: ") &&
                            Contains(", found:  "));
  const Said off = coconet_command(explain, kernels.variable() + " COCONET_CACHE=off");
  CHECK_THAT(off.out, StartsWith("COCONET_CACHE is 'off': no kernel is read") &&
                          Contains("in '" + file.string() + "', "));

  fs::resize_file(file, fs::file_size(file) - 1);
  const Said bad = coconet_command(explain, kernels.variable());
  CHECK_THAT(bad.out,
             Contains("bad in '" + file.string() +
                      "': its length is wrong; in no directory, and no other kernel is\n"));
  CHECK(fs::exists(file));
}

TEST_CASE("kernels for a cluster that were built elsewhere are found in COCONET_CACHE_PATH") {
  if (!jit::nvrtc::is_available()) {
    WARN("not checked: NVRTC is not here: " + jit::nvrtc::version());
    return;
  }
  const std::string subject = "adam --schedule fused --arch sm_90 --ranks 8";
  const KernelDirectory site("site");
  {  // as docs/cache.md has it
    const KernelDirectory build("build");
    REQUIRE_THAT(coconet_command("compile " + subject, build.variable()).out,
                 Contains(": 1 compiled, 0 in the cache already"));
    REQUIRE(run("mkdir -p '" + site.str() + "' && cp -r '" + build.str() + "'/?? '" + site.str() +
                "/' && chmod -R go-w,go+rX '" + site.str() + "'"));
  }
  const fs::path file = only_kernel(site);
  REQUIRE(run("chmod -R a-w '" + site.str() + "'"));
  const auto writable_again = [&] { CHECK(run("chmod -R u+w '" + site.str() + "'")); };

  const KernelDirectory own("own");
  const std::string environment = own.variable() + " " + site.read_only_variable();
  CHECK_THAT(printed("compile " + subject, environment),
             Contains("adam_fused               sm_90    in the cache") &&
                 Contains(": 0 compiled, 1 in the cache already"));
  CHECK_THAT(coconet_command("cache explain " + subject, environment).out,
             StartsWith("adam_fused               sm_90    in '" + file.string() + "', "));
  CHECK_THAT(coconet_command("cache list", environment).out,
             Contains(site.str() + " (only read): "));
  CHECK_THAT(
      coconet_command("cache explain adam --schedule fused --arch sm_100 --ranks 8", environment)
          .out,
      Contains("the nearest, '" + file.string() + "' (") &&
          Contains(" for cuda sm_90), differs in arch:\n  wanted: sm_100\n  found:  sm_90\n  and "
                   "in options"));
  CHECK(fs::exists(file));

  // Kernels of root are good enough for others.
  if (geteuid() == 0) {
    const KernelDirectory of_user("of_user");
    const Said said = coconet_command("cache explain " + subject,
                                      of_user.variable() + " " + site.read_only_variable() +
                                          " setpriv --reuid=65534 --regid=65534 --clear-groups");
    if (said.code >= 126 || said.code == -1) {
      WARN("not checked as another user: " + said.err);
    } else {
      INFO(said.err);
      CHECK(said.code == 0);
      CHECK_THAT(said.out, Contains(" in '" + file.string() + "', "));
    }
  }
  writable_again();
}
