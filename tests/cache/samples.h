// Keys, entries and directories for tests of the cache.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "child_process.h"
#include "files.h"
#include "jit/cache/file.h"
#include "jit/cache/kernel_cache.h"

namespace coconet::jit {

using test::read_file;
using test::write_file;

inline CacheKey key_of(std::string_view source) {
  CacheKey key;
  key.add("format", "1");
  key.add("source", source);
  return key;
}

/// `size` bytes that are the same for the same `name`, zeros among them.
inline std::string bytes_for(std::string_view name, std::size_t size) {
  const Digest digest = sha256(name);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(digest[i % digest.size()] ^ (i / digest.size()));
  return bytes;
}

/// The regular files in `directory` and below whose names have `part`.
inline std::size_t files_under(const std::filesystem::path& directory, std::string_view part = "") {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.path().filename().string().find(part) != std::string::npos)
      ++count;
  }
  return count;
}

inline std::size_t entries_under(const std::filesystem::path& directory) {
  return files_under(directory, ".v");
}

inline std::size_t temporaries_under(const std::filesystem::path& directory) {
  return files_under(directory, temporary_prefix);
}

inline OpenFile open_folder(const std::filesystem::path& path) {
  return open_at(AT_FDCWD, path.string(), O_RDONLY | O_DIRECTORY);
}

/// Settings for `directory`, with `jobs` compilers at once.
inline CacheSettings in_directory(const std::filesystem::path& directory, int jobs = 4) {
  CacheSettings settings;
  settings.directory = directory;
  settings.jobs = jobs;
  return settings;
}

/// How to make one binary, and why a stored one is of no use.
struct OneRecipe {
  std::function<CachedBinary()> make;
  std::function<std::string(const CachedBinary&)> problem;
};
struct Obtained {
  CachedBinary binary;
  bool was_made = false;
};
/// `cache.obtain` for one key.
inline Obtained obtain_one(KernelCache& cache, const CacheKey& key, const OneRecipe& recipe,
                           std::chrono::milliseconds patience) {
  Obtained obtained;
  KernelCache::Recipe recipes;
  recipes.make = [&](std::span<const std::size_t>) {
    obtained.was_made = true;
    return recipe.make();
  };
  if (recipe.problem) {
    recipes.problem = [&](std::size_t, const CachedBinary& binary) {
      return recipe.problem(binary);
    };
  }
  const CacheKey* const keys[] = {&key};
  obtained.binary = cache.obtain(keys, recipes, patience).front();
  return obtained;
}

/// How to make `binary`, counting in `made`.
inline OneRecipe recipe_of(const CachedBinary& binary, int& made) {
  return {[&binary, &made] {
            ++made;
            return binary;
          },
          {}};
}

/// A fresh place for a cache, which nobody has made yet, a key and what is stored under it.
struct Place {
  test::ScratchDirectory scratch;
  std::filesystem::path directory = scratch.path() / "deep" / "cache";
  CacheKey key = key_of("void kernel() {}");
  CachedBinary binary{std::string("\177ELF\0 a kernel", 14), "a warning"};
  [[nodiscard]] std::filesystem::path path_of(const CacheKey& of) const {
    return directory / folder_of(of.digest()) / name_of(of.digest());
  }
};

inline bool operator==(const CachedBinary& one, const CachedBinary& other) {
  return one.payload == other.payload && one.log == other.log;
}

}  // namespace coconet::jit
