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
  /// it is in, this one included, and older ones are removed. 0: all stay.
  int keep = 0;
};

/// A checkpoint that was loaded.
struct Checkpoint {
  std::filesystem::path path;  ///< its directory, absolute
  Metadata metadata;           ///< as it was saved with
  std::string program;         ///< the name of the program that saved it
  int ranks = 1;               ///< of the world that saved it
};

}  // namespace coconet
