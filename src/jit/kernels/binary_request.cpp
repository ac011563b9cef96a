// Compiling, publishing and dumping.
#include "jit/kernels/binary_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <regex>

#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

CacheKey key_of(const Compiler& compiler, const KernelText& text) {
  const std::string prelude = prelude_digests(compiler.target(), text.headers);
  CacheKey key = compiler.key({prelude, text.source, text.entry});
  (void)key.digest();  // before threads share it
  return key;
}

// Under another name first, as other ranks may write or read the same file.
void write_file(const fs::path& path, const std::string& bytes) {
  static std::atomic<int> number = 0;
  std::error_code error;
  if (fs::exists(path, error)) return;  // the name has the key's digest
  fs::create_directories(path.parent_path(), error);
  const fs::path temporary = fmt::format("{}.{}-{}", path.string(), getpid(), number++);
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (!file || error) log_warn(fmt::format("cannot write '{}'", path.string()));
}

}  // namespace

BinaryRequest::BinaryRequest(const Compiler& compiler, const KernelText& text, const Config& config)
    : compiler_(compiler), text_(text), config_(config), key_(key_of(compiler, text)) {}

CompileResult BinaryRequest::compile() const {
  CompileResult compiled = compiler_.compile(source(), config_.compile_timeout);
  if (compiled.ok) return compiled;
  std::smatch match;
  std::string op;
  // g++ and clang++ write kernel.cpp:12:3: error:, NVRTC kernel.cu(12): error:
  static const std::regex first_error(
      R"(:(\d+):\d+: (?:fatal )?error:|\((\d+)\): (?:catastrophic )?error)");
  if (std::regex_search(compiled.log, match, first_error)) {
    op = op_at_line(source(), std::stoi(match[1].matched ? match[1] : match[2]));
  }
  const std::string path = dump_failed();
  throw CompileError(
      fmt::format("kernel '{}' does not compile{}.\ncommand: {}{}\nthe compiler says:\n{}",
                  text_.name, op.empty() ? "" : "; the first error is in op " + op,
                  compiled.command, path.empty() ? "" : "\nsource: " + path, compiled.log));
}

fs::path BinaryRequest::dumped_binary() const {
  return config_.dump_dir.empty() ? fs::path() : config_.dump_dir / binary_name();
}

void BinaryRequest::dump(const CachedBinary& binary) const {
  const fs::path& directory = config_.dump_dir;
  if (directory.empty()) return;
  write_file(directory / source_name(), source());
  write_file(directory / file_name(".log"), binary.log);
  write_file(directory / binary_name(), binary.payload);
}

std::string BinaryRequest::file_name(std::string_view extension) const {
  return fmt::format("{}-{:.8}{}", text_.name, hex(key_.digest()), extension);
}

std::string BinaryRequest::dump_failed() const {
  const std::string name = source_name();
  if (!config_.dump_dir.empty()) {
    write_file(config_.dump_dir / name, source());
    return (config_.dump_dir / name).string();
  }
  // Everybody may write beside it: a folder that is ours alone, or none.
  const fs::path path = fs::temp_directory_path() / fmt::format("coconet-jit-{}", geteuid());
  try {
    const auto folder = CacheDirectory::make(path, Ownership::mine);
    const OpenFile file =
        open_at(folder->descriptor(), name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!file.is_open()) throw_errno("cannot write", (path / name).string());
    write_bytes(file.number(), source());
    return (path / name).string();
  } catch (const std::exception& error) {
    log_warn(fmt::format("the source of kernel '{}' is not kept: {}", text_.name, error.what()));
    return {};
  }
}

}  // namespace coconet::jit
