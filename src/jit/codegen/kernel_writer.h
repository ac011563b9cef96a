// Writes one kernel: what all kinds of kernels share, names, arguments, operands and the
// computation of members.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/codegen/codegen.h"
#include "jit/codegen/expression.h"

namespace coconet::jit {

class KernelWriter {
 public:
  using Load = sched::KernelStep::Load;

  KernelWriter(const sched::Plan& plan, const sched::KernelStep& step);

  [[nodiscard]] const sched::Plan& plan() const { return plan_; }
  [[nodiscard]] const ir::Graph& graph() const { return plan_.graph; }
  [[nodiscard]] const sched::KernelStep& step() const { return step_; }
  [[nodiscard]] const ir::Node& domain() const { return graph().at(step_.domain); }
  [[nodiscard]] const sched::PlanBuffer& buffer(sched::BufferId id) const {
    return plan_.buffers[static_cast<std::size_t>(id)];
  }

  /// The entry point's symbol.
  [[nodiscard]] std::string entry() const { return step_.name + "_kernel"; }
  /// An identifier that starts like `text` and is not used in this kernel yet.
  std::string unique(std::string_view text);
  /// The variable that holds `value` in the lanes loop.
  std::string variable(ir::ValueId value);
  /// "a.name" of the argument, declared at its first use.
  std::string argument(KernelArgument argument);
  /// A tensor's data on this rank, on every rank (where the step uses multicast, as a Multicast);
  /// of a scattered one where the bucket is, by a variable that `bucket_variables` defines.
  std::string pointer(sched::BufferId id);
  std::string pointers(sched::BufferId id);

  /// Whether a tensor of `shape` has an element for each buffer of what the domain has all of.
  [[nodiscard]] bool is_of_buffers(const Shape& shape) const;

  /// Whether some tensor of the kernel is scattered, or the kernel tells buffers apart.
  [[nodiscard]] bool by_bucket() const { return by_bucket_; }
  /// "a.buckets"
  std::string buckets() { return argument({KernelArgument::Kind::buckets, "buckets"}); }
  /// Definitions of the variables asked for since the last call, each line starting with `indent`.
  std::string bucket_variables(const std::string& indent);

  /// Elements that a lane accesses at once.
  [[nodiscard]] std::string lanes_per_access() const;

  /// The element index into a buffer at linear domain index `i`; needs `is_linear`.
  std::string linear_index(sched::BufferId id);
  /// Whether a tensor lies in memory as the kernel's domain does, but for where its part begins.
  [[nodiscard]] bool is_linear(const Shape& shape, const ir::Placements& layout) const;
  /// Whether all values of `indexed_members` are linear, as whole tensors.
  [[nodiscard]] bool members_linear() const;
  /// Whether all loads, stores and indexed members are linear.
  [[nodiscard]] bool all_linear() const;

  /// The members that depend on their element's index in the whole tensor: an iota, and those that
  /// draw random words.
  [[nodiscard]] std::vector<ir::ValueId> indexed_members() const;
  [[nodiscard]] bool is_indexed(ir::ValueId member) const;
  /// A statement that finds the indices, or draws the random words, of N elements, or of `one`,
  /// from `index` on of the whole of `member`; what `take_random_variables` returns must come
  /// before.
  std::string place(ir::ValueId member, bool one, const std::string& index,
                    const std::string& indent);
  /// Definitions of the variables that the calls before drew from. They are those of a lane, which
  /// keeps what it has drawn from one vector to the next.
  std::string take_random_variables() { return std::exchange(random_variables_, {}); }
  /// The element index into the whole of `member` at linear domain index `i`.
  std::string linear_index_in_whole(ir::ValueId member);
  /// Where the elements of a row of the domain are in a tensor.
  enum class Along : std::uint8_t {
    repeats,
    follows,
    strides
  };  ///< one element; one by one; apart
  [[nodiscard]] Along along_row(const ir::Factors& factors) const;
  [[nodiscard]] Along along_row(const Shape& shape) const {
    return along_row(ir::aligned(shape, domain().shape));
  }
  [[nodiscard]] Along along_row(const Load& load) const {
    return along_row(sched::factors_in(plan_, step_, load.buffer, load.view()));
  }
  /// Whether the elements of a row of what `load` loads are apart, as only those of a view are.
  [[nodiscard]] bool is_strided(const Load& load) const {
    return load.viewed && along_row(load) == Along::strides;
  }
  /// Where the coordinates c0, c1 ... of the domain's first `dims` dimensions are: in `buffer`,
  /// where `view` is not -1 as that sees it; or in the whole of `value`.
  std::string strided_index(int dims, sched::BufferId buffer, ir::ValueId view);
  std::string strided_index(int dims, ir::ValueId value);
  /// N elements from `at` of a row on that begins at `row`, of what `load` loads, as they are
  /// stored; it does not repeat.
  std::string load_of_row(const Load& load, const std::string& row, const std::string& at);

  /// Whether `load` is of what a member gathers from.
  [[nodiscard]] bool gathers(const Load& load) const {
    return load.viewed && ir::is_gather(graph().at(load.value).op);
  }
  /// Says that the lane at `at` of a row which begins at `row` gathers by `load` from there.
  void gather_from(const Load& load, const std::string& row, const std::string& at);

