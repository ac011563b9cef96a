// A world whose ranks share memory: control messages go through a board that every rank writes a
// part of.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::jit {

class BoardComm : public Comm {
 public:
  /// Bytes of the board on every rank.
  static constexpr std::size_t slot_bytes = std::size_t{1} << 18;
  static constexpr std::size_t board_bytes = 4096 + 2 * slot_bytes;

  /// `board` is zeroed memory of `board_bytes` with a block for each rank. `numbers` are the ranks' names in messages and
  /// in `membership`, whose statuses of these ranks are on the board.
  BoardComm(std::shared_ptr<PeerMemory> board, std::vector<int> numbers,
            std::shared_ptr<Membership> membership, int ranks_per_core);

  /// The status of the rank whose block begins at `block`.
  [[nodiscard]] static RankStatus* status_at(std::byte* block) {
    return reinterpret_cast<RankStatus*>(block);
  }

  [[nodiscard]] int rank() const override { return board_->rank(); }
  [[nodiscard]] int size() const override { return static_cast<int>(numbers_.size()); }
  [[nodiscard]] const Nodes& nodes() const override { return nodes_; }
  [[nodiscard]] int number_of(int rank) const override {
    return numbers_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int ranks_per_core() const override { return ranks_per_core_; }
  void require_nobody_failed() const override { membership_->require_nobody_failed(); }
  using Comm::barrier;
  void barrier(std::chrono::milliseconds longer) override { everybody_.wait("barrier", longer); }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) override;
  [[nodiscard]] std::string broadcast(std::string_view mine, int root) override;
  [[nodiscard]] bool any_failed(bool failed) override;

  [[nodiscard]] const std::vector<int>& numbers() const { return numbers_; }
  [[nodiscard]] const std::shared_ptr<Membership>& membership() const { return membership_; }

 private:
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine, std::string_view call);

  std::shared_ptr<PeerMemory> board_;
  std::vector<int> numbers_;
  Nodes nodes_;
  std::shared_ptr<Membership> membership_;
  Barrier everybody_;
  int ranks_per_core_;
  unsigned round_ = 0;
};

}  // namespace coconet::jit
