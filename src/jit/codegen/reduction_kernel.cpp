// Kernels that reduce over dimensions of their domain, row by row of memory: a row's elements are
// added to those of other rows, or to each other.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ir/factors.h"
#include "jit/codegen/expression.h"
#include "jit/codegen/kernel_writer.h"
#include "jit/exchange/algorithm.h"

namespace coconet::jit {

using ir::Node;
using ir::ValueId;
using sched::BufferId;

namespace {

/// A row is a run of elements that lie one behind the other in every tensor, or are one element of
/// it: the last dimensions of the domain that are all reduced, or all kept. Where tensors do not
/// lie as the domain does, it is the last dimension.
class ReductionKernel {
 public:
  ReductionKernel(const sched::Plan& plan, const sched::KernelStep& step)
      : writer_(plan, step),
        phase_(step.phases.front()),
        reduced_(phase_.reductions.front()),
        reduction_(plan.graph.at(reduced_)),
        linear_(loads_linear()),
        row_dims_(linear_ ? last_dims_alike() : std::min(1, rank())),
        reduces_rows_(rank() == 0 || reduced(rank() - 1)) {}

  KernelText write() {
    type_ = compute_type(reduction_.dtype);
    combined_ = operator_name(reduction_.attributes.reduction);
    total_ = fmt::format("total_type<{}, {}>::type", combined_, type_);
    const bool is_whole = writer_.by_bucket() || (row_dims_ == rank() && reduces_rows_);
    const std::string statements = is_whole ? reduce_whole() : reduce_by_rows();
    std::vector<std::string> headers{"segments.h"};
    if (!is_whole) headers = {"segments.h", "columns.h"};
    if (!is_whole && reduces_rows_) headers.emplace_back("rows.h");
    KernelText text = writer_.finish(
        fmt::format("constexpr int W = {};\n\nDEVICE void {}_block(const Args& a, const Block& "
                    "block) {{\n{}{}}}\n",
                    writer_.lanes_per_access(), writer_.entry(),
                    writer_.number_variables() + writer_.take_random_variables(), statements),
        headers);
    text.linear = row_dims_ == rank();
    text.row_dims = row_dims_;
    text.reduces_whole = is_whole;
    return text;
  }

 private:
  /// Dimensions whose extents are one number: neighbours that are all reduced, or all kept.
  struct Digit {
    int first, count;
  };

  using Load = sched::KernelStep::Load;

  [[nodiscard]] int rank() const { return static_cast<int>(writer_.domain().shape.size()); }
  [[nodiscard]] bool reduced(int dim) const { return ir::reduces(reduction_, dim); }
  [[nodiscard]] bool repeats_everywhere(const Shape& shape) const {
    return std::ranges::all_of(shape, [](const Dim& dim) { return dim == Dim(1); });
  }
  /// Whether a tensor repeats one element along a row.
  [[nodiscard]] bool repeats(const Load& load) const {
    const sched::PlanBuffer& buffer = writer_.buffer(load.buffer);
    return linear_ ? !writer_.is_linear(buffer.shape, buffer.layout) &&
                         !writer_.is_of_buffers(buffer.shape)
                   : writer_.along_row(load) == KernelWriter::Along::repeats;
  }
  [[nodiscard]] bool loads_linear() const {
    return writer_.members_linear() && std::ranges::all_of(phase_.loads, [&](const auto& load) {
             if (writer_.gathers(load)) return false;
             const sched::PlanBuffer& buffer = writer_.buffer(load.buffer);
             return (!load.viewed && writer_.is_linear(buffer.shape, buffer.layout)) ||
                    repeats_everywhere(buffer.shape) || writer_.is_of_buffers(buffer.shape);
           });
  }
  [[nodiscard]] int last_dims_alike() const {
    int dims = std::min(1, rank());
    while (dims < rank() && reduced(rank() - dims - 1) == reduced(rank() - 1)) ++dims;
    return dims;
  }

  /// The dimensions in front of a row's: of those that are reduced, or kept, or all of them.
  [[nodiscard]] std::vector<Digit> digits() const {
    std::vector<Digit> all;
    for (int d = 0; d < rank() - row_dims_; ++d) {
      if (linear_ && !all.empty() && reduced(d) == reduced(d - 1)) {
        ++all.back().count;
      } else {
        all.push_back({d, 1});
      }
    }
    return all;
  }
  [[nodiscard]] std::vector<Digit> digits(bool of_reduced) const {
    std::vector<Digit> some;
    for (const Digit& digit : digits()) {
      if (reduced(digit.first) == of_reduced) some.push_back(digit);
    }
    return some;
  }
  std::string extent(const Digit& digit) {
    std::string product;
    for (int d = digit.first; d < digit.first + digit.count; ++d) {
      product +=
          (product.empty() ? "" : " * ") +
          writer_.argument({KernelArgument::Kind::extent, "e" + std::to_string(d), -1, -1, d});
    }
    return digit.count == 1 ? product : "(" + product + ")";
  }

