// The sync: shared flags by which the ranks of an executable meet, inside kernels and on the host, and learn that
// one of them failed or is late.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coconet/mesh.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// What the device prelude's Fault holds.
struct Fault {
  std::uint64_t code = 0, step = 0, phase = 0, block = 0, peer = 0, expected = 0, found = 0;
};

/// The prelude's phases of waits at mailboxes.
inline constexpr std::uint64_t wait_for_room = 100;
inline constexpr std::uint64_t wait_for_message = 101;
/// The same of waits for another step of the rank.
inline constexpr std::uint64_t wait_for_tile = 102;

/// Most blocks that a kernel with barriers may have: the flags are laid out for them.
inline constexpr int max_blocks = 1024;

/// "60" or "0.5", for messages.
[[nodiscard]] std::string seconds(std::chrono::milliseconds time);

class StepSync {
 public:
  /// Collective.
  StepSync(Comm& comm, const Platform& platform, const Mesh& mesh);

  /// Host side: waits for every rank of the world. `failed` tells the others that this rank cannot run the step;
  /// returns whether any rank said so. Throws CommError naming a rank that is late.
  [[nodiscard]] bool meet(bool failed);

  /// Instead of launching a kernel that begins with a barrier and has `barriers` of them: makes the others' kernels give
  /// up before they touch anything.
  void fail_kernel(int axis, int blocks, int barriers);

  /// Words of the prelude's Sync for the kernel of step `step`, along `axis`; the epoch is the word that changes.
  [[nodiscard]] std::vector<std::uint64_t> sync_words(int axis, std::size_t step);
  /// From here on who waits gives the core away at once, because what it waits for may need it.
  void share_cores() { spin_limit_ = 0; }
  static constexpr std::size_t epoch_word_from_end = 5;
  /// The epoch of the next kernel along `axis`, which uses `barriers` of them.
  [[nodiscard]] std::uint64_t next_epoch(int axis, int barriers);

  /// Whether a kernel on this rank has reported something, which is all there once the kernel has ended.
  [[nodiscard]] bool faulty() const;
  [[nodiscard]] Fault fault() const;
  void clear_fault() { *fault_ = {}; }
  /// Ranks along `axis`, this one's group, in axis order.
  [[nodiscard]] const std::vector<int>& group(int axis) const {
    return axes_[static_cast<std::size_t>(axis)].ranks;
  }

 private:
  struct Axis {
    std::vector<int> ranks;
    std::uint64_t position = 0;
    std::uint64_t epoch = 1;
    std::size_t flags = 0;  ///< offset into every rank's block of `kernel_flags_`
  };
  /// Null where `rank` is on another node, to which no kernel with barriers reaches.
  [[nodiscard]] static std::uint64_t* flags(const PeerMemory& memory, int rank, std::size_t offset);

  Comm& comm_;
  std::vector<Axis> axes_;
  std::uint64_t host_epoch_ = 0;
  std::uint64_t spin_limit_ = 0;
  std::shared_ptr<PeerMemory> host_flags_;    ///< of `meet` in a world of one node
  std::shared_ptr<PeerMemory> kernel_flags_;  ///< where kernels run
  std::shared_ptr<Memory> own_flags_;         ///< the same, in a world of one rank
  std::shared_ptr<Memory> fault_memory_;
  Fault* fault_;
};

}  // namespace coconet::jit
