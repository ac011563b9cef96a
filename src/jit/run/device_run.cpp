// Queueing, recording and timing steps on GPUs.
#include "jit/run/device_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"

namespace coconet::jit {

namespace {

/// Runs that are timed, which costs an event before and after each of their launches: the second to the ninth, the first
/// one being slower than all others, then every 64th.
bool is_sampled(std::uint64_t run) {
  return (run >= 1 && run <= 8) || run % 64 == 63;
}
constexpr std::size_t most_pending = 16;

}  // namespace

DeviceRun::DeviceRun(Comm& comm, const Platform& platform, const sched::Plan& plan,
                     std::vector<Step>& steps, Tensors& tensors, const AllTileCounts& tiles,
                     StepSync& sync)
    : comm_(comm),
      platform_(platform),
      steps_(steps),
      tensors_(tensors),
      sync_(sync),
      times_(steps.size() + 1) {
  choose_overlaps(plan);
  together(comm_, [&] {
    own_queue_ = platform_.make_queue();
    queue_ = own_queue_.get();
    arrived_ = platform_.make_event();
    fork_ = std::make_unique<Fork>(platform_, *queue_, most_beside());
  });
  const auto ranks = static_cast<std::size_t>(platform_.ranks_per_launch());
  auto gang = std::make_shared<Gang>();
  gang->members.resize(ranks);
  if (ranks > 1) gang = std::static_pointer_cast<Gang>(comm_.share(gang));
  gang_ = std::move(gang);
  const std::size_t position = ranks > 1 ? static_cast<std::size_t>(comm_.rank()) : 0;
  driver_ = position == 0;
  gang_->members[position] = {&steps_, &tensors_, &tiles, queue_, arrived_.get()};
  together(comm_, [&] {
    if (!driver_) return;
    gang_->driver = this;
    gang_->done = platform_.make_event();
  });
  make_groups(plan.graph.mesh);
  const bool tells = std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    const auto* matmul = std::get_if<Matmul>(&step.work);
    return matmul != nullptr && tiles.contains(matmul->out());
  });
  if (tells) tile_signal_ = obtain_kernel(comm_, platform_, write_tile_signal());
}

DeviceRun::~DeviceRun() {
  try {
    if (queue_ != nullptr) finish();
    if (fork_) fork_->finish();
    // The driver's queue works on this rank's tensors.
    while (gang_ && gang_->done && !gang_->done->reached()) std::this_thread::yield();
  } catch (const Error&) {
    // What failed was told to whoever waited for it, or nobody cares.
  }
}

void DeviceRun::choose_overlaps(const sched::Plan& plan) {
  if (config().overlap == "off") return;
  for (const sched::Overlap& overlap : plan.overlaps) {
    int blocks = 0;
    bool multiplies = false;
    for (std::size_t index = overlap.first; index < overlap.first + overlap.count; ++index) {
      if (const auto* kernel = std::get_if<KernelLaunch>(&steps_[index].work)) {
        blocks += kernel->grid().blocks * kernel->grid().ranks;
      } else {
        multiplies = true;
      }
    }
    // Every block finds a multiprocessor without another of them, and a product half of the GPU.
    const int room = platform_.device()->multiprocessors() / (multiplies ? 2 : 1);
    if (blocks <= room) {
      at_once_.push_back(overlap);
      continue;
    }
    log_info("steps '" + steps_[overlap.first].name + "' to '" +
             steps_[overlap.first + overlap.count - 1].name +
             "' run one after the other: " + std::to_string(blocks) +
             " blocks of their kernels wait for each other, and " + platform_.device()->name() +
             " has room for " + std::to_string(room) + "; lower the knob channels");
  }
}

std::size_t DeviceRun::most_beside() const {
  std::size_t most = 0;
  for (const sched::Overlap& overlap : at_once_) most = std::max(most, overlap.count - 1);
  return most;
}

