// The ranks of one node as a world of MPI processes: peer memory and control messages go through memory that they share,
// long library collectives through MPI.
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/collectives/peer_group.h"
#include "jit/comm/collectives/tiered_group.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/board_comm.h"

namespace coconet::jit {

/// Every rank's text, by rank of `comm`, by MPI's blocking calls: for as long as there is no other way.
[[nodiscard]] std::vector<std::string> gather_by_mpi(MPI_Comm comm, std::string_view mine);

class MpiComm final : public BoardComm {
 public:
  /// `comm` holds the ranks of `board` in its order; the rest is BoardComm's.
  MpiComm(MPI_Comm comm, std::shared_ptr<PeerMemory> board, const std::vector<int>& numbers,
          std::shared_ptr<Membership> membership, int ranks_per_core)
      : BoardComm(std::move(board), numbers, std::move(membership), ranks_per_core), comm_(comm) {}

  [[nodiscard]] std::string_view kind() const override { return "mpi"; }
  [[nodiscard]] bool in_one_process() const override { return size() == 1; }
  [[nodiscard]] std::shared_ptr<void> share(std::shared_ptr<void> object) override;
  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Collectives> collectives(const std::vector<int>& ranks) override;

 private:
  struct Ways {
    std::shared_ptr<CopyGroup> small;
    std::shared_ptr<PeerGroup> direct;
    std::shared_ptr<Collectives> large;
  };
  [[nodiscard]] Ways make_ways(const std::vector<int>& ranks);

  MPI_Comm comm_;
  std::shared_ptr<PeerAllocations> allocations_ = std::make_shared<PeerAllocations>();
  std::map<std::vector<std::vector<int>>, Ways> ways_;
};

}  // namespace coconet::jit
