// The program: what one distributed step computes and communicates. Values are built with operators
// and functions; every value is checked as it is made, so a wrong program fails at the line that is
// wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/mesh.h"

namespace coconet {

namespace ir {
struct Access;
class Graph;
}  // namespace ir

/// One dimension of a shape: a fixed extent, or a symbol that gets its extent when the program is
/// compiled.
struct Dim {
  std::string name;         ///< the symbol; empty for a fixed extent
  std::int64_t extent = 0;  ///< the fixed extent; for a symbol its default, 0 when it has none

  /// A fixed extent of 0.
  Dim() = default;
  /// A fixed extent.
  template <class T>
  requires std::is_integral_v<T> Dim(T fixed)
      : extent(static_cast<std::int64_t>(fixed)) {}  // NOLINT: implicit by design
  /// A symbol, as Program::dim makes one.
  Dim(std::string symbol, std::int64_t default_extent)
      : name(std::move(symbol)), extent(default_extent) {}

  /// Whether it is a symbol.
  [[nodiscard]] bool symbolic() const { return !name.empty(); }
  /// The symbol or the extent as text.
  [[nodiscard]] std::string str() const { return symbolic() ? name : std::to_string(extent); }
  /// Same symbol, or same fixed extent.
  bool operator==(const Dim& other) const {
    return name == other.name && (symbolic() || extent == other.extent);
  }
};

/// The dimensions of a tensor, the last varying fastest in memory; none for one element.
using Shape = std::vector<Dim>;

/// How values are combined by a reduction or a collective.
enum class Reduction : std::uint8_t { sum, mean, max, min, prod };
/// "sum", "mean", "max", "min" or "prod".
[[nodiscard]] COCONET_API std::string_view to_string(Reduction reduction);

/// A value of a program: a handle, cheap to copy. A C++ number converts to a constant, which takes
/// the dtype of what it is combined with. Ops on values change their program, which says how
/// threads may do that.
class COCONET_API Value {
 public:
  /// An empty value, to be assigned before it is used: what takes it throws ProgramError until
  /// then.
  Value() = default;
  /// A constant. Throws ProgramError where no double holds it, as with 2^53 + 1.
  template <class T>
  requires std::is_arithmetic_v<T> Value(T constant)
      : constant_(static_cast<double>(constant)), is_empty_(false) {  // NOLINT: implicit by design
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      require_exact(std::int64_t{constant});
    } else if constexpr (std::is_integral_v<T>) {
      require_exact(std::uint64_t{constant});
    }
  }
  /// Names the value; schedules, errors and reports use the name. Throws ProgramError when it is
  /// taken.
  Value named(std::string name) const;

  /// What `named` gave it, or the name that the library did.
  [[nodiscard]] const std::string& name() const;
  /// Of its elements.
  [[nodiscard]] DType dtype() const;
  /// Of the whole tensor, all ranks together.
  [[nodiscard]] const Shape& shape() const;
  /// One placement per mesh axis.
  [[nodiscard]] const std::vector<Placement>& layout() const;

  /// The number that a constant is.
  [[nodiscard]] double constant() const { return constant_; }
  /// Whether nothing has been assigned yet.
  [[nodiscard]] bool is_empty() const { return is_empty_; }

 private:
  friend struct ir::Access;
  static void require_exact(std::int64_t constant);
  static void require_exact(std::uint64_t constant);
  Value(std::shared_ptr<ir::Graph> graph, int id)
      : graph_(std::move(graph)), id_(id), is_empty_(false) {}

  std::shared_ptr<ir::Graph> graph_;  ///< null for a constant
  int id_ = -1;
  double constant_ = 0;
  bool is_empty_ = true;
};

/// A part of a program that has a name, such as a layer: Program::scope makes it.
class COCONET_API Scope {
 public:
  /// Ends it, in any order: names no longer have its part.
  ~Scope();
  /// What is moved from ends nothing.
  Scope(Scope&& other) noexcept : graph_(std::move(other.graph_)), number_(other.number_) {}
  Scope& operator=(Scope&&) = delete;

