// Compiling, publishing and dumping.
#include "jit/kernels/binary_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <regex>
#include <stdexcept>
#include <utility>

#include "coconet/error.h"
#include "jit/config/log.h"
#include "jit/config/temporary_place.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

CacheKey key_of(const Compiler& compiler, const KernelText& text) {
  const std::string prelude = prelude_digests(compiler.target(), text.headers);
  CacheKey key = compiler.key({prelude, text.source, text.entry});
  (void)key.digest();  // before threads share it
  return key;
}

/// What is `name` in `folder`, open for reading, if it is to be trusted and has just `bytes`.
OpenFile find_copy(const CacheDirectory& folder, const std::string& name, std::string_view bytes) {
  // O_NONBLOCK: a pipe of that name must not make us wait for a writer.
  OpenFile file = open_at(folder.descriptor(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status {};
  const bool is_same = file.is_open() && fstat(file.number(), &status) == 0 &&
                       S_ISREG(status.st_mode) && folder.distrusts(status) == nullptr &&
                       static_cast<std::size_t>(status.st_size) == bytes.size() &&
                       read_bytes(file.number(), bytes.size()) == bytes;
  return is_same ? std::move(file) : OpenFile();
}

/// A copy of `bytes` for people, as `name` in `folder`; the file, open for reading. Other ranks may
/// write the same one, and have it mapped: a file that is there is never written, only replaced.
/// Throws std::system_error.
OpenFile keep_copy(const CacheDirectory& folder, const std::string& name, std::string_view bytes) {
  OpenFile there = find_copy(folder, name, bytes);
  if (there.is_open()) return there;
  AtomicFile file(folder.descriptor(), name, AtomicFile::Durability::none);
  file.write(bytes);
  if (!file.commit()) {
    there = find_copy(folder, name, bytes);
    if (there.is_open()) return there;
    file.replace();
  }
  return find_copy(folder, name, bytes);
}

/// Once in a process: the same holds for every kernel.
void tell_not_dumped(const std::exception& error) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    log_warn(fmt::format("kernels are not written to COCONET_DUMP_DIR: {}", error.what()));
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

OpenFile BinaryRequest::dump(const CachedBinary& binary) const {
  if (config_.dump_dir.empty()) return {};
  try {
    const auto folder = CacheDirectory::make(config_.dump_dir, Ownership::vetted);
    (void)keep_copy(*folder, source_name(), source());
    (void)keep_copy(*folder, file_name(".log"), binary.log);
    return keep_copy(*folder, binary_name(), binary.payload);
  } catch (const std::runtime_error& error) {  // Distrust, std::system_error
    tell_not_dumped(error);
    return {};
  }
}

std::string BinaryRequest::file_name(std::string_view extension) const {
  // Names of people's choice may be longer than those of files.
  return fmt::format("{:.200}-{:.8}{}", text_.name, hex(key_.digest()), extension);
}

std::string BinaryRequest::dump_source(const fs::path& directory, Ownership ownership) const {
  const auto folder = CacheDirectory::make(directory, ownership);
  (void)keep_copy(*folder, source_name(), source());
  return (directory / source_name()).string();
}

std::string BinaryRequest::dump_failed() const {
  try {
    if (!config_.dump_dir.empty()) return dump_source(config_.dump_dir, Ownership::vetted);
  } catch (const std::runtime_error& error) {
    tell_not_dumped(error);
  }
  // Everybody may write beside it: a folder that is ours alone, or none.
  try {
    const std::string name = fmt::format("coconet-jit-{}", geteuid());
    return dump_source(temporary_place() / name, Ownership::mine);
  } catch (const std::exception& error) {
    log_warn(fmt::format("the source of kernel '{}' is not kept: {}", text_.name, error.what()));
    return {};
  }
}

}  // namespace coconet::jit
