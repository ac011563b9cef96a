// Kernels that stream over a domain: computation, alone or inside a collective, in one phase or several.
//
// When all tensors lie in memory like the domain, one loop runs over linear indices. Else (broadcasting, slices of
// an inner dimension) a loop runs over rows, and inside a row every tensor moves by one element or none. Where tensors are
// scattered, a loop runs over buckets, and what is inside is the loop over linear indices.
//
// A collective works in place, where each rank reads its slice from all ranks' tensors and writes results to all of them
// between two barriers; or ranks exchange chunks through mailboxes, and the loop's body is what the owner of a slice does
// with a chunk. Reductions inside the kernel end a phase: totals of all blocks of all ranks meet before the next begins.
#include <algorithm>

#include "jit/algo/algorithm.h"
#include "jit/codegen/expression.h"
#include "jit/codegen/kernel_writer.h"
#include "jit/codegen/pacing.h"

namespace coconet::jit {

using ir::Node;
using ir::ValueId;
using sched::BufferId;
using Kind = KernelArgument::Kind;

namespace {

class PointwiseKernel {
 public:
  PointwiseKernel(const sched::Plan& plan, const sched::KernelStep& step)
      : writer_(plan, step),
        step_(step),
        algorithm_(find_algorithm(step.knobs.algorithm)),
        protocol_(find_protocol(step.knobs.protocol)),
        linear_(writer_.all_linear()) {}

  KernelText write() {
    if (step_.is_collective) sync_ = writer_.argument({Kind::sync, "sync", -1, -1, 0});
    if (!writer_.by_bucket())
      count_ = linear_ ? writer_.argument({Kind::count, "count", -1, -1, 0}) : last_extent();
    mode_ = writer_.argument({Kind::mode, "mode", -1, -1, 0});
    if (!step_.reductions().empty())
      totals_ = writer_.argument({Kind::totals, "totals", -1, -1, 0});

    std::string text = load_scalars();
    for (std::size_t p = 0; p < step_.phases.size(); ++p) text += write_phase(p);
    text += store_scalars();

    std::string body = "constexpr int W = " + lanes_per_access() + ";\n\n";
    body += "DEVICE void " + writer_.entry() + "_block(const Args& a, const Block& block) {\n";
    body += writer_.number_variables();
    if (step_.in_place) {
      body += "  // every rank's operand is written, and its results may be\n";
      body += "  if (!rank_barrier(block, a.sync, 0)) return;\n";
    }
    body += text;
    if (step_.in_place) {
      body += "  // every rank's result is written, and no operand is read any more\n";
      body += "  rank_barrier(block, a.sync, " + std::to_string(step_.phases.size()) + ");\n";
    }
    body += "}\n";
    return writer_.finish(body, headers());
  }

 private:
  [[nodiscard]] int rank() const { return static_cast<int>(writer_.domain().shape.size()); }
  [[nodiscard]] const Node& at(ValueId id) const { return writer_.graph().at(id); }

  [[nodiscard]] std::vector<std::string> headers() const {
    if (!step_.is_collective) return {};
    if (step_.in_place) return {"direct.h"};
    const bool paced = std::any_of(step_.phases.begin(), step_.phases.end(), is_paced);
    if (paced) return {"mail.h", "tiles.h", std::string(algorithm_.header)};
    return {"mail.h", std::string(algorithm_.header)};
  }

  std::string last_extent() {
    return writer_.argument({Kind::extent, "columns", -1, -1, rank() - 1});
  }

  [[nodiscard]] std::string lanes_per_access() const {
    std::size_t widest = 1;
    for (const sched::KernelStep::Phase& phase : step_.phases) {
      for (const auto& load : phase.loads)
        widest = std::max(widest, size_of(writer_.buffer(load.buffer).dtype));
      for (const auto& store : phase.stores)
        widest = std::max(widest, size_of(writer_.buffer(store.buffer).dtype));
    }
    if (step_.knobs.vector_bytes == 0) return "VECTOR_BYTES / " + std::to_string(widest);
    return std::to_string(
        std::max<std::size_t>(1, static_cast<std::size_t>(step_.knobs.vector_bytes) / widest));
  }

