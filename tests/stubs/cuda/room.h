// Multiprocessors, what blocks take of them, and the order in which work starts: what a GPU leaves
// open, at its worst. Off by default, when all that is ready runs at once:
//   STUB_CUDA_ROOM         1: a block takes threads, registers and a place of a multiprocessor,
//                          which has 2048, 65536 and 32 of them; those of a cooperative launch
//                          start together, when there is room for all
//   STUB_CUDA_REGISTERS    of a thread of any kernel, by default 32
//   STUB_CUDA_COOPERATIVE  1: a process runs one cooperative launch at a time on a GPU
//   STUB_CUDA_SEED         what is ready on a GPU starts in an order drawn from this number; with
//                          an odd one, nothing passes a launch that waits for room
//   STUB_CUDA_SHARED       a file by which processes share the room of their GPUs, as under MPS
#pragma once

#include <vector>

namespace stub {

/// What a launch takes of multiprocessors while it runs.
struct Need {
  unsigned blocks = 0;  ///< none: only its turn, as a copy
  unsigned threads = 1;
  unsigned registers = 32;
  bool together = true;  ///< all blocks start at once, else one by one
  bool cooperative = false;
};

/// All that so many multiprocessors have.
inline Need whole_processors(unsigned count) {
  return {.blocks = count, .threads = 1024, .registers = 64};
}

/// Registers of a thread of any kernel.
unsigned registers();

/// Blocks of `threads` that a multiprocessor holds.
unsigned occupancy(unsigned threads);

/// Work that runs on a device, begun when it may: with all its blocks, or with the first. Made and
/// used without the lock.
class Running {
 public:
  Running(int device, const Need& need);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  /// Takes room for another block; false while there is none.
  bool take_block();
  /// Gives one back.
  void give_block();

 private:
  friend class Starts;
  int device_;
  Need need_;
  std::vector<int> places_;  ///< of its blocks: multiprocessors
};

}  // namespace stub
