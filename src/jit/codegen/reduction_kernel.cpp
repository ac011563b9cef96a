// Kernels that reduce over dimensions of their domain: blocks share out segments of what each
// result combines, and lanes share the elements.
#include <fmt/format.h>

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
    type_ = compute_type(reduction_.dtype);
    combined_ = operator_name(reduction_.attributes.reduction);
    total_ = fmt::format("total_type<{}, {}>::type", combined_, type_);
    const std::string segments = writer_.argument({KernelArgument::Kind::segments, "segments"});
    const std::string outputs = writer_.argument({KernelArgument::Kind::outputs, "outputs"});
    const std::string inner = writer_.argument({KernelArgument::Kind::inner, "inner"});
    const std::string count = writer_.by_bucket() ? writer_.buckets() + ".count" : inner;
    const std::string reduce = writer_.by_bucket() ? reduce_buckets(inner) : reduce_elements(inner);
    const std::string sum = writer_.unique("total");
    const std::string result = writer_.variable(reduced_);

    std::string body = fmt::format(
        "constexpr int W = {};\n\nDEVICE void {}_block(const Args& a, const Block& block) {{\n",
        contiguous_ ? writer_.lanes_per_access() : "1", writer_.entry());
    body += writer_.number_variables() + writer_.take_random_variables();
    body += fmt::format(
        "  reduce_segments<{}, {}>(block, {}, {}, {},\n"
        "      [&](index_t o, index_t begin, index_t end) -> {} {{\n{}{}  }}, "
        "[&](index_t o, {} {}) {{\n    const auto {} = {}({});\n",
        combined_, total_, segments, outputs, count, total_,
        contiguous_ ? "" : coordinates("o", false, "    "), reduce, total_, sum, result, type_,
        sum);
    for (const auto& store : phase_.stores) {
      body += fmt::format("    if (is_leader(block)) {}[o] = {};\n", writer_.pointer(store.buffer),
                          writer_.stored(result, reduction_.dtype));
    }
    return writer_.finish(body + "  });\n}\n", {"segments.h"});
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

  /// The total of elements [begin, end) of result o.
  std::string reduce_elements(const std::string& inner) {
    const std::string elements = write_elements(inner, "      ");
    // Results begin at multiples of vectors, or the mode says that they do not.
    return fmt::format("    return {};\n",
                       block_reduce("begin", "end", contiguous_ ? mode() : "0", elements, "    "));
  }

  /// The same of buckets [begin, end).
  std::string reduce_buckets(const std::string& inner) {
    const std::string elements = write_elements(inner, "        ");
    std::string fits;
    std::string bucket_mode = "0";
    if (contiguous_) {
      bucket_mode = "bucket_mode";
      fits = "      const index_t i = bucket.begin;\n      u64 bucket_mode = " + mode() + ";\n";
      for (const auto& load : phase_.loads) {
        fits += fmt::format("      bucket_mode = fit<W>(bucket_mode, VECTORIZE, {} + {});\n",
                            writer_.pointer(load.buffer), index(load.buffer));
      }
    }
    const std::string sum = writer_.unique("sum");
    return fmt::format(
        "    auto {0} = {1}::identity<{2}>();\n"
        "    for (index_t at = begin; at < end; ++at) {{\n      const Bucket bucket = "
        "{3}.rows[at];\n"
        "{4}{5}      {0} = {1}::apply({0}, {6});\n    }}\n    return {0};\n",
        sum, combined_, total_, writer_.buckets(), writer_.bucket_variables("      "), fits,
        block_reduce("bucket.begin", "bucket.begin + bucket.length", bucket_mode, elements,
                     "      "));
  }

  std::string mode() { return writer_.argument({KernelArgument::Kind::mode, "mode"}); }

  std::string block_reduce(const std::string& begin, const std::string& end,
                           const std::string& mode, const std::string& elements,
                           const std::string& indent) {
    return fmt::format(
        "block_reduce<W, {}, {}>(block, {}, {}, {},\n{}    [&]<int N>(width<N, false>, index_t j) "
        "{{\n{}{}}})",
        combined_, total_, begin, end, mode, indent, elements, indent);
  }

  /// Statements that compute elements [j, j + N) of what result o combines: whole vectors where
  /// they follow each other in memory, else one.
  std::string write_elements(const std::string& inner, const std::string& indent) {
    std::string text = contiguous_ ? indent + "const index_t i = o * " + inner + " + j;\n"
                                   : coordinates("j", true, indent);
    std::string lanes;
    for (const auto& load : phase_.loads) {
      const Node& node = writer_.graph().at(load.value);
      const std::string place = writer_.pointer(load.buffer) + " + " + index(load.buffer);
      const std::string vector = writer_.unique(node.name + "_in");
      text += fmt::format("{}const auto {} = widened(load<N>({}));\n", indent, vector, place);
      lanes += fmt::format("{}  const {} {} = {}[l];\n", indent, compute_type(node.dtype),
                           writer_.variable(load.value), vector);
      writer_.define(load.value);
    }
    for (const ValueId member : writer_.indexed_members()) {
      const Node& node = writer_.graph().at(member);
      const std::string words = writer_.unique(node.name + "_words");
      const std::string at = contiguous_
                                 ? writer_.linear_index_in_whole(member)
                                 : writer_.strided_index(node.shape, node.name, rank(), -1, member);
      text += fmt::format("{}const auto {} = {};\n", indent, words,
                          writer_.random_words(member, "N", at));
      writer_.draw(member, words + "[l]");
    }
    lanes += writer_.compute_members(phase_.members, indent + "  ");
    const std::string values = writer_.unique(reduction_.name + "_values");
    const std::string value = writer_.read(reduction_.operands.front(), reduction_.dtype);
    return text + fmt::format(
                      "{0}vec<N, {1}> {2};\n{0}lanes<N>([&](int l) {{\n{3}"
                      "{0}  {4}\n{0}  {2}[l] = {5};\n{0}}});\n{0}return {2};\n",
                      indent, type_, values, lanes, writer_.label(reduced_), value);
  }

  KernelWriter writer_;
  const sched::KernelStep::Phase& phase_;
  ValueId reduced_;
  const Node& reduction_;
  bool contiguous_;
  std::string type_, combined_, total_;  ///< of elements; what combines them; of their total
};

}  // namespace

KernelText write_reduction(const sched::Plan& plan, const sched::KernelStep& step) {
  return ReductionKernel(plan, step).write();
}

}  // namespace coconet::jit
