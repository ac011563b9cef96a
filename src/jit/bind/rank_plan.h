// The plan of one rank: its extents, parts, views and groups, resolved once.
#pragma once

#include <memory>

#include "ir/lists.h"
#include "jit/exchange/slices.h"

namespace coconet::jit {

/// Where a tensor's elements are, seen from the domain of a kernel on this rank.
struct View {
  std::int64_t offset = 0;  ///< elements from where the tensor begins to the domain's first element
  ir::Extents strides;      ///< by domain dimension; 0 where the tensor repeats
};

/// The product of all extents but the last.
[[nodiscard]] std::int64_t rows_of(const ir::Part& part);

/// The product of the extents from dimension `first` on.
[[nodiscard]] std::int64_t row_of(const ir::Part& part, int first);

/// What a reduction makes of a part of its operand: results, and the elements that each combines.
struct Results {
  std::int64_t count = 1, elements = 1;
};
[[nodiscard]] Results results_of(const ir::Graph& graph, const sched::KernelStep& step,
                                 const ir::Part& part);

class RankPlan {
 public:
  RankPlan(sched::Plan plan, std::map<std::string, std::int64_t> sizes, ir::Lists lists, int rank)
      : RankPlan(std::make_shared<const sched::Plan>(std::move(plan)), std::move(sizes),
                 std::move(lists), rank) {}
  RankPlan(std::shared_ptr<const sched::Plan> plan, std::map<std::string, std::int64_t> sizes,
           ir::Lists lists, int rank);
  RankPlan(const RankPlan&) = delete;  // others keep references to what it holds
  RankPlan& operator=(const RankPlan&) = delete;

  [[nodiscard]] const sched::Plan& plan() const { return *plan_; }
  [[nodiscard]] const ir::Graph& graph() const { return plan_->graph; }
  [[nodiscard]] const Mesh& mesh() const { return plan_->graph.mesh; }
  [[nodiscard]] int rank() const { return rank_; }
  /// The extents of all symbols.
  [[nodiscard]] const std::map<std::string, std::int64_t>& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t extent(const Dim& dim) const { return ir::extent_of(dim, sizes_); }

  /// Of a value as a whole.
  [[nodiscard]] const ir::Extents& extents(ir::ValueId id) const { return values_[id].extents; }
  /// What this rank holds of it, and what another one does.
  [[nodiscard]] const ir::Part& part(ir::ValueId id) const { return values_[id].part; }
  [[nodiscard]] ir::Part part_on(int rank, ir::ValueId id) const {
    return ir::part_of(mesh(), graph().at(id).layout, extents(id), rank);
  }

  [[nodiscard]] const sched::PlanBuffer& buffer(sched::BufferId id) const {
    return plan_->buffers[id];
  }
  [[nodiscard]] const ir::Part& buffer_part(sched::BufferId id) const { return buffers_[id].part; }
  [[nodiscard]] const ir::Extents& buffer_extents(sched::BufferId id) const {
    return buffers_[id].extents;
  }
  /// Elements of the largest part of any rank, for which all ranks have room.
  [[nodiscard]] std::int64_t block_count(sched::BufferId id) const {
    return ir::block_count(mesh(), buffer(id).layout, buffers_[id].extents);
  }
  /// Bytes of an element.
  [[nodiscard]] std::size_t element_size(sched::BufferId id) const {
    return size_of(buffer(id).dtype);
  }
  [[nodiscard]] const ir::Lists& lists() const { return lists_; }
  /// Lengths of the buffers that make up dimension `dim`, or in which the scattered `id` lies.
  [[nodiscard]] const std::vector<std::int64_t>& lengths(const std::string& dim) const {
    return lists_.at(dim);
  }
  [[nodiscard]] const std::vector<std::int64_t>& lengths(sched::BufferId id) const {
    return lengths(buffer(id).shape.front().name);
  }

  /// What the kernel of `step` iterates over on this rank, and what it would on `rank`.
  [[nodiscard]] const ir::Part& domain(const sched::KernelStep& step) const {
    return part(step.domain);
  }
  /// A buffer's part, as it is or through view `through`, or a value as a whole, seen from that.
  [[nodiscard]] View view(const sched::KernelStep& step, sched::BufferId id,
                          ir::ValueId through = -1) const;
  [[nodiscard]] View view_of_whole(const sched::KernelStep& step, ir::ValueId id) const;
  /// Where take `id` finds what its indices name.
  [[nodiscard]] abi::Lookup lookup(ir::ValueId id) const;
  /// What the kernel of `step`, which has mailboxes, exchanges with this rank's group.
  [[nodiscard]] abi::Slices slices(const sched::KernelStep& step) const;

  /// This rank's group along `axis`, in axis order; its position there; and their number.
  [[nodiscard]] const std::vector<int>& group(int axis) const { return groups_[axis]; }
  [[nodiscard]] int position(int axis) const { return mesh().coordinate(rank_, axis); }
  [[nodiscard]] int ranks(int axis) const { return static_cast<int>(group(axis).size()); }

 private:
  struct Placed {
    ir::Extents extents;
    ir::Part part;
  };
  [[nodiscard]] Placed place(const Shape& shape, const ir::Placements& layout) const;

  std::shared_ptr<const sched::Plan> plan_;
  std::map<std::string, std::int64_t> sizes_;
  ir::Lists lists_;
  int rank_;
  Indexed<Placed> values_, buffers_;
  Indexed<std::vector<int>> groups_;  ///< by axis
};

}  // namespace coconet::jit