  /// Statements that take the reduced, or the kept, dimensions in front of a row's apart from
  /// `number`.
  std::string coordinates(const std::string& number, bool of_reduced, const std::string& indent) {
    const std::vector<Digit> some = digits(of_reduced);
    std::string text;
    std::string rest = number;
    for (std::size_t k = some.size(); k-- > 0;) {
      const std::string d = std::to_string(some[k].first);
      if (k == 0) {
        text += indent + "const index_t c" + d + " = " + rest + ";\n";
        break;
      }
      text += indent + "const index_t c" + d + " = " + rest + " % " + extent(some[k]) + ";\n";
      text += indent + "const index_t r" + d + " = " + rest + " / " + extent(some[k]) + ";\n";
      rest = "r" + d;
    }
    return text;
  }

  /// Statements that say where the row with these coordinates begins.
  std::string row_start(const std::string& indent) {
    std::string rows;
    for (const Digit& digit : digits()) {
      const std::string c = "c" + std::to_string(digit.first);
      if (rows.empty()) {
        rows = c;
      } else {
        rows = "(" + rows + ") * " + extent(digit) + " + " + c;
      }
    }
    const std::string start = rows.empty() ? "0" : "(" + rows + ") * " + row_length();
    captures_ += ", start";
    return indent + "const index_t start = " + start + ";\n";
  }

  std::string mode() { return writer_.argument({KernelArgument::Kind::mode, "mode"}); }
  std::string row_length() {
    return writer_.argument({KernelArgument::Kind::row, "row", -1, -1, rank() - row_dims_});
  }
  std::string outputs() { return writer_.argument({KernelArgument::Kind::outputs, "outputs"}); }
  std::string inner() { return writer_.argument({KernelArgument::Kind::inner, "inner"}); }
  std::string segments() { return writer_.argument({KernelArgument::Kind::segments, "segments"}); }

  /// Statements that store result o, `total`, each line starting with `indent`.
  std::string store_result(const std::string& total, const std::string& indent) {
    const std::string result = writer_.variable(reduced_);
    const std::string value = is_16_bit(reduction_.dtype) ? writer_.rounded(total, reduction_.dtype)
                                                          : fmt::format("{}({})", type_, total);
    std::string text = fmt::format("{}const auto {} = {};\n", indent, result, value);
    for (const auto& store : phase_.stores) {
      text += fmt::format("{}{}[o] = {};\n", indent, writer_.pointer(store.buffer),
                          writer_.stored(result, reduction_.dtype));
    }
    return text;
  }

  /// Many results: rows that are added to each other element by element, or each reduced to one.
  std::string reduce_by_rows() {
    const std::string count = outputs(), each = inner(), length = row_length();
    std::string row = "  const auto row = [&](index_t kept, index_t reduced) {\n";
    row += coordinates("kept", false, "    ") + coordinates("reduced", true, "    ");
    if (linear_) row += row_start("    ");
    const std::string indent = reduces_rows_ ? "        " : "      ";
    const Elements elements = write_elements("start + c", "c", "    ", indent);
    row += elements.of_row + "    return [" + captures_ +
           "]<int N>(width<N, false>, index_t c) {\n" + elements.place;
    if (reduces_rows_) {
      row += "      if constexpr (N == 0) {\n" + elements.fetched + "      } else {\n" +
             elements.vector + "      }\n";
    } else {
      row += elements.vector;
    }
    row += "    };\n  };\n";
    // Rows follow each other where one number counts the dimension in front of theirs.
    const bool adjacent = linear_ && digits(!reduces_rows_).size() <= 1;
    const std::string total = writer_.unique("total");
    return row +
           fmt::format("  const auto keep = [&](index_t o, {} {}) {{\n{}  }};\n", total_, total,
                       store_result(total, "    ")) +
           fmt::format("  reduce_{}<W, {}, {}, {}>(block, {}, {}, {}, {}, {}, row, keep);\n",
                       reduces_rows_ ? "rows" : "columns", combined_, total_, adjacent, segments(),
                       count,
                       reduces_rows_ ? each + " / (" + length + " > 0 ? " + length + " : 1)" : each,
                       length, mode());
  }

