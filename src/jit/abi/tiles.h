// ABI, tiles: how a step takes what another makes at the same time. The maker counts, tile by tile,
// the elements that it has made; the taker waits for a tile's count. Counts go on over all runs:
// nothing is reset between steps.

struct Tiles {
  u64* made;      // by tile, FLAG_STRIDE words apart: elements made in all runs
  index_t tile;   // elements of a tile
  index_t count;  // elements of the tensor
  u64 run;        // this run's number, from 1
};

static_assert(sizeof(Tiles) == 32 && OFFSET_OF(run, Tiles) == 24);
