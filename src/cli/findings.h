// What `coconet doctor` found, printed as it is found.
#pragma once

#include <cstdio>
#include <string>

namespace coconet::cli {

/// One line per thing, and two more for a thing that is missing.
class Findings {
 public:
  void here(const char* what, const std::string& fact) { line("ok", what, fact); }

  /// Something optional is missing.
  void missing(const char* what, const std::string& fact, const std::string& turns_off,
               const std::string& cure) {
    line("--", what, fact);
    std::printf("     %-15s without it: %s\n     %-15s to get it: %s\n", "", turns_off.c_str(), "",
                cure.c_str());
  }

  /// Something works, and could be better.
  void below(const char* what, const std::string& fact, const std::string& costs,
             const std::string& cure) {
    line("--", what, fact);
    std::printf("     %-15s that costs: %s\n     %-15s to mend it: %s\n", "", costs.c_str(), "",
                cure.c_str());
  }

  /// Nothing can run on this machine as it is.
  void broken(const char* what, const std::string& fact, const std::string& cure) {
    line("!!", what, fact);
    std::printf("     %-15s to mend it: %s\n", "", cure.c_str());
    works_ = false;
  }

  [[nodiscard]] bool works() const { return works_; }

 private:
  static void line(const char* mark, const char* what, const std::string& fact) {
    std::printf("[%s] %-15s %s\n", mark, what, fact.c_str());
  }

  bool works_ = true;
};

}  // namespace coconet::cli
