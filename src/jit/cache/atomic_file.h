// A file that appears under its name whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "jit/cache/file.h"

namespace coconet::jit {

/// What the names of files that are being written begin with.
inline constexpr std::string_view temporary_prefix = ".tmp-";

/// Collects bytes in a temporary file beside its target and renames it there at `commit`. Without a commit nothing
/// happens to the target and the temporary file is removed: the destructor never commits. Every member throws
/// std::system_error when the file system refuses.
class AtomicFile {
 public:
  /// For the file `name` in the open folder `folder`, which must outlive it. The temporary file's name holds host,
  /// process and a random number, so that writers on a shared file system never meet.
  AtomicFile(int folder, std::string name);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  /// Syncs the content, then renames: a reader of the target finds nothing or all of it. False when the target is there
  /// already, which stays as it is.
  [[nodiscard]] bool commit();

 private:
  int folder_;
  std::string name_;
  std::string temporary_;  ///< empty once it is gone
  OpenFile file_;
};

}  // namespace coconet::jit
