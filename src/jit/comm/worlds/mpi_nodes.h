// A world of MPI processes on several nodes. Inside a node ranks share memory, as in a world of one
// node; between nodes there are MPI's messages and collectives.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/mpi_link.h"

namespace coconet::jit {

/// What a gather by MPI reads and writes until it ends.
struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  Indexed<std::uint64_t> lengths;
  Indexed<int> counts;
  Indexed<int> places;
  std::string mine;
  std::string all;
};

/// Every rank's text, by rank of `comm`. `wait` waits for the request of `transfer`, which MPI's
/// `call` made.
[[nodiscard]] Indexed<std::string> gather_by_mpi(
    MPI_Comm comm, std::string_view mine, Transfer& transfer,
    const std::function<void(std::string_view call)>& wait);

class NodesComm final : public Comm {
 public:
  /// Collective. `comm` holds all ranks of the world; `node` is the world of this rank's node,
  /// whose membership is of all ranks of the world.
  NodesComm(MPI_Comm comm, Nodes nodes, std::unique_ptr<BoardComm> node,
            std::shared_ptr<MpiLink> link);

  [[nodiscard]] Comm& node() override { return *node_; }
  void require_nobody_failed() const override;
  [[nodiscard]] bool any_failed(bool failed) override;
  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override;

 private:
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine,
                                                std::string_view call) override;
  [[nodiscard]] std::shared_ptr<Collectives> make_collectives(const std::vector<int>& ranks,
                                                              const Division& division) override;
  /// Collective over this rank's node, in whose nodes the ranks make as many barriers.
  [[nodiscard]] std::shared_ptr<Barrier> make_barrier(const std::vector<int>& ranks,
                                                      std::uint64_t number);
  /// Waits for `transfer`, which MPI's `call` has begun.
  void complete(Transfer& transfer, std::string_view call);

  MPI_Comm comm_;
  std::unique_ptr<BoardComm> node_;
  std::shared_ptr<MpiLink> link_;
  std::uint64_t barriers_ = 0;     ///< made so far, of groups too
  std::shared_ptr<Barrier> runs_;  ///< of `any_failed`
  std::list<Transfer> transfers_;  ///< none but those that were given up: MPI may still write there
  /// This rank's in divisions of the world; null where its node is divided by itself.
  std::map<Division, std::shared_ptr<Collectives>> across_;
};

}  // namespace coconet::jit
