// What runs at exit, or when an object ends, belongs to the process that made it: a child of a fork
// has the parent's objects, but neither its threads nor its place among the ranks.
#pragma once

#include "coconet/export.h"

namespace coconet::jit {

/// The process that has made this, which costs nothing to compare.
class COCONET_API OwnProcess {
 public:
  OwnProcess() : forks_(forks()) {}
  /// Whether that is this process, and no child of it by fork().
  [[nodiscard]] bool is_this() const { return forks_ == forks(); }

 private:
  /// How many forks lead from the first process that called this to this one.
  static unsigned forks();

  unsigned forks_;
};

}  // namespace coconet::jit
