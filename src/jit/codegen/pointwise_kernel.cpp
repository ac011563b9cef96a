// Kernels that stream over a domain: computation, and all_reduce with the computation between its halves.
//
// When all tensors lie in memory like the domain, one loop runs over linear indices. Else (broadcasting, slices of
// an inner dimension) a loop runs over rows, and inside a row every tensor moves by one element or none.
#include "jit/algo/algorithm.h"
#include "jit/codegen/expression.h"
#include "jit/codegen/kernel_writer.h"

namespace coconet::jit {

using ir::Node;
using ir::ValueId;
using sched::BufferId;

namespace {

class PointwiseKernel {
 public:
  PointwiseKernel(const sched::Plan& plan, const sched::KernelStep& step)
      : writer_(plan, step),
        step_(step),
        algorithm_(find_algorithm(step.knobs.algorithm)),
        linear_(writer_.all_linear()) {}

  KernelText write() {
    const bool collective = step_.kind == sched::KernelStep::Kind::all_reduce;
    if (collective) (void)writer_.argument({KernelArgument::Kind::sync, "sync", -1, -1, 0});
    const std::string count =
        linear_ ? writer_.argument({KernelArgument::Kind::count, "count", -1, -1, 0})
                : last_extent();
    const std::string mode = writer_.argument({KernelArgument::Kind::mode, "mode", -1, -1, 0});
    const std::string indent = linear_ ? "    " : "      ";
    const std::string loads = write_loads(indent);
    const std::string lanes = write_lanes(indent);
    const std::string stores = write_stores(indent);

    std::string body = "constexpr int W = " + lanes_per_access() + ";\n\n";
    body += "DEVICE void " + writer_.entry() + "_block(const Args& a, const Block& block) {\n";
    body += writer_.number_variables();
    if (collective) body += algorithm_.open();
    if (linear_) {
      body += "  for_each<W>(block, " + count + ", " + mode +
              ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n";
      body += loads + lanes + stores + "  });\n";
    } else {
      body += write_row_loop();
      body += "    for_each<W>(alone(block), " + count + ", " + mode +
              ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n";
      body += loads + lanes + stores + "    });\n  }\n";
    }
    if (collective) body += algorithm_.close();
    body += "}\n";
    return writer_.finish(body, collective ? std::string(algorithm_.header) : std::string());
  }

 private:
  [[nodiscard]] int rank() const { return static_cast<int>(writer_.domain().shape.size()); }

  std::string last_extent() {
    return writer_.argument({KernelArgument::Kind::extent, "columns", -1, -1, rank() - 1});
  }

  [[nodiscard]] std::string lanes_per_access() const {
    std::size_t widest = 1;
    for (const auto& load : step_.loads)
      widest = std::max(widest, size_of(writer_.buffer(load.buffer).dtype));
    for (const auto& store : step_.stores)
      widest = std::max(widest, size_of(writer_.buffer(store.buffer).dtype));
    if (step_.knobs.vector_bytes == 0) return "VECTOR_BYTES / " + std::to_string(widest);
    return std::to_string(
        std::max<std::size_t>(1, static_cast<std::size_t>(step_.knobs.vector_bytes) / widest));
  }

  /// Whether a tensor repeats one element along a row.
  [[nodiscard]] bool repeats(const Shape& shape) const {
    return shape.empty() || (shape.back() == Dim(1) && !(writer_.domain().shape.back() == Dim(1)));
  }

  /// The element index into a buffer at lane 0; in rows it needs a variable with the row's start.
  std::string index(BufferId buffer) {
    if (linear_) return writer_.linear_index(buffer);
    const Shape& shape = writer_.buffer(buffer).shape;
    auto& row = rows_[buffer];
    if (row.empty()) {
      const std::string& name = writer_.buffer(buffer).name;
      row = writer_.unique(name + "_row");
      std::string start =
          writer_.argument({KernelArgument::Kind::offset, name + "_at", buffer, -1, 0});
      for (int d = 0; d + 1 < rank(); ++d) {
        const int own = d - (rank() - static_cast<int>(shape.size()));
        if (own < 0 || (shape[static_cast<std::size_t>(own)] == Dim(1) &&
                        !(writer_.domain().shape[static_cast<std::size_t>(d)] == Dim(1)))) {
          continue;
        }
        start += " + c" + std::to_string(d) + " * " +
                 writer_.argument({KernelArgument::Kind::stride, name + "_s" + std::to_string(d),
                                   buffer, -1, d});
      }
      row_starts_ += "    const index_t " + row + " = " + start + ";\n";
    }
    return repeats(shape) ? row : row + " + i";
  }

