// Finding, compiling, publishing and dumping.
#include "jit/binary_request.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/cache/process_cache.h"
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

bool write_file(const fs::path& path, const std::string& bytes) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) log_warn("cannot write '" + path.string() + "'");
  return static_cast<bool>(file);
}

}  // namespace

BinaryRequest::BinaryRequest(const Compiler& compiler, const KernelText& text)
    : compiler_(compiler), text_(text), key_(key_of(compiler, text)) {}

std::optional<CachedBinary> BinaryRequest::find() const {
  return process_cache().find(key_);
}

bool BinaryRequest::is_stored() const {
  return process_cache().contains(key_);
}

BinaryRequest::Obtained BinaryRequest::obtain(
    const std::function<std::string(const CachedBinary&)>& problem) const {
  Obtained result;
  const KernelCache::Recipe recipe{
      [&] {
        const auto start = std::chrono::steady_clock::now();
        result.compiled = compile();
        result.compile_time = std::chrono::steady_clock::now() - start;
        CachedBinary binary{std::move(result.compiled->binary), result.compiled->log};
        const std::string wrong = problem ? problem(binary) : std::string();
        if (!wrong.empty())
          throw BackendError("kernel '" + text_.name + "' was compiled, but " + wrong);
        return binary;
      },
      problem};
  result.binary = process_cache().obtain(key_, recipe, config().compile_timeout).binary;
  return result;
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
  (void)(write_file(directory / file_name(is_cuda ? ".cu" : ".cpp"), source()) &&
         write_file(directory / file_name(".log"), binary.log) &&
         write_file(directory / file_name(is_cuda ? ".cubin" : ".so"), binary.payload));
}

std::string BinaryRequest::file_name(std::string_view extension) const {
  return text_.name + "-" + hex(key_.digest()).substr(0, 8) + std::string(extension);
}

std::string BinaryRequest::source() const {
  return complete_source(text_, compiler_.target());
}

std::string BinaryRequest::dump_failed() const {
  fs::path directory = config().dump_dir;
  if (directory.empty())
    directory = fs::temp_directory_path() / ("coconet-jit-" + std::to_string(geteuid()));
  const fs::path path = directory / file_name(compiler_.target() == "cuda" ? ".cu" : ".cpp");
  return write_file(path, source()) ? path.string() : std::string();
}

}  // namespace coconet::jit
