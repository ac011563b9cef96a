// The next world of those that are left. They agree through the board of the old world, of which
// the barriers cannot be used any more, and then find each other there as the processes of a
// Bootstrap.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "coconet/error.h"
#include "coconet/world.h"
#include "jit/comm/barrier/rank_state.h"
#include "jit/comm/barrier/wait_until.h"
#include "jit/comm/worlds/board_comm.h"

namespace coconet::jit {
namespace {

using Clock = std::chrono::steady_clock;

/// What is on every rank's page of the board for this.
struct Words {
  std::uint64_t joined;  ///< 1: comes along
  std::uint64_t chosen;  ///< 1: is one of the survivors
  std::uint64_t round;   ///< of the exchanges among them
  /// On the first page only: 1 + the rank that chooses, and 1 once it has chosen.
  std::uint64_t chooser, has_chosen;
};
static_assert(sizeof(Words) <= BoardComm::rest_bytes);

Words& words_of(const PeerMemory& board, int place) {
  return *reinterpret_cast<Words*>(BoardComm::rest_at(board.base(place)));
}

[[noreturn]] void fail_shrinking(int rank, std::string_view why) {
  throw CommError(fmt::format("rank {} {} while the world shrank; end the job", rank, why));
}

/// Every survivor's text, in their order: a message in a slot of the board at a time.
class Exchanger {
 public:
  Exchanger(std::shared_ptr<PeerMemory> board, std::shared_ptr<Membership> membership,
            std::vector<int> places, std::vector<int> numbers)
      : board_(std::move(board)),
        membership_(std::move(membership)),
        places_(std::move(places)),
        numbers_(std::move(numbers)) {}

  std::vector<std::string> operator()(std::string_view mine) {
    if (mine.size() > BoardComm::chunk_bytes)
      throw InternalError("a message of a world that shrinks is too long");
    const std::uint64_t round = ++round_;
    BoardComm::put_message(board_->base(board_->rank()), round, {mine.size(), mine});
    shared(words_of(*board_, board_->rank()).round).store(round, std::memory_order_release);
    std::vector<std::string> all;
    const Clock::time_point deadline = Clock::now() + membership_->waiting().timeout;
    for (const int place : places_) {
      bool is_lost = false;
      const bool came = wait_until(
          [&] {
            return shared(words_of(*board_, place).round).load(std::memory_order_acquire) >= round;
          },
          [&] {
            is_lost = membership_->is_lost(numbers_[place]);
            return is_lost || Clock::now() > deadline;
          },
          [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
      if (!came) {
        fail_shrinking(numbers_[place], is_lost ? "was lost" : "was late");
      }
      const auto [length, piece] = BoardComm::message_at(board_->base(place), round);
      all.emplace_back(piece.substr(0, length));
    }
    return all;
  }

 private:
  std::shared_ptr<PeerMemory> board_;
  std::shared_ptr<Membership> membership_;
  std::vector<int> places_, numbers_;
  std::uint64_t round_ = 0;
};

}  // namespace

std::vector<int> BoardComm::agree_on_survivors() {
  Words& first = words_of(*board_, 0);
  Words& mine = words_of(*board_, rank());
  if (shared(mine.joined).exchange(1) != 0) {
    throw CommError(fmt::format(
        "rank {} has called shrink of this world before; shrink the new world", number_of(rank())));
  }
  const auto is_here = [&](int place) {
    return shared(words_of(*board_, place).joined).load(std::memory_order_acquire) != 0 &&
           !membership_->is_lost(number_of(place));
  };
  const Clock::time_point deadline = Clock::now() + config().timeout;
  int least = size();  // of those who are here, which chooses
  const auto choose = [&] {
    bool all_known = true;
    least = size();
    for (int place = size() - 1; place >= 0; --place) {
      if (is_here(place)) {
        least = place;
      } else if (!membership_->is_lost(number_of(place))) {
        all_known = false;
      }
    }
    std::uint64_t nobody = 0;
    if (least == rank() && (all_known || Clock::now() > deadline) &&
        shared(first.chooser).compare_exchange_strong(nobody, rank() + 1)) {
      for (int place = 0; place < size(); ++place)
        shared(words_of(*board_, place).chosen).store(is_here(place) ? 1 : 0);
      shared(first.has_chosen).store(1, std::memory_order_release);
    }
  };
  const bool is_agreed = wait_until(
      [&] {
        choose();
        return shared(first.has_chosen).load(std::memory_order_acquire) != 0;
      },
      [&] { return Clock::now() > deadline + config().timeout; },
      [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  if (!is_agreed) {
    const std::uint64_t chooser = shared(first.chooser).load();
    const int late = chooser != 0 ? static_cast<int>(chooser - 1) : std::min(least, size() - 1);
    fail_shrinking(number_of(late), "was late");
  }
  std::vector<int> survivors;
  for (int place = 0; place < size(); ++place) {
    if (shared(words_of(*board_, place).chosen).load() != 0) survivors.push_back(place);
  }
  if (std::ranges::find(survivors, rank()) == survivors.end()) {
    throw CommError(fmt::format(
        "rank {} came to shrink when the others had made the next world without it, after the time "
        "that COCONET_TIMEOUT_S sets",
        number_of(rank())));
  }
  return survivors;
}

std::shared_ptr<Comm> BoardComm::shrink() {
  if (!membership_->is_over())
    throw CommError("this world is not over: all of its ranks are there; go on with it");
  const std::vector<int> survivors = agree_on_survivors();
  const auto place = std::ranges::find(survivors, rank()) - survivors.begin();
  return make_next(
      static_cast<int>(place), static_cast<int>(survivors.size()),
      [exchanger = std::make_shared<Exchanger>(board_, membership_, survivors, numbers_)](
          std::string_view mine) { return (*exchanger)(mine); });
}

std::shared_ptr<Comm> BoardComm::make_next(int rank, int size, const Exchange& exchange) {
  Bootstrap bootstrap;
  bootstrap.rank = rank;
  bootstrap.size = size;
  bootstrap.all_gather = exchange;
  return make_bootstrap_comm(bootstrap, shared_config());
}

}  // namespace coconet::jit
