// Kernels that reduce over dimensions of their domain: one block computes one result, its lanes
// share the elements.
#include <algorithm>

#include "jit/codegen/expression.h"
#include "jit/codegen/kernel_writer.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

using ir::Node;
using ir::ValueId;
using sched::BufferId;

namespace {

class ReductionKernel {
 public:
  ReductionKernel(const sched::Plan& plan, const sched::KernelStep& step)
      : writer_(plan, step),
        phase_(step.phases.front()),
        reduced_(phase_.reductions.front()),
        reduction_(plan.graph.at(reduced_)),
        contiguous_(loads_linear() && reduces_trailing_dims()) {}

  KernelText write() {
    const std::string outputs = writer_.argument({KernelArgument::Kind::outputs, "outputs"});
    const std::string inner = writer_.argument({KernelArgument::Kind::inner, "inner"});
    const std::string type(compute_type(reduction_.dtype));
    const std::string combined(operator_name(reduction_.attributes.reduction));
    const std::string accumulated = "total_type<" + combined + ", " + type + ">::type";
    const std::string kept = contiguous_ ? "" : coordinates("o", false, "    ");
    const std::string element = write_element(inner);

    std::string body =
        "DEVICE void " + writer_.entry() + "_block(const Args& a, const Block& block) {\n";
    body += writer_.number_variables();
    body += "  for (index_t o = block.index; o < " + outputs + "; o += block.count) {\n" + kept;
    body += "    " + writer_.label(reduced_) + "\n";
    const std::string total = writer_.variable(reduced_);
    const std::string reduce = "block_reduce<" + combined + ", " + accumulated + ">(block, ";
    if (writer_.by_bucket()) {
      const std::string sum = writer_.unique(total + "_total");
      body += "    auto " + sum + " = " + combined + "::identity<" + accumulated + ">();\n";
      body += "    for_each_bucket(alone(block), " + writer_.buckets() +
              ", [&](const Bucket& bucket) {\n" + writer_.bucket_variables("      ") + "      " +
              sum + " = " + combined + "::apply(" + sum + ", " + reduce +
              "bucket.length, [&](index_t l) -> " + type +
              " {\n      const index_t j = bucket.begin + l;\n" + element + "    }));\n    });\n";
      body += "    const auto " + total + " = " + type + "(" + sum + ");\n";
    } else {
      body += "    const auto " + total + " = " + type + "(" + reduce + inner +
              ", [&](index_t j) -> " + type + " {\n" + element + "    }));\n";
    }
    for (const auto& store : phase_.stores) {
      body += "    if (is_leader(block)) " + writer_.pointer(store.buffer) +
              "[o] = " + writer_.stored(total, reduction_.dtype) + ";\n";
    }
    body += "  }\n}\n";
    return writer_.finish(body);
  }

 private:
  [[nodiscard]] int rank() const { return static_cast<int>(writer_.domain().shape.size()); }
  [[nodiscard]] bool reduced(int dim) const {
    const auto& dims = reduction_.attributes.dims;
    return std::binary_search(dims.begin(), dims.end(), dim);
  }
  [[nodiscard]] bool loads_linear() const {
    return writer_.members_linear() &&
           std::all_of(phase_.loads.begin(), phase_.loads.end(), [&](const auto& load) {
             const sched::PlanBuffer& buffer = writer_.buffer(load.buffer);
             return writer_.is_linear(buffer.shape, buffer.layout);
           });
  }
  [[nodiscard]] bool reduces_trailing_dims() const {
    for (int d = 0; d + 1 < rank(); ++d) {
      if (reduced(d) && !reduced(d + 1)) return false;
    }
    return true;
  }

  /// Statements that take the coordinates of the reduced, or the kept, dimensions apart from
  /// `linear`.
  std::string coordinates(const std::string& linear, bool of_reduced, const std::string& indent) {
    std::vector<int> dims;
    for (int d = 0; d < rank(); ++d) {
      if (reduced(d) == of_reduced) dims.push_back(d);
    }
    std::string text;
    std::string rest = linear;
    for (std::size_t k = dims.size(); k-- > 0;) {
      const std::string d = std::to_string(dims[k]);
      if (k == 0) {
        text += indent + "const index_t c" + d + " = " + rest + ";\n";
        break;
      }
      const std::string extent =
          writer_.argument({KernelArgument::Kind::extent, "e" + d, -1, -1, dims[k]});
      text += indent + "const index_t c" + d + " = " + rest + " % " + extent + ";\n";
      text += indent + "const index_t r" + d + " = " + rest + " / " + extent + ";\n";
      rest = "r" + d;
    }
    return text;
  }

  std::string index(BufferId buffer) {
    if (contiguous_) return writer_.linear_index(buffer);
    const Shape& shape = writer_.buffer(buffer).shape;
    const std::string& name = writer_.buffer(buffer).name;
    return writer_.strided_index(shape, name, rank(), buffer, -1);
  }

  std::string write_element(const std::string& inner) {
    const std::string indent = "      ";
    std::string text = contiguous_ ? indent + "const index_t i = o * " + inner + " + j;\n"
                                   : coordinates("j", true, indent);
    for (const auto& load : phase_.loads) {
      const Node& node = writer_.graph().at(load.value);
      text += indent + "const " + std::string(compute_type(node.dtype)) + " " +
              writer_.variable(load.value) + " = wide(" + writer_.pointer(load.buffer) + "[" +
              index(load.buffer) + "]);\n";
      writer_.define(load.value);
    }
    for (const ValueId member : writer_.indexed_members()) {
      const Node& node = writer_.graph().at(member);
      writer_.place(member, contiguous_
                                ? writer_.linear_index_in_whole(member)
                                : writer_.strided_index(node.shape, node.name, rank(), -1, member));
    }
    text += writer_.compute_members(phase_.members, indent);
    return text + indent + "return " + writer_.read(reduction_.operands.front(), reduction_.dtype) +
           ";\n";
  }

  KernelWriter writer_;
  const sched::KernelStep::Phase& phase_;
  ValueId reduced_;
  const Node& reduction_;
  bool contiguous_;
};

}  // namespace

KernelText write_reduction(const sched::Plan& plan, const sched::KernelStep& step) {
  return ReductionKernel(plan, step).write();
}

}  // namespace coconet::jit
