// The body of a loop: what lanes load, compute and store.
#include "jit/codegen/pointwise_kernel.h"

namespace coconet::jit {

using ir::Node;
using ir::ValueId;
using sched::BufferId;

PointwiseKernel::Body PointwiseKernel::write_body(const sched::KernelStep::Phase& phase,
                                                  const std::string& indent) {
  Body body;
  body.loads = write_loads(phase, indent);
  body.lanes = write_lanes(phase, indent);
  write_stores(phase, indent, body);
  return body;
}

std::string PointwiseKernel::index(BufferId buffer) {
  if (linear_) return writer_.linear_index(buffer);
  const Shape& shape = writer_.buffer(buffer).shape;
  auto& row = rows_[buffer];
  if (row.empty()) {
    const std::string& name = writer_.buffer(buffer).name;
    row = writer_.unique(name + "_row");
    row_starts_ += "    const index_t " + row + " = " +
                   writer_.strided_index(shape, name, rank() - 1, buffer, -1) + ";\n";
  }
  return repeats(shape) ? row : row + " + i";
}

void PointwiseKernel::place_members(const sched::KernelStep::Phase& phase) {
  for (const ValueId member : phase.members) {
    const Node& node = at(member);
    if (node.op != ir::Op::dropout) continue;
    if (linear_) {
      writer_.place(member, writer_.linear_index_in_whole(member) + " + l");
      continue;
    }
    const std::string row = writer_.unique(node.name + "_row");
    row_starts_ += "    const index_t " + row + " = " +
                   writer_.strided_index(node.shape, node.name, rank() - 1, -1, member) + ";\n";
    writer_.place(member, repeats(node.shape) ? row : row + " + i + l");
  }
}

std::string PointwiseKernel::combined_vector(const sched::KernelStep::Load& load) {
  if (!step_.in_place) return "combined";
  const std::string all = "reduce_ranks<" +
                          std::string(operator_name(at(step_.combine).attributes.reduction)) +
                          ", N>(" + writer_.pointers(load.buffer) + ", " + index(load.buffer) + ")";
  if (root() < 0) return all;
  return "a.sync.rank == " + std::to_string(root()) + " ? " + all + " : no_totals<sum_of, N, " +
         std::string(compute_type(at(step_.combine).dtype)) + ">()";
}

std::string PointwiseKernel::write_loads(const sched::KernelStep::Phase& phase,
                                         const std::string& indent) {
  std::string text;
  for (const auto& load : phase.loads) {
    const Node& node = at(load.value);
    if (load.combined) {
      const Node& combine = at(step_.combine);
      const std::string all = writer_.unique(node.name + "_all");
      text += indent + writer_.label(step_.combine) + "\n";
      text += indent + "const auto " + all + " = " + combined_vector(load) + ";\n";
      std::string total = all + "[l]";
      if (combine.attributes.reduction == Reduction::mean)
        total += " / " + literal(writer_.ranks(), combine.dtype);
      from_vectors_.push_back({step_.combine, writer_.rounded(total, combine.dtype)});
      continue;
    }
    const std::string at = index(load.buffer);
    const std::string pointer = writer_.pointer(load.buffer);
    if (!linear_ && repeats(writer_.buffer(load.buffer).shape)) {
      text += indent + "const " + std::string(compute_type(node.dtype)) + " " +
              writer_.variable(load.value) + " = wide(" + pointer + "[" + at + "]);\n";
      writer_.define(load.value);
      continue;
    }
    const std::string vector = writer_.unique(node.name + "_in");
    const std::string loaded = "load<N>(" + pointer + " + " + at + ")";
    text += indent + "const auto " + vector + " = " +
            (is_widened(node.dtype) ? "widened(" + loaded + ")" : loaded) + ";\n";
    from_vectors_.push_back({load.value, vector + "[l]"});
  }
  return text;
}

std::string PointwiseKernel::write_lanes(const sched::KernelStep::Phase& phase,
                                         const std::string& indent) {
  std::string declarations, narrowings;
  std::string text = indent + "lanes<N>([&](int l) {\n";
  for (const auto& [value, element] : from_vectors_) {
    text += indent + "  const " + std::string(compute_type(at(value).dtype)) + " " +
            writer_.variable(value) + " = " + element + ";\n";
    writer_.define(value);
  }
  place_members(phase);
  text += writer_.compute_members(phase.members, indent + "  ");
  text += add_to_totals(phase, indent + "  ");
  outs_.clear();
  std::string spread;
  for (const auto& store : phase.stores) {
    // What is spread is one vector, wherever it is written.
    if (store.spread && !spread.empty()) {
      outs_.push_back(spread);
      continue;
    }
    const DType dtype = writer_.buffer(store.buffer).dtype;
    const std::string out = writer_.unique(writer_.buffer(store.buffer).name + "_out");
    outs_.push_back(out);
    if (store.spread) spread = out;
    const bool narrows = is_widened(dtype);
    const std::string computed = narrows ? writer_.unique(out + "_wide") : out;
    declarations += indent + "vec<N, " +
                    std::string(narrows ? compute_type(dtype) : storage_type(dtype)) + "> " +
                    computed + ";\n";
    text += indent + "  " + computed + "[l] = " + writer_.read(store.value, dtype) + ";\n";
    if (narrows) {
      narrowings += indent + "const auto " + out + " = narrowed<" +
                    std::string(storage_type(dtype)) + ">(" + computed + ");\n";
    }
  }
  return declarations + text + indent + "});\n" + narrowings;
}

void PointwiseKernel::write_stores(const sched::KernelStep::Phase& phase, const std::string& indent,
                                   Body& body) {
  for (std::size_t s = 0; s < phase.stores.size(); ++s) {
    const auto& store = phase.stores[s];
    if (!store.spread) {
      body.stores += indent + "store<N>(" + writer_.pointer(store.buffer) + " + " +
                     index(store.buffer) + ", " + outs_[s] + ");\n";
      continue;
    }
    body.spread = outs_[s];
    if (sends()) {
      if (step_.in_place) {
        body.stores += indent + "send_on<STREAM>(" + writer_.pointers(store.buffer) + ", " +
                       index(store.buffer) + ", a.sync.rank, " +
                       std::to_string(at(step_.spread).attributes.offset) + ", " + outs_[s] +
                       ");\n";
      }
      continue;
    }
    const std::string owner = root() < 0 ? "" : std::to_string(root());
    const std::string guard = owner.empty() ? "" : "if (a.sync.rank == " + owner + ") ";
    if (step_.in_place) {
      body.stores += indent + guard + "store_ranks<STREAM>(" + writer_.pointers(store.buffer) +
                     ", " + index(store.buffer) + ", a.sync.rank, " + outs_[s] + ");\n";
    } else {
      body.stores += indent + guard + "store_slice<N>(" + writer_.pointer(store.buffer) +
                     ", a.slices, int(a.sync.rank), " + (linear_ ? "i" : "at") + ", " + outs_[s] +
                     ");\n";
    }
  }
}

}  // namespace coconet::jit
