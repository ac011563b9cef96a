// The kernel cache: keys, round trips, damage of every kind, and file systems that refuse.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "coconet/error.h"
#include "jit/cache/atomic_file.h"
#include "jit/cache/cache.h"
#include "jit/captured_stderr.h"
#include "jit/compile/process.h"

using namespace coconet::jit;
namespace fs = std::filesystem;

namespace {

CacheKey key_of(std::string_view source) {
  CacheKey key;
  key.add("format", "1");
  key.add("source", source);
  return key;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::size_t files_under(const fs::path& directory) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) ++count;
  }
  return count;
}

/// A cache in a fresh directory, and one entry of it.
struct Fixture {
  TemporaryDirectory scratch;
  fs::path directory = scratch.path() / "deep" / "cache";
  DiskCache cache{directory, CacheMode::read_write};
  CacheKey key = key_of("void kernel() {}");
  std::string payload = std::string(
      "\x7f"
      "ELF\0 a kernel",
      14);
  fs::path path = cache.path_of(key);
};

}  // namespace

TEST_CASE("SHA-256 is SHA-256") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("the key text and its digest are the same in every version") {
  CacheKey key;
  key.add("format", "1");
  key.add("source", "a\nb");
  key.add("empty", "");
  CHECK(key.text() == "format 1\n1\nsource 3\na\nb\nempty 0\n\n");
  CHECK(key.digest() == "6905a3ca1db8f985122a7a02a35af9b06aa6a4b298f0ca00ed7cb96b9fe1c5aa");
}

TEST_CASE("no value can pass for another field") {
  const auto digest =
      [](std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
        CacheKey key;
        for (const auto& [tag, value] : fields) key.add(tag, value);
        return key.digest();
      };
  CHECK(digest({{"a", "xy"}, {"b", ""}}) != digest({{"a", "x"}, {"b", "y"}}));
  CHECK(digest({{"a", "x"}, {"b", "y"}}) != digest({{"a", "y"}, {"b", "x"}}));
  CHECK(digest({{"a", "x"}, {"b", "y"}}) != digest({{"b", "y"}, {"a", "x"}}));
  CHECK(digest({{"a", "x\nb 1\ny"}}) != digest({{"a", "x"}, {"b", "y"}}));
  CHECK(digest({{"a", std::string_view("\0", 1)}}) != digest({{"a", ""}}));
}

TEST_CASE("a tag is a new word, or it is our bug") {
  CacheKey key;
  key.add("source", "isa 3\navx\n");
  key.add("isa", "avx");
  CHECK_THROWS_WITH(key.add("source", ""), "The cache key has the tag 'source' twice.");
  CHECK_THROWS_WITH(key.add("isa", ""), "The cache key has the tag 'isa' twice.");
  CHECK_THROWS_WITH(key.add("two words", ""),
                    "The cache key tag 'two words' is not made of a-z, 0-9 and _.");
  CHECK_THROWS_AS(key.add("", ""), coconet::InternalError);
}

TEST_CASE_METHOD(Fixture, "what is put is got, by this and by another object") {
  const CapturedStderr printed;
  CHECK_FALSE(cache.get(key).has_value());
  cache.put(key, payload);
  CHECK(cache.get(key) == payload);
  CHECK(DiskCache(directory, CacheMode::read_only).get(key) == payload);
  CHECK_FALSE(cache.get(key_of("another")).has_value());
  cache.put(key_of("empty payload"), "");
  CHECK(cache.get(key_of("empty payload")) == "");
  CHECK(files_under(directory) == 2);
  CHECK(printed.text().empty());
}

