// Kernels that stream over a domain: computation, alone or inside a collective, in one phase or
// several.
//
// When all tensors lie in memory like the domain, one loop runs over linear indices. Else
// (broadcasting, slices of an inner dimension) a loop runs over rows, and inside a row every tensor
// moves by one element or none. Where tensors are scattered, a loop runs over buckets, and what is
// inside is the loop over linear indices.
//
// A collective works in place, where each rank reads its slice from all ranks' tensors and writes
// results to all of them between two barriers; or ranks exchange chunks through mailboxes, and the
// loop's body is what the owner of a slice does with a chunk. Reductions inside the kernel end a
// phase: totals of all blocks of all ranks meet before the next begins.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "jit/codegen/kernel_writer.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

/// Writes one of them.
class PointwiseKernel {
 public:
  PointwiseKernel(const sched::Plan& plan, const sched::KernelStep& step)
      : writer_(plan, step),
        step_(step),
        algorithm_(find_algorithm(step.knobs.algorithm)),
        protocol_(find_protocol(step.knobs.protocol)),
        linear_(writer_.all_linear()) {}

  [[nodiscard]] KernelText write();

 private:
  [[nodiscard]] int rank() const { return static_cast<int>(writer_.domain().shape.size()); }
  [[nodiscard]] const ir::Node& at(ir::ValueId id) const { return writer_.graph().at(id); }
  /// Whether it stores to the tensors of other ranks, which may go past the caches.
  [[nodiscard]] bool stores_to_ranks() const;
  [[nodiscard]] std::vector<std::string> headers() const;
  std::string last_extent() {
    return writer_.argument({KernelArgument::Kind::extent, "columns", -1, -1, rank() - 1});
  }
  [[nodiscard]] bool sends() const {
    return step_.spread >= 0 && at(step_.spread).op == ir::Op::send;
  }
  /// Whether ranks write what the root of a reduce reads of them: a state that becomes its own
  /// reduction. Those that are not the root then write after it has read.
  [[nodiscard]] bool overwrites_operand() const;
  /// The rank that owns all of what is reduced or broadcast; -1 where every rank owns a slice.
  [[nodiscard]] int root() const {
    for (const ir::ValueId id : {step_.combine, step_.spread}) {
      if (id < 0) continue;
      const ir::Op op = at(id).op;
      if (op == ir::Op::reduce || op == ir::Op::broadcast) return at(id).attributes.root;
    }
    return -1;
  }

  std::string load_scalars();
  std::string compute_scalars(const std::vector<ir::ValueId>& values);
  std::string store_scalars();

  /// Values that each buffer has one of: what the kernel loads, reduces to, or computes of such.
  struct BufferValue {
    ir::ValueId value;
    sched::BufferId buffer = -1;  ///< where it is loaded from
    int reduction = -1;           ///< which of the kernel's reductions of buffers it is
  };
  [[nodiscard]] bool is_per_buffer(ir::ValueId id) const {
    return writer_.is_of_buffers(at(id).shape);
  }
  /// Statements that compute those of `needed`, of the buffer `buffer`.
  std::string compute_buffer_values(std::set<ir::ValueId> needed, const std::string& indent);
  std::string buffer_rows() {
    return writer_.argument({KernelArgument::Kind::buffer_rows, "buffer_rows"});
  }
  std::string buffer_totals() {
    return writer_.argument({KernelArgument::Kind::buffer_totals, "buffer_totals"});
  }
  /// Behind the loop over a bucket: leaves its totals.
  std::string put_buffer_totals(const sched::KernelStep::Phase& phase, const std::string& indent);
  /// Behind the loop over buckets: the totals of buffers of which this rank has none.
  std::string put_empty_totals(const sched::KernelStep::Phase& phase);
  std::string store_buffer_values();

  [[nodiscard]] std::string_view operator_of(ir::ValueId reduction) const {
    return operator_name(at(reduction).attributes.reduction);
  }
  [[nodiscard]] std::string total_type(ir::ValueId reduction) const;
  /// What lanes add up: of each buffer, or of all elements.
  std::string declare_totals(const sched::KernelStep::Phase& phase, bool of_buffers,
                             const std::string& indent);
  /// What brings a phase's elements to its totals: vectors, what a loop over lanes leaves in them,
  /// and what follows it.
  struct Collected {
    std::string declarations, lanes, additions;
  };
  Collected collect_for_totals(const sched::KernelStep::Phase& phase, const std::string& indent);
  /// After the loop: leaves the totals of a block, or of a share of its work.
  std::string put_totals(const sched::KernelStep::Phase& phase);
  /// Then: the totals of all blocks of all ranks, which are scalars from here on.
  std::string combine_totals(const sched::KernelStep::Phase& phase, std::size_t p);
  /// Before the ranks wait for each other: fetches what phase p stores to the others.
  std::string fetch_to_store(std::size_t p);