void DeviceRun::make_groups(const Mesh& mesh) {
  std::map<int, std::vector<WantedReduction>> wanted;
  std::map<int, std::string> needed_by;
  for (const Step& step : steps_) {
    const auto* collective = std::get_if<LibraryCollective>(&step.work);
    if (collective == nullptr) continue;
    needed_by.try_emplace(collective->axis(), collective->name());
    auto& reductions = wanted[collective->axis()];
    if (collective->reduces()) reductions.push_back({collective->dtype(), collective->reduction()});
  }
  for (const auto& [axis, step] : needed_by) {
    auto& groups = groups_[axis];
    const std::vector<int> own = mesh.group(comm_.rank(), axis);
    if (own.size() > 1 && gang_->members.size() == 1) {
      groups.push_back({own, make_nccl_group(comm_, own, step)});
      by_nccl_ = true;
      continue;
    }
    // The driver of a gang has the groups of all its ranks, also of those that are a group by themselves; without a
    // gang what is left is a group of this rank alone.
    const bool alone = gang_->members.size() == 1;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const std::vector<int> ranks = mesh.group(rank, axis);
      const bool mine = alone ? rank == comm_.rank() : ranks.front() == rank;
      if (mine) groups.push_back({ranks, make_launch_group(comm_, platform_, ranks, wanted[axis])});
    }
  }
}

void DeviceRun::use_stream(void* handle) {
  if (application_queue_ && application_queue_->handle() == handle) return;
  std::unique_ptr<Queue> next = platform_.wrap_queue(handle);
  if (next->being_recorded()) {  // which must not depend on work outside the recording
    finish();
  } else {
    arrived_->record(*queue_);
    arrived_->hold(*next);
  }
  application_queue_ = std::move(next);
  queue_ = application_queue_.get();
}

void DeviceRun::require_ready() const {
  if (!queue_->being_recorded()) return;
  const bool waits = std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* kernel = std::get_if<KernelLaunch>(&step.work);
    return kernel != nullptr && kernel->grid().resident;
  });
  if (waits || gang_->members.size() > 1) {
    throw BackendError(
        "the application's stream is being captured, but a step whose ranks or kernels wait for "
        "each other cannot be replayed as it is; run it outside the capture, coconet-jit makes "
        "graphs of its own (COCONET_GRAPH)");
  }
}

void DeviceRun::agree(const std::string& failure) {
  if (!sync_.meet(!failure.empty())) return;
  const std::vector<std::string> failures = comm_.all_gather(failure);
  if (!failure.empty()) throw BackendError(failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty())
      throw CommError("rank " + std::to_string(rank) + ": " + failures[rank]);
  }
}

void DeviceRun::run(const Numbers& numbers) {
  for (Step& step : steps_) {
    if (auto* kernel = std::get_if<KernelLaunch>(&step.work))
      kernel->prepare(tensors_, numbers, sync_);
  }
  if (gang_->members.size() == 1) {
    try {
      drive();
    } catch (const Error&) {
      fork_->finish();  // nothing that the failed step left there may run beside the next one
      throw;
    }
    ++runs_;
    return;
  }
  std::string failure;
  const auto guarded = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      failure = error.what();
    }
    agree(failure);
  };
  guarded([&] {
    gang_->members[static_cast<std::size_t>(comm_.rank())].queue = queue_;
    if (!driver_) arrived_->record(*queue_);
  });
  guarded([&] {
    if (!driver_) return;
    try {
      for (const Member& member : gang_->members) {
        if (member.queue != queue_) member.arrived->hold(*queue_);
      }
      drive();
      gang_->done->record(*queue_);
    } catch (const Error&) {
      queue_->finish();  // the other ranks may take their tensors away once they hear of it
      fork_->finish();
      throw;
    }
  });
  if (!driver_) gang_->done->hold(*queue_);
  ++runs_;
}

void DeviceRun::drive() {
  harvest();
  if (is_sampled(runs_) && pending_.size() < most_pending && !queue_->being_recorded()) {
    sample();
  } else if (wants_graph()) {
    replay();
  } else {
    enqueue(*queue_, *fork_, {});
  }
}

