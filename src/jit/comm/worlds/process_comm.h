// A world of processes of one node: memory is in files that all of them map.
#pragma once

#include <memory>
#include <vector>

#include "jit/comm/worlds/board_comm.h"

namespace coconet::jit {

class COCONET_API ProcessComm : public BoardComm {
 public:
  using BoardComm::BoardComm;

 protected:
  [[nodiscard]] std::shared_ptr<Collectives> make_large(
      const std::vector<int>& ranks, const std::shared_ptr<Barrier>& barrier) override;

 private:
  [[nodiscard]] std::shared_ptr<PeerMemory> map(std::size_t bytes) override;
};

}  // namespace coconet::jit
