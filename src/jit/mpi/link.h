// What ranks tell those of other nodes about themselves, in messages of MPI: where they have
// arrived, and that they have failed or left. What arrives is kept in words and statuses like those
// that the ranks of a node share.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "jit/comm/barrier/barrier.h"

namespace coconet::jit {

class MpiLink {
 public:
  /// `far` are the ranks of other nodes.
  explicit MpiLink(std::vector<int> far);
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;
  ~MpiLink() = default;

  /// Sends and takes messages from here on, through `world`, which is for this link only and
  /// returns errors. `membership` outlives this.
  void open(MPI_Comm world, Membership& membership);

  /// The status of a rank of another node.
  [[nodiscard]] RankStatus* status_of(int rank) { return &statuses_.at(rank); }
  /// The arrivals of a rank of another node at the barrier `number`, which the ranks count alike.
  [[nodiscard]] std::uint64_t* arrival(std::uint64_t number, int rank) {
    return &arrivals_[{number, rank}];
  }

  /// Begins to tell `ranks`, of other nodes, of this rank's arrival at the barrier `number`.
  void tell_arrival(const std::vector<int>& ranks, std::uint64_t number, std::uint64_t arrival);
  /// Tells all of `far` that `rank`, of this node, has failed, left, ended or stopped. Waits for
  /// its messages to be on their way, for a second at most.
  void tell_state(int rank, const RankStatus& status) noexcept;
  /// Whether all that was told is on its way without this rank.
  [[nodiscard]] bool told();
  /// Takes in what has come.
  void poll();
  /// Sends and takes nothing from here on: MPI may be gone.
  void close() { open_ = false; }

 private:
  struct Arrival {
    std::uint64_t number;
    std::uint64_t arrival;
  };
  struct StatusNotice {
    int rank;
    RankStatus status;
  };
  /// A message on its way, until MPI has taken it.
  struct Sending {
    MPI_Request request;
    std::vector<std::byte> bytes;
  };
  void send(const std::vector<int>& ranks, int tag, const void* data, std::size_t bytes);
  void take_notice(const StatusNotice& notice, int from);

  MPI_Comm world_ = MPI_COMM_NULL;
  Membership* membership_ = nullptr;
  std::vector<int> far_;
  bool open_ = false;
  std::list<Sending> sendings_;
  std::map<int, RankStatus> statuses_;
  std::map<std::pair<std::uint64_t, int>, std::uint64_t> arrivals_;
};

}  // namespace coconet::jit
