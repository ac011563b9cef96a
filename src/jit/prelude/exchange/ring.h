// Prelude, topology of the algorithm "ring": a slice goes from rank to rank until it is back at its
// owner, and what the owner makes of it goes around once more.

struct ring : ring_order {
  /// How far `rank` is from the owner, in the direction of the ring.
  template <int R>
  DEVICE int distance(int rank, int owner) {
    return (rank - owner + R) % R;
  }

  /// The rank behind the owner begins; every rank adds its own to what it gets.
  template <int R>
  DEVICE Links<R> up(int rank, int owner, int) {
    Links<R> links;
    if (R > 1 && distance<R>(rank, owner) != 1) links.take_from((rank - 1 + R) % R, owner);
    if (rank != owner) links.pass_to((rank + 1) % R, owner);
    links.before = links.sources;
    return links;
  }
  template <int R>
  DEVICE Links<R> down(int rank, int owner, int) {
    Links<R> links;
    if (rank != owner) links.take_from((rank - 1 + R) % R, R + owner);
    if (distance<R>(rank, owner) != R - 1) links.pass_to((rank + 1) % R, R + owner);
    return links;
  }
};
