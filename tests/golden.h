// Golden texts: files that hold what the library is expected to print. COCONET_UPDATE_GOLDEN=1
// writes them anew.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "files.h"

/// The content of `file`, a path in the source tree; empty when there is none.
inline std::string source_text(const std::string& file) {
  return coconet::test::read_file(std::filesystem::path(COCONET_SOURCE_DIR) / file);
}

/// `text` with `table` in the place of what is between the lines `begin` and `end`.
inline std::string with_table(const std::string& text, const std::string& begin,
                              const std::string& end, const std::string& table) {
  const std::size_t from = text.find(begin), to = text.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  REQUIRE(from < to);
  return text.substr(0, from + begin.size()) + table + text.substr(to);
}

/// Checks that `file`, a path in the source tree, holds `text`.
inline void check_golden(const std::string& file, const std::string& text) {
  if (std::getenv("COCONET_UPDATE_GOLDEN") != nullptr) {
    const std::filesystem::path path = std::filesystem::path(COCONET_SOURCE_DIR) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  INFO("expected in " << file << "; COCONET_UPDATE_GOLDEN=1 writes it anew");
  CHECK(text == source_text(file));
}
