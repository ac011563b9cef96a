// Compiling, publishing and dumping.
#include "jit/kernels/binary_request.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/cache/kernel_cache.h"
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
  const fs::path temporary =
      path.string() + "." + std::to_string(getpid()) + "-" + std::to_string(number++);
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (!file || error) log_warn("cannot write '" + path.string() + "'");
}

}  // namespace

BinaryRequest::BinaryRequest(const Compiler& compiler, const KernelText& text)
    : compiler_(compiler), text_(text), key_(key_of(compiler, text)) {}

bool BinaryRequest::is_stored() const {
  return process_cache().contains(key_);
}

CompileResult BinaryRequest::compile() const {
  CompileResult compiled = compiler_.compile(source());
  if (compiled.ok) return compiled;
  std::smatch match;
  std::string op;
  // g++ and clang++ write kernel.cpp:12:3: error:, NVRTC kernel.cu(12): error:
  static const std::regex first_error(
      R"(:(\d+):\d+: (?:fatal )?error:|\((\d+)\): (?:catastrophic )?error)");
  if (std::regex_search(compiled.log, match, first_error)) {
    op = op_at_line(source(), std::atoi((match[1].matched ? match[1] : match[2]).str().c_str()));
  }
  const std::string path = dump_failed();
  throw CompileError("kernel '" + text_.name + "' does not compile" +
                     (op.empty() ? "" : "; the first error is in op " + op) +
                     ".\ncommand: " + compiled.command + (path.empty() ? "" : "\nsource: " + path) +
                     "\nthe compiler says:\n" + compiled.log);
}

void BinaryRequest::publish(const CachedBinary& binary) const {
  process_cache().publish(key_, binary);
}

void BinaryRequest::dump(const CachedBinary& binary) const {
  const fs::path& directory = config().dump_dir;
  if (directory.empty()) return;
  const bool is_cuda = compiler_.target() == "cuda";
  write_file(directory / file_name(is_cuda ? ".cu" : ".cpp"), source());
  write_file(directory / file_name(".log"), binary.log);
  write_file(directory / file_name(is_cuda ? ".cubin" : ".so"), binary.payload);
}

std::string BinaryRequest::file_name(std::string_view extension) const {
  return text_.name + "-" + hex(key_.digest()).substr(0, 8) + std::string(extension);
}

std::string BinaryRequest::source() const {
  return complete_source(text_, compiler_.target());
}

std::string BinaryRequest::dump_failed() const {
  const std::string name = file_name(compiler_.target() == "cuda" ? ".cu" : ".cpp");
  if (!config().dump_dir.empty()) {
    write_file(config().dump_dir / name, source());
    return (config().dump_dir / name).string();
  }
  // Everybody may write beside it: a folder that is ours alone, or none.
  const fs::path path = fs::temp_directory_path() / ("coconet-jit-" + std::to_string(geteuid()));
  try {
    const auto folder = CacheDirectory::make(path, Ownership::mine);
    const OpenFile file =
        open_at(folder->descriptor(), name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!file.is_open()) throw_errno("cannot write", (path / name).string());
    write_bytes(file.number(), source());
    return (path / name).string();
  } catch (const std::exception& error) {
    log_warn(std::string("the source of kernel '") + text_.name + "' is not kept: " + error.what());
    return {};
  }
}

}  // namespace coconet::jit
