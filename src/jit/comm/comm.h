// What the runtime needs of a world: control messages between ranks, memory that all of them reach,
// and the library's collectives. One implementation per kind of world: self, local, mpi.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coconet::jit {

class Collectives;
class Nodes;

/// One collective allocation: a block of the same size on every rank, those of one node mapped
/// here. Zeroed, aligned to 4096 bytes. Pages that nobody touches take no memory. Freed when the
/// last handle on the last rank goes; freeing is not collective.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// The block of `rank`, as this rank addresses it; null where that rank is on another node.
  [[nodiscard]] virtual std::byte* base(int rank) const = 0;
  /// The rank that holds this handle: `base(rank())` is its own block.
  [[nodiscard]] virtual int rank() const = 0;
  /// Ranks of the world, each with a block.
  [[nodiscard]] virtual int ranks() const = 0;
  /// Bytes per rank, as asked.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// An address behind which the blocks of all ranks are, for a GPU's multimem instructions only:
  /// its loads reduce over the ranks, its stores go to all of them. Null where there is none.
  [[nodiscard]] virtual std::byte* multicast() const { return nullptr; }
  /// Why there is none, the same on all ranks; empty where there is one.
  [[nodiscard]] virtual std::string no_multicast() const { return "only GPUs have one"; }
};

/// A world's machinery on one rank.
class Comm {
 public:
  virtual ~Comm() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string_view kind() const = 0;

  /// Waits for every rank; throws CommError naming the missing ranks after `config().timeout`.
  void barrier() { barrier({}); }
  /// The same after a time that is `longer`: where a rank may have work to do before it comes, such
  /// as a compilation.
  virtual void barrier(std::chrono::milliseconds longer) = 0;
  /// Every rank's bytes, by rank; lengths may differ.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view mine) = 0;
  /// `root`'s bytes on every rank; `mine` counts on `root` only.
  [[nodiscard]] virtual std::string broadcast(std::string_view mine, int root) = 0;
  /// Collective over the world.
  [[nodiscard]] virtual std::shared_ptr<PeerMemory> allocate(std::size_t bytes) = 0;
  /// The host's collectives of a group. Collective over the world: each rank passes the group it is
  /// in, in group order. Groups are disjoint.
  [[nodiscard]] virtual std::unique_ptr<Collectives> collectives(const std::vector<int>& ranks) = 0;
  /// Collective, before a step: whether any rank says that it cannot run it.
  [[nodiscard]] virtual bool any_failed(bool failed) = 0;

  /// Which ranks share memory with which.
  [[nodiscard]] virtual const Nodes& nodes() const = 0;
  /// The world of the ranks on this one's node, in their order, where they count from 0: this one
  /// itself in a world of one node.
  [[nodiscard]] virtual Comm& node() { return *this; }
  /// What `rank` is called in messages: its number in the whole world, of which this may be a node.
  [[nodiscard]] virtual int number_of(int rank) const { return rank; }

  /// Ranks of this world on this node over cores available to them, rounded up: above 1 waiting
  /// ranks yield.
  [[nodiscard]] virtual int ranks_per_core() const = 0;

  /// Throws PeerFailure when a rank has told that it failed; for those who wait by other means than
  /// this class.
  virtual void require_nobody_failed() const = 0;

  /// Whether all ranks are threads of this process.
  [[nodiscard]] virtual bool in_one_process() const = 0;
  /// Collective among threads of one process: rank 0's object on every rank.
  [[nodiscard]] virtual std::shared_ptr<void> share(std::shared_ptr<void> object) = 0;

  /// The ordinal of this rank's GPU, -1 until the platform has chosen one; platforms keep it here.
  [[nodiscard]] int& gpu() { return gpu_; }

 private:
  int gpu_ = -1;
};

[[nodiscard]] std::shared_ptr<Comm> make_self_comm();
/// The comms of a new world of `ranks` threads, one for each; all of them share one state.
[[nodiscard]] std::vector<std::shared_ptr<Comm>> make_local_comms(int ranks);
/// Throws CommError when the library was built without MPI (no_mpi.cpp).
[[nodiscard]] std::shared_ptr<Comm> make_mpi_comm();

/// What `doctor` says of MPI.
struct MpiFacts {
  bool built = false;
  std::string version;  ///< "Open MPI v4.1.4"
};
[[nodiscard]] MpiFacts mpi_facts();

/// Runs `body` on every rank; when it throws on some, throws on all of them: the own error on
/// those, elsewhere a CommError "rank 1: ...". Collective.
void together(Comm& comm, const std::function<void()>& body);
/// The same, and what `body` returned on every rank.
[[nodiscard]] std::vector<std::string> gather_together(Comm& comm,
                                                       const std::function<std::string()>& body);

}  // namespace coconet::jit
