// How long NCCL's collectives take, by the model that NCCL itself chooses algorithms with: a
// latency for each algorithm and protocol, and the bandwidth that a search of the topology finds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace coconet::sched {

/// What NCCL's search of a machine's topology finds.
struct NcclTopology {
  enum class Generation : std::uint8_t { volta, ampere, hopper };
  /// Paths that work at once, and 10^9 bytes a second of each.
  struct Paths {
    int channels = 0;
    double gb_per_s = 0;
    [[nodiscard]] double all() const { return channels * gb_per_s; }
  };
  Generation generation = Generation::hopper;
  Paths node;         ///< rings and trees inside a node
  Paths network;      ///< rings and trees that go through all nodes; none where there is one node
  Paths node_switch;  ///< NVLS, where the switch adds and copies; none without such a switch
};
[[nodiscard]] std::string_view to_string(NcclTopology::Generation generation);

/// One way in which NCCL can do a collective.
struct NcclWay {
  std::string_view algorithm;  ///< "tree", "ring", "nvls" or "send"
  std::string_view protocol;   ///< "ll", "ll128" or "simple"
  double us = 0;
};

/// All ways to do `op` of `bytes`, those of the whole tensor, among `ranks` on `nodes`, each node
/// with as many.
[[nodiscard]] std::vector<NcclWay> nccl_ways(const NcclTopology& topology, ir::Op op, double bytes,
                                             int ranks, int nodes);
/// The quickest, which NCCL takes.
[[nodiscard]] NcclWay nccl_way(const NcclTopology& topology, ir::Op op, double bytes, int ranks,
                               int nodes);

}  // namespace coconet::sched