 private:
  friend class Program;
  Scope(std::shared_ptr<ir::Graph> graph, int number) : graph_(std::move(graph)), number_(number) {}

  std::shared_ptr<ir::Graph> graph_;
  int number_;  ///< among those of the program
};

/// A distributed program under construction: a single-assignment graph over a mesh, which copies
/// share. One thread at a time may make values and outputs, and no other may use the program
/// meanwhile; when it is finished, several threads may read and compile it at once.
class COCONET_API Program {
 public:
  /// Empty, over the ranks of `mesh`.
  Program(std::string name, Mesh mesh);

  /// Reads the JSON that `json()` writes. An axis of its mesh whose size is "ranks" has what the
  /// others leave of `ranks` ranks, such as `World::size()`; without such an axis `ranks` changes
  /// nothing, and 0 says that their number is not known. Throws ProgramError with the JSON pointer
  /// of what is wrong.
  [[nodiscard]] static Program parse(std::string_view json, int ranks = 0);
  /// `parse` of a file's content.
  [[nodiscard]] static Program load(const std::filesystem::path& file, int ranks = 0);

  /// While the result lives, the names of all values and outputs that are made begin with `name`
  /// and a point, those that are given and those that the library gives: `q` in a scope "attention"
  /// in a scope "layer3" is "layer3.attention.q". Values that exist are named in full, as in
  /// `may_slice`, and what is called after one has its scope, wherever it is made: an update, a
  /// gradient, what an optimizer keeps of a weight. Dimensions and an optimizer's scalars are in no
  /// scope. Throws ProgramError for an empty name.
  [[nodiscard]] Scope scope(const std::string& name);
  /// A symbolic dimension. `default_extent` is used when `compile` is given none; 0 means that it
  /// must be given.
  Dim dim(std::string name, std::int64_t default_extent = 0);
  /// A tensor that the application writes before each step and the step only reads.
  Value input(std::string name, DType dtype, Shape shape, Layout layout);
  /// A tensor that lives across steps and is written by `update`.
  Value state(std::string name, DType dtype, Shape shape, Layout layout);
  /// An input or a state that is scattered over buffers, such as the parameters of a model: to the
  /// program one tensor
  /// [`dim`], replicated or local, whose elements are those of its buffers in order. `compile`
  /// takes the lengths of the buffers, whose sum is the extent of `dim`; the buffers are never
  /// copied into one. It combines with tensors of one dimension only.
  Value scattered_input(std::string name, DType dtype, const Dim& dim, const Layout& layout);
  /// @copydoc scattered_input
  Value scattered_state(std::string name, DType dtype, const Dim& dim, const Layout& layout);
  /// How many buffers make up `dim`, as a dimension: a tensor of it, such as the weight decay of
  /// each parameter of a model, has an element for each. `compile` takes the lengths of the buffers
  /// whether or not a tensor is scattered over them; without them there is one.
  [[nodiscard]] Dim buffers(const Dim& dim) const;
  /// The index along the one dimension of `shape` whose extent is not 1, from 0, in i32 or i64,
  /// replicated: `iota({n})`, or for the rows of a matrix `iota({n, 1})`. Kernels compute it where
  /// they need it: masks, one-hot vectors and the choice of an element by its number are selects
  /// over it. Throws ProgramError for two such dimensions, and `compile` where the dtype does not
  /// hold the last index.
  Value iota(const Shape& shape, DType dtype = i32);
  /// A run-time number, given to `Executable::run` by name: a learning rate, a step count.
  /// Arithmetic among scalars and constants is done once per run, in double, on the host.
  Value scalar(std::string name);
  /// Whether an automatic schedule may keep each of the replicated `states` sliced, which it may
  /// not unless this says so: every rank then holds 1/n of it, `Executable::slice_of`, and nothing
  /// of the application may need it whole, but by `Executable::read_whole`. Of programs that ship,
  /// all tensors but the parameters may. Throws ProgramError when one of them is no replicated
  /// state.
  void may_slice(const std::vector<std::string>& states, bool may = true);
  /// Keeps `value` for the application to read after a step, in a buffer named `name`.
  void output(std::string name, const Value& value);

