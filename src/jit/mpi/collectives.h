// Collectives of MPI among some ranks of a world.
#pragma once

#include <mpi.h>

#include <memory>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"

namespace coconet::jit {

/// Throws CommError with MPI's text unless `code`, which `call` gave, is success.
void check_mpi(int code, std::string_view call);

/// The communicators of a world's own.
class OwnComms {
 public:
  /// The ranks of `comm` with the same color, by key; none for MPI_UNDEFINED. Its calls return
  /// errors. Collective over `comm`.
  [[nodiscard]] MPI_Comm split(MPI_Comm comm, int color, int key);
  /// Frees all of them, which nothing uses any more. Collective over each.
  void free();

 private:
  std::vector<MPI_Comm> made_;
};

/// `comm` holds the ranks of `barrier` in its order. They meet before each blocking call: inside
/// MPI nobody could tell them that a rank is late, has failed or has left.
[[nodiscard]] std::shared_ptr<Collectives> make_mpi_collectives(MPI_Comm comm,
                                                                std::shared_ptr<Barrier> barrier);

}  // namespace coconet::jit