void DeviceRun::sample() {
  Sample sample;
  std::shared_ptr<Event> last;
  const auto mark = [&](Queue& queue) {
    last = platform_.make_event();
    last->record(queue);
  };
  const auto begins = [&](Queue& queue, std::size_t count) {
    if (!last) mark(queue);
    for (std::size_t step = 0; step < count; ++step) sample.push_back({last, nullptr});
  };
  std::size_t ended = 0;
  enqueue(*queue_, *fork_, {begins, [&](Queue& queue) {
                              mark(queue);
                              sample[ended++].ended = last;
                            }});
  if (!sample.empty()) pending_.push_back(std::move(sample));
}

void DeviceRun::enqueue(Queue& queue, Fork& fork, const Watch& watch) {
  auto overlap = at_once_.begin();
  for (std::size_t first = 0; first < steps_.size();) {
    const bool at_once = overlap != at_once_.end() && overlap->first == first;
    const std::size_t count = at_once ? (overlap++)->count : 1;
    if (watch.begins) watch.begins(queue, count);
    fork.begin(queue, count - 1);
    // Makers come first: where nothing runs at once, because something else fills the GPU or a tool takes launches one by
    // one, the order is right.
    for (std::size_t step = 0; step < count; ++step) {
      Queue& own = step + 1 < count ? fork.beside(step) : queue;
      enqueue_step(own, first + step);
      if (watch.ended) watch.ended(own);
    }
    fork.end(queue, count - 1);
    first += count;
  }
}

void DeviceRun::enqueue_step(Queue& queue, std::size_t index) {
  if (const auto* kernel = std::get_if<KernelLaunch>(&steps_[index].work)) {
    queue.launch(kernel->kernel(), kernel->grid(), words_of(index));
    return;
  }
  if (std::holds_alternative<Matmul>(steps_[index].work)) {
    enqueue_matmul(queue, index);
    return;
  }
  const int axis = std::get<LibraryCollective>(steps_[index].work).axis();
  for (const Group& group : groups_[axis]) {
    std::vector<LibraryCollective::Member> members;
    for (const int rank : group.ranks) {
      const std::size_t place = gang_->members.size() == 1 ? 0 : static_cast<std::size_t>(rank);
      if (gang_->members.size() == 1 && rank != comm_.rank()) continue;
      const Member& member = gang_->members[place];
      members.push_back(
          {&std::get<LibraryCollective>((*member.steps)[index].work), member.tensors});
    }
    LibraryCollective::run(*group.collectives, queue, members);
  }
}

void DeviceRun::enqueue_matmul(Queue& queue, std::size_t index) {
  for (const Member& member : gang_->members) {
    auto& matmul = std::get<Matmul>((*member.steps)[index].work);
    const auto departing = member.tiles->find(matmul.out());
    const TileCounts* const tiles = departing == member.tiles->end() ? nullptr : &departing->second;
    matmul.enqueue(queue, *member.tensors, tiles, [&](std::int64_t begin, std::int64_t end) {
      const struct {
        abi::Tiles tiles;
        abi::index_t begin, end;
      } arguments{tiles->argument(), begin, end};
      std::array<std::uint64_t, sizeof(arguments) / sizeof(std::uint64_t)> words{};
      std::memcpy(words.data(), &arguments, sizeof(arguments));
      queue.launch(*tile_signal_, {.threads = 32}, words);
    });
  }
}

std::span<const std::uint64_t> DeviceRun::words_of(std::size_t step) {
  if (gang_->members.size() == 1) return std::get<KernelLaunch>(steps_[step].work).words();
  words_.clear();
  for (const Member& member : gang_->members) {
    const auto own = std::get<KernelLaunch>((*member.steps)[step].work).words();
    words_.insert(words_.end(), own.begin(), own.end());
  }
  return words_;
}

bool DeviceRun::wants_graph() const {
  // The first step is launched as it is: libraries set themselves up then.
  if (runs_ == 0 || queue_->being_recorded() || config().graph == "off") return false;
  return config().graph == "on" || (steps_.size() > 1 && !recorded_.refused);
}

