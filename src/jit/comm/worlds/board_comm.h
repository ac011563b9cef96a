// A world whose ranks share memory: control messages go through a board that every rank writes a
// part of, and library collectives through memory that all reach. The ranks are processes, unless
// a derived class maps what they allocate otherwise.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/direct_collectives.h"
#include "jit/comm/comm.h"
#include "jit/comm/memory/peer_memory.h"

namespace coconet::jit {

class COCONET_API BoardComm : public Comm {
 public:
  /// Bytes of the board on every rank, in a world of so many.
  [[nodiscard]] static std::size_t board_bytes(int world_ranks);

  /// `board` is zeroed memory of `board_bytes` with a block for each rank. `numbers` are the ranks'
  /// names in messages and in `membership`, whose statuses and tables of these ranks are on the
  /// board.
  BoardComm(std::string_view kind, std::shared_ptr<PeerMemory> board, std::vector<int> numbers,
            std::shared_ptr<Membership> membership, int ranks_per_core,
            std::shared_ptr<const Config> config);
  BoardComm(const BoardComm&) = delete;
  BoardComm& operator=(const BoardComm&) = delete;
  ~BoardComm() override;
  /// Nobody else tells those that still wait for this rank when the last handle of it has gone.
  void leave_at_end() { leaves_at_end_ = true; }

  /// The membership of the ranks of `board`, by their places there, for the one that holds it.
  [[nodiscard]] static std::shared_ptr<Membership> membership_on(const PeerMemory& board,
                                                                 Waiting waiting);
  /// The status of the rank whose block begins at `block`.
  [[nodiscard]] static RankStatus* status_at(std::byte* block) {
    return reinterpret_cast<RankStatus*>(block);
  }
  /// Likewise its table of notices.
  [[nodiscard]] static std::uint64_t* notices_at(std::byte* block);
  /// Likewise what is left of its page, `rest_bytes` for `shrink`.
  [[nodiscard]] static std::byte* rest_at(std::byte* block);
  static constexpr std::size_t rest_bytes = 2048;

  /// A message of `length` bytes, and up to `chunk_bytes` of it.
  struct Message {
    std::uint64_t length = 0;
    std::string_view piece;
  };
  /// Leaves one in its slot for `round`, and finds the one there.
  static void put_message(std::byte* block, std::uint64_t round, const Message& message);
  [[nodiscard]] static Message message_at(const std::byte* block, std::uint64_t round);
  static constexpr std::size_t slot_bytes = std::size_t{1} << 18;
  static constexpr std::size_t chunk_bytes = slot_bytes - sizeof(std::uint64_t);

  [[nodiscard]] int number_of(int rank) const override { return numbers_[rank]; }
  [[nodiscard]] std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<Comm> shrink() override;

 protected:
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine,
                                                std::string_view call) override;

 private:
  [[nodiscard]] std::shared_ptr<Collectives> make_collectives(const std::vector<int>& ranks,
                                                              const Division& division) override;
  /// Collective: memory of `bytes` on every rank, in files that all of them map.
  [[nodiscard]] virtual std::shared_ptr<PeerMemory> map(std::size_t bytes);
  /// Collective over the `size` ranks of the next world: that world, where this one is `rank`.
  [[nodiscard]] virtual std::shared_ptr<Comm> make_next(int rank, int size,
                                                        const Exchange& exchange);
  /// Collective: what carries out calls of `ranks` that memory does not; null where there are none.
  [[nodiscard]] virtual std::shared_ptr<Collectives> make_large(
      const std::vector<int>& ranks, const std::shared_ptr<Barrier>& barrier);

  /// The places of those that make the next world, the same on all of them.
  [[nodiscard]] std::vector<int> agree_on_survivors();

  std::shared_ptr<PeerMemory> board_;
  std::vector<int> numbers_;
  std::shared_ptr<PeerAllocations> allocations_ = std::make_shared<PeerAllocations>();
  std::map<Division, std::shared_ptr<Collectives>> collectives_;
  std::uint64_t round_ = 0;
  bool leaves_at_end_ = false;
};

}  // namespace coconet::jit
