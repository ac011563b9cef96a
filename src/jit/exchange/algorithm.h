// Algorithms and protocols of the collectives inside kernels: what the device prelude calls them, and what memory they
// need. Adding an algorithm is a row in coconet/algorithms.def, a file here and its header in device/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "coconet/program.h"

namespace coconet::jit {

/// How ranks are linked when they send each other chunks. One that only works in place has a name and a header alone.
struct Algorithm {
  std::string_view name;
  std::string_view topology;  ///< the prelude's type; empty where it only works in place
  std::string_view header;    ///< the prelude header that has it, in device/
  int boxes;                  ///< mailboxes of a block, for each rank of the group
  int trees;                  ///< the prelude's TREES: chunks go through them in turn
  /// The topology's up_owner: whose slice `rank` of `ranks` sends up `k`-th, of ranks - 1, in tree `tree`.
  int (*up_owner)(int rank, int k, int ranks, int tree);
};

[[nodiscard]] std::span<const Algorithm* const> algorithms();
/// The algorithm called `name`; the first of the table when `name` is empty. Throws ScheduleError.
[[nodiscard]] const Algorithm& find_algorithm(std::string_view name);

/// How a chunk lies in a mailbox. Its name is the prelude's type, too.
struct Protocol {
  std::string_view name;
  std::string_view header;  ///< the prelude header that has it, in device/; empty where mail.h does
  bool
      whole_lines;  ///< 128 bytes that a warp stores must arrive at once, which between GPUs takes NVLink
  /// Bytes of a slot for a chunk of `elements` of `size` bytes.
  std::size_t (*slot_bytes)(std::size_t elements, std::size_t size);
};

[[nodiscard]] std::span<const Protocol* const> protocols();
/// The protocol called `name`; the first of the table when `name` is empty. Throws ScheduleError.
[[nodiscard]] const Protocol& find_protocol(std::string_view name);

/// The prelude's SLOTS: chunks that a mailbox holds.
inline constexpr std::size_t mailbox_slots = 2;

/// The prelude's name of a reduction's operator: "sum_of". Mean is a sum that the caller divides.
[[nodiscard]] std::string_view device_operator(Reduction reduction);

#define COCONET_ALGORITHM(name, summary) extern const Algorithm name##_algorithm;
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
#define COCONET_PROTOCOL(name, summary) extern const Protocol name##_protocol;
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL

}  // namespace coconet::jit