  /// A result of each buffer.
  std::string reduce_each_buffer() {
    const std::string rows = writer_.argument({KernelArgument::Kind::buffer_rows, "buffer_rows"});
    const std::string bucket = write_bucket("    ");
    const std::string total = writer_.unique("total");
    return fmt::format(
        "  reduce_buffers<{0}, {1}>(block, {2}, {3},\n"
        "      [&](const Bucket& bucket) -> {1} {{\n{4}    return {5};\n  }}, "
        "[&](index_t o, {1} {6}) {{\n    if (!is_leader(block)) return;\n{7}  }});\n",
        combined_, total_, writer_.buckets(), rows, bucket, bucket_total_, total,
        store_result(total, "    "));
  }

  /// One result, of one row or of buckets.
  std::string reduce_whole() {
    if (reduction_.attributes.per_buffer) return reduce_each_buffer();
    const std::string count = writer_.by_bucket() ? writer_.buckets() + ".count" : inner();
    const std::string reduce = writer_.by_bucket() ? reduce_buckets() : reduce_elements();
    const std::string total = writer_.unique("total");
    return fmt::format(
        "  reduce_segments<{0}, {1}>(block, {2}, {3}, {4},\n"
        "      [&](index_t o, index_t begin, index_t end) -> {1} {{\n{5}  }}, "
        "[&](index_t o, {1} {6}) {{\n    if (!is_leader(block)) return;\n{7}  }});\n",
        combined_, total_, segments(), outputs(), count, reduce, total,
        store_result(total, "    "));
  }

  /// The total of elements [begin, end).
  std::string reduce_elements() {
    const Elements elements = write_elements("j", "j", "    ", "      ");
    return elements.of_row +
           fmt::format("    return {};\n", block_reduce("begin", "end", mode(), elements, "    "));
  }

  /// Reduces a row that is scattered: buckets [begin, end).
  std::string reduce_buckets() {
    const std::string bucket = write_bucket("      ");
    const std::string sum = writer_.unique("sum");
    return fmt::format(
        "    auto {0} = {1}::identity<{2}>();\n"
        "    for (index_t at = begin; at < end; ++at) {{\n      const Bucket bucket = "
        "{3}.rows[at];\n"
        "{4}      {0} = {1}::apply({0}, {5});\n    }}\n    return {0};\n",
        sum, combined_, total_, writer_.buckets(), bucket, bucket_total_);
  }

  /// Statements before `bucket_total_`, which becomes the text of a bucket's total.
  std::string write_bucket(const std::string& indent) {
    const Elements elements = write_elements("j", "j", indent, indent + "  ");
    std::string fits =
        fmt::format("{}const index_t {} = bucket.begin;\n", indent, linear_ ? "i" : "j");
    fits += fmt::format("{}u64 bucket_mode = {};\n", indent, mode());
    for (const auto& load : phase_.loads) {
      if (repeats(load) || writer_.is_of_buffers(writer_.buffer(load.buffer).shape)) continue;
      const std::string at = linear_ ? writer_.linear_index(load.buffer) : row_of(load) + " + j";
      fits += fmt::format("{}bucket_mode = fit<W>(bucket_mode, VECTORIZE, {} + {});\n", indent,
                          writer_.pointer(load.buffer), at);
    }
    bucket_total_ = block_reduce("bucket.begin", "bucket.begin + bucket.length", "bucket_mode",
                                 elements, indent);
    return writer_.bucket_variables(indent) + elements.of_row + fits;
  }

  /// The variable that has where a row of what `load` loads begins.
  [[nodiscard]] const std::string& row_of(const Load& load) const {
    return rows_.at({load.buffer, load.view()});
  }

  /// Statements for each row; those that say where N of its elements are, fetch what differs from
  /// row to row of what they are computed of, and compute them.
  struct Elements {
    std::string of_row, place, fetched, vector;
  };

  std::string block_reduce(const std::string& begin, const std::string& end,
                           const std::string& mode, const Elements& elements,
                           const std::string& indent) {
    return fmt::format(
        "block_reduce<W, {}, {}>(block, {}, {}, {},\n{}    [&]<int N>(width<N, false>, index_t j) "
        "{{\n{}{}{}}})",
        combined_, total_, begin, end, mode, indent, elements.place, elements.vector, indent);
  }

  /// Whether a tensor has other elements for another result.
  [[nodiscard]] bool differs(const Load& load) const {
    if (linear_) return true;
    const ir::Factors factors =
        sched::factors_in(writer_.plan(), writer_.step(), load.buffer, load.view());
    return std::ranges::any_of(factors, [&](const ir::Factor& factor) {
      return factor.kind != ir::Factor::Kind::repeats && factor.of_result < rank() - row_dims_ &&
             !reduced(factor.of_result);
    });
  }

