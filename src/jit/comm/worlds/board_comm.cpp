// Control messages over shared memory. A rank's part of the board is
//
//   page      the rank's RankStatus, and the count of its arrivals at the world's barriers
//   slot 0    length of the whole message in 8 bytes, then up to `chunk` bytes of it
//   slot 1    the same
//
// Rounds use the slots in turn: who writes a slot has met everybody since they last read it, one
// round ago.
#include "jit/comm/worlds/board_comm.h"

#include <algorithm>
#include <cstring>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr std::size_t page = BoardComm::board_bytes - 2 * BoardComm::slot_bytes;
constexpr std::size_t arrivals_at = sizeof(RankStatus);
constexpr std::size_t header = sizeof(std::uint64_t);
constexpr std::size_t chunk = BoardComm::slot_bytes - header;
static_assert(arrivals_at + 64 <= page);

std::vector<std::uint64_t*> arrivals_of(const PeerMemory& board, int ranks) {
  std::vector<std::uint64_t*> arrivals;
  for (int rank = 0; rank < ranks; ++rank) {
    arrivals.push_back(reinterpret_cast<std::uint64_t*>(board.base(rank) + arrivals_at));
  }
  return arrivals;
}

}  // namespace

BoardComm::BoardComm(std::shared_ptr<PeerMemory> board, std::vector<int> numbers,
                     std::shared_ptr<Membership> membership, int ranks_per_core)
    : board_(std::move(board)),
      numbers_(std::move(numbers)),
      nodes_(size()),
      membership_(std::move(membership)),
      everybody_(membership_, numbers_, arrivals_of(*board_, size()), board_),
      ranks_per_core_(ranks_per_core) {}

std::vector<std::string> BoardComm::all_gather(std::string_view mine) {
  return gather(mine, "all_gather");
}

std::string BoardComm::broadcast(std::string_view mine, int root) {
  if (root < 0 || root >= size()) {
    throw InternalError("broadcast from rank " + std::to_string(root) + " of a world of " +
                        std::to_string(size()));
  }
  return std::move(gather(root == rank() ? mine : std::string_view(), "broadcast")[root]);
}

bool BoardComm::any_failed(bool failed) {
  const std::vector<std::string> all = all_gather(failed ? "1" : "0");
  return std::find(all.begin(), all.end(), "1") != all.end();
}

std::vector<std::string> BoardComm::gather(std::string_view mine, std::string_view call) {
  std::vector<std::string> all(size());
  std::size_t longest = 0;
  std::size_t done = 0;
  do {
    const std::size_t slot = page + (round_++ % 2) * slot_bytes;
    const std::uint64_t length = mine.size();
    std::byte* out = board_->base(rank()) + slot;
    std::memcpy(out, &length, header);
    if (done < mine.size())
      std::memcpy(out + header, mine.data() + done, std::min(chunk, mine.size() - done));
    everybody_.wait(call);
    for (int from = 0; from < size(); ++from) {
      const std::byte* in = board_->base(from) + slot;
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, in, header);
      longest = std::max<std::size_t>(longest, bytes);
      const std::size_t left = bytes - std::min<std::size_t>(done, bytes);
      all[from].append(reinterpret_cast<const char*>(in + header), std::min(chunk, left));
    }
    done += chunk;
  } while (done < longest);
  return all;
}

}  // namespace coconet::jit
