// Steps on GPUs: what a step does is put into a queue, once or as a graph, and goes on while the application does.
//
// Ranks that share a GPU and a process form a gang: each prepares its argument blocks, and one of them, the driver, puts
// every step of the plan into its queue as one launch for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/bind/numbers.h"
#include "jit/bind/step_sync.h"
#include "jit/bind/tensors.h"
#include "jit/platform/device_group.h"
#include "jit/platform/platform.h"
#include "jit/run/fork.h"
#include "jit/run/step.h"

namespace coconet::jit {

class DeviceRun {
 public:
  /// Collective. `steps` and the others outlive it.
  DeviceRun(Comm& comm, const Platform& platform, const sched::Plan& plan, std::vector<Step>& steps,
            Tensors& tensors, const AllTileCounts& tiles, StepSync& sync);
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;
  /// Waits for what is queued.
  ~DeviceRun();

  /// Where this rank's work goes.
  [[nodiscard]] Queue& queue() { return *queue_; }
  /// Puts it into the application's stream from now on, behind what is queued; null: the legacy default stream.
  void use_stream(void* handle);

  /// Throws BackendError when the step cannot be put into the stream now.
  void require_ready() const;
  /// Collective among the gang, after all ranks have agreed to run: queues the step.
  void run(const Numbers& numbers);
  /// Waits until what is queued is done, watching over the libraries' collectives. Throws CommError, BackendError.
  void finish();
  /// Collective: times of steps, where the driver has sampled them.
  void collect_times();
  /// Median milliseconds of step `index`, or of whole runs.
  [[nodiscard]] double step_ms(std::size_t index) const;
  [[nodiscard]] double run_ms() const;

 private:
  /// A rank of the gang, as the driver sees it.
  struct Member {
    std::vector<Step>* steps = nullptr;
    const Tensors* tensors = nullptr;
    const AllTileCounts* tiles = nullptr;
    Queue* queue = nullptr;
    const Event* arrived = nullptr;
  };
  struct Gang {
    std::vector<Member> members;
    std::shared_ptr<Event> done;  ///< behind the newest step
    const DeviceRun* driver = nullptr;
  };
  /// When the steps of one sampled run began and ended.
  struct Span {
    std::shared_ptr<Event> begun, ended;
  };
  using Sample = std::vector<Span>;
  /// What is told of the steps that are put into queues; functions may be empty.
  struct Watch {
    /// Before a step, or all steps that run at once: how many, and the queue in whose order they begin.
    std::function<void(Queue& queue, std::size_t count)> begins;
    /// Behind each of them, in the queue that it is in; in the order of the plan.
    std::function<void(Queue& queue)> ended;
  };

  void make_groups(const Mesh& mesh);
  /// Chooses the overlaps whose steps run at once: those whose kernels leave each other, and a matmul, room on the GPU.
  void choose_overlaps(const sched::Plan& plan);
  /// Queues that the widest of them needs beside its last step's.
  [[nodiscard]] std::size_t most_beside() const;
  void enqueue_step(Queue& queue, std::size_t index);
  void enqueue_matmul(Queue& queue, std::size_t index);
  /// Throws on every rank of the gang when one of them has a `failure`.
  void agree(const std::string& failure);
  void drive();
  /// Puts all steps into `queue`, and into those of `fork` what runs beside it.
  void enqueue(Queue& queue, Fork& fork, const Watch& watch);
  void sample();
  /// The argument blocks of all ranks of the gang, valid until the next call.
  [[nodiscard]] std::span<const std::uint64_t> words_of(std::size_t step);
  [[nodiscard]] bool wants_graph() const;
  /// Records the step; false where it cannot be recorded and need not.
  bool record();
  void replay();
  [[nodiscard]] std::uint64_t tensors_version() const;
  void harvest();

  Comm& comm_;
  const Platform& platform_;
  std::vector<Step>& steps_;
  Tensors& tensors_;
  StepSync& sync_;
  std::unique_ptr<Queue> own_queue_;
  std::unique_ptr<Queue> application_queue_;
  Queue* queue_;
  std::unique_ptr<Event> arrived_;
  std::shared_ptr<Gang> gang_;
  bool driver_ = false;
  /// By mesh axis; the driver of a gang has all groups of its ranks.
  struct Group {
    std::vector<int> ranks;
    std::unique_ptr<Collectives> collectives;
  };
  std::map<int, std::vector<Group>> groups_;
  /// Steps that are put into queues of their own.
  std::vector<sched::Overlap> at_once_;
  std::unique_ptr<Fork> fork_;  ///< beside the queue of this rank
  /// Says that a tile of a matmul is made, where a step waits for it; null where none does.
  std::shared_ptr<const Kernel> tile_signal_;
  bool by_nccl_ = false;  ///< some of them wait for other processes or devices

  struct Recorded {
    std::unique_ptr<Graph> graph;
    std::uint64_t version = 0;                      ///< of the tensors whose places it holds
    std::vector<std::size_t> launch;                ///< by step: which launch of the graph
    bool refused = false;                           ///< it could not be made
    std::vector<std::vector<std::uint64_t>> words;  ///< by step: what it holds now
  };
  Recorded recorded_;
  std::vector<std::uint64_t> words_;  ///< of `words_of`

  std::uint64_t runs_ = 0;
  std::vector<Sample> pending_;
  std::vector<Times> times_;  ///< by step, then of the whole run
};

}  // namespace coconet::jit
