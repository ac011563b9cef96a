// A world of MPI processes on several nodes. Inside a node ranks share memory, as in a world of one node; between nodes
// there are MPI's messages and collectives.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/mpi_comm.h"
#include "jit/comm/worlds/mpi_link.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::jit {

class NodesComm final : public Comm {
 public:
  /// Collective. `comm` holds all ranks of the world; `node` is the world of this rank's node, whose membership is of all ranks
  /// of the world.
  NodesComm(MPI_Comm comm, Nodes nodes, std::unique_ptr<MpiComm> node,
            std::shared_ptr<MpiLink> link);

  [[nodiscard]] int rank() const override { return membership().rank(); }
  [[nodiscard]] int size() const override { return membership().size(); }
  [[nodiscard]] std::string_view kind() const override { return "mpi"; }
  [[nodiscard]] int ranks_per_core() const override { return node_->ranks_per_core(); }
  [[nodiscard]] const Nodes& nodes() const override { return nodes_; }
  [[nodiscard]] Comm& node() override { return *node_; }
  [[nodiscard]] bool in_one_process() const override { return false; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override;
  void require_nobody_failed() const override;

  using Comm::barrier;
  void barrier(std::chrono::milliseconds longer) override { everybody_->wait("barrier", longer); }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) override;
  [[nodiscard]] std::string broadcast(std::string_view mine, int root) override;
  [[nodiscard]] bool any_failed(bool failed) override;
  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Collectives> collectives(const std::vector<int>& ranks) override;

  /// Of all ranks of the world.
  [[nodiscard]] Membership& membership() const { return *node_->membership(); }

 private:
  /// The memory of a collective of MPI that this rank is in, which MPI may write until it ends.
  struct Transfer {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::uint64_t> lengths;
    std::vector<int> counts;
    std::vector<int> places;
    std::string mine;
    std::string all;
  };
  /// This rank's group in a division of the world in which this node is not divided by itself.
  struct Across {
    MPI_Comm comm = MPI_COMM_NULL;
    std::shared_ptr<Barrier> barrier;
  };
  /// Collective over this rank's node, in whose nodes the ranks make as many barriers.
  [[nodiscard]] std::shared_ptr<Barrier> make_barrier(const std::vector<int>& ranks,
                                                      std::uint64_t number);
  /// Waits for `transfer`, which `code` of `call` says has begun.
  void complete(Transfer& transfer, int code, std::string_view call);

  MPI_Comm comm_;
  Nodes nodes_;
  std::unique_ptr<MpiComm> node_;
  std::shared_ptr<MpiLink> link_;
  std::uint64_t barriers_ = 0;  ///< made so far, of groups too
  std::shared_ptr<Barrier> everybody_;
  std::shared_ptr<Barrier> runs_;  ///< of `any_failed`
  std::list<Transfer> transfers_;  ///< none but those that were given up
  std::map<std::vector<std::vector<int>>, Across> across_;
};

}  // namespace coconet::jit
