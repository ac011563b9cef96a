// Library collectives where every rank reads what the others have: no rank sends, each computes
// what it gets, in rank order.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"

namespace coconet::jit {

/// The data of all ranks in a call, by their position in the group.
struct Parts {
  std::span<const void* const> in;
  std::span<void* const> out;  ///< empty where a rank can write its own result only
};
using Reader = std::function<void(const Parts& parts)>;

class DirectGroup : public Collectives {
 public:
  explicit DirectGroup(std::shared_ptr<Barrier> barrier) : barrier_(std::move(barrier)) {}

  void run(Queue& queue, const CollectiveCall& call) override;
  void refuse() override { barrier_->refuse(); }
  [[nodiscard]] int size() const { return barrier_->size(); }

 protected:
  [[nodiscard]] Barrier& barrier() { return *barrier_; }
  [[nodiscard]] int rank() const { return barrier_->position(); }

 private:
  /// Calls `read` with every rank's `bytes` at `in`, which stay as they are until all have read,
  /// and with their `out`, if that can be reached. Afterwards this rank's `out` is whole.
  virtual void exchange(std::string_view call, const void* in, std::size_t bytes, void* out,
                        const Reader& read) = 0;

  /// What this rank makes of `parts` once all are there.
  void read(const CollectiveCall& call, const Parts& parts) const;
  /// The whole reduction to `outs`: a share of it by each rank where all ranks' memory can be
  /// written, else to the own one.
  void combine_all(const CollectiveCall& call, const Parts& parts,
                   std::span<void* const> outs) const;
  void gather(const CollectiveCall& call, const Parts& parts) const;

  std::shared_ptr<Barrier> barrier_;
};

/// The ranks show each other their buffers: threads of one process do.
class PointerGroup final : public DirectGroup {
 public:
  struct Pointers {
    const void* in = nullptr;
    void* out = nullptr;
  };
  /// `pointers[i]` is where the rank at position i leaves its pointers; all ranks see them.
  PointerGroup(std::shared_ptr<Barrier> barrier, std::vector<Pointers*> pointers);

 private:
  void exchange(std::string_view call, const void* in, std::size_t bytes, void* out,
                const Reader& read) override;

  std::vector<Pointers*> pointers_;
};

/// The ranks copy what they have into shared memory first: for short messages between processes.
class CopyGroup final : public DirectGroup {
 public:
  /// No rank may have more bytes than this to show.
  static constexpr std::size_t capacity = std::size_t{1} << 18;
  static constexpr std::size_t slots_bytes = 2 * capacity;

  /// `slots[i]` is the memory of `slots_bytes` that the rank at position i writes and all read.
  CopyGroup(std::shared_ptr<Barrier> barrier, std::vector<std::byte*> slots);

 private:
  void exchange(std::string_view call, const void* in, std::size_t bytes, void* out,
                const Reader& read) override;

  std::vector<std::byte*> slots_;
  std::array<std::vector<const void*>, 2> parts_;
};

}  // namespace coconet::jit
