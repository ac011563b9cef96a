// A compiler of kernels that edits their source first: to see what becomes of a kernel with a
// mistake, or with a rank that does not go on.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <string_view>

#include "child_process.h"
#include "jit/config/build_info.h"

namespace coconet::test {

class PlantedCompiler {
 public:
  /// `edit` is for sed, without single quotes; an edit of nothing leaves sources as they are. A
  /// source that it does not change does not compile.
  explicit PlantedCompiler(std::string_view edit) {
    std::string text(script);
    text.replace(text.find("EDIT"), 4, edit);
    text.replace(text.find("COMPILER"), 8, jit::build_info::default_cxx);
    std::ofstream(path()) << text;
    chmod(path().c_str(), 0755);
  }

  /// What has kernels compiled by it, in front of a command.
  [[nodiscard]] std::string environment() const {
    return "COCONET_CACHE=off COCONET_CXX='" + path() + "' ";
  }
  /// Of the compiler.
  [[nodiscard]] std::string path() const { return (directory_.path() / "c++").string(); }

 private:
  static constexpr std::string_view script = R"(#!/bin/sh
edit='EDIT'
for source; do :; done
if [ -f "$source" ] && [ -n "$edit" ]; then
  cp "$source" "$source.before"
  sed -i "$edit" "$source"
  if cmp -s "$source" "$source.before"; then echo "nothing was planted by $edit"; exit 1; fi
fi
exec 'COMPILER' "$@"
)";

  ScratchDirectory directory_;
};

}  // namespace coconet::test