  [[nodiscard]] bool sends() const {
    return step_.spread >= 0 && at(step_.spread).op == ir::Op::send;
  }
  /// The rank that owns all of what is reduced or broadcast; -1 where every rank owns a slice.
  [[nodiscard]] int root() const {
    for (const ValueId id : {step_.combine, step_.spread}) {
      if (id < 0) continue;
      const ir::Op op = at(id).op;
      if (op == ir::Op::reduce || op == ir::Op::broadcast) return at(id).attributes.root;
    }
    return -1;
  }

  // ---- scalars ------------------------------------------------------------------------------------------------

  std::string load_scalars() {
    std::string text;
    for (const auto& load : step_.scalar_loads) {
      text += "  const " + std::string(compute_type(at(load.value).dtype)) + " " +
              writer_.variable(load.value) + " = wide(*" + writer_.pointer(load.buffer) + ");\n";
      scalars_.insert(load.value);
    }
    return text;
  }

  std::string compute_scalars(const std::vector<ValueId>& values) {
    writer_.begin_phase(scalars_);
    const std::string text = writer_.compute_members(values, "  ", false);
    scalars_.insert(values.begin(), values.end());
    return text;
  }

  std::string store_scalars() {
    if (step_.scalar_stores.empty()) return {};
    writer_.begin_phase(scalars_);
    std::string text = "  if (block.index == 0 && is_leader(block)) {\n";
    for (const auto& store : step_.scalar_stores) {
      const DType dtype = writer_.buffer(store.buffer).dtype;
      text += "    *" + writer_.pointer(store.buffer) + " = " +
              writer_.stored(writer_.read(store.value, dtype), dtype) + ";\n";
    }
    return text + "  }\n";
  }

  // ---- reductions ---------------------------------------------------------------------------------------------

  [[nodiscard]] std::string operator_of(ValueId reduction) const {
    return std::string(device_operator(at(reduction).attributes.reduction));
  }
  [[nodiscard]] std::string total_type(ValueId reduction) const {
    return "total_type<" + operator_of(reduction) + ", " +
           std::string(compute_type(at(reduction).dtype)) + ">::type";
  }

  std::string declare_totals(const sched::KernelStep::Phase& phase) {
    std::string text;
    for (const ValueId id : phase.reductions) {
      lane_totals_[id] = writer_.unique(at(id).name + "_lanes");
      text += "  auto " + lane_totals_[id] + " = no_totals<" + operator_of(id) + ", W, " +
              total_type(id) + ">();\n";
    }
    return text;
  }

  /// Inside the loop over lanes.
  std::string add_to_totals(const sched::KernelStep::Phase& phase, const std::string& indent) {
    std::string text;
    for (const ValueId id : phase.reductions) {
      const std::string lane = lane_totals_[id] + "[N > W ? l % W : l]";
      text += indent + writer_.label(id) + "\n" + indent + lane + " = " + operator_of(id) +
              "::apply(" + lane + ", " + total_type(id) + "(" +
              writer_.read(at(id).operands.front(), at(id).dtype) + "));\n";
    }
    return text;
  }

  /// After the loop: the totals of all blocks of all ranks, which are scalars from here on.
  std::string combine_totals(const sched::KernelStep::Phase& phase, std::size_t p) {
    if (phase.reductions.empty()) return {};
    std::string puts;
    std::string gets;
    for (const ValueId id : phase.reductions) {
      const std::string index = std::to_string(reductions_++);
      puts += "  put_total(block, a.sync, a.totals, " + index + ", block_total<" + operator_of(id) +
              ">(block, fold<" + operator_of(id) + ">(" + lane_totals_[id] + ")));\n";
      const std::string total = std::string(compute_type(at(id).dtype)) + "(all_totals<" +
                                operator_of(id) + ", " + total_type(id) +
                                ">(block, a.sync, a.totals, " + index + "))";
      gets += "  " + writer_.label(id) + "\n  const " + std::string(compute_type(at(id).dtype)) +
              " " + writer_.variable(id) + " = " + writer_.rounded(total, at(id).dtype) + ";\n";
      scalars_.insert(id);
    }
    return puts + "  // every block of every rank has left its totals\n" +
           "  if (!grid_barrier(block, a.sync, " + std::to_string(p + 1) + ")) return;\n" + gets;
  }

