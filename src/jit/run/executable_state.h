// The inside of coconet::Executable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "jit/bind/bucket_table.h"
#include "jit/bind/numbers.h"
#include "jit/bind/rank_plan.h"
#include "jit/bind/step_sync.h"
#include "jit/bind/tensors.h"
#include "jit/platform/platform.h"
#include "jit/run/device_run.h"
#include "jit/run/roofline.h"
#include "jit/run/step.h"

namespace coconet {

class Executable::State {
 public:
  State(World world, const jit::Platform& platform, Program program, sched::Plan plan,
        std::map<std::string, std::int64_t> sizes, ir::Lists lists);

  void run(std::span<const ScalarValue> scalars);
  /// Waits for the runs so far; throws what went wrong in them.
  void finish();
  Report report();
  /// Where copies from and to tensors go.
  [[nodiscard]] jit::Queue& queue() { return device ? device->queue() : *host_queue_; }

  World world;
  const jit::Platform& platform;
  Program program;  ///< after its schedule
  jit::RankPlan plan;
  jit::StepSync sync;
  jit::Tensors tensors;
  jit::BucketTables tables;
  jit::Numbers numbers;
  jit::AllTileCounts tiles;

  std::vector<jit::Step> steps;
  std::unique_ptr<jit::DeviceRun> device;  ///< null on the host

 private:
  /// Collective: returns when the step may begin; throws on all ranks when one of them has a `failure`.
  void enter(const std::string& failure);
  /// Collective: whether overlapped steps run at once on the host.
  void decide_overlap();
  void run_on_host();
  /// Runs `count` steps from `first` on; several at once, each timed, as they have no order.
  void run_steps(std::size_t first, std::size_t count);
  void run_step(std::size_t index);
  void run_collective(jit::LibraryCollective& collective, std::size_t index);
  void check_fault();
  /// Throws what a kernel on a GPU reported, if one did; `ended` is whether nothing runs there any more.
  void check_device_fault(bool ended);
  /// Throws what the sync's fault says of the kernel of step `index`; no step can run afterwards.
  [[noreturn]] void break_down(std::size_t index);
  [[noreturn]] void throw_together(const std::string& failure);

  /// By mesh axis, for library steps on the host.
  std::map<int, std::unique_ptr<jit::Collectives>> groups_;
  std::unique_ptr<jit::Queue> host_queue_;
  jit::Roofline roofline_;
  bool at_once_ = false;  ///< overlapped steps are threads; else they come one after the other
  jit::Times times_;
  std::uint64_t runs_ = 0;
  std::string broken_;  ///< why no step can run any more; empty while all is well
};

}  // namespace coconet
