// Device prelude, topology of the algorithm "tree": below each owner two binary trees over the other ranks, which take
// chunks in turn. What is a leaf of one is inside the other, so that all ranks share the work (Sanders, Speck, Traeff:
// Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009).
//
// Ranks are numbered from the owner: 0 is the owner, and node n > 0 of a tree has the height of its lowest set bit. In-order
// numbering makes the nodes below it n - h ... n + h, for h = half of that bit.

struct tree {
  static constexpr int TREES = 2;
  template <int R>
  DEVICE constexpr int boxes() {
    return 2 * (2 * R + R);
  }  // of both trees: two children for each owner, and one parent

  /// The node of the rank at distance `d` from the owner, and back: in the second tree they are one further.
  template <int R>
  DEVICE int node(int d, int second) {
    return d == 0 || !second ? d : d % (R - 1) + 1;
  }
  template <int R>
  DEVICE int distance(int n, int second) {
    return n == 0 || !second ? n : (n + R - 3) % (R - 1) + 1;
  }

  template <int R>
  DEVICE int parent(int n) {
    const int bit = n & -n;
    const int above = (n ^ bit) | bit << 1;
    return above < R ? above : n ^ bit;
  }
  /// The child before (0) or behind (1) node `n`; -1 when there is none. The owner has one, behind.
  template <int R>
  DEVICE int child(int n, int side) {
    int half = 1;
    if (n > 0) {
      half = (n & -n) / 2;
    } else {
      while (half * 2 < R) half *= 2;
    }
    if (half == 0 || (n == 0 && side == 0)) return -1;
    if (side == 0) return n - half;
    while (half > 0 && n + half >= R) half /= 2;
    return half > 0 ? n + half : -1;
  }
  /// The k-th of nodes 1 ... R - 1 by height, the lowest first.
  template <int R>
  DEVICE int by_height(int k) {
    for (int bit = 1; bit < R; bit *= 2) {
      for (int n = bit; n < R; n += 2 * bit) {
        if (k-- == 0) return n;
      }
    }
    return 0;
  }

  template <int R>
  DEVICE int owner_at(int rank, int n, int second) {
    return (rank - distance<R>(n, second) + R) % R;
  }
  template <int R>
  DEVICE int up_owner(int rank, int k, int second) {
    return owner_at<R>(rank, by_height<R>(k), second);
  }
  template <int R>
  DEVICE int down_owner(int rank, int k, int second) {
    return owner_at<R>(rank, by_height<R>(R - 2 - k), second);
  }

  template <int R>
  DEVICE int rank_at(int owner, int n, int second) {
    return (owner + distance<R>(n, second)) % R;
  }
  template <int R>
  DEVICE int up_box(int owner, int side, int second) {
    return (second * R + owner) * 2 + side;
  }
  template <int R>
  DEVICE int down_box(int owner, int second) {
    return 4 * R + second * R + owner;
  }

  template <int R>
  DEVICE Links<R> up(int rank, int owner, int second) {
    Links<R> links;
    const int n = node<R>((rank - owner + R) % R, second);
    for (int side = 0; side < 2; ++side) {
      const int below = child<R>(n, side);
      if (below > 0)
        links.take_from(rank_at<R>(owner, below, second), up_box<R>(owner, side, second));
    }
    if (n == 0) return links;
    const int above = parent<R>(n);
    links.pass_to(rank_at<R>(owner, above, second), up_box<R>(owner, n > above, second));
    return links;
  }
  template <int R>
  DEVICE Links<R> down(int rank, int owner, int second) {
    Links<R> links;
    const int n = node<R>((rank - owner + R) % R, second);
    if (n != 0)
      links.take_from(rank_at<R>(owner, parent<R>(n), second), down_box<R>(owner, second));
    for (int side = 0; side < 2; ++side) {
      const int below = child<R>(n, side);
      if (below > 0) links.pass_to(rank_at<R>(owner, below, second), down_box<R>(owner, second));
    }
    return links;
  }
};
