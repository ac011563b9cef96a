// What the runtime needs of a world: control messages between ranks, memory that all of them reach,
// and the library's collectives. Worlds differ in whether their ranks share memory (board_comm.h)
// or are on several nodes (jit/mpi/nodes.h). What is exported here and below is for
// libcoconet-jit-mpi of the same version, and no part of the API.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coconet/config.h"
#include "coconet/export.h"
#include "ir/indexed.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"
#include "jit/comm/collectives/ways.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/configure.h"

namespace coconet {
struct Bootstrap;
}

namespace coconet::jit {

/// One collective allocation: a block of the same size on every rank, those of one node mapped
/// here. Zeroed, aligned to 4096 bytes. Pages that nobody touches take no memory. Freed when the
/// last handle on the last rank goes; freeing is not collective.
class PeerMemory {
 public:
  /// `blocks` by rank, which `owner` keeps.
  PeerMemory(Indexed<std::byte*> blocks, int rank, std::size_t bytes,
             std::shared_ptr<const void> owner, std::byte* multicast = nullptr,
             std::string no_multicast = "only GPUs have one")
      : blocks_(std::move(blocks)),
        rank_(rank),
        bytes_(bytes),
        owner_(std::move(owner)),
        multicast_(multicast),
        no_multicast_(std::move(no_multicast)) {}

  /// This memory as seen by another rank of this process.
  [[nodiscard]] std::shared_ptr<PeerMemory> held_by(int rank) const {
    return std::make_shared<PeerMemory>(blocks_, rank, bytes_, owner_, multicast_, no_multicast_);
  }

  /// The block of `rank`, as this rank addresses it; null where that rank is on another node.
  [[nodiscard]] std::byte* base(int rank) const { return blocks_[rank]; }
  /// The rank that holds this handle: `base(rank())` is its own block.
  [[nodiscard]] int rank() const { return rank_; }
  /// Ranks of the world, each with a block.
  [[nodiscard]] int ranks() const { return blocks_.count(); }
  /// Bytes per rank, as asked.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// An address behind which the blocks of all ranks are, for a GPU's multimem instructions only:
  /// its loads reduce over the ranks, its stores go to all of them. Null where there is none.
  [[nodiscard]] std::byte* multicast() const { return multicast_; }
  /// Why there is none, the same on all ranks; empty where there is one.
  [[nodiscard]] const std::string& no_multicast() const { return no_multicast_; }

 private:
  Indexed<std::byte*> blocks_;
  int rank_;
  std::size_t bytes_;
  std::shared_ptr<const void> owner_;
  std::byte* multicast_;
  std::string no_multicast_;
};

/// A world's machinery on one rank.
class COCONET_API Comm {
 public:
  virtual ~Comm() = default;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return nodes_.ranks(); }
  [[nodiscard]] std::string_view kind() const { return kind_; }
  /// The environment's configuration with the options that the world was made with.
  [[nodiscard]] const Config& config() const { return *config_; }
  [[nodiscard]] const std::shared_ptr<const Config>& shared_config() const { return config_; }

