// ring: a slice goes from rank to rank until it is back at its owner, and the result goes around once more. Every link
// carries the same load at all times; best for large tensors where each rank has one good link.
#include "jit/algo/algorithm.h"

namespace coconet::jit {

constinit const Algorithm ring_algorithm{"ring", "ring", "ring.h", 2, 1};

}  // namespace coconet::jit
