// Library collectives of a plan: one call of the world's collective, with the packing that slices of an inner
// dimension need.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "jit/comm/comm.h"
#include "jit/tensors.h"
#include "sched/plan.h"

namespace coconet::jit {

class LibraryCollective {
 public:
  LibraryCollective(const sched::Plan& plan, const sched::LibraryStep& step,
                    const std::map<std::string, std::int64_t>& sizes, int rank);

  /// Collective over the group along `axis()`.
  void run(Group& group, const Tensors& tensors);
  [[nodiscard]] int axis() const { return axis_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const;

 private:
  /// The block of one rank of the group inside the whole: rows of `run` elements, `stride` apart.
  struct Block {
    std::size_t first = 0, rows = 0, run = 0, stride = 0;
    [[nodiscard]] std::size_t count() const { return rows * run; }
  };
  void pack(const std::byte* whole);
  void unpack(std::byte* whole) const;

  ir::Op op_;
  ir::Attributes attributes_;
  DType dtype_;
  int axis_;
  sched::BufferId in_, out_;
  std::vector<Block> blocks_;  ///< by position in the group, for the ops that slice
  std::vector<std::size_t> counts_;
  bool contiguous_ = true;  ///< the blocks follow each other in the whole
  std::vector<std::byte> packed_;
};

}  // namespace coconet::jit
