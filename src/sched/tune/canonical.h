// Canonical forms: which scheduled programs are the same, whatever the order of the steps that led
// to them and the names that these gave.
#pragma once

#include <map>
#include <string>

#include "sched/plan.h"

namespace coconet::sched {

/// Numbers values by what they are: two have one number when they are the same op with the same
/// attributes on operands with the same numbers. Numbers are those of one object.
class Canonical {
 public:
  /// What `graph` computes, keeps, and makes kernels of; the same for programs that differ in names
  /// of values and kernels, in the order of values, and in values that nothing needs.
  [[nodiscard]] std::string key(const ir::Graph& graph);
  /// What `plan` does, step by step; the same for plans that differ in names of values and kernels.
  [[nodiscard]] std::string key(Plan plan);

 private:
  /// The numbers of live values; -1 for others.
  [[nodiscard]] Indexed<int> number_values(const ir::Graph& graph);
  int number(const std::string& text);

  std::map<std::string, int> numbers_;
};

}  // namespace coconet::sched