  std::string write_row_loop() {
    const std::string rows = writer_.argument({KernelArgument::Kind::rows, "rows", -1, -1, 0});
    std::string text =
        "  for (index_t row = block.index; row < " + rows + "; row += block.count) {\n";
    std::string rest = "row";
    for (int d = rank() - 2; d > 0; --d) {
      const std::string extent =
          writer_.argument({KernelArgument::Kind::extent, "e" + std::to_string(d), -1, -1, d});
      text += "    const index_t c" + std::to_string(d) + " = " + rest + " % " + extent + ";\n";
      text += "    const index_t r" + std::to_string(d) + " = " + rest + " / " + extent + ";\n";
      rest = "r" + std::to_string(d);
    }
    if (rank() > 1) text += "    const index_t c0 = " + rest + ";\n";
    return text + row_starts_;
  }

  std::string write_loads(const std::string& indent) {
    const Skeleton skeleton{writer_.ranks(), "N"};
    std::string text;
    for (const auto& load : step_.loads) {
      const Node& node = writer_.graph().at(load.value);
      const sched::PlanBuffer& buffer = writer_.buffer(load.buffer);
      if (load.from_peers) {
        const Node& scatter = writer_.graph().at(step_.domain);
        const std::string at = index(load.buffer);
        const std::string all = writer_.unique(node.name + "_all");
        text += indent + writer_.label(step_.domain) + "\n";
        text += indent + "const auto " + all + " = " +
                algorithm_.reduce(skeleton, scatter.attributes.reduction,
                                  writer_.pointers(load.buffer), at) +
                ";\n";
        std::string total = all + "[l]";
        if (scatter.attributes.reduction == Reduction::mean) {
          total += " / " + literal(writer_.ranks(), scatter.dtype);
        }
        from_vectors_.push_back({step_.domain, writer_.rounded(total, scatter.dtype)});
        continue;
      }
      const std::string at = index(load.buffer);
      const std::string pointer = writer_.pointer(load.buffer);
      if (!linear_ && repeats(buffer.shape)) {
        text += indent + "const " + std::string(compute_type(node.dtype)) + " " +
                writer_.variable(load.value) + " = wide(" + pointer + "[" + at + "]);\n";
        writer_.define(load.value);
        continue;
      }
      const std::string vector = writer_.unique(node.name + "_in");
      text += indent + "const auto " + vector + " = load<N>(" + pointer + " + " + at + ");\n";
      const bool widens = node.dtype == DType::f16 || node.dtype == DType::bf16;
      from_vectors_.push_back({load.value, widens ? "wide(" + vector + "[l])" : vector + "[l]"});
    }
    return text;
  }

  std::string write_lanes(const std::string& indent) {
    std::string declarations;
    std::string text = indent + "lanes<N>([&](int l) {\n";
    for (const auto& [value, element] : from_vectors_) {
      const DType dtype = writer_.graph().at(value).dtype;
      text += indent + "  const " + std::string(compute_type(dtype)) + " " +
              writer_.variable(value) + " = " + element + ";\n";
      writer_.define(value);
    }
    text += writer_.compute_members(indent + "  ");
    for (const auto& store : step_.stores) {
      const DType dtype = writer_.buffer(store.buffer).dtype;
      const std::string out = writer_.unique(writer_.buffer(store.buffer).name + "_out");
      outs_.push_back(out);
      declarations += indent + "vec<N, " + std::string(storage_type(dtype)) + "> " + out + ";\n";
      text += indent + "  " + out +
              "[l] = " + writer_.stored(writer_.read(store.value, dtype), dtype) + ";\n";
    }
    return declarations + text + indent + "});\n";
  }

  std::string write_stores(const std::string& indent) {
    const Skeleton skeleton{writer_.ranks(), "N"};
    std::string text;
    for (std::size_t s = 0; s < step_.stores.size(); ++s) {
      const auto& store = step_.stores[s];
      const std::string at = index(store.buffer);
      text += indent +
              (store.to_peers
                   ? algorithm_.gather(skeleton, writer_.pointers(store.buffer), at, outs_[s])
                   : "store<N>(" + writer_.pointer(store.buffer) + " + " + at + ", " + outs_[s] +
                         ");") +
              "\n";
    }
    return text;
  }

  struct Element {
    ValueId value;
    std::string text;
  };

  KernelWriter writer_;
  const sched::KernelStep& step_;
  const Algorithm& algorithm_;
  bool linear_;
  std::map<BufferId, std::string> rows_;
  std::string row_starts_;
  std::vector<Element> from_vectors_;
  std::vector<std::string> outs_;
};

}  // namespace

KernelText write_pointwise(const sched::Plan& plan, const sched::KernelStep& step) {
  return PointwiseKernel(plan, step).write();
}

}  // namespace coconet::jit
