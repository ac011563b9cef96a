// Ranks, threads or processes, that wait for each other through memory that all of them see or
// that messages keep up to date: with a deadline, and told at once when one of them fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/error.h"
#include "coconet/export.h"
#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

/// Another rank came to a barrier to say that it will not take part in what follows.
class COCONET_API Refused : public CommError {
 public:
  using CommError::CommError;
};

/// All came to a barrier, but what they were given differs. All may meet again.
class COCONET_API Differs : public CommError {
 public:
  using CommError::CommError;
};

/// Sends this rank's arrivals to ranks that do not see a barrier's memory. Theirs are in this
/// rank's memory after a call of `Membership::progress`.
struct RemoteNotifier {
  /// Does not wait; empty where all ranks see the memory.
  std::function<void(std::uint64_t arrival)> notify;
  /// Whether all notices arrive without further help of this rank.
  std::function<bool()> done;
};

/// A barrier among some ranks of a world.
class COCONET_API Barrier {
 public:
  /// `arrivals[i]` counts the arrivals of `ranks[i]` and names its last call and what was given:
  /// zero at first, each in a cache line of its own, in `memory`, which all of `ranks` see but
  /// those that `notifier` serves.
  Barrier(std::shared_ptr<Membership> membership, std::vector<int> ranks,
          std::vector<std::uint64_t*> arrivals, std::shared_ptr<const void> memory,
          RemoteNotifier notifier = {});

  /// Waits until all have called it as often; what each wrote before is visible to all after.
  /// `call` names it in errors; the time is the membership's and `longer`. Throws CommError naming
  /// the missing ranks when the time is over, they have left or their processes have ended, or
  /// who is in which call when not all are in `call`, and PeerFailure when any rank of the world
  /// has failed. These end this rank's part in the world. Throws Refused when all came and one
  /// refused: all may meet again.
  /// Throws Differs when the lowest `given_bits` of `given` are not the same on all.
  void wait(std::string_view call, std::chrono::milliseconds longer = {}, std::uint64_t given = 0);
  static constexpr int given_bits = 20;
  /// Instead of `wait`, and without waiting: makes it throw Refused on the others. All must then
  /// meet at another barrier before they use this one again.
  void refuse();
  /// Times that this rank has met or refused.
  [[nodiscard]] std::uint64_t count() const { return count_; }

  [[nodiscard]] Membership& membership() const { return *membership_; }
  [[nodiscard]] int position() const { return position_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

 private:
  void arrive(std::uint64_t call, std::uint64_t given);
  /// Whether the rank at `position` has come to the barrier that this rank is at.
  [[nodiscard]] bool arrived(int position) const;
  [[nodiscard]] std::uint64_t arrival(int position) const;
  /// Throws unless all who have come to this barrier are in the same call as this rank.
  void require_same_call(std::string_view call, std::uint64_t code);
  /// Throws Differs unless those were given the same, too.
  void require_same_given();
  void wait_for(int position, std::string_view call, std::chrono::milliseconds longer);
  /// Waits until the notices arrive without this rank's help, as the others wait for them.
  void wait_for_notifier(std::string_view call, std::chrono::milliseconds longer);
  [[nodiscard]] std::vector<int> missing() const;
  [[noreturn]] void give_up(std::string_view call, std::vector<int> awaited, std::string why,
                            bool is_over_time);

  std::shared_ptr<Membership> membership_;
  std::vector<int> ranks_;
  std::vector<std::uint64_t*> arrivals_;
  std::shared_ptr<const void> memory_;
  RemoteNotifier notifier_;
  int position_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace coconet::jit
