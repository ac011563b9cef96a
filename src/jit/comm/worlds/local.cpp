// Worlds of one process, whose ranks are threads: of one rank, or of many for a time.
#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "coconet/error.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

class LocalComm final : public BoardComm {
 public:
  /// `shared` is one for all ranks; the rest is BoardComm's.
  LocalComm(std::string_view kind, std::shared_ptr<PeerMemory> board, std::vector<int> ranks,
            std::shared_ptr<Membership> membership, int ranks_per_core,
            std::shared_ptr<const Config> config, std::shared_ptr<std::shared_ptr<void>> shared)
      : BoardComm(kind, std::move(board), std::move(ranks), std::move(membership), ranks_per_core,
                  std::move(config)),
        shared_(std::move(shared)) {}

  [[nodiscard]] bool in_one_process() const override { return true; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override {
    if (rank() == 0) *shared_ = std::move(object);
    barrier();
    std::shared_ptr<void> shared = *shared_;
    barrier();
    if (rank() == 0) shared_->reset();
    return shared;
  }

 private:
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine,
                                                std::string_view call) override {
    return size() == 1 ? std::vector{std::string(mine)} : BoardComm::gather(mine, call);
  }
  [[nodiscard]] std::shared_ptr<PeerMemory> map(std::size_t bytes) override {
    std::shared_ptr<PeerMemory> memory;
    together(*this, [&] {
      if (rank() == 0) memory = map_blocks(size(), bytes, -1, 0);
    });
    return std::static_pointer_cast<PeerMemory>(share(memory))->held_by(rank());
  }
  [[nodiscard]] std::shared_ptr<Comm> make_next(int rank, int size,
                                                const Exchange& exchange) override;

  std::shared_ptr<std::shared_ptr<void>> shared_;  ///< the newest shared object, by rank 0
};

using LocalComms = std::vector<std::shared_ptr<LocalComm>>;

LocalComms make_comms(std::string_view kind, int ranks,
                      const std::shared_ptr<const Config>& config) {
  if (ranks < 1) {
    throw CommError(
        fmt::format("a local world of {} ranks was asked for; it needs at least 1", ranks));
  }
  const int crowd = ranks_per_core(std::vector<Cores>(ranks, available_cores()));
  const Waiting waiting{config->timeout, crowd > 1, {}};
  const auto memory = map_blocks(ranks, BoardComm::board_bytes(ranks), -1, 0);
  const auto shared = std::make_shared<std::shared_ptr<void>>();
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  LocalComms comms;
  for (const int rank : all) {
    const auto board = memory->held_by(rank);
    comms.push_back(std::make_shared<LocalComm>(
        kind, board, all, BoardComm::membership_on(*board, waiting), crowd, config, shared));
  }
  return comms;
}

/// The comms of a next world, until each of its threads has taken its own.
struct Handed {
  LocalComms comms;
  std::atomic<std::size_t> left;
};

// The threads are still one process's, which launches their kernels together. Where one of them
// does not come for its own, what is handed stays: it may still come.
std::shared_ptr<Comm> LocalComm::make_next(int rank, int size, const Exchange& exchange) {
  std::string place;
  if (rank == 0) {
    LocalComms comms = make_comms("local", size, shared_config());
    for (const auto& comm : comms) comm->leave_at_end();
    auto handed = std::make_unique<Handed>();
    handed->left = comms.size();
    handed->comms = std::move(comms);
    place = fmt::format("{}", fmt::ptr(handed.release()));
  }
  auto* const handed = reinterpret_cast<Handed*>(std::stoull(exchange(place).front(), nullptr, 16));
  std::shared_ptr<LocalComm> mine = std::move(handed->comms[static_cast<std::size_t>(rank)]);
  if (handed->left.fetch_sub(1) == 1) std::unique_ptr<Handed>(handed).reset();
  return mine;
}

}  // namespace

std::shared_ptr<Comm> make_self_comm(std::shared_ptr<const Config> config) {
  return make_comms("self", 1, config).front();
}

void run_local_ranks(int ranks, const std::function<void(const std::shared_ptr<Comm>&)>& body,
                     const std::shared_ptr<const Config>& config) {
  const auto comms = make_comms("local", ranks, config);
  std::mutex mutex;
  std::exception_ptr cause, consequence;  // the first that a rank threw; the first PeerFailure
  const auto guarded = [&](Membership& membership, const std::function<void()>& part) {
    const auto keep = [&](std::exception_ptr& first) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    };
    try {
      part();
    } catch (const PeerFailure& e) {
      keep(consequence);
      membership.fail(e.what());
    } catch (...) {
      keep(cause);
      membership.fail(message_of(std::current_exception()));
    }
  };

  std::vector<std::thread> threads;
  for (const auto& comm : comms) {
    guarded(*comm->membership(), [&] {
      threads.emplace_back([&, comm] {
        const LogAsRank as_rank(comm->rank(), ranks);
        guarded(*comm->membership(), [&] {
          body(comm);
          comm->membership()->leave();
        });
        comm->membership()->lose(comm->rank());  // nobody need wait for it to shrink the world
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace coconet::jit