TEST_CASE_METHOD(Fixture, "entries lie in folders of two digits that only the owner can open") {
  cache.put(key, payload);
  const std::string digest = key.digest();
  CHECK(path == directory / digest.substr(0, 2) / (digest.substr(2) + ".v1"));
  for (const fs::path& folder : {directory.parent_path(), directory, path.parent_path()}) {
    CHECK(fs::status(folder).permissions() == fs::perms::owner_all);
  }
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE_METHOD(Fixture, "the entry is what kernel_cache/README.md says") {
  cache.put(key, payload);
  const std::string entry = read(path);
  const std::string& text = key.text();
  REQUIRE(entry.size() == 92 + text.size() + payload.size());
  CHECK(entry.substr(0, 12) == std::string("coconetk\1\0\0\0", 12));
  CHECK(entry.substr(44, 8) ==
        std::string(1, static_cast<char>(text.size())) + std::string(7, '\0'));
  CHECK(entry.substr(52, 8) ==
        std::string(1, static_cast<char>(payload.size())) + std::string(7, '\0'));
  CHECK(entry.substr(60, text.size() + payload.size()) == text + payload);
}

TEST_CASE_METHOD(Fixture,
                 "every flipped byte is found, warned of once and repaired by the next put") {
  cache.put(key, payload);
  const std::string good = read(path);
  const CapturedStderr printed;
  int damaged = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      write(path, bad);
      INFO("byte " << i);
      REQUIRE_FALSE(cache.get(key).has_value());
      REQUIRE_FALSE(fs::exists(path));
      REQUIRE(printed.count("is damaged") == ++damaged);
      cache.put(key, payload);
      REQUIRE(read(path) == good);
      REQUIRE(cache.get(key) == payload);
    }
  }
}

TEST_CASE_METHOD(Fixture, "every truncation and every longer file is found") {
  cache.put(key, payload);
  const std::string good = read(path);
  const CapturedStderr printed;
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(path, good.substr(0, size));
    INFO("size " << size);
    REQUIRE_FALSE(cache.get(key).has_value());
    REQUIRE_FALSE(fs::exists(path));
  }
  write(path, good + "x");
  CHECK_FALSE(cache.get(key).has_value());
  write(path, good + good);
  CHECK_FALSE(cache.get(key).has_value());
  CHECK(printed.count("is damaged: it is too short") == 92);
  CHECK(printed.count("is damaged: its length is wrong") == static_cast<int>(good.size()) - 92 + 2);
}

TEST_CASE_METHOD(Fixture, "lengths that overflow are not believed") {
  cache.put(key, payload);
  std::string bad = read(path);
  const CapturedStderr printed;
  // Together they wrap around to the true sum.
  const std::uint64_t key_bytes = ~std::uint64_t{0};
  const std::uint64_t payload_bytes = key.text().size() + payload.size() + 1;
  std::memcpy(bad.data() + 44, &key_bytes, 8);
  std::memcpy(bad.data() + 52, &payload_bytes, 8);
  write(path, bad);
  CHECK_FALSE(cache.get(key).has_value());
  CHECK(printed.count("its length is wrong") == 1);
}

TEST_CASE_METHOD(Fixture, "foreign content is named, deleted and replaced") {
  cache.put(key, payload);
  SECTION("another program's file") {
    write(path, std::string(500, 'x'));
    const CapturedStderr printed;
    CHECK_FALSE(cache.get(key).has_value());
    CHECK(printed.text().find(
              "The cached kernel '" + path.string() +
              "' is damaged: it is not a kernel entry. It is removed, and the kernel is "
              "compiled again.") != std::string::npos);
  }
  SECTION("a good entry of another key") {
    const CacheKey other = key_of("void other() {}");
    cache.put(other, "other payload");
    fs::rename(cache.path_of(other), path);
    const CapturedStderr printed;
    CHECK_FALSE(cache.get(key).has_value());
    CHECK(printed.count("is damaged: its key is another") == 1);
  }
  SECTION("a file that claims more than memory") {
    fs::resize_file(path, std::uintmax_t{1} << 40);
    const CapturedStderr printed;
    CHECK_FALSE(cache.get(key).has_value());
    CHECK(printed.count("is damaged: it is too long") == 1);
  }
  CHECK_FALSE(fs::exists(path));
  cache.put(key, payload);
  CHECK(cache.get(key) == payload);
}