  /// The text of what runs for the elements [i, i + N).
  struct Body {
    std::string loads, lanes, stores;
    std::string own;  ///< before the loop: this rank's own arrays of those that all ranks get
    /// What then goes past the caches to the other ranks, of elements [i, i + length).
    std::string streams;
    std::string spread;     ///< the variable of the vector that is spread; empty when there is none
    std::string_view loop;  ///< how it is gone through, as the prelude's By
  };

  std::string write_phase(std::size_t p);
  std::string write_loop(const sched::KernelStep::Phase& phase);
  /// A loop whose blocks have one share each, so that it is known which elements a block is done
  /// with.
  std::string write_tiled_loop(const sched::KernelStep::Phase& phase, const Body& body);
  /// One dimension has one row, whose start all operands but the scattered ones know before the
  /// loop.
  std::string write_bucket_loop(const sched::KernelStep::Phase& phase);
  /// Statements that find the mode of a bucket, whose elements begin anywhere in a vector.
  std::string write_fits(const sched::KernelStep::Phase& phase, const std::string& indent);

  /// The types of what an exchange combines, f32 where it combines nothing, and hands down.
  struct ExchangeTypes {
    std::string_view combined = "f32", made;
  };
  std::string write_exchange(const sched::KernelStep::Phase& phase,
                             const sched::KernelStep::Load* combined, bool spreads);
  /// The functions `make`, and `own` and `keep`, of the prelude's Exchange.
  std::string write_make(const sched::KernelStep::Phase& phase, const ExchangeTypes& types,
                         bool spreads);
  std::string write_own_and_keep(const sched::KernelStep::Phase& phase,
                                 const sched::KernelStep::Load* combined,
                                 const ExchangeTypes& types);

  Body write_body(const sched::KernelStep::Phase& phase, const std::string& indent);
  /// How compilers make the fastest loop of it, as the prelude's By.
  [[nodiscard]] std::string_view loop_of(const sched::KernelStep::Phase& phase,
                                         const Body& body) const;
  /// The loop by `function`, "for_each" or "for_each_of" with its first arguments, whose body is
  /// `body`. It counts in `index`; `find_i` is a statement that makes i of it where it is another.
  std::string loop_over(const Body& body, std::string_view indent, std::string_view function,
                        std::string_view arguments, std::string_view index = "i",
                        std::string_view find_i = "");
  /// The variable that has where a row begins, of `buffer` or of what `view` sees of it.
  std::string row_of(sched::BufferId buffer, ir::ValueId view = -1);
  /// The element index into a buffer at lane 0.
  std::string index(sched::BufferId buffer);
  /// The N elements that `load` loads, which do not repeat, as they are stored.
  std::string stored_vector(const sched::KernelStep::Load& load);
  /// Statements before the loop over lanes that place its indexed members.
  std::string place_members(const sched::KernelStep::Phase& phase, const std::string& indent);
  /// Statements that take the coordinates of a row apart.
  std::string coordinates();
  std::string write_row_loop();
  /// Whether its rows are gone through in parts, so that what is fetched of strided tensors serves
  /// several of them.
  [[nodiscard]] bool goes_in_tiles(const sched::KernelStep::Phase& phase) const;
  /// The vector of what all ranks combine, in the computation type.
  std::string combined_vector(const sched::KernelStep::Load& load);
  std::string write_loads(const sched::KernelStep::Phase& phase, const std::string& indent);
  std::string write_lanes(const sched::KernelStep::Phase& phase, const std::string& indent);
  /// Whether a phase leaves tensor `id` to a later one. Where results go to the other ranks past
  /// the caches it is as long as they are, and would not stay in the caches until then.
  [[nodiscard]] bool is_kept(sched::BufferId id) const;
  void write_stores(const sched::KernelStep::Phase& phase, const std::string& indent, Body& body);

  /// The text of a loaded value's lane.
  struct Element {
    ir::ValueId value;
    std::string text;
  };

  /// Whether the ranks of a kernel in place first meet to add up totals: its first pass does
  /// nothing that another rank could see, or could disturb.
  [[nodiscard]] bool begins_with_totals() const;

  KernelWriter writer_;
  const sched::KernelStep& step_;
  const Algorithm& algorithm_;
  const Protocol& protocol_;
  bool linear_;
  bool has_loops_by_elements_ = false;
  std::string count_, mode_, totals_;
  std::set<ir::ValueId> scalars_;  ///< variables of the whole kernel
  std::map<ir::ValueId, std::string> lane_totals_;
  int reductions_ = 0;
  int buffer_reductions_ = 0;
  std::vector<BufferValue> buffer_values_;
  std::map<std::pair<sched::BufferId, ir::ValueId>, std::string> rows_;  ///< by buffer and view
  std::string row_starts_;
  std::vector<Element> from_vectors_;
  std::vector<std::string> outs_;
};

}  // namespace coconet::jit
