// Reading whole files that people name. That there is no file, that it cannot be read and that it
// is empty are three answers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace coconet::ir {

struct FileText {
  std::optional<std::string> bytes = {};  ///< nothing where there is no file, or it cannot be read
  bool is_missing = false;                ///< there is none of that name
  bool is_no_file = false;                ///< it is a directory, a pipe or a device
  std::string problem = {};  ///< why there are no bytes: "Permission denied", "it is a directory"
};

/// The bytes of `file`. What is no regular file is not read, since the other end of a pipe may
/// never write, and a device never end.
[[nodiscard]] FileText read_file(const std::filesystem::path& file);

/// What `parse` makes of `file`, of which `read` has the bytes. Throws an Error that names the
/// file, which has a `what` in it, where it was not read or `parse` throws one.
template <class Error, class Parse>
[[nodiscard]] auto parse_file(const std::filesystem::path& file, const FileText& read,
                              const std::string& what, const Parse& parse) {
  if (!read.bytes)
    throw Error("cannot read the " + what + " file '" + file.string() + "': " + read.problem);
  try {
    return parse(*read.bytes);
  } catch (const Error& error) {
    throw Error(file.string() + ": " + error.what());
  }
}

}  // namespace coconet::ir
