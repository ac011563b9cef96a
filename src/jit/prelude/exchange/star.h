// Prelude, topology of the algorithm "direct" over mailboxes: every rank sends to the owner, who
// sends to every rank.

struct star : star_order {
  /// An owner adds up in the order of the ranks.
  template <int R>
  DEVICE Links<R> up(int rank, int owner, int) {
    Links<R> links;
    if (rank != owner) {
      links.pass_to(owner, rank);
      return links;
    }
    for (int peer = 0; peer < R; ++peer) {
      if (peer != rank) links.take_from(peer, peer);
    }
    links.before = rank;
    return links;
  }
  template <int R>
  DEVICE Links<R> down(int rank, int owner, int) {
    Links<R> links;
    if (rank != owner) {
      links.take_from(owner, R + owner);
      return links;
    }
    for (int peer = 0; peer < R; ++peer) {
      if (peer != rank) links.pass_to(peer, R + owner);
    }
    return links;
  }
};
