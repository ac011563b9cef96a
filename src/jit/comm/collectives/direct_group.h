// Library collectives where every rank reads what the others have: no rank sends, each computes what it
// gets, in rank order.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// The data of all ranks in a call, by their position in the group.
struct Parts {
  std::span<const void* const> in;
  std::span<void* const> out;  ///< empty where a rank can write its own result only
};
using Reader = std::function<void(const Parts& parts)>;

class DirectGroup : public Group {
 public:
  explicit DirectGroup(std::shared_ptr<Barrier> barrier) : barrier_(std::move(barrier)) {}

  [[nodiscard]] int rank() const override { return barrier_->position(); }
  [[nodiscard]] int size() const override { return barrier_->size(); }
  void all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                  Reduction reduction) override;
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) override;
  void all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                  DType dtype) override;
  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) override;
  void broadcast(void* data, std::size_t count, DType dtype, int root) override;
  void shift(const void* in, void* out, std::size_t count, DType dtype, int offset) override;
  void refuse() override { barrier_->refuse(); }

 protected:
  [[nodiscard]] Barrier& barrier() { return *barrier_; }

 private:
  /// Calls `read` with every rank's `bytes` at `in`, which stay as they are until all have read, and
  /// with their `out`, if that can be reached. Afterwards this rank's `out` is whole.
  virtual void exchange(std::string_view call, const void* in, std::size_t bytes, void* out,
                        const Reader& read) = 0;

  /// The reduction of `count` elements, a share of them by each rank, to `outs`.
  void combine_share(DType dtype, Reduction reduction, std::span<const void* const> ins,
                     std::size_t count, std::span<void* const> outs) const;

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
