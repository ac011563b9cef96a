// Reads files by streams.
#include "ir/read_file.h"

#include <fstream>
#include <ios>
#include <iterator>

namespace coconet::ir {

std::optional<std::string> read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  try {
    return std::string(std::istreambuf_iterator<char>(stream), {});
  } catch (const std::ios_base::failure&) {  // of reading: a directory, or a disk that fails
    return std::nullopt;
  }
}

}  // namespace coconet::ir
