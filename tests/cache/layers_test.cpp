// From layer to layer: the written directory, those that are only read, and who makes what is in
// neither.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <stdexcept>

#include "cache/samples.h"
#include "captured_stderr.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A site's directory of prebuilt kernels beside one's own.
struct Site : Place {
  Site() { chmod_site(0755); }
  void put(const CacheKey& of, const CachedBinary& what) {
    DiskCache(site, CacheMode::read_write).publish(of, what);
  }
  void chmod_site(mode_t mode) {
    put(key_of("first"), binary);
    fs::permissions(site, static_cast<fs::perms>(mode));
  }
  fs::path site = scratch.path() / "site";
};

}  // namespace

TEST_CASE_METHOD(Place, "what is made is stored, and then found") {
  KernelCache cache(in_directory(directory));
  int made = 0;
  CHECK_FALSE(cache.contains(key));
  const auto first = obtain_one(cache, key, recipe_of(binary, made), 10s);
  CHECK(first.was_made);
  CHECK(first.binary == binary);
  CHECK(cache.contains(key));
  CHECK(cache.find(key) == binary);
  const auto second = obtain_one(cache, key, recipe_of(binary, made), 10s);
  CHECK_FALSE(second.was_made);
  CHECK(second.binary == binary);
  CHECK(made == 1);
}

TEST_CASE_METHOD(Place, "what cannot be made is not stored, and tried again by the next") {
  KernelCache cache(in_directory(directory, 1));
  OneRecipe recipe;
  recipe.make = []() -> CachedBinary { throw std::runtime_error("line 1: error"); };
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_WITH(obtain_one(cache, key, recipe, 10s), "line 1: error");
  int made = 0;
  CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).was_made);
  CHECK(made == 1);
}

TEST_CASE_METHOD(Site, "a site's directory is looked into after one's own, and not written") {
  fs::permissions(site, fs::perms::owner_all);
  put(key, {"the site's", ""});
  fs::permissions(site, static_cast<fs::perms>(0755));
  CacheSettings settings = in_directory(directory);
  settings.read_only = {scratch.path() / "nowhere", site};
  KernelCache cache(settings);
  const CapturedStderr printed;
  int made = 0;
  CHECK(cache.contains(key));
  CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).binary.payload == "the site's");
  CHECK(made == 0);
  CHECK_FALSE(fs::exists(path_of(key)));
  cache.publish(key, {"my own", ""});
  CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).binary.payload == "my own");
  const std::size_t before = files_under(site);
  CHECK(obtain_one(cache, key_of("new"), recipe_of(binary, made), 10s).was_made);
  CHECK(files_under(site) == before);
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Site,
                 "what is damaged or of no use at a site is made again, and the site's stays") {
  const fs::path path = site / folder_of(key.digest()) / name_of(key.digest());
  fs::permissions(site, fs::perms::owner_all);
  put(key, {"the site's", ""});
  CacheSettings settings = in_directory(directory);
  settings.read_only = {site};
  KernelCache cache(settings);
  int made = 0;
  OneRecipe recipe = recipe_of(binary, made);
  const CapturedStderr printed;
  SECTION("damaged") {
    write_file(path, "damaged");
    CHECK(obtain_one(cache, key, recipe, 10s).binary == binary);
    CHECK(read_file(path) == "damaged");
  }
  SECTION("of no use") {
    recipe.problem = [](const CachedBinary& found) {
      return found.payload == "the site's" ? "it is too old" : "";
    };
    CHECK(obtain_one(cache, key, recipe, 10s).binary == binary);
    CHECK(fs::exists(path));
  }
  CHECK_FALSE(obtain_one(cache, key, recipe, 10s).was_made);
  CHECK(made == 1);
  CHECK(cache.events().corrupt == 1);
}

TEST_CASE_METHOD(Site, "a cache that is off reads no site's directory either") {
  CacheSettings settings = in_directory(directory);
  settings.mode = CacheMode::off;
  settings.read_only = {site};
  KernelCache cache(settings);
  CHECK_FALSE(cache.find(key_of("first")));
  settings.mode = CacheMode::read_only;
  CHECK(KernelCache(settings).find(key_of("first")) == binary);
}

TEST_CASE_METHOD(Place, "an answer is remembered as long as the question is the same") {
  KernelCache cache(in_directory(directory));
  int asked = 0;
  const auto ask = [&] { return "answer " + std::to_string(++asked); };
  CHECK(cache.remember(key, ask) == "answer 1");
  CHECK(cache.remember(key, ask) == "answer 1");
  CHECK(cache.remember(key_of("another question"), ask) == "answer 2");
  CHECK(KernelCache(in_directory(directory)).remember(key, ask) == "answer 1");
}