  /// Those of the elements from `at` of the row on, which are elements `linear` of a linear domain.
  Elements write_elements(const std::string& linear, const std::string& at,
                          const std::string& row_indent, const std::string& indent) {
    Elements text;
    std::string lanes;
    if (linear_) text.place = row_indent + "  const index_t i = " + linear + ";\n";
    for (const auto& load : phase_.loads) write_load(load, at, row_indent, indent, text, lanes);
    for (const ValueId member : writer_.indexed_members()) {
      const Node& node = writer_.graph().at(member);
      const bool repeated =
          !linear_ && writer_.along_row(node.shape) == KernelWriter::Along::repeats;
      std::string place;
      if (linear_) {
        place = writer_.linear_index_in_whole(member);
      } else {
        place = writer_.unique(node.name + "_row");
        captures_ += ", " + place;
        text.of_row += fmt::format("{}const index_t {} = {};\n", row_indent, place,
                                   writer_.strided_index(rank() - row_dims_, member));
        if (!repeated) place += " + " + at;
      }
      text.vector += writer_.place(member, repeated, place, indent);
    }
    lanes += writer_.compute_members(phase_.members, indent + "  ");
    const std::string values = writer_.unique(reduction_.name + "_values");
    const std::string value = writer_.read(reduction_.operands.front(), reduction_.dtype);
    text.vector += fmt::format(
        "{0}vec<N, {1}> {2};\n{0}{6}\n{3}{0}  {4}\n{0}  {2}[l] = {5};\n{0}}});\n{0}return {2};\n",
        indent, type_, values, lanes, writer_.label(reduced_), value, lanes_over(lanes + value));
    return text;
  }

  void write_load(const Load& load, const std::string& at, const std::string& row_indent,
                  const std::string& indent, Elements& text, std::string& lanes) {
    const Node& node = writer_.graph().at(load.value);
    const sched::PlanBuffer& buffer = writer_.buffer(load.buffer);
    if (writer_.is_of_buffers(buffer.shape)) {
      writer_.define(load.value);
      text.of_row += fmt::format("{}const {} {} = wide({}[bucket.buffer]);\n", row_indent,
                                 compute_type(node.dtype), writer_.variable(load.value),
                                 writer_.pointer(load.buffer));
      return;
    }
    const bool repeated = !writer_.gathers(load) && repeats(load);
    if (!linear_ || repeated) {
      const int dims = linear_ ? 0 : rank() - row_dims_;
      std::string& row = rows_[{load.buffer, load.view()}];
      row = writer_.unique(buffer.name + "_row");
      captures_ += ", " + row;
      text.of_row += fmt::format("{}const index_t {} = {};\n", row_indent, row,
                                 writer_.strided_index(dims, load.buffer, load.view()));
    }
    const std::string pointer = writer_.pointer(load.buffer);
    if (writer_.gathers(load)) return writer_.gather_from(load, row_of(load), at);
    writer_.define(load.value);
    if (repeated) {
      text.vector +=
          fmt::format("{}const {} {} = wide({}[{}]);\n", indent, compute_type(node.dtype),
                      writer_.variable(load.value), pointer, row_of(load));
      return;
    }
    const std::string vector = writer_.unique(node.name + "_in");
    const std::string address =
        pointer + " + " + (linear_ ? writer_.linear_index(load.buffer) : row_of(load) + " + " + at);
    if (differs(load) && !writer_.is_strided(load))
      text.fetched += fmt::format("{}fetch({});\n", indent, address);
    const std::string stored =
        linear_ ? fmt::format("load<N>({})", address) : writer_.load_of_row(load, row_of(load), at);
    text.vector += fmt::format("{}const auto {} = widened({});\n", indent, vector, stored);
    lanes += fmt::format("{}  const {} {} = {}[l];\n", indent, compute_type(node.dtype),
                         writer_.variable(load.value), vector);
  }

  KernelWriter writer_;
  const sched::KernelStep::Phase& phase_;
  ValueId reduced_;
  const Node& reduction_;
  bool linear_;        ///< every tensor lies in memory as the domain does, or is one element
  int row_dims_;       ///< last dimensions that make a row
  bool reduces_rows_;  ///< a row has elements of one result, not one of each result
  /// By buffer and view the variable of where a row begins.
  std::map<std::pair<BufferId, ValueId>, std::string> rows_;
  std::string bucket_total_;
  std::string captures_ = "&";  ///< what computes elements of a row captures: where they begin
  std::string type_, combined_, total_;  ///< of elements; what combines them; of their total
};

}  // namespace

KernelText write_reduction(const sched::Plan& plan, const sched::KernelStep& step) {
  return ReductionKernel(plan, step).write();
}

}  // namespace coconet::jit