TEST_CASE_METHOD(Fixture, "a read-only cache reads, writes nothing and deletes nothing") {
  cache.put(key, payload);
  DiskCache reader(directory, CacheMode::read_only);
  CHECK(reader.get(key) == payload);
  reader.put(key_of("new"), payload);
  CHECK_FALSE(fs::exists(cache.path_of(key_of("new"))));
  write(path, "damaged");
  const CapturedStderr printed;
  CHECK_FALSE(reader.get(key).has_value());
  CHECK(printed.count("It is ignored") == 1);
  CHECK(fs::exists(path));
}

TEST_CASE_METHOD(Fixture, "a cache that is off, or has no directory, does nothing") {
  cache.put(key, payload);
  DiskCache off(directory, CacheMode::off);
  CHECK_FALSE(off.get(key).has_value());
  DiskCache nowhere({}, CacheMode::read_write);
  nowhere.put(key, payload);
  CHECK_FALSE(nowhere.get(key).has_value());
}

TEST_CASE_METHOD(Fixture, "a directory that cannot be made is survived with one warning") {
  write(scratch.path() / "file", "");
  DiskCache blocked(scratch.path() / "file" / "cache", CacheMode::read_write);
  const CapturedStderr printed;
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(blocked.get(key).has_value());
    blocked.put(key, payload);
  }
  CHECK(printed.count("does not work") == 1);
  CHECK(printed.count("COCONET_CACHE_DIR names another directory") == 1);
}

TEST_CASE_METHOD(Fixture, "a directory that refuses to be written is survived with one warning") {
  fs::create_directories(directory);
  fs::permissions(directory, fs::perms::owner_read | fs::perms::owner_exec);
  const bool refused = access(directory.c_str(), W_OK) != 0;  // root may write everywhere
  const CapturedStderr printed;
  cache.put(key, payload);
  cache.put(key, payload);
  CHECK(printed.count("does not work") == (refused ? 1 : 0));
  CHECK(fs::exists(path) != refused);
}

TEST_CASE_METHOD(Fixture, "an I/O error says nothing about content: one warning, nothing deleted") {
  fs::create_directories(path);
  const CapturedStderr printed;
  CHECK_FALSE(cache.get(key).has_value());
  CHECK_FALSE(cache.get(key).has_value());
  cache.put(key, payload);
  CHECK(fs::is_directory(path));
  CHECK(printed.count("does not work") == 1);
  CHECK(files_under(directory) == 0);
}

TEST_CASE_METHOD(Fixture, "a pipe in an entry's place is not waited for") {
  fs::create_directories(path.parent_path());
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const CapturedStderr printed;
  CHECK_FALSE(cache.get(key).has_value());
  CHECK(printed.count("does not work") == 1);
}

TEST_CASE_METHOD(Fixture, "a write that fails half-way leaves nothing behind") {
  cache.put(key, payload);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const CapturedStderr printed;  // a file as well: keep it below the limit
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  cache.put(key, std::string(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_handler);
  CHECK(printed.count("cannot write") == 1);
  CHECK(cache.get(key) == payload);
  CHECK(files_under(directory) == 1);
}

TEST_CASE_METHOD(Fixture, "a file that is not committed leaves nothing behind") {
  const fs::path target = scratch.path() / "target";
  {
    AtomicFile file(target);
    file.write("half of it");
    CHECK_FALSE(fs::exists(target));
    CHECK(files_under(scratch.path()) == 1);
  }
  CHECK(files_under(scratch.path()) == 0);
  AtomicFile file(target);
  file.write("all ");
  file.write("of it");
  file.commit();
  CHECK(read(target) == "all of it");
  CHECK(files_under(scratch.path()) == 1);
}

TEST_CASE_METHOD(Fixture, "threads that put and get one key see all of the entry or none") {
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> wrong = 0;
  const std::string large(30'000, 'k');
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        cache.put(key, large);
        const auto got = cache.get(key);
        if (!got.has_value() || *got != large) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(files_under(directory) == 1);
}
