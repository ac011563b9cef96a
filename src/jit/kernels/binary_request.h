// What is needed to find or compile a kernel's binary, whether or not it can be loaded here.
#pragma once

#include "jit/cache/kernel_cache.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/compiler.h"

namespace coconet::jit {

class BinaryRequest {
 public:
  /// All must outlive it.
  BinaryRequest(const Compiler& compiler, const KernelText& text, const Config& config);

  /// All that the binary depends on; its digest names the binary.
  [[nodiscard]] const CacheKey& key() const { return key_; }
  [[nodiscard]] const KernelText& text() const { return text_; }
  [[nodiscard]] const Compiler& compiler() const { return compiler_; }
  [[nodiscard]] const Config& config() const { return config_; }
  /// On disk.
  [[nodiscard]] KernelCache& cache() const { return cache_of(config_); }

  /// Whether the cache on disk has a file for it, good or bad.
  [[nodiscard]] bool is_stored() const { return cache().contains(key_); }
  /// Always by the compiler. Throws CompileError with the command, the compiler's words, the op
  /// behind the first line that is wrong, and the path of the source, which it dumps.
  [[nodiscard]] CompileResult compile() const;

  /// Stores what came from elsewhere.
  void publish(const CachedBinary& binary) const { cache().publish(key_, binary); }
  /// Writes source, binary and log into COCONET_DUMP_DIR, if that is set. The binary's file, open
  /// for reading; not open where there is none, of which a warning has said why.
  OpenFile dump(const CachedBinary& binary) const;

 private:
  /// The path of the dumped file that ends in `extension`, without a directory.
  [[nodiscard]] std::string file_name(std::string_view extension) const;
  [[nodiscard]] std::string binary_name() const { return file_name(is_cuda() ? ".cubin" : ".so"); }
  [[nodiscard]] std::string source_name() const { return file_name(is_cuda() ? ".cu" : ".cpp"); }
  [[nodiscard]] std::string source() const { return complete_source(text_, compiler_.target()); }
  [[nodiscard]] bool is_cuda() const { return compiler_.target() == "cuda"; }
  /// Writes the source where a person can read it; its path, or empty when that is not possible.
  [[nodiscard]] std::string dump_failed() const;
  /// Puts the source into `directory`; its path. Throws Distrust, and std::system_error.
  [[nodiscard]] std::string dump_source(const std::filesystem::path& directory,
                                        Ownership ownership) const;

  const Compiler& compiler_;
  const KernelText& text_;
  const Config& config_;
  CacheKey key_;
};

}  // namespace coconet::jit
