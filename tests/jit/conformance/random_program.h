// Random programs over all ops, of which it is known how far they are exact.
#pragma once

#include "coconet/coconet.h"
#include "genes.h"

namespace coconet::test {

struct RandomProgram {
  Program program;
  Sizes sizes;
  /// Additions between ranks must be in the order of the ranks, as those of the algorithm direct
  /// are, for the program to be compared at all.
  bool in_rank_order = false;
  /// Whether all is exact: numbers are whole and small enough, or nothing is added in another order
  /// than the reference's.
  bool exact = true;
};

/// On a mesh of one or two axes and up to 5 ranks.
[[nodiscard]] RandomProgram write_random_program(Genes& genes);

}  // namespace coconet::test