  /// Waits for every rank; throws CommError naming the missing ranks after `config().timeout`, or
  /// after that and `longer` where a rank may have work to do before it comes, such as a
  /// compilation.
  void barrier() { barrier({}); }
  virtual void barrier(std::chrono::milliseconds longer) { everybody_->wait("barrier", longer); }
  /// Every rank's bytes, by rank; lengths may differ.
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) {
    return gather(mine, "all_gather");
  }
  /// `root`'s bytes on every rank; `mine` counts on `root` only.
  [[nodiscard]] std::string broadcast(std::string_view mine, int root);
  /// Collective over the world.
  [[nodiscard]] virtual std::shared_ptr<PeerMemory> allocate(std::size_t bytes) = 0;
  /// The host's collectives of a group. Collective over the world: each rank passes the group it is
  /// in, in group order. Groups are disjoint.
  [[nodiscard]] std::shared_ptr<Collectives> collectives(const std::vector<int>& ranks);
  /// Collective: the collectives of a node's ranks go by these from here on, whatever they have
  /// found to be quicker.
  void set_ways(const CollectiveWays& ways);
  /// Collective, before a step: whether any rank says that it cannot run it. Throws Differs where
  /// none does and they were given different things for it.
  [[nodiscard]] virtual bool any_failed(bool failed, std::uint64_t given);

  /// Collective over the ranks that are left when this world is over: a world of those that come
  /// within the timeout, in their order. Once in a world. Throws CommError on several nodes.
  [[nodiscard]] virtual std::shared_ptr<Comm> shrink();

  /// Which ranks share memory with which.
  [[nodiscard]] const Nodes& nodes() const { return nodes_; }
  /// The world of the ranks on this one's node, in their order, where they count from 0: this one
  /// itself in a world of one node.
  [[nodiscard]] virtual Comm& node() { return *this; }
  /// What `rank` is called in messages: its number in the whole world, of which this may be a node.
  [[nodiscard]] virtual int number_of(int rank) const { return rank; }

  /// Ranks of this world on this node over cores available to them, rounded up: above 1 waiting
  /// ranks yield.
  [[nodiscard]] int ranks_per_core() const { return ranks_per_core_; }

  /// Throws PeerFailure when a rank has told that it failed; for those who wait by other means than
  /// this class.
  virtual void require_nobody_failed() { membership_->require_nobody_failed(); }
  /// Which ranks of the whole world take part.
  [[nodiscard]] const std::shared_ptr<Membership>& membership() const { return membership_; }

  /// Whether all ranks are threads of this process.
  [[nodiscard]] virtual bool in_one_process() const { return size() == 1; }
  /// Collective among threads of one process: rank 0's object on every rank.
  [[nodiscard]] virtual std::shared_ptr<void> share(std::shared_ptr<void> object);

  /// The ordinal of this rank's GPU, -1 until the platform has chosen one; platforms keep it here.
  [[nodiscard]] int& gpu() { return gpu_; }
  /// The application's NCCL communicator of all ranks, null when there is none; platforms keep it
  /// here.
  [[nodiscard]] void*& nccl() { return nccl_; }
  /// How many executables were made for this world, the same on all ranks; they count here.
  [[nodiscard]] std::uint64_t& executables() { return executables_; }

 protected:
  /// The groups of one call of `collectives`, by rank.
  using Division = std::vector<std::vector<int>>;

  Comm(std::string_view kind, int rank, Nodes nodes, std::shared_ptr<Membership> membership,
       int ranks_per_core, std::shared_ptr<const Config> config);

  /// Every rank's bytes, by rank, in a collective that errors name `call`.
  [[nodiscard]] virtual std::vector<std::string> gather(std::string_view mine,
                                                        std::string_view call) = 0;
  /// Collective over the world: the collectives of `ranks`, this rank's group in `division`, which
  /// all ranks pass. Later ones of the same division may be the same object.
  [[nodiscard]] virtual std::shared_ptr<Collectives> make_collectives(const std::vector<int>& ranks,
                                                                      const Division& division) = 0;

  std::string_view kind_;
  int rank_;
  Nodes nodes_;
  std::shared_ptr<Membership> membership_;
  std::shared_ptr<Barrier> everybody_;  ///< of all ranks; the derived worlds make it
  int ranks_per_core_;
  /// What `set_ways` has said.
  std::shared_ptr<std::optional<CollectiveWays>> ways_ =
      std::make_shared<std::optional<CollectiveWays>>();

 private:
  std::shared_ptr<const Config> config_;
  int gpu_ = -1;
  void* nccl_ = nullptr;
  std::uint64_t executables_ = 0;
};

/// The world of one rank: this process.
[[nodiscard]] std::shared_ptr<Comm> make_self_comm(
    std::shared_ptr<const Config> config = configure({}));
/// The world of `bootstrap`'s processes, which share memory. Collective.
[[nodiscard]] std::shared_ptr<Comm> make_bootstrap_comm(const Bootstrap& bootstrap,
                                                        std::shared_ptr<const Config> config);
/// Runs `body` on `ranks` threads, each with its comm of one new world. When a rank throws, the
/// others' waits for it end at once. Throws after all have ended, what the first rank threw of its
/// own accord; what ranks threw because another one had failed comes last.
void run_local_ranks(int ranks, const std::function<void(const std::shared_ptr<Comm>&)>& body,
                     const std::shared_ptr<const Config>& config);

/// Runs `body` on every rank; when it throws on some, throws on all of them: the own error on
/// those, elsewhere a CommError "rank 1: ...". Collective.
COCONET_API void together(Comm& comm, const std::function<void()>& body);
/// `together`, returning what `body` returned on every rank. Collective.
[[nodiscard]] COCONET_API std::vector<std::string> gather_together(
    Comm& comm, const std::function<std::string()>& body);
/// Throws the same CommError on every rank when ranks ask for blocks of different sizes.
/// Collective.
void agree_on_bytes(Comm& comm, std::size_t bytes);
/// The greatest of all ranks' numbers, on every rank. Collective.
template <class Number>
[[nodiscard]] Number greatest_of_all(Comm& comm, Number mine) {
  const std::string_view bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  Number greatest = mine;
  for (const std::string& other : comm.all_gather(bytes)) {
    Number number{};
    std::memcpy(&number, other.data(), sizeof number);
    greatest = std::max(greatest, number);
  }
  return greatest;
}
/// Collective over a world of several nodes: memory of `bytes` on every rank, which `allocate`
/// makes in each node. What goes wrong in one node goes wrong on all ranks.
[[nodiscard]] COCONET_API std::shared_ptr<PeerMemory> allocate_in_nodes(
    Comm& comm, std::size_t bytes,
    const std::function<std::shared_ptr<PeerMemory>(Comm& node)>& allocate);
/// What `error` says.
[[nodiscard]] std::string message_of(const std::exception_ptr& error);

}  // namespace coconet::jit