  /// The name that it was made with.
  [[nodiscard]] const std::string& name() const;
  /// The mesh that it was made with.
  [[nodiscard]] const Mesh& mesh() const;
  /// One line per value: name, dtype, shape, layout, op.
  [[nodiscard]] std::string str() const;
  /// The program as JSON, which `load` and `parse` read.
  [[nodiscard]] std::string json() const;

 private:
  friend struct ir::Access;
  explicit Program(std::shared_ptr<ir::Graph> graph) : graph_(std::move(graph)) {}

  std::shared_ptr<ir::Graph> graph_;
};

// ---- pointwise: NumPy broadcasting; dtypes must agree (see `cast`)
//

/// @cond internal
namespace detail {
COCONET_API Value pointwise(std::string_view op, std::initializer_list<Value> operands);
}
/// @endcond

#define COCONET_OPERANDS_1 const Value& a
#define COCONET_OPERANDS_2 const Value &a, const Value &b
#define COCONET_OPERANDS_3 const Value &a, const Value &b, const Value &c
#define COCONET_ARGUMENTS_1 a
#define COCONET_ARGUMENTS_2 a, b
#define COCONET_ARGUMENTS_3 a, b, c
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients) \
  [[nodiscard]] inline Value name(COCONET_OPERANDS_##arity) {                    \
    return detail::pointwise(#name, {COCONET_ARGUMENTS_##arity});                \
  }
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
#undef COCONET_OPERANDS_1
#undef COCONET_OPERANDS_2
#undef COCONET_OPERANDS_3
#undef COCONET_ARGUMENTS_1
#undef COCONET_ARGUMENTS_2
#undef COCONET_ARGUMENTS_3

/// `select` whose result has `dtype`, which tells what two choices that are numbers are.
[[nodiscard]] COCONET_API Value select(const Value& a, const Value& b, const Value& c, DType dtype);

/// `add(a, b)`.
[[nodiscard]] inline Value operator+(const Value& a, const Value& b) {
  return add(a, b);
}
/// `subtract(a, b)`.
[[nodiscard]] inline Value operator-(const Value& a, const Value& b) {
  return subtract(a, b);
}
/// `multiply(a, b)`.
[[nodiscard]] inline Value operator*(const Value& a, const Value& b) {
  return multiply(a, b);
}
/// `divide(a, b)`.
[[nodiscard]] inline Value operator/(const Value& a, const Value& b) {
  return divide(a, b);
}
/// `negative(a)`.
[[nodiscard]] inline Value operator-(const Value& a) {
  return negative(a);
}
/// `less(a, b)`.
[[nodiscard]] inline Value operator<(const Value& a, const Value& b) {
  return less(a, b);
}
/// `less_equal(a, b)`.
[[nodiscard]] inline Value operator<=(const Value& a, const Value& b) {
  return less_equal(a, b);
}
/// `greater(a, b)`.
[[nodiscard]] inline Value operator>(const Value& a, const Value& b) {
  return greater(a, b);
}
/// `greater_equal(a, b)`.
[[nodiscard]] inline Value operator>=(const Value& a, const Value& b) {
  return greater_equal(a, b);
}

/// `value` converted to `dtype`: floats round to nearest even; a float goes toward zero to an
/// integer within its limits, NaN to 0; integers keep their low bits; bool is `value != 0`, true of
/// NaN.
[[nodiscard]] COCONET_API Value cast(const Value& value, DType dtype);

/// Zeros elements of `value`, which holds floats, with `probability`, at least 0 and less than 1,
/// and multiplies the others by 1 / (1 - probability). Which ones depends on `seed`, `offset` and
/// the element's index in the whole tensor alone: the mask is the same under every schedule, layout
/// and number of ranks, and on all ranks where `value` is local. `offset` is a whole number from 0
/// to 2^53; with a scalar, such as the number of the step, every step has another mask. Element i
/// is kept when word i % 4 of Philox4x32-10 with counter {i / 4, offset} and key `seed`, each 64
/// bits with the low half first, is at least round(probability * 2^32).
[[nodiscard]] COCONET_API Value dropout(const Value& value, double probability, std::uint64_t seed,
                                        const Value& offset = 0);

/// `value`, of f32, as `dtype`, which must be bf16: each element becomes one of the two around it,
/// the farther it is from one the more probably the other, so that its expected value stays. What
/// bf16 has stays as it is. Random words are `dropout`'s, of a `seed` and an `offset`; an element
/// is rounded away from zero where the lower 16 bits of it and of its word carry. Weights that are
/// kept in bf16 alone are updated so: rounded to nearest, they would lose all small updates
/// (Zamirai et al., Revisiting BFloat16 Training, 2020).
[[nodiscard]] COCONET_API Value stochastic_cast(const Value& value, DType dtype, std::uint64_t seed,
                                                const Value& offset);

/// The bf16 nearest to `value`, an f32, ties away from zero; with `lower_half` all of its bits.
[[nodiscard]] COCONET_API Value upper_half(const Value& value);
/// The lower 16 bits of `value`, an f32, as i16: negative where `upper_half` rounds away from zero.
[[nodiscard]] COCONET_API Value lower_half(const Value& value);
/// The f32 whose halves are `upper`, of bf16, and `lower`, of i16, bit for bit; NaN stays NaN. An
/// optimizer keeps the weights that a model computes with and the rest of its own copy apart so, in
/// 4 bytes instead of 6 (as Apex's DistributedFusedAdam with store_param_remainders).
[[nodiscard]] COCONET_API Value join_halves(const Value& upper, const Value& lower);

/// replicated -> sliced(dim), along one mesh axis, which must be named when the mesh has several:
/// rank i keeps the i-th block. Nothing moves. Operands of pointwise ops need no slice: a
/// replicated one is read at the global index of a sliced one. A reduction of a slice reads 1/ranks
/// of the tensor on each rank and combines the results.
[[nodiscard]] COCONET_API Value slice(const Value& value, int dim = 0, std::string_view axis = {});

/// `value` with its dimensions in another order: dimension d of the result is dimension
/// `permutation[d]` of `value`, counted from 0, or from -1 backwards; as numpy.transpose(value,
/// permutation). Slices stay where they are: a tensor sliced along dimension `permutation[d]`
/// comes out sliced along d. A kernel that alone reads the result reads `value`, in memory; for
/// several, a matmul, a collective, another transpose or the application there is a kernel that
/// copies.
/// Throws ProgramError for fewer than 2 dimensions, or where `permutation` does not name each once.
[[nodiscard]] COCONET_API Value transpose(const Value& value, const std::vector<int>& permutation);

/// `value` with dimensions of extent 1 inserted, which are `dims` of the result, counted from 0, or
/// from -1 backwards; as numpy.expand_dims(value, dims). Like `transpose` it is read in memory.
/// Throws ProgramError for a number, for no dimensions, or where `dims` names one twice.
[[nodiscard]] COCONET_API Value expand_dims(const Value& value, const std::vector<int>& dims);

/// numpy's value[begin:end:step] along dimension `dim`, of a stated extent; step > 0. Like
/// `transpose` it is read in memory. Throws ProgramError for indices outside, or if it is sliced.
[[nodiscard]] COCONET_API Value window(const Value& value, int dim, std::int64_t begin,
                                       std::int64_t end, int step = 1);
/// `value` with zeros in front of dimension `dim` and behind it, else as `window`.
[[nodiscard]] COCONET_API Value pad(const Value& value, int dim, std::int64_t before,
                                    std::int64_t after);
/// numpy.reshape(value, shape); symbolic dimensions stay. Like `transpose` it is read in memory.
/// Throws ProgramError for another number of elements, or where what does not stay is sliced.
[[nodiscard]] COCONET_API Value reshape(const Value& value, Shape shape);

/// numpy.take(table, indices, dim), indices of i32 or i64. One outside is taken for the nearest. It
/// is computed where it is read, of what `table` has in memory, and its gradient is added up in one
/// order. Of a dimension that is sliced each rank takes what it has, else 0: an all_reduce sums.
[[nodiscard]] COCONET_API Value take(const Value& table, const Value& indices, int dim = 0);

/// `value` broadcast to the shape of `like`, a tensor, as numpy.broadcast_to does; a number gets
/// its dtype, too. Along mesh axes on which `value` is replicated, the result is placed as `like`.
/// Pointwise ops broadcast on their own; this makes a tensor where one is needed, as for an output.
/// Throws ProgramError where the shapes do not broadcast.
[[nodiscard]] COCONET_API Value expand(const Value& value, const Value& like);

/// replicated -> local, along one mesh axis, which must be named when the mesh has several: what
/// all ranks hold, as a value of each rank's own. Nothing moves.
[[nodiscard]] COCONET_API Value as_local(const Value& value, std::string_view axis = {});

/// `value`, a tensor, through which `gradients` passes nothing on: to them it is a constant.
[[nodiscard]] COCONET_API Value stop_gradient(const Value& value);

/// The element of `value` [`Program::buffers(dim)`] for a buffer, once for each element of `dim`
/// that the buffer has, as numpy.repeat(value, lengths). Pointwise ops do it themselves where they
/// combine a tensor of the buffers with one of the elements. Throws ProgramError for a tensor of
/// another shape, or a sliced one.
[[nodiscard]] COCONET_API Value repeat(const Value& value, const Dim& dim);

/// Writes `value` into `state` at the end of the step and returns the new value. `state` itself
/// keeps meaning the value from before the step. Throws ProgramError when `state` is none or has
/// been updated already.
COCONET_API Value update(const Value& state, const Value& value);

// ---- reductions: over tensor dimensions, and as the operator of a collective
//

/// Asks for a result of each buffer of a dimension, `sum(x, per_buffer)`.
struct PerBuffer {};
inline constexpr PerBuffer per_buffer;  ///< see PerBuffer

/// A reduction: call it on a value, `sum(x)` or `sum(x, {0})`, or hand it to a collective,
/// `all_reduce(x, sum)`. Reducing over a sliced dimension combines across ranks; the result is
/// replicated.
struct Reducer {
  Reduction reduction;  ///< how values are combined
  /// For collectives, which take a Reduction.
  constexpr operator Reduction() const { return reduction; }  // NOLINT: implicit by design
  /// Over all dimensions: a rank-0 tensor.
  COCONET_API Value operator()(const Value& value) const;
  /// Over `dims`, which disappear from the shape unless `keep_dims`. Negative dims count from the
  /// end.
  COCONET_API Value operator()(const Value& value, std::vector<int> dims,
                               bool keep_dims = false) const;
  /// Of each buffer of the one dimension of `value` [n]: [`Program::buffers(n)`], replicated where
  /// `value` is sliced, wherever slices cut buffers. Throws ProgramError for a mean.
  COCONET_API Value operator()(const Value& value, PerBuffer) const;
};
inline constexpr Reducer sum{Reduction::sum};  ///< of the elements
/// Of the elements; 16-bit floats are computed in f32, of casts to it, and rounded once.
inline constexpr Reducer mean{Reduction::mean};
inline constexpr Reducer max{Reduction::max};    ///< the largest; NaN where one is
inline constexpr Reducer min{Reduction::min};    ///< the smallest; NaN where one is
inline constexpr Reducer prod{Reduction::prod};  ///< of the elements

/// Euclidean norm over all dimensions, or over `dims`: sqrt(sum(value * value)). 16-bit floats are
/// computed as those of a mean.
[[nodiscard]] COCONET_API Value norm(const Value& value);
/// @copydoc norm
[[nodiscard]] COCONET_API Value norm(const Value& value, std::vector<int> dims,
                                     bool keep_dims = false);
/// Of each buffer: sqrt(sum(value * value, per_buffer)).
[[nodiscard]] COCONET_API Value norm(const Value& value, PerBuffer);

// ---- matrices
//

/// Products of the matrices in the last two dimensions, [.., M, K] x [.., K, N] = [.., M, N]; all
/// dimensions before them broadcast as NumPy does. Transposing reads [.., K, M] on the left, [..,
/// N, K] on the right. Floats of one dtype; f16 and bf16 are summed in f32 and rounded once. Rows
/// (M) sliced on the left, or columns (N) on the right, come out sliced; K sliced on both sides
/// comes out local: every rank has the products of its slices, which an all_reduce sums. A library
/// computes it, oneDNN or OpenBLAS on the host and cuBLASLt on GPUs.
[[nodiscard]] COCONET_API Value matmul(const Value& a, const Value& b, bool transpose_a = false,
                                       bool transpose_b = false);

/// Products of two tensors whose dimensions have letters, as numpy.einsum(letters, a, b): in
/// contract(x, w, "bsh,hnd->bsnd") `h`, which both operands have and the result does not, is
/// contracted; `b`, `s`, `n` and `d`, of one operand and the result, are kept; a letter of all
/// three is of a batch. Blanks do not count. Floats and slices are as those of `matmul`, which is
/// this for the last two dimensions. A library multiplies the tensors where they are: a kernel
/// copies one before only where the letters put contracted or kept dimensions so that none of a
/// matrix is contiguous. Throws ProgramError where letters do not match.
[[nodiscard]] COCONET_API Value contract(const Value& a, const Value& b, std::string_view letters);

// ---- collectives: along one mesh axis, which must be named when the mesh has several
//

/// local -> replicated: every rank gets the reduction over the axis.
[[nodiscard]] COCONET_API Value all_reduce(const Value& value, Reduction reduction,
                                           std::string_view axis = {});
/// local -> sliced(dim): rank i gets the i-th block of the reduction.
[[nodiscard]] COCONET_API Value reduce_scatter(const Value& value, Reduction reduction, int dim = 0,
                                               std::string_view axis = {});
/// sliced -> replicated: every rank gets all blocks.
[[nodiscard]] COCONET_API Value all_gather(const Value& value, std::string_view axis = {});
/// local -> local: rank `root` of the axis gets the reduction, the others hold zeros.
[[nodiscard]] COCONET_API Value reduce(const Value& value, Reduction reduction, int root = 0,
                                       std::string_view axis = {});
/// local -> replicated: every rank gets the value of rank `root` of the axis.
[[nodiscard]] COCONET_API Value broadcast(const Value& value, int root = 0,
                                          std::string_view axis = {});
/// sliced(i) -> sliced(dim): every rank gives each other one the part of its block that the other
/// holds next.
[[nodiscard]] COCONET_API Value all_to_all(const Value& value, int dim, std::string_view axis = {});
/// local -> local: the group at position p of the axis gives its values to the one at p + `offset`,
/// the next one by default and an earlier one when negative. Groups to which none sends hold zeros.
/// Throws ProgramError when `offset` is 0 or not smaller than the axis, so that all would send past
/// its end.
[[nodiscard]] COCONET_API Value send(const Value& value, int offset = 1,
                                     std::string_view axis = {});

}  // namespace coconet
