// Many kernels in one translation unit, which costs a compiler one prelude instead of one for each.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jit/codegen/codegen.h"
#include "jit/exchange/algorithm.h"

namespace coconet::test {

class KernelUnit {
 public:
  /// With all headers of the prelude of `target` that kernels may need.
  explicit KernelUnit(std::string_view target) {
    std::set<std::string> headers = {"philox.h", "exchange/direct.h", "buckets.h"};
    for (const jit::Algorithm* algorithm : jit::algorithms()) headers.emplace(algorithm->header);
    std::vector<std::string> ordered = {"exchange/mailboxes.h",
                                        "exchange/tiles.h"};  // which the others are written over
    for (const jit::Protocol* protocol : jit::protocols()) {
      if (!protocol->header.empty()) headers.emplace(protocol->header);
    }
    ordered.insert(ordered.end(), headers.begin(), headers.end());
    source_ = jit::prelude(target, ordered);
  }

  /// Adds a kernel's text without prelude, whose entry point is `entry` there.
  void add(const std::string& text, const std::string& entry) {
    const std::string scope = "k" + std::to_string(entries_.size());
    // The entry point, whose name is outside all namespaces, gets the namespace's.
    entries_.push_back(scope + "_" + entry);
    source_ += "#define " + entry + " " + entries_.back() + "\nnamespace " + scope + " {\n" + text +
               "}\n#undef " + entry + "\n";
  }

  [[nodiscard]] const std::string& source() const { return source_; }
  /// Entry points in the unit, in the order of the kernels.
  [[nodiscard]] const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::string source_;
  std::vector<std::string> entries_;
};

}  // namespace coconet::test
