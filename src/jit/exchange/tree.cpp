// tree: two binary trees below each owner of a slice, with chunks in turn: a number of steps that grows with the logarithm
// of the ranks; best for small tensors on many ranks.
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

namespace {

/// The k-th of nodes 1 ... ranks - 1 by height, the lowest first.
int by_height(int k, int ranks) {
  for (int bit = 1; bit < ranks; bit *= 2) {
    for (int node = bit; node < ranks; node += 2 * bit) {
      if (k-- == 0) return node;
    }
  }
  return 0;
}

int up_owner(int rank, int k, int ranks, int second) {
  const int node = by_height(k, ranks);
  const int distance = second != 0 ? (node + ranks - 3) % (ranks - 1) + 1 : node;
  return (rank - distance + ranks) % ranks;
}

}  // namespace

constinit const Algorithm tree_algorithm{"tree", "tree", "exchange/tree.h", 6, 2, up_owner};

}  // namespace coconet::jit
