// Whether the processes of other nodes still run: they answer datagrams, which needs no MPI, so
// that a thread of a process that is stuck inside MPI can ask.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/membership.h"
#include "jit/config/open_file.h"

namespace coconet::jit {

/// `address` and `add` are called before the others, which any thread may call.
class Pulse {
 public:
  /// Without a socket it has no address, and nobody hears of this process.
  Pulse();

  /// Where this process is asked, for `add` on the others.
  [[nodiscard]] std::string address() const;
  /// `rank` is asked at `address`; one that is empty cannot be.
  void add(int rank, std::string_view address);

  /// What is told of a rank whose process has ended, or will in a moment.
  struct End {
    std::uint64_t rank;
    RankStatus status;  ///< what it has said of itself, if it has said why
  };
  /// Answers those who have asked; `silent`, on another thread, does that, too. Asks those who have
  /// not answered yet, the first times. Returns what others have told.
  std::vector<End> answer();
  /// Tells all other nodes'. A datagram may be lost.
  void tell(const End& end);
  /// The ranks that do not answer in that time, because their processes are stopped or have ended,
  /// or no datagram gets through. Answers others meanwhile.
  [[nodiscard]] std::vector<int> silent(std::chrono::milliseconds within);
  /// Whether that rank has ever answered: datagrams get through.
  [[nodiscard]] bool has_answered(int rank);

 private:
  /// A question, or the answer to it, about the process with that token.
  struct Datagram {
    std::uint64_t magic, token;
  };
  /// For the process with that token.
  struct EndNotice {
    std::uint64_t magic, token;
    End end;
  };
  struct Peer {
    std::uint64_t token;
    std::vector<sockaddr_in> places = {};  ///< its node's addresses
    bool has_answered = false;
    int introductions = 0;  ///< how often `answer` has asked it
  };
  void ask(const Peer& peer) const;
  /// Takes what has come; returns the tokens of those who have answered.
  std::vector<std::uint64_t> take();

  std::mutex mutex_;  ///< of what has come: answers are for who asked
  OpenFile socket_;
  std::uint64_t token_;
  std::uint16_t port_ = 0;
  std::map<int, Peer> peers_;
  std::vector<End> ended_;  ///< as told, until `answer` returns them
};

}  // namespace coconet::jit
