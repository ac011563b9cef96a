// A kernel's binary, to be had from the disk cache or from the compiler, whether or not it can be loaded here.
#pragma once

#include <optional>
#include <string>

#include "jit/codegen/codegen.h"
#include "jit/compile/compiler.h"

namespace coconet::jit {

class BinaryRequest {
 public:
  /// Both must outlive it. Writes the source into COCONET_DUMP_DIR, if that is set.
  BinaryRequest(const Compiler& compiler, const KernelText& text);

  /// Names the binary: SHA-256 of all that it depends on.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] std::optional<std::string> find_on_disk() const;
  /// Throws CompileError with the command, the compiler's words, the op behind the first line that is wrong, and the
  /// path of the dumped source.
  [[nodiscard]] CompileResult compile() const;
  /// Writes `binary` to the disk cache, as far as COCONET_CACHE lets it.
  void publish(const std::string& binary) const;

 private:
  /// Writes the source where a person can read it and returns its path; empty when that is not possible.
  [[nodiscard]] std::string dump(bool failed) const;

  const Compiler& compiler_;
  const KernelText& text_;
  std::string source_;
  CacheKey key_;
  std::string digest_;
};

}  // namespace coconet::jit