  // ---- phases -------------------------------------------------------------------------------------------------

  /// The text of a body: what runs for the elements [i, i + N).
  struct Body {
    std::string loads, lanes, stores;
    std::string spread;  ///< the variable of the vector that is spread; empty when there is none
  };

  std::string write_phase(std::size_t p) {
    const sched::KernelStep::Phase& phase = step_.phases[p];
    std::string text = compute_scalars(phase.scalars);
    if (phase.stores.empty() && phase.reductions.empty()) return text;
    writer_.begin_phase(scalars_);
    rows_.clear();
    row_starts_.clear();
    from_vectors_.clear();
    text += declare_totals(phase);
    const auto combined = std::find_if(phase.loads.begin(), phase.loads.end(),
                                       [](const auto& load) { return load.combined; });
    const bool spreads = std::any_of(phase.stores.begin(), phase.stores.end(),
                                     [](const auto& store) { return store.spread; });
    if (!step_.is_collective || step_.in_place || (combined == phase.loads.end() && !spreads)) {
      text += write_loop(phase);
    } else {
      text += write_exchange(phase, combined == phase.loads.end() ? nullptr : &*combined, spreads);
    }
    return text + combine_totals(phase, p);
  }

  std::string write_loop(const sched::KernelStep::Phase& phase) {
    if (writer_.by_bucket()) return write_bucket_loop(phase);
    const std::string indent = linear_ ? "    " : "      ";
    const Body body = write_body(phase, indent);
    const std::string inside = body.loads + body.lanes + body.stores;
    if (linear_ && is_paced(phase)) return write_paced_loop(phase, inside);
    if (linear_) {
      return "  for_each<W>(block, " + count_ + ", " + mode_ +
             ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + inside + "  });\n";
    }
    const std::string begin = "row * " + count_;
    const std::string end = begin + " + " + count_;
    return write_row_loop() + await_arriving(writer_, phase, begin, end, "    ") +
           "    for_each<W>(alone(block), " + count_ + ", " + mode_ +
           ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + inside + "    });\n" +
           tell_departing(writer_, phase, begin, end, "    ") + "  }\n";
  }

  /// A loop whose blocks have one share each, so that it is known which elements a block is done with.
  std::string write_paced_loop(const sched::KernelStep::Phase& phase, const std::string& inside) {
    return "  {\n  const Chunk share = chunk_of<W>(block, " + count_ + ", " + count_ + ", 0);\n" +
           await_arriving(writer_, phase, "share.begin", "share.begin + share.count", "  ") +
           "  for_each<W>(alone(block), share.count, " + mode_ +
           ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t of_share) {\n" +
           "    const index_t i = share.begin + of_share;\n" + inside + "  });\n" +
           tell_departing(writer_, phase, "share.begin", "share.begin + share.count", "  ") +
           "  }\n";
  }

  /// One dimension has one row, whose start all operands but the scattered ones know before the loop.
  std::string write_bucket_loop(const sched::KernelStep::Phase& phase) {
    const Body body = write_body(phase, "      ");
    const std::string fits = write_fits(phase, "    ");
    const std::string variables = writer_.bucket_variables("    ");
    return row_starts_ + "  for_each_bucket(block, " + writer_.buckets() +
           ", [&](const Bucket& bucket) {\n" + variables + fits +
           "    for_each_of<W>(alone(block), i, i + bucket.length, bucket_mode,\n" +
           "        [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n" + body.loads +
           body.lanes + body.stores + "    });\n  });\n  order_streams(" + mode_ + ");\n";
  }

