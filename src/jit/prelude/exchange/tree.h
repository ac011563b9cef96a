// Prelude, topology of the algorithm "tree": below each owner two binary trees over the other
// ranks, which take chunks in turn. What is a leaf of one is inside the other, so that all ranks
// share the work (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast,
// reduction and scan, 2009).
//
// Ranks are numbered from the owner: 0 is the owner, and node n > 0 of a tree has the height of its
// lowest set bit. In-order numbering makes the nodes below it n - h ... n + h, for h = half of that
// bit.

struct tree : tree_order {
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
  template <int R>
  DEVICE int rank_at(int owner, int n, int second) {
    return (owner + distance(n, R, second)) % R;
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
    const int n = node((rank - owner + R) % R, R, second);
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
    const int n = node((rank - owner + R) % R, R, second);
    if (n != 0)
      links.take_from(rank_at<R>(owner, parent<R>(n), second), down_box<R>(owner, second));
    for (int side = 0; side < 2; ++side) {
      const int below = child<R>(n, side);
      if (below > 0) links.pass_to(rank_at<R>(owner, below, second), down_box<R>(owner, second));
    }
    return links;
  }
};
