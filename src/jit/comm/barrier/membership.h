// Which ranks of a world take part, and how those that wait learn at once that one does not.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/error.h"
#include "coconet/export.h"
#include "jit/config/own_process.h"

namespace coconet::jit {

class Watch;

/// Another rank's failure, as this rank learns of it. Never the root cause of what went wrong.
class COCONET_API PeerFailure : public CommError {
 public:
  using CommError::CommError;
};

/// "rank 1", "ranks 1 and 3", "ranks 0, 1 and 3".
[[nodiscard]] COCONET_API std::string name_ranks(const std::vector<int>& ranks);

/// How long a rank that runs may take to answer those whose time, of `timeout`, is over: a busy
/// machine keeps threads from running for seconds. Who has ended is known without an answer.
[[nodiscard]] COCONET_API std::chrono::milliseconds time_to_answer(
    std::chrono::milliseconds timeout);

/// What the other ranks see of a rank. Zeroed memory means: present.
struct alignas(64) RankStatus {
  std::uint32_t state;
  std::uint32_t awaits;   ///< 1 + the rank that it has given up waiting for; 0: none
  std::uint32_t ended;    ///< 1: its process has
  std::uint32_t stopped;  ///< 1: one of its node found it stopped when it was missed
  char place[240];        ///< where it waited, "in barrier", zero-terminated
  char reason[768];       ///< why it failed, zero-terminated
};

/// The word for each rank in a rank's table of notices: that one has left, or any rank has failed.
/// Whoever waits for a rank, also inside a kernel, where the table is called `notices`, reads it.
enum Notice : std::uint64_t { no_notice = 0, notice_of_leave = 1, notice_of_failure = 2 };

/// How a rank waits.
struct Waiting {
  std::chrono::milliseconds timeout;
  bool crowded = false;  ///< more ranks than cores: give way at once
  /// Throws CommError when the calling thread may not wait; empty: any may.
  std::function<void()> require_thread = {};
};

/// A wait that is given up.
struct FailedWait {
  std::string place;         ///< "in barrier", "in kernel 'adam' (step 1 of 1), block 0"
  std::vector<int> awaited;  ///< who did not come: others, or this rank itself
  std::string why_late =
      {};  ///< said of ranks that are merely late: "which did not come within 1 s"
  /// Whether that time has passed: else it ended since another rank had given up.
  bool is_over_time = true;
};

/// How a process asks those of other nodes whether they still run, also while it is stuck inside
/// MPI. Called from several threads.
struct FarRanks {
  std::function<void()> answer;                        ///< those who ask
  std::function<std::vector<int>()> find_silent = {};  ///< which of them do not answer
  std::function<bool(int)> has_answered = {};          ///< whether that rank ever did
  /// Instead, where nothing else is known of others: "stopped by a debugger: rank 1", or nothing.
  std::function<std::string()> find_stuck = {};
  /// Says that this rank's process will end, having this status, also where MPI does not work.
  std::function<void(const RankStatus&)> tell_end = {};
};

/// How ranks of other nodes hear of this rank's, by messages.
struct FarNotices {
  std::function<void()> progress;  ///< called now and then while waiting; may be empty
  /// Tells of the changed status of a rank; may be empty, and does not throw.
  std::function<void(int rank, const RankStatus&)> tell;
};

/// The ranks of a world: who is present, has failed or left, or whose process has ended. A child of
/// a fork has the object and is no rank: what it says of itself changes nothing.
class COCONET_API Membership {
 public:
  /// By rank: `statuses`, and `tables` of notices, each with a word for every rank, which the ranks
  /// of this one's node write; null for ranks of other nodes.
  Membership(int rank, std::vector<RankStatus*> statuses, std::vector<std::uint64_t*> tables,
             Waiting waiting);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(statuses_.size()); }
  [[nodiscard]] const Waiting& waiting() const { return waiting_; }

  /// Tells the others that this rank takes no further part. The first call counts.
  void fail(std::string_view reason) noexcept;
  void leave() noexcept;
  /// Says, from here on, that this rank has given up waiting for `rank` at `place`, "in barrier".
  void await(int rank, std::string_view place) noexcept;
  /// The process of `rank` has ended: tells all on this node, unless it had left. From any thread.
  void lose(int rank) noexcept;
  /// `lose`, of a rank of another node. `last` is what it has said before, nothing where it has
  /// not: who has said that it failed gets its own reason told. From any thread.
  void take_end(int rank, const RankStatus& last) noexcept;

  /// Notices from here on when a process of `ranks` ends, which have `names` by `name_of_process`.
  /// `memory` is where the statuses and tables are.
  void watch(const std::vector<int>& ranks, const std::vector<std::string>& names,
             std::shared_ptr<const void> memory);
  /// Keeps a copy of this rank's table in `copy` while the returned handle lives, for those who
  /// cannot look into the table itself.
  [[nodiscard]] std::shared_ptr<void> mirror_notices(std::uint64_t* copy);
  /// While a `BlockingCall` lives, this rank is in `call`, which only the other ranks can end.
  /// Where one of them is gone or has failed, or it takes longer than the timeout, this process
  /// ends, with exit code 1 and a sentence on standard error. Where nobody is known to be stopped,
  /// it may take `longer`. One may be inside another.
  class BlockingCall {
   public:
    BlockingCall(Membership& membership, const char* call, std::chrono::milliseconds longer = {})
        : membership_(membership),
          outer_(membership.enter_blocking({call, longer, std::chrono::steady_clock::now()})) {}
    BlockingCall(const BlockingCall&) = delete;
    BlockingCall& operator=(const BlockingCall&) = delete;
    ~BlockingCall() { (void)membership_.enter_blocking(outer_); }

