// The ranks of a communicator before they are a world: they share no memory yet, and exchange texts
// by calls of MPI that do not wait.
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/indexed.h"
#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

/// Where a rank does not come in time, stops or ends, its calls throw CommError on all others,
/// which names it. Then each rank that gave up has sent every other one an empty message of tag
/// 32766 on the application's communicator, and those that it missed another of tag 32767; a rank
/// that has not given up itself takes neither.
class Assembly {
 public:
  Assembly(MPI_Comm communicator, std::chrono::milliseconds timeout);
  /// Collective over the communicator: waits for all of its ranks.
  void meet();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Collective: every rank's text.
  [[nodiscard]] Indexed<std::string> gather(std::string_view mine);
  /// Notices from here on when processes of `ranks`, of this node, end; `names` are by rank, of
  /// `name_of_process`.
  void watch(const std::vector<int>& ranks, const Indexed<std::string>& names);
  /// Takes `shared`, where ranks of a node see what the others say of themselves, for its
  /// membership from here on.
  void join(std::shared_ptr<Membership> shared) { membership_ = std::move(shared); }
  /// This rank's view of the others; it is over once a call has thrown.
  [[nodiscard]] const std::shared_ptr<Membership>& membership() const { return membership_; }

 private:
  void wait(MPI_Request& request);
  /// Whether a rank has sent a message with `tag`: which one, or -1.
  [[nodiscard]] int find_message(int tag) const;
  /// Sends an empty message.
  void send(int rank, int tag);
  /// Those that do not answer: all that wait call this at the same time.
  [[nodiscard]] std::vector<int> find_missing();
  /// `first` is the rank that gave up before this one, or -1.
  [[noreturn]] void give_up(int first);
  /// "which did not come within 4 s, the limit that COCONET_TIMEOUT_S sets".
  [[nodiscard]] std::string why_missing(int rank, int first) const;

  MPI_Comm communicator_;
  std::chrono::milliseconds timeout_;
  int rank_ = 0, ranks_ = 1;
  std::shared_ptr<Membership> membership_;
  FarRanks launched_;  ///< of MPI_COMM_WORLD, until the ranks know each other
};

}  // namespace coconet::jit