std::uint64_t DeviceRun::tensors_version() const {
  std::uint64_t version = 0;
  for (const Member& member : gang_->members) version += member.tensors->version();
  return version;
}

bool DeviceRun::record() {
  recorded_ = {};
  std::unique_ptr<Fork> fork;  // whose queues are recorded until the recording ends
  try {
    recorded_.graph = platform_.record([&](Queue& queue) {
      fork = std::make_unique<Fork>(platform_, queue, most_beside());
      recorded_.launch.push_back(queue.launches());
      enqueue(queue, *fork,
              {nullptr, [&](Queue& own) { recorded_.launch.push_back(own.launches()); }});
    });
  } catch (const Error& error) {
    if (config().graph == "on") throw;
    recorded_ = {};
    recorded_.refused = true;
    log_warn(std::string("steps are launched one by one, as they cannot be made a graph: ") +
             error.what());
    return false;
  }
  recorded_.version = tensors_version();
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    auto& held = recorded_.words.emplace_back();
    if (!std::holds_alternative<KernelLaunch>(steps_[step].work)) continue;
    const std::span<const std::uint64_t> words = words_of(step);
    held.assign(words.begin(), words.end());
  }
  return true;
}

void DeviceRun::replay() {
  if (!recorded_.graph || recorded_.version != tensors_version()) {
    if (!record()) {
      enqueue(*queue_, *fork_, {});
      return;
    }
  } else {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      if (!std::holds_alternative<KernelLaunch>(steps_[step].work)) continue;
      const std::span<const std::uint64_t> words = words_of(step);
      if (std::ranges::equal(words, recorded_.words[step])) continue;
      recorded_.graph->set_launch(recorded_.launch[step], words);
      recorded_.words[step].assign(words.begin(), words.end());
    }
  }
  recorded_.graph->launch(*queue_);
}

void DeviceRun::finish() {
  // Kernels end by themselves, a library's collectives only with the other ranks'.
  if (!by_nccl_) queue_->finish();
  const auto deadline = std::chrono::steady_clock::now() + config().timeout;
  for (unsigned looks = 1; by_nccl_ && !queue_->idle(); ++looks) {
    if (looks > 1000) std::this_thread::sleep_for(std::chrono::microseconds(20));
    try {
      comm_.require_nobody_failed();
      for (const auto& [axis, groups] : groups_) {
        for (const Group& group : groups) group.collectives->check();
      }
      if (std::chrono::steady_clock::now() < deadline) continue;
      throw CommError("rank " + std::to_string(comm_.rank()) + " waited " +
                      seconds(config().timeout) +
                      " s for its library collectives; another rank is late, stuck or gone "
                      "(COCONET_TIMEOUT_S sets the limit)");
    } catch (const CommError&) {
      for (const auto& [axis, groups] : groups_) {
        for (const Group& group : groups) group.collectives->abort();
      }
      throw;
    }
  }
  harvest();
}

void DeviceRun::harvest() {
  const auto whole = [](float ms) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
  };
  const auto is_over = [](const Sample& sample) {
    return std::all_of(sample.begin(), sample.end(),
                       [](const Span& span) { return span.ended->reached(); });
  };
  while (!pending_.empty() && is_over(pending_.front())) {
    const Sample& sample = pending_.front();
    for (std::size_t i = 0; i < sample.size(); ++i)
      times_[i].add(whole(sample[i].ended->ms_since(*sample[i].begun)));
    times_.back().add(whole(sample.back().ended->ms_since(*sample.front().begun)));
    pending_.erase(pending_.begin());
  }
}

void DeviceRun::collect_times() {
  finish();
  comm_.barrier();  // the driver's times are read from here on
}

double DeviceRun::step_ms(std::size_t index) const {
  const DeviceRun* const timed = gang_->driver;
  return timed->times_[index].median_ms();
}

double DeviceRun::run_ms() const {
  return step_ms(steps_.size());
}

}  // namespace coconet::jit
