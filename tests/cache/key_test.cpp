// Keys: their text, their digest, and how two of them differ.
#include "jit/cache/key.h"

#include <catch2/catch.hpp>

#include <locale>
#include <random>
#include <utility>
#include <vector>

#include "coconet/error.h"

using namespace coconet::jit;

namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

CacheKey key_with(const Fields& fields) {
  CacheKey key;
  for (const auto& [tag, value] : fields) key.add(tag, value);
  return key;
}

std::string digest_with(const Fields& fields) {
  return hex(key_with(fields).digest());
}

const Fields all{{"format", "2"},
                 {"source", "void kernel() {}\n"},
                 {"prelude", "#pragma once\n"},
                 {"options", "-O3\n-fPIC\n"},
                 {"arch", "sm_90a"},
                 {"compiler", "NVRTC 13.0 build 36037853"},
                 {"entries", "kernel"},
                 {"abi", ""}};

std::string random_bytes(std::mt19937& random, std::size_t most) {
  std::string bytes(random() % (most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

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
  CHECK(hex(key.digest()) == "6905a3ca1db8f985122a7a02a35af9b06aa6a4b298f0ca00ed7cb96b9fe1c5aa");
  key.add("more", "");
  CHECK(hex(key.digest()) == sha256_hex(key.text()));
}

TEST_CASE("any change of any field changes the key, and the difference names the field") {
  const CacheKey key = key_with(all);
  for (std::size_t field = 0; field < all.size(); ++field) {
    const auto& [tag, value] = all[field];
    std::vector<std::string> values{value + "x", value + '\0', "x" + value, value + value + "y"};
    for (std::size_t i = 0; i < value.size(); ++i) {
      std::string changed = value;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      values.push_back(changed);
      values.push_back(value.substr(0, i) + value.substr(i + 1));
    }
    for (const std::string& changed : values) {
      Fields mutated = all;
      mutated[field].second = changed;
      const CacheKey other = key_with(mutated);
      INFO(tag << " becomes " << changed);
      REQUIRE(other.digest() != key.digest());
      const auto differs = difference(key.text(), other.text());
      REQUIRE(differs);
      REQUIRE(differs->tag == tag);
      REQUIRE(differs->wanted == value);
      REQUIRE(differs->found == changed);
      REQUIRE(differs->equal == all.size() - 1);
    }
    Fields renamed = all;
    renamed[field].first += "_";
    REQUIRE(digest_with(renamed) != hex(key.digest()));
    const auto differs = difference(key.text(), key_with(renamed).text());
    REQUIRE(differs);
    REQUIRE(differs->tag == tag);
    REQUIRE_FALSE(differs->found);
    Fields without = all;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(field));
    REQUIRE(digest_with(without) != hex(key.digest()));
  }
  CHECK_FALSE(difference(key.text(), key_with(all).text()));
}

TEST_CASE("bytes that move between fields change the key") {
  const std::string key = digest_with(all);
  for (std::size_t from = 0; from < all.size(); ++from) {
    for (std::size_t to = 0; to < all.size(); ++to) {
      if (from == to) continue;
      for (std::size_t count = 1; count <= all[from].second.size(); ++count) {
        Fields moved = all;
        const std::string& value = all[from].second;
        moved[from].second = value.substr(0, value.size() - count);
        moved[to].second = value.substr(value.size() - count) + moved[to].second;
        INFO(count << " bytes from " << all[from].first << " to " << all[to].first);
        REQUIRE(digest_with(moved) != key);
      }
      Fields swapped = all;
      std::swap(swapped[from].second, swapped[to].second);
      REQUIRE(digest_with(swapped) != key);
      swapped = all;
      std::swap(swapped[from], swapped[to]);
      REQUIRE(digest_with(swapped) != key);
      REQUIRE(difference(key_with(all).text(), key_with(swapped).text())->tag == "order");
    }
  }
}

TEST_CASE("no value can pass for another field") {
  CHECK(digest_with({{"a", "x\nb 1\ny"}}) != digest_with({{"a", "x"}, {"b", "y"}}));
  CHECK(digest_with({{"a", std::string(1, '\0')}}) != digest_with({{"a", ""}}));
  const CacheKey key = key_with({{"source", "isa 3\navx\n"}, {"isa", "sse"}});
  CHECK(field_of(key.text(), "isa") == "sse");
  CHECK(field_of(key.text(), "source") == "isa 3\navx\n");
  CHECK_FALSE(field_of(key.text(), "avx"));
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

TEST_CASE("the locale is no part of a key") {
  struct Grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const Fields large{{"source", std::string(1'234'567, 'x')}};
  const std::string before = digest_with(large);
  const std::locale classic = std::locale::global(std::locale(std::locale(), new Grouping));
  const std::string after = digest_with(large);
  std::locale::global(classic);
  CHECK(after == before);
}

TEST_CASE("fields come back as they went in, whatever they hold") {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    Fields fields;
    for (std::size_t i = 0; i < random() % 8; ++i)
      fields.emplace_back("tag_" + std::to_string(i), random_bytes(random, 40));
    const CacheKey key = key_with(fields);
    const std::vector<KeyField> read = fields_of(key.text());
    REQUIRE(read.size() == fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      REQUIRE(read[i].tag == fields[i].first);
      REQUIRE(read[i].value == fields[i].second);
    }
  }
}

TEST_CASE("texts that are no keys have no fields") {
  for (const std::string_view text : {" ",
                                      "a",
                                      "a ",
                                      "a 1",
                                      "a 1\n",
                                      "a 1\nx",
                                      "a 0\n",
                                      "a 2\nx\n",
                                      "a -1\nx\n",
                                      "a +1\nx\n",
                                      "a 1\nx\nb",
                                      "A 1\nx\n",
                                      " 1\nx\n",
                                      "a x\nx\n",
                                      "a 18446744073709551615\nx\n",
                                      "a 18446744073709551614\nx\n",
                                      "a 99999999999999999999999\nx\n",
                                      "a 1\nxy\n",
                                      "\n",
                                      "a 1 \nx\n"}) {
    INFO(text);
    CHECK(fields_of(text).empty());
    // What is read must not depend on what lies behind the text.
    const std::string alone(text);
    CHECK_FALSE(field_of(alone, "zz"));
  }
  CHECK(fields_of("").empty());
  CHECK(difference("a 1\nx\n", "no key")->tag == "a");
  CHECK(difference("no key", "a 1\nx\n")->tag == "order");
}

// Under a sanitizer this finds reads outside of the text.
TEST_CASE("hostile texts are read without harm") {
  std::mt19937 random(7);
  const std::string good = key_with(all).text();
  const std::string_view parts[] = {
      " ", "\n", "0", "9", "18446744073709551615", "-1", "a", "source", "format 1\n1\n", "\xff"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 4) {
        case 0:
          text.insert(at, parts[random() % std::size(parts)]);
          break;
        case 1:
          text.erase(at, random() % 9);
          break;
        case 2:
          text.resize(at);
          break;
        default:
          text.insert(at, random_bytes(random, 4));
      }
    }
    const std::string exact(text.data(), text.size());
    std::size_t bytes = 0;
    for (const KeyField& field : fields_of(exact)) bytes += field.tag.size() + field.value.size();
    REQUIRE(bytes <= exact.size());
    (void)field_of(exact, "entries");
    const auto differs = difference(good, exact);
    REQUIRE(differs.has_value() == (exact != good));
    REQUIRE((!differs || differs->equal <= all.size()));
    (void)difference(exact, good);
  }
}

TEST_CASE("a key has one text: no tag twice, and lengths without zeros in front") {
  CHECK(fields_of("format 1\n1\nsource 1\n2\n").size() == 2);
  CHECK(fields_of("format 1\n1\nformat 1\n2\n").empty());
  CHECK(fields_of("format 01\n1\n").empty());
  CHECK(fields_of("format 0\n\n").size() == 1);
}
