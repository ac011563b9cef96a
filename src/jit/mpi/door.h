// The one door to MPI: what may wait for another rank is called through here, where a thread keeps
// the time. Other calls of this folder are those that MPI answers by itself: of sizes, names,
// handles, attributes and operators.
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

/// Throws CommError with MPI's text unless `code`, which `call` gave, is success.
void check_mpi(int code, std::string_view call);

/// Calls MPI's `call` by `body`. The process ends if ranks of `membership` keep it from returning,
/// once that watches over any. Throws CommError as `check_mpi` does.
template <class Body>
void call_mpi(Membership& membership, const char* call, const Body& body) {
  const Membership::BlockingCall guard(membership, call);
  check_mpi(body(), call);
}

/// Whether what `request` began has ended.
[[nodiscard]] bool is_done(Membership& membership, MPI_Request& request);

/// Of `ranks` that share nothing yet: what this one finds out about them stays with it.
[[nodiscard]] std::shared_ptr<Membership> make_private_membership(
    int rank, int ranks, std::chrono::milliseconds timeout);

/// The communicators of a world's own.
class OwnComms {
 public:
  explicit OwnComms(std::shared_ptr<Membership> membership) : membership_(std::move(membership)) {}
  /// The ranks of `comm` with the same color, by key; none for MPI_UNDEFINED. Its calls return
  /// errors. Collective over `comm`.
  [[nodiscard]] MPI_Comm split(MPI_Comm comm, int color, int key);
  /// Frees all of them, which nothing uses any more. Collective over each.
  void free();

 private:
  std::shared_ptr<Membership> membership_;
  std::vector<MPI_Comm> made_;
};

}  // namespace coconet::jit
