// The directory that checkpoints are in: one that is being written, those that are whole, and those
// that are to go.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "jit/config/open_file.h"

namespace coconet::jit {

/// What the names of directories begin with that are being written or removed.
inline constexpr std::string_view checkpoint_temporary_prefix = ".coconet-checkpoint-";

/// `path` as an absolute one with a name. Throws CheckpointError where it has none, as "/".
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& path);

/// A checkpoint that is whole as far as its manifest says.
struct FoundCheckpoint {
  std::filesystem::path path;
  std::uint64_t sequence = 0;
  std::string program;
};
/// One whose manifest is damaged, or whose directory another user keeps closed.
struct LeftOutCheckpoint {
  std::filesystem::path path;
  std::string why;  ///< a clause that names the file
};
struct FoundCheckpoints {
  std::vector<FoundCheckpoint> whole;  ///< the newest first
  std::vector<LeftOutCheckpoint> left_out;
};
/// Those in `directory`, which may be missing. Symbolic links are not followed. Throws
/// CheckpointError where it cannot be said what is there.
[[nodiscard]] FoundCheckpoints find_checkpoints(const std::filesystem::path& directory);
/// Whether `directory` is one itself, whole or damaged. Throws CheckpointError where that cannot be
/// said.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& directory);

/// A checkpoint that is being written: a directory beside its place that the destructor removes,
/// and that no other save does while it is held. All members throw CheckpointError.
class PendingCheckpoint {
 public:
  /// For `target`, from `checkpoint_path`, or where that leads as a symbolic link; makes the
  /// directories above it. Removes what saves that were killed have left there.
  explicit PendingCheckpoint(const std::filesystem::path& target);
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  /// Where the files go.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Where it belongs.
  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  /// One more than any checkpoint beside it has.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  /// Puts it into its place, for which all files must be on the disk. The checkpoint that is there
  /// is removed, or where it is damaged put aside under another name.
  void publish();

 private:
  void put_damaged_aside();

  std::filesystem::path target_, path_;
  std::string damage_;  ///< of the checkpoint at `target_`
  OpenFile lock_;       ///< the directory, locked
  std::uint64_t sequence_ = 1;
};

/// Removes the oldest whole ones that `program` has in `directory`, so that `keep` are left. What
/// cannot be removed stays, and the log says so.
void keep_newest(const std::filesystem::path& directory, std::string_view program,
                 std::size_t keep);

}  // namespace coconet::jit
