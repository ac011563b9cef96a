// Blocks of a transformer whose layers are divided over ranks: dropout(all_reduce(y) + b) + r,
// where y is what each rank has of a layer's result. Schedules know the values `layer` (the
// matmul), `sum`, `block` and `out`.
#include "coconet/programs.h"

namespace coconet::programs {

namespace {

// GPT-2's and BERT-base's widths, of a small batch.
constexpr std::int64_t default_batch = 4;
constexpr std::int64_t default_sequence = 128;
constexpr std::int64_t default_hidden = 768;
constexpr std::int64_t default_inner = 4 * default_hidden;

/// The axis along which a layer is divided: "tp", or the only one.
std::string axis_of(const Mesh& mesh) {
  return mesh.axes().size() == 1 ? mesh.axes().front().name : "tp";
}

/// The dimensions of an activation, [B, S, H].
struct Activation {
  Dim batch, sequence, hidden;

  explicit Activation(Program& program)
      : batch(program.dim("B", default_batch)),
        sequence(program.dim("S", default_sequence)),
        hidden(program.dim("H", default_hidden)) {}
  [[nodiscard]] Shape shape() const { return {batch, sequence, hidden}; }
};

/// dropout(all_reduce(`partial`, `axis`) + b) + r, with another mask in every step `t`.
Value finish(Program& program, const Value& partial, const std::string& axis, const Value& b,
             const Value& r, BlockOptions options) {
  const Value t = program.scalar("t");
  const Value total = all_reduce(partial, sum, axis).named("sum");
  return dropout(total + b, options.dropout, options.seed, t) + r;
}

/// The block after a layer that multiplies [B, S, `inner`], of which each rank has its columns, by
/// [`inner`, H].
Program divided_block(Program program, const Activation& y, const Dim& inner, DType dtype,
                      BlockOptions options) {
  const std::string axis = axis_of(program.mesh());
  const Value x =
      program.input("x", dtype, {y.batch, y.sequence, inner}, Layout::on({{axis, sliced(2)}}));
  const Value w = program.input("w", dtype, {inner, y.hidden}, Layout::on({{axis, sliced(0)}}));
  const Value b = program.input("b", dtype, {y.hidden}, replicated);
  const Value r = program.input("r", dtype, y.shape(), replicated);
  const Value layer = matmul(x, w).named("layer");
  program.output("out", finish(program, layer, axis, b, r, options).named("out"));
  return program;
}

}  // namespace

Program mlp_block(const Mesh& mesh, DType dtype, BlockOptions options) {
  Program program("mlp_block", mesh);
  const Activation y(program);
  return divided_block(program, y, program.dim("F", default_inner), dtype, options);
}

Program attention_block(const Mesh& mesh, DType dtype, BlockOptions options) {
  Program program("attention_block", mesh);
  const Activation y(program);
  return divided_block(program, y, y.hidden, dtype, options);
}

Program pipeline_block(const Mesh& mesh, DType dtype, BlockOptions options) {
  Program program("pipeline_block", mesh);
  const Activation y(program);
  const Layout own = Layout::on({{"pp", local}, {"tp", local}});
  const Layout of_stage = Layout::on({{"pp", local}});
  const Value x = program.input("x", dtype, y.shape(), own);
  const Value b = program.input("b", dtype, {y.hidden}, of_stage);
  const Value r = program.input("r", dtype, y.shape(), of_stage);
  const Value block = finish(program, x, "tp", b, r, options).named("block");
  program.output("out", send(block, 1, "pp").named("out"));
  return program;
}

}  // namespace coconet::programs
