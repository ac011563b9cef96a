// ABI, topologies: in which order ranks take the slices of an exchange. Rank `rank`, of `ranks`,
// sends up those of the owners up_owner(0) ... up_owner(ranks - 2), then combines its own; results
// come down from down_owner(0) ... in turn. A chunk goes through tree `tree`; BOXES are a block's
// mailboxes for each rank.

/// Every rank exchanges with every other one.
struct star_order {
  static constexpr int TREES = 1, BOXES = 2;
  DEVICE constexpr int up_owner(int rank, int k, int ranks, int) { return (rank + 1 + k) % ranks; }
  DEVICE constexpr int down_owner(int rank, int k, int ranks, int) {
    return (rank + 1 + k) % ranks;
  }
};

/// Every rank exchanges with its neighbours.
struct ring_order {
  static constexpr int TREES = 1, BOXES = 2;
  DEVICE constexpr int up_owner(int rank, int k, int ranks, int) {
    return (rank - 1 - k + ranks) % ranks;
  }
  DEVICE constexpr int down_owner(int rank, int k, int ranks, int) {
    return (rank - 1 - k + ranks) % ranks;
  }
};

/// Every owner has two binary trees of the other ranks, which are numbered from it: 0 is the owner,
/// and node n > 0 of a tree has the height of its lowest set bit. Boxes are those of both trees:
/// two children, and one parent.
struct tree_order {
  static constexpr int TREES = 2, BOXES = 6;
  /// The node of the rank at distance `d` from the owner, and back: in the second tree they are one
  /// further.
  DEVICE constexpr int node(int d, int ranks, int second) {
    return d == 0 || !second ? d : d % (ranks - 1) + 1;
  }
  DEVICE constexpr int distance(int n, int ranks, int second) {
    return n == 0 || !second ? n : (n + ranks - 3) % (ranks - 1) + 1;
  }
  /// The k-th of nodes 1 ... ranks - 1 by height, the lowest first.
  DEVICE constexpr int by_height(int k, int ranks) {
    for (int bit = 1; bit < ranks; bit *= 2) {
      for (int n = bit; n < ranks; n += 2 * bit) {
        if (k-- == 0) return n;
      }
    }
    return 0;
  }
  DEVICE constexpr int owner_at(int rank, int n, int ranks, int second) {
    return (rank - distance(n, ranks, second) + ranks) % ranks;
  }
  DEVICE constexpr int up_owner(int rank, int k, int ranks, int second) {
    return owner_at(rank, by_height(k, ranks), ranks, second);
  }
  DEVICE constexpr int down_owner(int rank, int k, int ranks, int second) {
    return owner_at(rank, by_height(ranks - 2 - k, ranks), ranks, second);
  }
};
