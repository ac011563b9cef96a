// The local world: ranks are threads of this process. The board of control messages is plain
// memory, and the library collectives read the other ranks' buffers directly, in rank order.
#include "jit/comm/worlds/local.h"

#include <exception>
#include <mutex>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/collectives/direct_group.h"
#include "jit/comm/collectives/groups.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"

namespace coconet::jit {

namespace {

/// What the ranks of one group share.
struct Table {
  struct Place {
    alignas(64) std::uint64_t arrivals = 0;
    PointerGroup::Pointers pointers;
  };
  explicit Table(std::size_t ranks) : places(ranks) {}
  std::vector<Place> places;
};

/// What all ranks of the world share. Each rank writes its own elements only, and others read them
/// after a barrier.
struct Shared {
  explicit Shared(int ranks) : tables(ranks) {}
  std::shared_ptr<const Mapping> mapping;      ///< the newest allocation, by rank 0
  std::vector<std::shared_ptr<Table>> tables;  ///< the newest group, by its first rank
  std::shared_ptr<void> object;                ///< the newest shared one, by rank 0
};

/// A rank's view of the group whose ranks share `table`.
std::unique_ptr<Collectives> make_group(const std::shared_ptr<Membership>& membership,
                                        const std::vector<int>& ranks,
                                        const std::shared_ptr<Table>& table) {
  std::vector<std::uint64_t*> arrivals;
  std::vector<PointerGroup::Pointers*> pointers;
  for (Table::Place& place : table->places) {
    arrivals.push_back(&place.arrivals);
    pointers.push_back(&place.pointers);
  }
  auto barrier = std::make_shared<Barrier>(membership, ranks, std::move(arrivals), table);
  return std::make_unique<PointerGroup>(std::move(barrier), std::move(pointers));
}

class LocalComm final : public BoardComm {
 public:
  LocalComm(std::shared_ptr<Shared> shared, std::shared_ptr<PeerMemory> board,
            const std::vector<int>& ranks, std::shared_ptr<Membership> membership,
            int ranks_per_core)
      : BoardComm(std::move(board), ranks, std::move(membership), ranks_per_core),
        shared_(std::move(shared)) {}

  [[nodiscard]] std::string_view kind() const override { return "local"; }
  [[nodiscard]] bool in_one_process() const override { return true; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override {
    if (rank() == 0) shared_->object = std::move(object);
    barrier();
    std::shared_ptr<void> shared = shared_->object;
    barrier();
    if (rank() == 0) shared_->object.reset();
    return shared;
  }

  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override {
    agree_on_bytes(bytes, [this](std::string_view mine) { return all_gather(mine); });
    together(*this, [&] {
      if (rank() == 0) shared_->mapping = std::make_shared<const Mapping>(size(), bytes, -1);
    });
    auto memory = std::make_shared<MappedMemory>(shared_->mapping, rank());
    barrier();
    if (rank() == 0) shared_->mapping.reset();
    return memory;
  }

  [[nodiscard]] std::unique_ptr<Collectives> collectives(const std::vector<int>& ranks) override {
    (void)agree_on_groups(*this, ranks);
    const bool first = ranks.front() == rank();
    if (first) shared_->tables[rank()] = std::make_shared<Table>(ranks.size());
    barrier();
    auto made = make_group(membership(), ranks, shared_->tables[ranks.front()]);
    barrier();
    if (first) shared_->tables[rank()].reset();
    return made;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

std::vector<std::shared_ptr<LocalComm>> make_comms(int ranks) {
  if (ranks < 1) {
    throw CommError("a local world of " + std::to_string(ranks) +
                    " ranks was asked for; it needs at least 1");
  }
  const int crowd = ranks_per_core(std::vector<Cores>(ranks, available_cores()));
  const Waiting waiting{config().timeout, crowd > 1, {}};
  const auto board = std::make_shared<const Mapping>(ranks, BoardComm::board_bytes, -1);
  const auto shared = std::make_shared<Shared>(ranks);
  std::vector<int> all;
  std::vector<RankStatus*> statuses;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(rank);
    statuses.push_back(BoardComm::status_at(board->base(rank)));
  }
  std::vector<std::shared_ptr<LocalComm>> comms;
  for (const int rank : all) {
    comms.push_back(
        std::make_shared<LocalComm>(shared, std::make_shared<MappedMemory>(board, rank), all,
                                    std::make_shared<Membership>(rank, statuses, waiting), crowd));
  }
  return comms;
}

/// The exceptions of the ranks of one run, in the order in which they came.
class Failures {
 public:
  void add(std::exception_ptr failure, bool because_of_another) {
    const std::lock_guard lock(mutex_);
    (because_of_another ? consequences_ : causes_).push_back(std::move(failure));
  }
  void rethrow_first() const {
    if (!causes_.empty()) std::rethrow_exception(causes_.front());
    if (!consequences_.empty()) std::rethrow_exception(consequences_.front());
  }

 private:
  std::mutex mutex_;
  std::vector<std::exception_ptr> causes_;
  std::vector<std::exception_ptr> consequences_;
};

}  // namespace

std::vector<std::shared_ptr<Comm>> make_local_comms(int ranks) {
  const auto comms = make_comms(ranks);
  return {comms.begin(), comms.end()};
}

void run_local_ranks(int ranks, const std::function<void(const std::shared_ptr<Comm>&)>& body) {
  const auto comms = make_comms(ranks);
  Failures failures;
  const auto guarded = [&](Membership& membership, const std::function<void()>& part) {
    try {
      part();
    } catch (const PeerFailure& e) {
      failures.add(std::current_exception(), true);
      membership.fail(e.what());
    } catch (const std::exception& e) {
      failures.add(std::current_exception(), false);
      membership.fail(e.what());
    } catch (...) {
      failures.add(std::current_exception(), false);
      membership.fail("an exception that is no std::exception");
    }
  };

  std::vector<std::thread> threads;
  for (const auto& comm : comms) {
    guarded(*comm->membership(), [&] {
      threads.emplace_back([&, comm] {
        guarded(*comm->membership(), [&] {
          body(comm);
          comm->membership()->leave();
        });
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  failures.rethrow_first();
}

}  // namespace coconet::jit
