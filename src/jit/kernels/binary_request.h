// A kernel's binary, to be had from the cache or from the compiler, whether or not it can be loaded here.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "jit/cache/kernel_cache.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/compiler.h"

namespace coconet::jit {

class BinaryRequest {
 public:
  /// Both must outlive it.
  BinaryRequest(const Compiler& compiler, const KernelText& text);

  /// All that the binary depends on; its digest names the binary.
  [[nodiscard]] const CacheKey& key() const { return key_; }
  [[nodiscard]] const KernelText& text() const { return text_; }

  /// From the cache on disk.
  [[nodiscard]] std::optional<CachedBinary> find() const;
  /// Whether a file is there for it.
  [[nodiscard]] bool is_stored() const;

  struct Obtained {
    CachedBinary binary;
    std::optional<CompileResult> compiled;    ///< when it was not found
    std::chrono::nanoseconds compile_time{};  ///< of the compiler alone
  };
  /// From the cache on disk, or else compiled, by one of the processes that share the cache, and stored. What
  /// `problem` finds wrong with a stored binary (empty: nothing) has it compiled again. Throws CompileError as
  /// `compile` does, and BackendError when something is wrong with the compiled one, too.
  [[nodiscard]] Obtained obtain(
      const std::function<std::string(const CachedBinary&)>& problem = {}) const;

  /// Always by the compiler. Throws CompileError with the command, the compiler's words, the op behind the first line
  /// that is wrong, and the path of the source, which it dumps.
  [[nodiscard]] CompileResult compile() const;

  /// Stores what came from elsewhere.
  void publish(const CachedBinary& binary) const;
  /// Writes source, binary and log into COCONET_DUMP_DIR, if that is set.
  void dump(const CachedBinary& binary) const;

 private:
  /// The path of the dumped file that ends in `extension`, without a directory.
  [[nodiscard]] std::string file_name(std::string_view extension) const;
  [[nodiscard]] std::string source() const;
  /// Writes the source where a person can read it and returns its path; empty when that is not possible.
  [[nodiscard]] std::string dump_failed() const;

  const Compiler& compiler_;
  const KernelText& text_;
  CacheKey key_;
};

}  // namespace coconet::jit
