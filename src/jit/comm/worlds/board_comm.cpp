// Control messages over shared memory. A rank's part of the board is
//
//   page      the rank's RankStatus, the count of its arrivals at the world's barriers, and what
//             ranks say of themselves when the world shrinks
//   slot 0    length of the whole message in 8 bytes, then up to `chunk` bytes of it
//   slot 1    the same
//   notices   a word for each rank of the world
//
// Rounds use the slots in turn: who writes a slot has met everybody since they last read it, one
// round ago.
#include "jit/comm/worlds/board_comm.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace coconet::jit {

namespace {

constexpr std::size_t status_page = 4096;
constexpr std::size_t arrivals_at = sizeof(RankStatus);
constexpr std::size_t notices_begin = status_page + 2 * BoardComm::slot_bytes;
constexpr std::size_t header = sizeof(std::uint64_t);
constexpr std::size_t rest_begin = arrivals_at + 64;
static_assert(rest_begin + BoardComm::rest_bytes <= status_page);

constexpr std::size_t slot_at(std::uint64_t round) {
  return status_page + (round % 2) * BoardComm::slot_bytes;
}

std::vector<std::uint64_t*> arrivals_of(const PeerMemory& board) {
  std::vector<std::uint64_t*> arrivals;
  for (int rank = 0; rank < board.ranks(); ++rank)
    arrivals.push_back(reinterpret_cast<std::uint64_t*>(board.base(rank) + arrivals_at));
  return arrivals;
}

}  // namespace

std::size_t BoardComm::board_bytes(int world_ranks) {
  return notices_begin + static_cast<std::size_t>(world_ranks) * sizeof(std::uint64_t);
}

std::uint64_t* BoardComm::notices_at(std::byte* block) {
  return reinterpret_cast<std::uint64_t*>(block + notices_begin);
}

std::byte* BoardComm::rest_at(std::byte* block) {
  return block + rest_begin;
}

void BoardComm::put_message(std::byte* block, std::uint64_t round, const Message& message) {
  std::byte* const slot = block + slot_at(round);
  std::memcpy(slot, &message.length, header);
  std::memcpy(slot + header, message.piece.data(), message.piece.size());
}

BoardComm::Message BoardComm::message_at(const std::byte* block, std::uint64_t round) {
  const std::byte* const slot = block + slot_at(round);
  Message message;
  std::memcpy(&message.length, slot, header);
  message.piece = {reinterpret_cast<const char*>(slot + header), chunk_bytes};
  return message;
}

BoardComm::BoardComm(std::string_view kind, std::shared_ptr<PeerMemory> board,
                     std::vector<int> numbers, std::shared_ptr<Membership> membership,
                     int ranks_per_core, std::shared_ptr<const Config> config)
    : Comm(kind, board->rank(), Nodes(board->ranks()), std::move(membership), ranks_per_core,
           std::move(config)),
      board_(std::move(board)),
      numbers_(std::move(numbers)) {
  everybody_ = std::make_shared<Barrier>(membership_, numbers_, arrivals_of(*board_), board_);
}

BoardComm::~BoardComm() {
  if (!leaves_at_end_) return;
  if (std::uncaught_exceptions() > 0) membership_->fail("an exception ended its part");
  membership_->leave();
}

std::shared_ptr<Membership> BoardComm::membership_on(const PeerMemory& board, Waiting waiting) {
  std::vector<RankStatus*> statuses;
  std::vector<std::uint64_t*> tables;
  for (int rank = 0; rank < board.ranks(); ++rank) {
    statuses.push_back(status_at(board.base(rank)));
    tables.push_back(notices_at(board.base(rank)));
  }
  return std::make_shared<Membership>(board.rank(), std::move(statuses), std::move(tables),
                                      std::move(waiting));
}

std::vector<std::string> BoardComm::gather(std::string_view mine, std::string_view call) {
  std::vector<std::string> all(size());
  std::size_t longest = 0;
  std::size_t done = 0;
  do {
    const std::uint64_t round = round_++;
    put_message(board_->base(rank()), round,
                {mine.size(), mine.substr(std::min(done, mine.size()), chunk_bytes)});
    everybody_->wait(call);
    for (int from = 0; from < size(); ++from) {
      const auto [length, piece] = message_at(board_->base(from), round);
      longest = std::max<std::size_t>(longest, length);
      all[from].append(piece.substr(0, length - std::min<std::size_t>(done, length)));
    }
    done += chunk_bytes;
  } while (done < longest);
  return all;
}

std::shared_ptr<PeerMemory> BoardComm::allocate(std::size_t bytes) {
  agree_on_bytes(*this, bytes);
  auto memory = map(bytes);
  allocations_->add(memory);
  return memory;
}

std::shared_ptr<PeerMemory> BoardComm::map(std::size_t bytes) {
  return map_across_processes(rank(), numbers_, bytes,
                              [this](std::string_view mine) { return all_gather(mine); });
}

std::shared_ptr<Collectives> BoardComm::make_large(const std::vector<int>&,
                                                   const std::shared_ptr<Barrier>&) {
  return nullptr;
}

std::shared_ptr<Collectives> BoardComm::make_collectives(const std::vector<int>& ranks,
                                                         const Division& division) {
  // By the division of the whole world, so that all ranks find it here or none does.
  std::shared_ptr<Collectives>& made = collectives_[division];
  if (made) return made;
  using Board = DirectCollectives::Board;
  const std::shared_ptr<PeerMemory> memory = allocate(sizeof(Board));
  std::vector<int> numbers;
  std::vector<std::uint64_t*> arrivals;
  std::vector<Board*> boards;
  for (const int rank : ranks) {
    numbers.push_back(numbers_[rank]);
    boards.push_back(reinterpret_cast<Board*>(memory->base(rank)));
    arrivals.push_back(&boards.back()->arrivals);
  }
  const auto barrier =
      std::make_shared<Barrier>(membership_, std::move(numbers), std::move(arrivals), memory);
  const auto direct = std::make_shared<DirectCollectives>(barrier, ranks, std::move(boards),
                                                          in_one_process() ? nullptr : allocations_,
                                                          make_large(ranks, barrier), ways_);
  // Of ranks that take turns on a core it would be the time of a turn.
  if (ranks.size() > 1 && ranks_per_core() == 1) direct->find_ways();
  made = direct;
  return made;
}

}  // namespace coconet::jit
