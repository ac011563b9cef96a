// A file that appears under its name whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace coconet::jit {

/// Collects bytes in a temporary file beside `target` and renames it there at `commit`. Without a commit nothing
/// happens to `target` and the temporary file is removed: the destructor never commits. Every member throws
/// std::system_error when the file system refuses.
class AtomicFile {
 public:
  /// The directory of `target` must exist. The temporary file's name holds host, process and a random number, so
  /// that writers on a shared file system never meet.
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  /// Syncs the content, then renames: a reader of `target` finds the old file or all of the new one.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty once committed
  int descriptor_ = -1;
};

/// Creates `directory` and what is missing above it, open to the owner only. Throws std::system_error.
void create_private_directories(const std::filesystem::path& directory);

}  // namespace coconet::jit