  /// Statements that find the mode of a bucket, whose elements begin anywhere in a vector.
  std::string write_fits(const sched::KernelStep::Phase& phase, const std::string& indent) {
    std::string text = indent + "const index_t i = bucket.begin;\n" + indent +
                       "u64 bucket_mode = " + mode_ + ";\n";
    std::set<std::pair<BufferId, bool>> looked_at;
    const auto fit = [&](BufferId buffer, bool of_ranks) {
      if (!linear_ && repeats(writer_.buffer(buffer).shape)) return;
      if (!looked_at.emplace(buffer, of_ranks).second) return;
      const std::string data = of_ranks ? "data" : writer_.pointer(buffer);
      text += indent;
      if (of_ranks) text += "for (const auto* data : " + writer_.pointers(buffer) + ") ";
      text += std::string("bucket_mode = fit<W>(bucket_mode, VECTORIZE") +
              (of_ranks ? " | STREAMING" : "") + ", " + data + " + " + index(buffer) + ");\n";
    };
    for (const auto& load : phase.loads) fit(load.buffer, load.combined && step_.in_place);
    for (const auto& store : phase.stores) fit(store.buffer, store.spread && step_.in_place);
    return text;
  }

  std::string write_exchange(const sched::KernelStep::Phase& phase,
                             const sched::KernelStep::Load* combined, bool spreads) {
    (void)writer_.argument({Kind::mail, "mail", -1, -1, 0});
    (void)writer_.argument({Kind::slices, "slices", -1, -1, 0});
    const Body body = write_body(phase, "    ");
    const std::string wide = combined != nullptr
                                 ? std::string(compute_type(at(step_.combine).dtype))
                                 : std::string("f32");  // of what is not there
    const std::string made = spreads ? std::string(storage_type(at(step_.spread).dtype)) : wide;
    std::string text = step_.phases.size() > 1 ? "  {\n" : "";  // a scope for every pass
    text += "  // what the owner of a chunk does\n";
    text += std::string("  const auto make = [&]<int N>(width<N, false>, index_t ") +
            (linear_ ? "i" : "at") + ", const vec<N, " + wide + ">& combined) {\n";
    if (!linear_) {
      text += "    const index_t row = at / " + count_ + ", i = at % " + count_ + ";\n";
      text += coordinates() + row_starts_;
    }
    text += body.loads + body.lanes + body.stores;
    text += "    return " + (spreads ? body.spread : std::string("combined")) + ";\n  };\n";
    std::string call = "make";
    if (!linear_) {
      call = "make_in_rows";
      text += "  const auto make_in_rows = [&]<int N>(width<N, false>, index_t at, const vec<N, " +
              wide + ">& combined) {\n    return in_rows<N, " + made + ">(" + count_ +
              ", at, combined, make);\n  };\n";
    }
    text += "  const auto own = [&]<int N>(width<N, false>, int owner, index_t i) {\n";
    if (combined != nullptr) {
      text += "    return widened(load_slice<N>(" + writer_.pointer(combined->buffer) +
              ", a.slices, owner, i));\n";
    }
    text += "  };\n";
    text += "  const auto keep = [&]<int N>(width<N, false>, int owner, index_t i, const vec<N, " +
            made + ">& value) {\n";
    for (const auto& store : phase.stores) {
      if (!store.spread) continue;
      text +=
          "    store_slice<N>(" + writer_.pointer(store.buffer) + ", a.slices, owner, i, value);\n";
    }
    text += "  };\n";
    const std::string pace = is_paced(phase) ? ", paced" : "";
    if (!pace.empty()) text += write_pace(writer_, phase);
    if (sends()) {
      text += write_passing(call, made, pace);
      if (step_.phases.size() > 1) text += "  }\n";
      return text;
    }
    const std::string op =
        combined != nullptr ? std::string(device_operator(at(step_.combine).attributes.reduction))
                            : std::string("sum_of");
    text += "  if (!exchange<" + std::string(algorithm_.topology) + ", " +
            std::string(protocol_.name) + ", " + op + ", W, " +
            (combined != nullptr ? "true" : "false") + ", " + (spreads ? "true" : "false") + ", " +
            wide + ", " + made + ">(\n          block, a.sync, a.mail, a.slices, " + mode_ +
            ", own, " + call + ", keep" + pace + ")) {\n    return;\n  }\n";
    const bool others_store = std::any_of(phase.stores.begin(), phase.stores.end(),
                                          [](const auto& store) { return !store.spread; });
    if (root() >= 0 && others_store) {
      const std::string count = writer_.argument({Kind::count, "count", -1, -1, 0});
      text += "  // the computation of ranks that own nothing\n";
      text += "  if (index_t(a.sync.rank) != a.slices.only) {\n";
      text += await_arriving(writer_, phase, "0", count, "    ");
      text += "    for_each<W>(block, " + count + ", " + mode_ +
              ", [&]<int N, bool STREAM>(width<N, STREAM>, index_t i) {\n";
      text += "      " + call + "(width<N, false>{}, i, no_totals<sum_of, N, " + wide +
              ">());\n    });\n  }\n";
    }
    if (step_.phases.size() > 1) text += "  }\n";
    return text;
  }

