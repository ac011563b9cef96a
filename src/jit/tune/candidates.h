// What a search may measure: a program's schedules, and the plans that they have on this machine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "coconet/error.h"
#include "coconet/program.h"
#include "coconet/world.h"
#include "jit/comm/comm.h"
#include "jit/kernels/kernel_store.h"
#include "jit/tune/tuned.h"
#include "jit/tune/variant.h"
#include "sched/plan.h"

namespace coconet::jit {

/// The candidates of `tuned.space`, which it fills. What it finds out besides, the variants that
/// are impossible and how many kernels there are, goes into `tuned`, too.
class Candidates {
 public:
  /// Collective: finds the space of `program`'s schedules, those that ship with it included.
  Candidates(const Program& program, const World& world, Tuned& tuned);

  /// Whether it is a schedule that ships with the program.
  [[nodiscard]] bool ships(std::size_t index) const { return shipped_.contains(index); }
  /// Whether it runs as another candidate does, because there is no room for its overlaps.
  [[nodiscard]] bool is_another(std::size_t index) const { return is_another_[index]; }
  [[nodiscard]] bool is_given_up(const Variant& variant) const;
  void give_up(const Variant& variant, const Error& error);

  /// Collective: the plan of a variant; nothing where this machine has none, which is noted.
  [[nodiscard]] std::optional<sched::Plan> plan_of(const Variant& variant);
  /// Collective: compiles the kernels of these plans, all at once, so that all ranks' compilers
  /// are busy. They stay loaded. What does not compile is said when it is made.
  void compile(const std::vector<const sched::Plan*>& plans);
  /// Collective: compiles those of these candidates.
  void compile(const std::set<std::size_t>& indices);

 private:
  [[nodiscard]] Comm& comm() const;
  void find_shipped();
  void choose_plans();
  [[nodiscard]] bool runs_in_turn(std::size_t index) const;

  const Program& program_;
  const World& world_;
  Tuned& tuned_;
  std::set<std::size_t> shipped_;
  std::vector<sched::Plan> chosen_;  ///< by candidate
  std::vector<bool> is_another_;     ///< by candidate
  std::vector<Variant> given_up_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
};

}  // namespace coconet::jit
