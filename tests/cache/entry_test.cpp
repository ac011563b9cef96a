// Entries as bytes: the format, and everything that can be wrong with it.
#include "jit/cache/entry.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "cache/samples.h"

using namespace coconet::jit;

namespace {

const CacheKey key = key_of("void kernel() {}");
const CachedBinary binary{"the payload", "the log"};

std::string wrong_with(std::string_view bytes) {
  EntryView view;
  // A copy of its own size, so that a sanitizer sees what is read behind it.
  const std::string exact(bytes);
  const char* const wrong = decode_entry(exact, view);
  return wrong == nullptr ? "nothing" : wrong;
}

std::string with_number(std::string bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

}  // namespace

TEST_CASE("an entry is what kernel_cache/README.md says") {
  const std::string entry = encode_entry(key, binary);
  const std::string& text = key.text();
  REQUIRE(entry.size() == 84 + text.size() + 7 + 11);
  CHECK(entry.substr(0, 12) == std::string("coconetk\2\0\0\0", 12));
  CHECK(entry.substr(12, 32) == bytes_of(sha256(text)));
  const auto length = [](std::size_t size) {
    return std::string(1, static_cast<char>(size)) + std::string(7, '\0');
  };
  CHECK(entry.substr(44, 24) == length(text.size()) + length(7) + length(11));
  CHECK(entry.substr(68, text.size() + 18) == text + "the log" + "the payload");
  // XXH3-128 of all before it, most significant byte first.
  CHECK(hex(std::string_view(entry).substr(entry.size() - 16)) ==
        "a577a4751a6e5cc50ea44278e9e22781");
}

TEST_CASE("what is encoded is decoded") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const CacheKey own = key_of(bytes_for("key", random() % 3000));
    const CachedBinary put{bytes_for("payload", random() % 60'000),
                           bytes_for("log", random() % 99)};
    const std::string bytes = encode_entry(own, round == 0 ? CachedBinary{} : put);
    EntryView view;
    REQUIRE(decode_entry(bytes, view) == nullptr);
    REQUIRE(view.digest == bytes_of(own.digest()));
    REQUIRE(view.key_text == own.text());
    REQUIRE(view.log == (round == 0 ? "" : put.log));
    REQUIRE(view.payload == (round == 0 ? "" : put.payload));
  }
}

TEST_CASE("every flipped bit, missing byte and byte too many is found") {
  const std::string good = encode_entry(key, binary);
  CHECK(wrong_with(good) == "nothing");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      INFO("bit " << bit << " of byte " << i);
      REQUIRE(wrong_with(bad) != "nothing");
    }
    INFO("size " << i);
    REQUIRE(wrong_with(std::string_view(good).substr(0, i)) ==
            (i < least_entry_bytes ? "it is too short" : "its length is wrong"));
  }
  CHECK(wrong_with(good + "x") == "its length is wrong");
  CHECK(wrong_with(good + good) == "its length is wrong");
}

TEST_CASE("what is wrong with an entry is said") {
  std::string bad = encode_entry(key, binary);
  CHECK(wrong_with(std::string(500, 'x')) == "it is not a kernel entry");
  bad[8] = 3;
  CHECK(wrong_with(bad) == "its format version is unknown");
  bad[8] = 2;
  bad[70] ^= 1;
  CHECK(wrong_with(bad) == "its checksum is wrong");
}

TEST_CASE("lengths that overflow are not believed") {
  const std::string good = encode_entry(key, binary);
  const std::size_t at[] = {44, 52, 60};
  const std::uint64_t extremes[] = {~std::uint64_t{0}, std::uint64_t{1} << 63, good.size(),
                                    good.size() - least_entry_bytes + 1};
  for (const std::size_t one : at) {
    for (const std::uint64_t value : extremes)
      CHECK(wrong_with(with_number(good, one, value)) == "its length is wrong");
    // Two that wrap around to the true sum.
    for (const std::size_t other : at) {
      if (one == other) continue;
      std::uint64_t sum = 1;
      for (const std::size_t part : {one, other}) {
        std::uint64_t length = 0;
        std::memcpy(&length, good.data() + part, sizeof(length));
        sum += length;
      }
      CHECK(wrong_with(with_number(with_number(good, one, ~std::uint64_t{0}), other, sum)) ==
            "its length is wrong");
    }
  }
}
