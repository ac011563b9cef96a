// Writing files as a whole.
#include "jit/config/files.h"

#include <fmt/format.h>

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "coconet/error.h"

namespace coconet::jit {

void write_atomically(const std::filesystem::path& file, std::string_view text,
                      std::string_view option) {
  std::filesystem::path temporary = file;
  temporary += fmt::format(".tmp{}", getpid());
  std::ofstream stream(temporary, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(temporary, file, error);
  if (!stream || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw BackendError(
        fmt::format("Cannot write the file '{}' of {}: is its directory there, and writable?",
                    file.string(), option));
  }
}

}  // namespace coconet::jit
