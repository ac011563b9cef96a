// ring: a slice goes from rank to rank until it is back at its owner, and the result goes around once more. Every link
// carries the same load at all times; best for large tensors where each rank has one good link.
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

int up_owner(int rank, int k, int ranks, int) {
  return (rank - 1 - k + ranks) % ranks;
}

}  // namespace

constinit const Algorithm ring_algorithm{"ring", "ring", "exchange/ring.h", 2, 1, up_owner};

}  // namespace coconet::jit
