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
    more("without it", turns_off);
    more("to get it", cure);
  }

  /// Something works, and could be better.
  void below(const char* what, const std::string& fact, const std::string& costs,
             const std::string& cure) {
    line("--", what, fact);
    more("that costs", costs);
    more("to mend it", cure);
  }

  /// Nothing can run on this machine as it is.
  void broken(const char* what, const std::string& fact, const std::string& cure) {
    line("!!", what, fact);
    more("to mend it", cure);
    works_ = false;
  }

  [[nodiscard]] bool works() const { return works_; }

 private:
  static void line(const char* mark, const char* what, const std::string& fact) {
    std::printf("[%s] %-15s %s\n", mark, what, fact.c_str());
  }
  static void more(const char* what, const std::string& text) {
    std::printf("     %-15s %s: %s\n", "", what, text.c_str());
  }

  bool works_ = true;
};

/// Which libraries multiply what, by which instructions, and what keeps them below the processor's.
void examine_matmuls(Findings& findings);

}  // namespace coconet::cli