   private:
    friend class Membership;
    struct Entry {
      const char* call = nullptr;
      std::chrono::milliseconds longer{};
      std::chrono::steady_clock::time_point since;
    };
    Membership& membership_;
    Entry outer_;
  };

  /// Answers ranks of other nodes regularly from here on. Throws CommError as `watch` does.
  void listen(FarRanks far);
  /// From here on. Not while another thread uses this.
  void exchange_notices(FarNotices far_notices) { far_notices_ = std::move(far_notices); }
  /// Takes in what other nodes have sent, where there are any; to be called while waiting.
  void progress() const {
    if (far_notices_.progress) far_notices_.progress();
  }

  /// This rank's table of notices.
  [[nodiscard]] const std::uint64_t* notices() const { return tables_[rank_]; }

  /// Throws CommError when this rank has failed or left, or this process is a fork of it.
  void require_present() const;
  /// Throws PeerFailure when another rank has failed, CommError when its process has ended.
  void require_nobody_failed();
  [[nodiscard]] bool has_left(int rank) const;
  /// Whether that rank has left, or its process has ended.
  [[nodiscard]] bool is_lost(int rank) const;
  /// Whether that rank has said that it has failed, or for whom it gave up waiting: then its end
  /// follows from another's.
  [[nodiscard]] bool has_said_why(int rank) const;
  /// Whether a signal or a debugger has stopped the process of that rank; false where it is not
  /// known.
  [[nodiscard]] bool is_stopped(int rank);
  /// Asks that rank, on another node, whether it still runs, and waits for the answer as
  /// `time_to_answer` says: whether it gives none, and did before. False for a rank of this node.
  [[nodiscard]] bool has_gone_silent(int rank);
  /// Whether every wait has to end: a rank has failed, has given up waiting, or is gone.
  [[nodiscard]] bool is_over();

  /// Ends this rank's part in the world after `wait`, and makes all who wait give up, too. Throws
  /// what became of those it waited for: PeerFailure where one has failed, else CommError.
  [[noreturn]] void give_up(const FailedWait& wait);

 private:
  /// Tells the ranks of this node that this one has failed; false where it takes no part any more.
  bool mark_failed(std::string_view reason) noexcept;
  /// Throws CommError where another thread of this rank has ended its part while it waited.
  void require_not_aborted() const;
  void start_watch();
  /// Returns what this rank was in before.
  BlockingCall::Entry enter_blocking(BlockingCall::Entry entry);
  void look_regularly();
  /// Who keeps the others inside MPI, for people; empty: nobody is known to.
  [[nodiscard]] std::string find_stuck();
  /// Ends this process if it is in a call that will not end. On the thread of the watch.
  void look_at_blocking();
  void spread(Notice notice) noexcept;
  [[nodiscard]] bool awaits_another(int rank) const;
  [[nodiscard]] bool is_far(int rank) const { return tables_[rank] == nullptr; }
  [[nodiscard]] bool is_ended(int rank) const;
  /// Whether that rank, on another node, was asked and does not answer.
  [[nodiscard]] bool is_silent(int rank);
  /// Of the other ranks the first that is gone or has failed without waiting for another, else the
  /// first that has failed; -1 where there is none.
  [[nodiscard]] int find_root() const;
  /// How much a verdict on a rank explains, the most first.
  enum class Explains { end, stop, silence, lateness, nothing };
  struct Verdict {
    Explains explains;
    bool is_direct;    ///< it is about that rank itself, and not about one that it waits for
    std::string text;  ///< after "rank 0 waited in barrier for rank 1, "
  };
  /// What `rank` did or did not do. Ranks have their time to answer from `since` on to say that
  /// they wait for another themselves; `why_late` is said of those that do not.
  [[nodiscard]] Verdict verdict_on(int rank, const std::string& why_late,
                                   std::chrono::steady_clock::time_point since);
  /// "rank 0 gave up, which waited in barrier for rank 1, which has left the world": whom a rank
  /// that is none of `besides` has missed, which is not just late. Ranks that are interrupted as
  /// they wait for each other know no more than that.
  [[nodiscard]] std::optional<std::string> cause_elsewhere(
      const std::vector<int>& besides, const std::string& why_late,
      std::chrono::steady_clock::time_point since);
  /// Looks which ranks of this node have ended or are stopped, and tells the other nodes.
  void tell_of_lost();
  /// "which did not come within 1 s", or that it did not come before another rank gave up.
  [[nodiscard]] std::string why_late(const FailedWait& wait) const;
  void tell(int rank) const {
    if (far_notices_.tell) far_notices_.tell(rank, *statuses_[rank]);
  }

  int rank_;
  OwnProcess process_;
  std::vector<RankStatus*> statuses_;
  std::vector<std::uint64_t*> tables_;
  Waiting waiting_;
  FarNotices far_notices_;
  std::optional<std::vector<int>> silent_;  ///< ranks of other nodes, once they were asked
  bool looks_regularly_ = false;
  FarRanks far_;
  BlockingCall::Entry blocking_;  ///< as the thread that calls sees it
  std::atomic<const char*> blocking_call_ = nullptr;
  std::atomic<std::chrono::milliseconds> blocking_longer_{};
  std::atomic<std::chrono::steady_clock::time_point> blocked_since_{};
  std::chrono::steady_clock::time_point asked_again_{};  ///< of the watch's thread
  std::shared_ptr<const void> memory_;  ///< which the watch reaches into until it ends
  std::unique_ptr<Watch> watch_;
};

/// This process, for `Membership::watch` of others.
[[nodiscard]] COCONET_API std::string name_of_process();

}  // namespace coconet::jit
