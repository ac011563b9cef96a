// Several kernels in one translation unit: one start of the compiler, one prelude, one link.
#pragma once

#include "jit/codegen/codegen.h"

namespace coconet::jit {

class KernelBatch {
 public:
  /// For kernels over the prelude of `target` with `headers`, and those that kernels need.
  explicit KernelBatch(std::string_view target, std::vector<std::string> headers = {})
      : target_(target), headers_(std::move(headers)) {}

  void add(const KernelText& kernel) { add(kernel.source, kernel.entry, kernel.headers); }
  /// Adds a kernel's text without prelude, whose entry point is `entry` there.
  void add(std::string_view text, const std::string& entry,
           std::span<const std::string> headers = {});

  /// What a compiler is given.
  [[nodiscard]] std::string source() const { return prelude(target_, headers_) + kernels_; }
  /// The symbols of the entry points, in order. A kernel keeps its own unless an earlier one has
  /// it.
  [[nodiscard]] const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::string target_;
  std::vector<std::string> headers_;
  std::string kernels_;
  std::vector<std::string> entries_;
};

}  // namespace coconet::jit
