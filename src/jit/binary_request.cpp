// Finding, compiling, publishing and dumping.
#include "jit/binary_request.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

DiskCache open_disk_cache() {
  const std::string& mode = config().cache;
  return {config().cache_dir, mode == "off" || config().cache_dir.empty() ? CacheMode::off
                              : mode == "ro"                              ? CacheMode::read_only
                                                                          : CacheMode::read_write};
}

}  // namespace

BinaryRequest::BinaryRequest(const Compiler& compiler, const KernelText& text)
    : compiler_(compiler),
      text_(text),
      source_(complete_source(text, compiler.target())),
      key_(compiler.key(source_, text.entry)),
      digest_(key_.digest()) {
  if (!config().dump_dir.empty()) (void)dump(false);
}

std::optional<std::string> BinaryRequest::find_on_disk() const {
  return open_disk_cache().get(key_);
}

CompileResult BinaryRequest::compile() const {
  CompileResult compiled = compiler_.compile(source_);
  if (compiled.ok) return compiled;
  std::smatch match;
  std::string op;
  // g++ and clang++ write kernel.cpp:12:3: error:, NVRTC kernel.cu(12): error:
  static const std::regex first_error(
      R"(:(\d+):\d+: (?:fatal )?error:|\((\d+)\): (?:catastrophic )?error)");
  if (std::regex_search(compiled.log, match, first_error)) {
    op = op_at_line(source_, std::atoi((match[1].matched ? match[1] : match[2]).str().c_str()));
  }
  const std::string path = dump(true);
  throw CompileError("kernel '" + text_.name + "' does not compile" +
                     (op.empty() ? "" : "; the first error is in op " + op) +
                     ".\ncommand: " + compiled.command + (path.empty() ? "" : "\nsource: " + path) +
                     "\nthe compiler says:\n" + compiled.log);
}

void BinaryRequest::publish(const std::string& binary) const {
  open_disk_cache().put(key_, binary);
}

std::string BinaryRequest::dump(bool failed) const {
  std::filesystem::path directory = config().dump_dir;
  if (directory.empty()) {
    if (!failed) return {};
    directory =
        std::filesystem::temp_directory_path() / ("coconet-jit-" + std::to_string(geteuid()));
  }
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string_view extension = compiler_.target() == "cuda" ? ".cu" : ".cpp";
  const std::filesystem::path path =
      directory / (text_.name + "-" + digest_.substr(0, 8) + std::string(extension));
  std::ofstream file(path);
  file << source_;
  file.close();
  if (file) return path.string();
  log_warn("cannot write the kernel's source to '" + path.string() + "'");
  return {};
}

}  // namespace coconet::jit
