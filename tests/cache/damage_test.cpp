// Entries that are damaged on disk: made again, right, and repaired.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include "cache/samples.h"
#include "captured_stderr.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// A good entry on disk, and what happens when it is spoiled.
struct Spoiled : Place {
  Spoiled() { cache.publish(key, binary); }

  /// Asks for the entry after `bad` was put in its place: it is made again, once, and then found.
  void require_repair(std::string_view bad) {
    write_file(path, bad);
    require_made_once();
    REQUIRE(read_file(path) == good);
  }
  void require_made_once() {
    int made = 0;
    const OneRecipe recipe = recipe_of(binary, made);
    const auto first = obtain_one(cache, key, recipe, 10s);
    REQUIRE(first.was_made);
    REQUIRE(first.binary == binary);
    const auto second = obtain_one(cache, key, recipe, 10s);
    REQUIRE_FALSE(second.was_made);
    REQUIRE(second.binary == binary);
    REQUIRE(made == 1);
    REQUIRE(cache.events().corrupt == ++damages);
  }

  KernelCache cache{in_directory(directory)};
  fs::path path = path_of(key);
  std::string good = encode_entry(key, binary);
  std::uint64_t damages = 0;
};

}  // namespace

TEST_CASE_METHOD(Spoiled, "an entry with any byte flipped is made again, right and repaired") {
  REQUIRE(read_file(path) == good);
  const CapturedStderr printed;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      INFO("byte " << i);
      require_repair(bad);
    }
  }
  CHECK(printed.count("is damaged: ") == static_cast<int>(damages));
  CHECK(entries_under(directory) == 1);
  CHECK(temporaries_under(directory) == 0);
}

TEST_CASE_METHOD(Spoiled, "an entry that is cut anywhere is made again, right and repaired") {
  const CapturedStderr printed;
  for (std::size_t size = 0; size < good.size(); ++size) {
    INFO("size " << size);
    require_repair(good.substr(0, size));
  }
  require_repair(good + "x");
  require_repair(good + good);
  CHECK(printed.count("is damaged: it is too short") == static_cast<int>(least_entry_bytes));
  CHECK(printed.count("is damaged: its length is wrong") ==
        static_cast<int>(good.size() - least_entry_bytes) + 2);
}

TEST_CASE_METHOD(Spoiled, "foreign content is named, removed and replaced") {
  const CapturedStderr printed;
  SECTION("another program's file") {
    require_repair(std::string(500, 'x'));
    CHECK(printed.count("The cached kernel '" + path.string() +
                        "' is damaged: it is not a kernel entry. It is removed, and the kernel is "
                        "compiled again.") == 1);
  }
  SECTION("a good entry of another key") {
    require_repair(encode_entry(key_of("void other() {}"), {"other", ""}));
    CHECK(printed.count("is damaged: its key is another") == 1);
  }
  SECTION("a file that claims more than memory") {
    fs::resize_file(path, std::uintmax_t{1} << 40);
    require_made_once();
    CHECK(printed.count("is damaged: it is too long") == 1);
  }
  SECTION("a link to a good entry") {
    const fs::path elsewhere = scratch.path() / "elsewhere";
    fs::rename(path, elsewhere);
    fs::create_symlink(elsewhere, path);
    require_made_once();
    CHECK(printed.count("is damaged: it is a symbolic link. It is removed") == 1);
    CHECK(fs::is_regular_file(fs::symlink_status(path)));
    CHECK(read_file(elsewhere) == good);
  }
  SECTION("a link to nothing") {
    fs::remove(path);
    fs::create_symlink("/nowhere", path);
    require_made_once();
    CHECK(printed.count("is damaged: it is a symbolic link. It is removed") == 1);
  }
  SECTION("a file that others may write") {
    REQUIRE(chmod(path.c_str(), 0620) == 0);
    require_made_once();
    CHECK(printed.count("is damaged: other users may write to it. It is removed") == 1);
    CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  }
}

TEST_CASE_METHOD(Spoiled, "a damaged entry stays where it is only read, and is told of once") {
  write_file(path, "damaged");
  CacheSettings settings = in_directory(directory);
  settings.mode = CacheMode::read_only;
  KernelCache reader(settings);
  int made = 0;
  const CapturedStderr printed;
  CHECK(obtain_one(reader, key, recipe_of(binary, made), 10s).binary == binary);
  CHECK(made == 1);
  CHECK(reader.events().corrupt == 1);
  CHECK(printed.count("It is ignored, and the kernel is compiled again.") == 1);
  CHECK(read_file(path) == "damaged");
}

TEST_CASE_METHOD(Spoiled, "an entry that is of no use is made again, and replaced by what is") {
  OneRecipe recipe;
  int made = 0;
  recipe.make = [&] {
    ++made;
    return CachedBinary{"useful", ""};
  };
  recipe.problem = [](const CachedBinary& found) {
    return found.payload == "useful" ? "" : "it cannot be loaded";
  };
  const CapturedStderr printed;
  CHECK(obtain_one(cache, key, recipe, 10s).binary.payload == "useful");
  CHECK(printed.count("The cached kernel '" + path.string() +
                      "' is of no use here: it cannot be loaded. It is compiled again.") == 1);
  CHECK_FALSE(obtain_one(cache, key, recipe, 10s).was_made);
  CHECK(made == 1);
  CHECK(cache.events().corrupt == 1);
}

TEST_CASE_METHOD(Spoiled, "what is of no use here, and is made again byte by byte, stays") {
  const std::string before = read_file(path);
  int made = 0;
  int looked = 0;
  OneRecipe recipe = recipe_of(binary, made);
  recipe.problem = [&](const CachedBinary&) {
    ++looked;
    return "there is no memory to load it";
  };
  const CapturedStderr printed;
  CHECK(obtain_one(cache, key, recipe, 10s).was_made);
  CHECK(made == 1);
  CHECK(looked == 1);
  CHECK(read_file(path) == before);
  CHECK(cache.events().corrupt == 0);
  CHECK(cache.events().publish_lost == 0);
  CHECK(printed.count("\n") == 1);
  // Where it cannot be made either, that is told, and the entry stays.
  recipe.make = []() -> CachedBinary { throw std::runtime_error("no compiler"); };
  CHECK_THROWS_WITH(obtain_one(cache, key, recipe, 10s), "no compiler");
  CHECK(read_file(path) == before);
}

TEST_CASE_METHOD(Spoiled, "an I/O error says nothing about content: one warning, nothing removed") {
  fs::remove(path);
  SECTION("a folder in the entry's place") {
    fs::create_directories(path);
  }
  SECTION("a pipe in the entry's place, which is not waited for") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  int made = 0;
  const CapturedStderr printed;
  for (int i = 0; i < 3; ++i)
    CHECK(obtain_one(cache, key, recipe_of(binary, made), 10s).binary == binary);
  CHECK(made == 3);
  CHECK(fs::exists(path));
  CHECK(cache.events().corrupt == 0);
  CHECK(printed.count("\n") == 1);
  CHECK(printed.count("The kernel cache in '" + directory.string() +
                      "' does not work: cannot read '" + path.string() + "'") == 1);
}
