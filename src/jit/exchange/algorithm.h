// Algorithms and protocols of the collectives inside kernels: what the prelude calls them, and what
// memory they need. Adding an algorithm is a row in coconet/algorithms.def and one in
// algorithm.cpp, the order of its topology in abi/topologies.h, and its header in
// prelude/exchange/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coconet/program.h"

namespace coconet::jit {

/// How ranks are linked when they send each other chunks. One that only works in place has a name
/// and a header alone.
struct Algorithm {
  std::string_view name;
  std::string_view topology;  ///< the prelude's type; empty where it only works in place
  std::string_view header;    ///< the prelude header that has it
  int boxes = 0;              ///< mailboxes of a block, for each rank of the group
  int trees = 0;              ///< chunks go through them in turn
  /// Whose slice `rank` of `ranks` sends up `k`-th, of ranks - 1, in tree `tree`.
  int (*up_owner)(int rank, int k, int ranks, int tree) = nullptr;
};

[[nodiscard]] std::span<const Algorithm* const> algorithms();
/// The algorithm called `name`; the first of the table when `name` is empty. Throws ScheduleError.
[[nodiscard]] const Algorithm& find_algorithm(std::string_view name);

/// How a chunk lies in a mailbox. Its name is the prelude's type, too.
struct Protocol {
  std::string_view name;
  std::string_view header;  ///< the prelude header that has it; empty where protocols.h does
  bool whole_lines;         ///< what a warp stores, 128 bytes, arrives at once: takes NVLink
  /// Bytes of a slot for a chunk of `elements` of `size` bytes.
  std::int64_t (*slot_bytes)(std::int64_t elements, std::int64_t size);
};

[[nodiscard]] std::span<const Protocol* const> protocols();
/// The protocol called `name`; the first of the table when `name` is empty. Throws ScheduleError.
[[nodiscard]] const Protocol& find_protocol(std::string_view name);

/// The prelude's name of a reduction's operator: "sum_of". Mean is a sum that the caller divides.
[[nodiscard]] std::string_view operator_name(Reduction reduction);

}  // namespace coconet::jit
