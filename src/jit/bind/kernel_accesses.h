// What a kernel accesses on this rank: how much, and whether in vectors, or past the caches.
#pragma once

#include "jit/bind/tensors.h"
#include "jit/codegen/codegen.h"

namespace coconet::jit {

class KernelAccesses {
 public:
  /// `slices` is what the kernel exchanges, if it has mailboxes.
  KernelAccesses(const RankPlan& plan, const sched::KernelStep& step, const KernelText& text,
                 const abi::Slices& slices);

  /// VECTORIZE and STREAMING, as the tensors' memory allows.
  [[nodiscard]] std::uint64_t mode(const Tensors& tensors) const;
  /// Bytes that this rank reads and writes in a run, peers' memory included.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  /// A tensor that the kernel accesses in vectors.
  struct Vectors {
    sched::BufferId buffer;
    bool of_peers;
    std::size_t alignment;  ///< bytes
  };
  /// A tensor that the kernel writes on all ranks, and where this rank's part of it begins.
  struct Gathered {
    sched::BufferId buffer;
    std::size_t offset_bytes;
    std::uint64_t bytes;  ///< of this rank's part
  };
  /// Whether ranks hand each other chunks of the tensors.
  [[nodiscard]] bool has_mailboxes() const { return step_.is_collective && !step_.in_place; }
  /// Bytes that vectors of buffer `id` have, or the widest access.
  [[nodiscard]] std::size_t alignment_of(sched::BufferId id) const;
  /// Whether what `load` loads is looked up, element by element.
  [[nodiscard]] bool gathers(const sched::KernelStep::Load& load) const {
    return load.viewed && ir::is_gather(plan_.graph().at(load.value).op);
  }
  void add_vectors(sched::BufferId id, const View& seen, bool of_peers);
  /// Notes whether the slices that `id` is exchanged in begin at multiples of its alignment.
  void add_slices(sched::BufferId id, const abi::Slices& slices);
  void find_vectors(const abi::Slices& slices);
  void count_bytes();
  /// Bytes of what the kernel's loop accesses of buffer `id`, which it sees as `seen`, each element
  /// once.
  [[nodiscard]] std::uint64_t bytes_of(sched::BufferId id, const View& seen) const;
  [[nodiscard]] bool can_vectorize(const Tensors& tensors) const;
  [[nodiscard]] bool can_stream(const Tensors& tensors) const;

  const RankPlan& plan_;
  const sched::KernelStep& step_;
  bool in_rows_;  ///< the kernel runs over rows, which begin at any element
  std::size_t row_dims_;
  bool by_bucket_;
  std::size_t lanes_;
  bool rows_align_ = true;  ///< rows that other ranks get begin at multiples of the host's vectors
  bool aligned_in_tensors_ = true;  ///< all vectors are aligned where the tensors are
  std::vector<Vectors> vectors_;
  std::vector<Gathered> gathered_;
  std::uint64_t bytes_ = 0;
};

}  // namespace coconet::jit
