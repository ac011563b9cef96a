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

#include "jit/comm/comm.h"
#include "jit/comm/meeting.h"

namespace coconet::jit {

/// What a rank does with the data of all ranks, by their position in the group.
using Reader = std::function<void(std::span<const void* const> parts)>;

class DirectGroup : public Group {
 public:
  explicit DirectGroup(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}

  [[nodiscard]] int rank() const override { return meeting_->position(); }
  [[nodiscard]] int size() const override { return meeting_->size(); }
  void all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                  Reduction reduction) override;
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) override;
  void all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                  DType dtype) override;
  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) override;
  void broadcast(void* data, std::size_t count, DType dtype, int root) override;

 protected:
  [[nodiscard]] Meeting& meeting() { return *meeting_; }

 private:
  /// Calls `read` with every rank's `bytes` at `mine`, which stay as they are until all have read.
  virtual void exchange(std::string_view call, const void* mine, std::size_t bytes,
                        const Reader& read) = 0;

  std::shared_ptr<Meeting> meeting_;
};

/// The ranks show each other their buffers: threads of one process do.
class PointerGroup final : public DirectGroup {
 public:
  /// `pointers[i]` is where the rank at position i leaves its pointer; all ranks see them.
  PointerGroup(std::shared_ptr<Meeting> meeting, std::vector<const void**> pointers);

 private:
  void exchange(std::string_view call, const void* mine, std::size_t bytes,
                const Reader& read) override;

  std::vector<const void**> pointers_;
};

/// The ranks copy what they have into shared memory first: for short messages between processes.
class CopyGroup final : public DirectGroup {
 public:
  /// No rank may have more bytes than this to show.
  static constexpr std::size_t capacity = std::size_t{1} << 18;
  static constexpr std::size_t slots_bytes = 2 * capacity;

  /// `slots[i]` is the memory of `slots_bytes` that the rank at position i writes and all read.
  CopyGroup(std::shared_ptr<Meeting> meeting, std::vector<std::byte*> slots);

 private:
  void exchange(std::string_view call, const void* mine, std::size_t bytes,
                const Reader& read) override;

  std::vector<std::byte*> slots_;
  std::array<std::vector<const void*>, 2> parts_;
  unsigned round_ = 0;
};

}  // namespace coconet::jit
