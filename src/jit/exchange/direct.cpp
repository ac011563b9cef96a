// direct: every rank exchanges with all others at once. With the protocol simple, ranks read and write each other's
// tensors where they are, between two barriers: the fewest steps, and each byte crosses once; best where all ranks are on
// one switch or one memory. With other protocols they send each other chunks, and no barrier is needed.
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

int up_owner(int rank, int k, int ranks, int) {
  return (rank + 1 + k) % ranks;
}

}  // namespace

constinit const Algorithm direct_algorithm{"direct", "star", "exchange/star.h", 2, 1, up_owner};

}  // namespace coconet::jit