  /// Says that `value` is held in `variable(value)` from here on.
  void define(ir::ValueId value) { defined_.insert(value); }
  /// Statements that compute the elementwise ones of `members`, each line starting with `indent`;
  /// with `inlining`, the text of those that are read once is kept for their reader instead.
  std::string compute_members(const std::vector<ir::ValueId>& members, const std::string& indent,
                              bool inlining = true);
  /// Forgets the variables of the phase before but for those of `kept`.
  void begin_phase(const std::set<ir::ValueId>& kept);
  /// `value` in its computation type: a variable, a literal, or an expression.
  std::string read(ir::ValueId value, DType context);
  /// `value` rounded to `dtype`, which it is stored as, in the computation type of `dtype`.
  std::string read_to_store(ir::ValueId value, DType dtype);
  /// The value that `value` stands for inside the kernel: what an update writes.
  [[nodiscard]] ir::ValueId resolve(ir::ValueId value) const;
  /// The type that lanes compute `dtype` in: its computation type, or for integers of 8 and 16 bits
  /// beside wider types an integer as wide as those, because compilers make slow code of loops over
  /// lanes of two widths.
  [[nodiscard]] std::string_view lane_type(DType dtype) const;
  /// Whether lanes compute `dtype` in another type than it is stored in.
  [[nodiscard]] bool is_converted(DType dtype) const {
    return lane_type(dtype) != storage_type(dtype);
  }
  /// `vector`, loaded from a tensor of `dtype`, in lanes' type; and one of what `read_to_store`
  /// gives as it is stored.
  [[nodiscard]] std::string loaded(const std::string& vector, DType dtype) const;
  [[nodiscard]] std::string to_store(const std::string& vector, DType dtype) const;
  /// `text`, of `dtype`'s computation type, as a stored element.
  [[nodiscard]] std::string stored(const std::string& text, DType dtype) const;
  /// `text`, a float or an integer, as the integer `dtype` in lanes' type.
  [[nodiscard]] std::string to_integer(const std::string& text, DType dtype) const;
  /// `text` rounded to `dtype`, in its computation type; once also where it is of f64.
  [[nodiscard]] std::string rounded(const std::string& text, DType dtype) const;
  /// The text of a total, which may be of f64, rounded to `dtype`, in `type`.
  [[nodiscard]] std::string rounded_total(const std::string& text, std::string_view type,
                                          DType dtype) const;
  /// "// op avg (all_reduce), by split ..."
  [[nodiscard]] std::string label(ir::ValueId value) const;

  /// Puts together comment, argument block and body. `setup` is text before the body's loop that
  /// numbers need.
  [[nodiscard]] KernelText finish(const std::string& body,
                                  std::vector<std::string> headers = {}) const;
  /// Statements that make variables of the numbers read so far.
  [[nodiscard]] std::string number_variables() const;
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  /// The line of struct Args that has `argument`.
  [[nodiscard]] std::string field(const KernelArgument& argument) const;
  [[nodiscard]] std::string expression(ir::ValueId value);
  /// Whether the result of a pointwise op may be no value of its dtype.
  [[nodiscard]] bool needs_rounding(const ir::Node& node) const;
  [[nodiscard]] std::string dropout(ir::ValueId value);
  [[nodiscard]] std::string take(ir::ValueId value);
  /// The operand of a cast or a copy in its dtype.
  [[nodiscard]] std::string conversion(const ir::Node& node);
  /// The text of an op that takes an f32 apart, or puts it together.
  [[nodiscard]] std::string halves(const ir::Node& node);
  /// The argument for how far apart elements along dimension `dim` of the domain are.
  std::string stride(const std::string& name, int dim, sched::BufferId buffer, ir::ValueId value) {
    return argument(
        {KernelArgument::Kind::stride, name + "_s" + std::to_string(dim), buffer, value, dim});
  }
  std::string strided_index(const ir::Factors& factors, const std::string& name, int dims,
                            sched::BufferId buffer, ir::ValueId value);
  /// `linear_index` of a tensor called `name`.
  std::string index_from(const Shape& shape, const ir::Placements& layout, const std::string& name,
                         sched::BufferId buffer, ir::ValueId value);
  [[nodiscard]] ir::Placements replicated_layout() const {
    return ir::Placements(graph().mesh.axes().size(), replicated);
  }
  [[nodiscard]] bool can_inline(ir::ValueId value) const;
  /// A number's expression, for people.
  [[nodiscard]] std::string number_text(ir::ValueId value) const;
  std::string read_number(ir::ValueId value, DType context, bool round);

  const sched::Plan& plan_;
  const sched::KernelStep& step_;
  std::vector<Load> loads_;                       ///< of all phases
  std::vector<sched::KernelStep::Store> stores_;  ///< the same
  int ranks_;
  int lane_bytes_ = 1;  ///< of the widest type that lanes compute in
  std::set<std::string> names_;
  std::map<ir::ValueId, std::string> variables_;
  std::map<ir::ValueId, std::string> inlined_;
  std::map<ir::ValueId, std::string> placed_;    ///< index or random word of what is computed
  std::map<ir::ValueId, std::string> gathered_;  ///< by take: where its first index is
  std::string random_variables_;
  std::set<ir::ValueId> defined_;
  std::vector<KernelArgument> arguments_;
  struct NumberVariable {
    std::string name;
    std::string statement;  ///< that defines it
  };
  std::map<std::pair<std::string, std::string>, NumberVariable>
      numbers_;  ///< by the name that it should have, and the argument that it is made of
  bool by_bucket_ = false;
  std::map<std::pair<sched::BufferId, bool>, std::string>
      in_bucket_;                                        ///< of all ranks or not -> variable
  std::map<std::string, std::string> bucket_variables_;  ///< variable -> its definition
};

/// The kinds of kernels.
[[nodiscard]] KernelText write_pointwise(const sched::Plan& plan, const sched::KernelStep& step);
[[nodiscard]] KernelText write_reduction(const sched::Plan& plan, const sched::KernelStep& step);

}  // namespace coconet::jit
