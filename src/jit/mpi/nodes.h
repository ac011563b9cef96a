// A world of MPI processes on several nodes. Inside a node ranks share memory, as in a world of one
// node; between nodes there are MPI's messages and collectives.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "jit/comm/comm.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/mpi/door.h"
#include "jit/mpi/link.h"

namespace coconet::jit {

/// What a gather by MPI reads and writes until it ends.
struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  Indexed<std::uint64_t> lengths;
  Indexed<int> counts;
  Indexed<int> places;
  std::string mine;
  std::string all;
};

/// Every rank's text, by rank of `comm`, which `membership` watches. `wait` waits for the request
/// of `transfer`, which MPI's `call` made.
[[nodiscard]] Indexed<std::string> gather_by_mpi(
    MPI_Comm comm, Membership& membership, std::string_view mine, Transfer& transfer,
    const std::function<void(std::string_view call)>& wait);

/// Collective. `comm`, one of `comms`, holds all ranks of the world; `node` is the world of this
/// rank's node, whose membership is of all ranks of the world.
[[nodiscard]] std::shared_ptr<Comm> make_nodes_comm(MPI_Comm comm, std::shared_ptr<OwnComms> comms,
                                                    Nodes nodes, std::unique_ptr<BoardComm> node,
                                                    std::shared_ptr<MpiLink> link);

}  // namespace coconet::jit
