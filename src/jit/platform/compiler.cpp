// Keys of kernels. The fields that tell most about a miss come first: the first that differs is
// what `coconet cache explain` names.
#include "jit/platform/compiler.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "coconet/error.h"
#include "ir/read_file.h"
#include "jit/cache/kernel_cache.h"

namespace coconet::jit {
namespace {

// Counts the changes of the fields below and of what they mean.
constexpr std::string_view key_format = "1";

// An option that leaves the machine to the compiler says nothing to other machines: the field
// `arch` does.
std::string resolved(const std::string& option) {
  constexpr std::string_view native = "=native";
  if (!option.ends_with(native)) return option;
  return option.substr(0, option.size() - native.size()) + "=(arch)";
}

std::string nanoseconds(const timespec& time) {
  return fmt::format("{} s {} ns", time.tv_sec, time.tv_nsec);
}

}  // namespace

CacheKey Compiler::key(const KernelSource& source) const {
  std::string options;
  for (const std::string& option : facts_.options) options += resolved(option) + "\n";
  CacheKey key;
  key.add("kind", "kernel");
  key.add("format", key_format);
  key.add("target", target());
  key.add("entry", source.entry);
  key.add("arch", facts_.arch);
  key.add("compiler", facts_.identity);
  key.add("options", options);
  key.add("environment", facts_.environment);
  key.add("abi", facts_.abi);
  key.add("prelude", source.prelude);
  key.add("source", source.text);
  return key;
}

// Asking takes 2 to 100 ms; with all kernels in the cache, the first step begins within 20 ms.
std::string remembered_of(const std::filesystem::path& file, std::string_view what,
                          const std::function<std::string()>& ask) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return ask();
  CacheKey question;
  question.add("kind", "identity");
  question.add("what", what);
  question.add("file", file.string());
  question.add("size", std::to_string(status.st_size));
  question.add("inode", fmt::format("{} {}", status.st_dev, status.st_ino));
  question.add("modified", nanoseconds(status.st_mtim));
  question.add("changed", nanoseconds(status.st_ctim));
  return first_cache().remember(question, ask);
}

std::string sha256_of_file(const std::filesystem::path& file) {
  const ir::FileText read = ir::read_file(file);
  if (!read.bytes) {
    throw CompileError(fmt::format("'{}' cannot be read, which kernels are compiled with: {}.",
                                   file.string(), read.problem));
  }
  return sha256_hex(*read.bytes);
}

}  // namespace coconet::jit
