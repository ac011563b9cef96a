// Runs of an executable: what its steps do is put into queues, in their order or beside each other.
// On the host that is also when it is done; on GPUs it goes on while the application does.
#pragma once

#include <atomic>

#include "jit/config/own_process.h"
#include "jit/run/graph_replay.h"
#include "jit/run/kernel_waits.h"
#include "jit/run/state_order.h"

namespace coconet::jit {

class Runner {
 public:
  /// Collective. `bound` outlives it. With the queue, the collectives and the states' orders of
  /// `before`, which nothing runs and which is of the same plan.
  explicit Runner(Bound& bound, const Runner* before = nullptr);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  /// Waits for what is queued.
  ~Runner();

  /// Where this rank's work goes.
  [[nodiscard]] Queue& queue() const { return *queue_; }
  /// Uses the application's stream from now on; null: the legacy default stream.
  void use_stream(void* handle);

  /// Puts what `body` does to this rank's queue behind what other executables that share states put
  /// into theirs, and before what they put there from then on.
  void in_order(const std::function<void()>& body);
  /// Collective: has this order with `owner` from here on, all work so far done.
  void order_with(Runner& owner);
  /// Throws CommError where a wait of an earlier step has failed, BackendError while the
  /// application captures the stream.
  void require_at_rest() const;
  /// Throws that BackendError alone.
  void require_not_captured() const;

  /// Collective. Throws on all ranks when one of them cannot run the step.
  void run(std::span<const ScalarValue> scalars);
  /// Waits for the runs so far; throws what went wrong in them.
  void finish();

  [[nodiscard]] std::uint64_t runs() const { return runs_; }
  /// Collective: waits, and takes the times of steps to where all ranks read them.
  void collect_times();
  /// The ranks of a launch meet when they have read the times, which are one rank's: it may then
  /// run on, or end.
  void let_times_go();
  /// Collective: waits, and traces the next `runs` runs; all ranks' traces begin here.
  void start_trace(std::size_t runs);
  [[nodiscard]] const std::vector<Sampler::Traced>& trace() const {
    return group_.sampler().trace();
  }
  /// How long this rank waited for the others before it began its steps, where the steps do not
  /// do that themselves.
  [[nodiscard]] const Times& waits() const { return waits_; }
  /// How long its kernels waited, in the runs that kept that.
  [[nodiscard]] const Times& kernel_waits(std::size_t index) const {
    return kernel_waits_.times(index);
  }
  /// This rank's times, without those of other ranks' launches; null where others launch for it.
  [[nodiscard]] const Sampler* local_times();
  /// Median milliseconds of step `index`, or of whole runs.
  [[nodiscard]] double step_ms(std::size_t index) const { return group_.sampler().step_ms(index); }
  [[nodiscard]] double run_ms() const { return group_.sampler().run_ms(); }

 private:
  /// A call of a library step: by whom, for which ranks.
  struct LibraryCall {
    Collectives* collectives;
    std::vector<LibraryCollective::Member> members;
  };

  void make_collectives(const Runner* before);
  /// Around what goes into this rank's queue; see `in_order`.
  void begin_in_order();
  void end_in_order();
  /// Whether a run of another executable at the same time could keep this one's from going on.
  [[nodiscard]] bool needs_order() const;
  /// Most steps that run at once.
  [[nodiscard]] std::size_t widest() const;

  /// Throws CommError where a wait of an earlier step has failed.
  void require_whole() const;
  /// Throws BackendError where other executables share states with this one, which the application
  /// captures.
  void require_unshared() const;
  /// Throws BackendError when the step cannot be put into the stream now.
  void require_ready() const;
  /// Fills the argument blocks of `count` steps from `first` on.
  void prepare(std::size_t first, std::size_t count);
  /// Blocks of a step's kernel that run at once.
  [[nodiscard]] int blocks_at_once(std::size_t index) const;
  /// Puts a run into the queue, as a graph or step by step.
  void put_run();
  /// Collective: the driver does that for all ranks of the launch.
  void put_run_of_group();
  void drive_group();
  /// Whether a run could be recorded as a graph; that it must is COCONET_GRAPH=on, and throws.
  [[nodiscard]] bool record();
  /// Puts all steps into `queue` and, where they run at once, `fork`; `sampler` may be null.
  void enqueue(Queue& queue, Fork& fork, Sampler* sampler);
  void enqueue_beside(Queue& queue, Fork& fork, const sched::Overlap& overlap, Sampler* sampler);
  /// `beside`: others run at the same time; `signals` is the queue for what tells of tiles, or
  /// null.
  void enqueue_step(Queue& queue, std::size_t index, bool beside, Sampler* sampler,
                    Queue* signals = nullptr);
  void enqueue_matmul(Queue& queue, std::size_t index, Queue* signals);
  void enqueue_collective(Queue& queue, std::size_t index);
  /// Waits for the queue, watching over the libraries' collectives.
  void wait();

  // What goes wrong (faults.cpp).

  /// Collective: the step may begin; throws on all ranks when one of them has a `failure`.
  void enter(const std::string& failure);
  /// Whether COCONET_CHECK has steps checked, and that.
  [[nodiscard]] bool checks() const { return bound_.config->check && bound_.comm().size() > 1; }
  void check();
  /// The step that can tell the other ranks that this one cannot run: the first at which they meet,
  /// where nothing before it writes what the application or another rank can see. None: null.
  [[nodiscard]] Step* find_refusal_step() const;
  /// Tells the others through `step`, instead of running it, that this rank cannot run.
  void refuse(Step& step);
  /// Throws what a kernel reported, if one did; `ended` is whether nothing runs any more.
  void check_fault(bool ended);
  /// Throws what `fault` says of its kernel; no step can run afterwards.
  [[noreturn]] void break_down(const abi::Fault& fault);
  /// No step can run from here on, and what this one writes may be half written.
  void break_off(std::string why);
  [[noreturn]] void throw_together(const std::string& failure);
  /// Collective, and nothing has been done: throws who was given which scalars.
  [[noreturn]] void throw_difference();

  Bound& bound_;
  const bool immediate_;
  OwnProcess process_;
  std::unique_ptr<Queue> own_queue_;
  std::unique_ptr<Queue> application_queue_;
  Queue* queue_ = nullptr;
  std::unique_ptr<Fork> fork_;                             ///< beside the queue of this rank
  std::unique_ptr<LaunchOrder> order_;                     ///< null where runs need none
  std::vector<std::shared_ptr<StateOrder>> state_orders_;  ///< with those that share states
  Sampler sampler_;
  KernelWaits kernel_waits_;
  LaunchGroup group_;
  GraphReplay replay_;

  std::vector<std::shared_ptr<Collectives>> collectives_;
  std::vector<std::vector<LibraryCall>> library_calls_;  ///< by step
  std::vector<Collectives*> watched_;                    ///< those that need watching
  /// Null where no step waits for tiles of a product, or the host tells.
  const Kernel* tile_signal_ = nullptr;
  std::unique_ptr<Event> tile_made_;  ///< what such a kernel begins behind

  Step* const refusal_step_;  ///< null: the ranks meet on the host before a step

  std::atomic_flag running_;  ///< a thread is inside `run`
  std::uint64_t runs_ = 0;
  Times waits_;
  std::string broken_;  ///< why no step can run any more; empty while all is well
};

}  // namespace coconet::jit
