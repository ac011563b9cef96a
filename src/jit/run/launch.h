// A kernel ready to launch on this rank: its code and its argument block, in which only pointers, numbers and the
// epoch change from run to run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/bind/bucket_table.h"
#include "jit/bind/kernel_memory.h"
#include "jit/bind/numbers.h"
#include "jit/bind/step_sync.h"
#include "jit/bind/tensors.h"
#include "jit/bind/tile_counts.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class KernelLaunch {
 public:
  KernelLaunch(const RankPlan& plan, const sched::KernelStep& step, KernelText text,
               std::shared_ptr<const Kernel> kernel, const Grid& grid, std::size_t number,
               KernelMemory memory, StepSync& sync, BucketTables& tables,
               const AllTileCounts& tiles);

  /// Fills the argument block for a run. Where the kernel is collective, all ranks along the axis must launch it then:
  /// check `sync.fault()` afterwards.
  void prepare(const Tensors& tensors, const Numbers& numbers, StepSync& sync);
  [[nodiscard]] std::span<const std::uint64_t> words() const { return words_; }
  [[nodiscard]] const Kernel& kernel() const { return *kernel_; }
  [[nodiscard]] const Grid& grid() const { return grid_; }

  [[nodiscard]] const KernelText& text() const { return text_; }
  [[nodiscard]] bool collective() const { return epoch_at_ != no_word; }
  /// Whether its ranks meet before they touch anything, so that `refuse` tells all of them.
  [[nodiscard]] bool begins_with_barrier() const { return in_place_; }
  /// Instead of a launch: makes the other ranks' kernels give up before they touch anything.
  void refuse(StepSync& sync);
  /// Barriers among ranks, the first and the last of a kernel in place included.
  [[nodiscard]] int barriers() const { return text_.barriers; }
  [[nodiscard]] int axis() const { return axis_; }
  /// Bytes that this rank reads and writes in a run, peers' memory included.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t no_word = ~std::size_t{0};
  struct PointerWord {
    std::size_t word;
    sched::BufferId buffer;
    bool of_peers;
    bool multicast;  ///< behind those of the peers
  };
  struct NumberWord {
    std::size_t word;
    ir::ValueId value;
  };
  /// A tensor that the kernel writes on all ranks, and where this rank's part of it begins.
  struct Gathered {
    sched::BufferId buffer;
    std::size_t offset_bytes;
    std::uint64_t bytes;  ///< of this rank's part
  };
  /// A tensor that the kernel accesses in vectors.
  struct Access {
    sched::BufferId buffer;
    bool of_peers;
    std::size_t alignment;  ///< bytes that its vector accesses need
  };
  void refresh_pointers(const Tensors& tensors);
  /// Whether stores to other ranks go past the caches.
  [[nodiscard]] bool can_stream(const Tensors& tensors) const;
  /// Whether all vector accesses are aligned.
  [[nodiscard]] bool can_vectorize(const Tensors& tensors) const;

  KernelText text_;
  std::shared_ptr<const Kernel> kernel_;
  Grid grid_;
  int axis_ = 0;
  std::vector<int> group_;
  std::vector<std::uint64_t> words_;
  std::vector<PointerWord> pointers_;
  std::vector<NumberWord> numbers_;
  std::vector<Gathered> gathered_;
  std::vector<Access> accesses_;
  bool aligned_in_tensors_ = true;  ///< what `can_vectorize` asks, but for where the tensors begin
  bool in_rows_ = false;            ///< the kernel runs over rows, which begin at any element
  bool in_place_ = false;
  KernelMemory memory_;
  std::uint64_t launches_ = 0;
  std::size_t mode_at_ = no_word;
  std::size_t epoch_at_ = no_word;
  std::size_t turn_at_ = no_word;         ///< of Totals
  std::size_t first_chunk_at_ = no_word;  ///< of Mail
  std::vector<std::size_t> tile_runs_;    ///< of Tiles
  std::uint64_t tensors_version_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace coconet::jit