  /// The exchange of a send: from each group to the one `offset` further.
  std::string write_passing(const std::string& call, const std::string& made,
                            const std::string& pace) {
    return "  if (!pass_on<" + std::string(algorithm_.topology) + ", " +
           std::string(protocol_.name) + ", W, " + made +
           ">(\n          block, a.sync, a.mail, a.slices, " + mode_ + ", " +
           std::to_string(at(step_.spread).attributes.offset) + ", " + call + ", keep" + pace +
           ")) {\n    return;\n  }\n";
  }

  // ---- the body -----------------------------------------------------------------------------------------------

  Body write_body(const sched::KernelStep::Phase& phase, const std::string& indent) {
    Body body;
    body.loads = write_loads(phase, indent);
    body.lanes = write_lanes(phase, indent);
    write_stores(phase, indent, body);
    return body;
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
      row_starts_ += "    const index_t " + row + " = " +
                     writer_.strided_index(shape, name, rank() - 1, buffer, -1) + ";\n";
    }
    return repeats(shape) ? row : row + " + i";
  }

  /// Tells the writer at which lane of the whole tensor its indexed members are.
  void place_members(const sched::KernelStep::Phase& phase) {
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

  /// Statements that take the coordinates of a row apart.
  std::string coordinates() {
    std::string text;
    std::string rest = "row";
    for (int d = rank() - 2; d > 0; --d) {
      const std::string extent =
          writer_.argument({Kind::extent, "e" + std::to_string(d), -1, -1, d});
      text += "    const index_t c" + std::to_string(d) + " = " + rest + " % " + extent + ";\n";
      text += "    const index_t r" + std::to_string(d) + " = " + rest + " / " + extent + ";\n";
      rest = "r" + std::to_string(d);
    }
    if (rank() > 1) text += "    const index_t c0 = " + rest + ";\n";
    return text;
  }

  std::string write_row_loop() {
    const std::string rows = writer_.argument({Kind::rows, "rows", -1, -1, 0});
    return "  for (index_t row = block.index; row < " + rows + "; row += block.count) {\n" +
           coordinates() + row_starts_;
  }

  /// The vector of what all ranks combine, in the computation type.
  std::string combined_vector(const sched::KernelStep::Load& load) {
    if (!step_.in_place) return "combined";
    const std::string all =
        "reduce_ranks<" + std::string(device_operator(at(step_.combine).attributes.reduction)) +
        ", N>(" + writer_.pointers(load.buffer) + ", " + index(load.buffer) + ")";
    if (root() < 0) return all;
    return "a.sync.rank == " + std::to_string(root()) + " ? " + all + " : no_totals<sum_of, N, " +
           std::string(compute_type(at(step_.combine).dtype)) + ">()";
  }

  std::string write_loads(const sched::KernelStep::Phase& phase, const std::string& indent) {
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

  std::string write_lanes(const sched::KernelStep::Phase& phase, const std::string& indent) {
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

  void write_stores(const sched::KernelStep::Phase& phase, const std::string& indent, Body& body) {
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

  struct Element {
    ValueId value;
    std::string text;
  };

  KernelWriter writer_;
  const sched::KernelStep& step_;
  const Algorithm& algorithm_;
  const Protocol& protocol_;
  bool linear_;
  std::string sync_, count_, mode_, totals_;
  std::set<ValueId> scalars_;  ///< variables of the whole kernel
  std::map<ValueId, std::string> lane_totals_;
  int reductions_ = 0;
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
