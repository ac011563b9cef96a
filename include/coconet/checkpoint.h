// Checkpoints: the states of an executable on disk. docs/checkpoints.md describes the files.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace coconet {

/// What an application says of a checkpoint, such as {"step", "1000"}: any text in UTF-8.
using Metadata = std::map<std::string, std::string>;

/// How `Executable::save` saves.
struct SaveOptions {
  Metadata metadata = {};  ///< kept with the states; `load` returns it
  /// Once it is saved, the newest this many checkpoints of the program stay in the directory that
  /// it is in, this one included, and older ones are removed. 0: all stay. Damaged ones and
  /// symbolic links are neither counted nor removed.
  int keep = 0;
};

/// How `Executable::load_latest` looks for one.
struct LoadOptions {
  /// Whether this may be the job's first start, before anything was saved: then the directory may
  /// be missing.
  bool may_be_first_start = false;
};

/// A checkpoint that was loaded.
struct Checkpoint {
  std::filesystem::path path;  ///< its directory, absolute
  Metadata metadata;           ///< as it was saved with
  std::string program;         ///< the name of the program that saved it
  int ranks = 1;               ///< of the world that saved it
};

}  // namespace coconet
