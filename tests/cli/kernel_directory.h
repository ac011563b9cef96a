// A cache directory of a test's own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "jit/cache/disk_cache.h"

namespace coconet::test {

/// A name for a directory, which is removed at the end with all that is in it.
class KernelDirectory {
 public:
  explicit KernelDirectory(const std::string& name = "kernels")
      : path_(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "." + name)) {}
  ~KernelDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  KernelDirectory(const KernelDirectory&) = delete;
  KernelDirectory& operator=(const KernelDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string str() const { return path_.string(); }
  /// What makes it the cache of a command.
  [[nodiscard]] std::string variable() const {
    return "COCONET_CACHE_PATH= COCONET_CACHE=rw COCONET_CACHE_DIR='" + str() + "'";
  }
  /// What has a command look into it after its own.
  [[nodiscard]] std::string read_only_variable() const {
    return "COCONET_CACHE_PATH='" + str() + "'";
  }

  /// Stores `payload` under `key`; the file.
  std::filesystem::path store(const jit::CacheKey& key, const std::string& payload) const {
    jit::DiskCache cache(path_, jit::CacheMode::read_write);
    (void)cache.publish(key, {payload, {}});
    return cache.path_of(key);
  }

 private:
  std::filesystem::path path_;
};

/// A key as that of a kernel.
inline jit::CacheKey kernel_key(const std::string& entry, const std::string& arch = "sm_90") {
  jit::CacheKey key;
  key.add("kind", "kernel");
  key.add("target", "cuda");
  key.add("entry", entry);
  key.add("arch", arch);
  key.add("source", "void " + entry + "();\n");
  return key;
}

}  // namespace coconet::test
