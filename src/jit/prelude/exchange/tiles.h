// Prelude, tiles: a step waits for what another makes at the same time, and signals what it has
// made itself. A tile may be made part by part and in any order.

/// One thread: waits for the tiles that hold elements [begin, end).
template <int R>
DEVICE_CALL bool wait_for_tiles(const Sync<R>& sync, const Tiles& tiles, index_t block,
                                index_t begin, index_t end) {
  for (index_t first = begin / tiles.tile * tiles.tile; first < end; first += tiles.tile) {
    const index_t left = tiles.count - first;
    const u64 due = tiles.run * u64(left < tiles.tile ? left : tiles.tile);
    const u64* const made = tiles.made + first / tiles.tile * FLAG_STRIDE;
    const u64 found = look_until(sync, int(sync.rank), made, due);
    if (found < due) {
      report(sync, RANK_MISSED, WAIT_FOR_TILE, block, int(sync.rank), due, found);
      return false;
    }
  }
  return true;
}

/// Waits, the whole block, until elements [begin, end) are made. False when they are late.
template <int R>
DEVICE bool await_tiles(const Block& block, const Sync<R>& sync, const Tiles& tiles, index_t begin,
                        index_t end) {
  bool ok = true;
  if (is_leader(block)) {
    const u64 begun = wait_begins(tells_waits(block, sync));
    ok = wait_for_tiles(sync, tiles, block.index, begin, end);
    wait_ends(sync, begun);
  }
  return all_in_block(block, ok);
}

/// Waits for the tiles of elements [begin, begin + count) of a rank's slice of the tensor.
template <int R>
DEVICE bool await_tiles(const Block& block, const Sync<R>& sync, const Tiles& tiles,
                        const Slices& slices, int rank, index_t begin, index_t count) {
  index_t room;
  if (count <= 0) return true;
  return await_tiles(block, sync, tiles, element_of(slices, rank, begin, room),
                     element_of(slices, rank, begin + count - 1, room) + 1);
}

/// Signals that elements [begin, end) are made, which a barrier of the block comes before.
DEVICE void signal_tiles(const Block& block, const Tiles& tiles, index_t begin, index_t end) {
  if (!is_leader(block)) return;
  while (begin < end) {
    const index_t tile = begin / tiles.tile;
    const index_t stop = (tile + 1) * tiles.tile < end ? (tile + 1) * tiles.tile : end;
    add_release(tiles.made + tile * FLAG_STRIDE, u64(stop - begin));
    begin = stop;
  }
}

/// Signals the tiles of elements [begin, begin + count) of a rank's slice of the tensor.
DEVICE void signal_tiles(const Block& block, const Tiles& tiles, const Slices& slices, int rank,
                         index_t begin, index_t count) {
  if (!is_leader(block)) return;
  const index_t end = begin + count;
  while (begin < end) {
    index_t room;
    const index_t at = element_of(slices, rank, begin, room);
    const index_t here = room < end - begin ? room : end - begin;
    signal_tiles(block, tiles, at, at + here);
    begin += here;
  }
}

/// What an exchange does between its chunks where tiles arrive or depart:
///   await(owner, begin, count)  waits for this rank's elements of the owner's slice; false when
///                               they are late
///   made(begin, count)          signals what this rank computed of its own slice
///   kept(owner, begin, count)   signals what it has of the owner's results
template <class Await, class Made, class Kept>
struct TileSync {
  Await await;
  Made made;
  Kept kept;
};
template <class Await, class Made, class Kept>
DEVICE TileSync<Await, Made, Kept> make_tile_sync(Await await, Made made, Kept kept) {
  return TileSync<Await, Made, Kept>{await, made, kept};
}
