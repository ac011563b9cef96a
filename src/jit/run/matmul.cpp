// The matrices of a matmul on a rank, and running it.
#include "jit/run/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "coconet/error.h"
#include "ir/factors.h"

namespace coconet::jit {
namespace {

// What BLAS libraries count with.
constexpr std::int64_t largest_int = std::numeric_limits<int>::max();

MatmulShape::Operand operand_of(const RankPlan& plan, const sched::MatmulStep& step,
                                std::size_t index) {
  const ir::Node& node = plan.graph().at(step.value);
  const ir::ValueId from = node.operands[index];
  const ir::Part& own = plan.part(from);
  const ir::Part& result = plan.part(step.value);

  MatmulShape::Operand operand;
  operand.transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  operand.row = own.extent.back();
  operand.matrices = {0};
  const std::size_t batch_rank = result.extent.size() - 2;
  const std::size_t shift = result.extent.size() - own.extent.size();
  const ir::Factors factors = ir::factors_of(plan.graph(), node, index);
  // Every matrix so far becomes one for each index of the next inner dimension.
  for (std::size_t d = 0; d < batch_rank; ++d) {
    std::int64_t first = 0;
    std::int64_t stride = 0;
    if (d >= shift && factors[d - shift].kind == ir::Factor::Kind::passes) {
      stride = row_of(own, static_cast<int>(d - shift) + 1);
      first = result.begin[d] - own.begin[d - shift];
    }
    std::vector<std::int64_t> next;
    next.reserve(operand.matrices.size() * result.extent[d]);
    for (const std::int64_t matrix : operand.matrices) {
      for (std::int64_t i = 0; i < result.extent[d]; ++i)
        next.push_back(matrix + (first + i) * stride);
    }
    operand.matrices = std::move(next);
  }
  return operand;
}

/// Makes one tall matrix of the left side's batch, where the right side is the same for all of it.
void fold_batch(MatmulShape& shape) {
  const std::int64_t count = std::ssize(shape.a.matrices);
  std::vector<std::int64_t>& a = shape.a.matrices;
  std::vector<std::int64_t>& b = shape.b.matrices;
  if (count < 2 || shape.a.transposed || count * shape.rows > largest_int) return;
  for (std::size_t i = 1; i < a.size(); ++i) {
    if (a[i] != a[i - 1] + shape.rows * shape.terms || b[i] != b[0]) return;
  }
  shape.rows *= count;
  a.resize(1);
  b.resize(1);
}

/// On this rank. Throws BackendError for matrices that BLAS libraries cannot count.
MatmulShape matmul_shape(const RankPlan& plan, const sched::MatmulStep& step, int cores) {
  const ir::Node& node = plan.graph().at(step.value);
  const ir::Part& part = plan.part(step.value);
  MatmulShape shape;
  shape.name = step.name;
  shape.cores = cores;
  shape.dtype = node.dtype;
  shape.rows = part.extent[part.extent.size() - 2];
  shape.columns = part.extent.back();
  shape.terms =
      plan.part(node.operands[1]).extent[ir::matmul_dims(plan.graph(), node, 1).contracted];
  shape.a = operand_of(plan, step, 0);
  shape.b = operand_of(plan, step, 1);
  fold_batch(shape);
  shape.has_bias = step.bias >= 0;
  if (shape.has_bias)
    shape.first_of_bias = part.begin.back() - plan.buffer_part(step.bias).begin.back();
  if (std::max({shape.rows, shape.columns, shape.terms}) > largest_int) {
    throw BackendError(fmt::format(
        "matmul '{0}' multiplies matrices of {1} x {2} and {2} x {3}; BLAS libraries count to {4}",
        shape.name, shape.rows, shape.terms, shape.columns, largest_int));
  }
  return shape;
}

void launch_signal(Queue& queue, const Kernel& kernel, const TileCounts& tiles, std::int64_t tile) {
  const struct {
    abi::Tiles tiles;
    abi::index_t begin, end;
  } arguments{tiles.argument(), tiles.begin(tile), tiles.begin(tile + 1)};
  std::array<std::uint64_t, sizeof(arguments) / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &arguments, sizeof(arguments));
  queue.launch(kernel, {.threads = 32}, words);
}

}  // namespace

Matmul::Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step,
               int cores)
    : shape_(matmul_shape(plan, step, cores)),
      a_(step.a),
      b_(step.b),
      bias_(step.bias),
      out_(step.out),
      library_(platform.make_matmul(shape_)) {}

void Matmul::enqueue(Queue& queue, const Tensors& tensors, std::int64_t begin, std::int64_t end) {
  library_->enqueue(queue,
                    {tensors[a_].data(), tensors[b_].data(),
                     bias_ < 0 ? nullptr : tensors[bias_].data(), tensors[out_].data()},
                    begin, end);
}

void Matmul::run(Queue& queue, std::span<const Member> members, const Signals& signals) {
  std::size_t most = 0;
  for (const auto& [matmul, tensors, tiles] : members) {
    if (matmul->shape_.is_empty()) continue;
    matmul->library_->begin_run();
    if (tiles != nullptr) {
      most = std::max(most, tiles->order().size());
    } else {
      matmul->enqueue(queue, *tensors, 0, matmul->shape_.all_rows());
    }
  }
  const auto has = [](const Member& member, std::size_t place) {
    return member.tiles != nullptr && !member.matmul->shape_.is_empty() &&
           place < member.tiles->order().size();
  };
  for (std::size_t place = 0; place < most; ++place) {
    for (const Member& member : members) {
      if (!has(member, place)) continue;
      const auto& [matmul, tensors, tiles] = member;
      const std::int64_t tile = tiles->order()[place];
      matmul->enqueue(queue, *tensors, tiles->begin(tile) / matmul->shape_.columns,
                      tiles->begin(tile + 1) / matmul->shape_.columns);
    }
    if (signals.beside != nullptr) {
      signals.made->record(queue);
      signals.made->hold(*signals.beside);
    }
    for (const Member& member : members) {
      if (!has(member, place)) continue;
      const std::int64_t tile = member.tiles->order()[place];
      if (signals.kernel == nullptr) {
        member.tiles->signal(tile);
      } else {
        launch_signal(signals.beside != nullptr ? *signals.beside : queue, *signals.kernel,
                      *member.tiles, tile);
      }
    }
  }
}

double Matmul::operations() const {
  return 2.0 * static_cast<double>(shape_.all_rows()) * static_cast<double>(shape_.columns) *
         static_cast<double>(shape_.terms);
}

std::uint64_t Matmul::bytes(const Tensors& tensors) const {
  const std::uint64_t of_bias = bias_ < 0 ? 0 : shape_.columns;
  return (tensors[a_].count + tensors[b_].count + of_bias + tensors[out_].count) *
         size_of(shape_.dtype);
}

}  // namespace coconet::jit
