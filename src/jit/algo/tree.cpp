// tree: two binary trees below each owner of a slice, with chunks in turn: a number of steps that grows with the logarithm
// of the ranks; best for small tensors on many ranks.
#include "jit/algo/algorithm.h"

namespace coconet::jit {

constinit const Algorithm tree_algorithm{"tree", "tree", "tree.h", 6, 2};

}  // namespace coconet::jit
