// Running a matmul.
#include "jit/run/matmul.h"

#include <array>
#include <cstring>

#include "jit/bind/matmul_shape.h"

namespace coconet::jit {

Matmul::Matmul(const Platform& platform, const RankPlan& plan, const sched::MatmulStep& step)
    : shape_(matmul_shape(plan, step)),
      a_(step.a),
      b_(step.b),
      bias_(step.bias),
      out_(step.out),
      library_(platform.make_matmul(shape_)) {}

void Matmul::enqueue(Queue& queue, const Tensors& tensors, const TileCounts* tiles,
                     const Kernel* signal) {
  if (shape_.is_empty()) return;
  const MatmulTensors at{tensors[a_].data, tensors[b_].data,
                         bias_ < 0 ? nullptr : tensors[bias_].data, tensors[out_].data};
  library_->begin_run();
  if (tiles == nullptr) {
    library_->enqueue(queue, at, 0, shape_.all_rows());
    return;
  }
  for (const std::int64_t tile : tiles->order()) {
    const std::int64_t begin = tiles->begin(tile);
    const std::int64_t end = tiles->begin(tile + 1);
    library_->enqueue(queue, at, begin / shape_.columns, end / shape_.columns);
    if (signal == nullptr) {
      tiles->signal(tile);
      continue;
    }
    const struct {
      abi::Tiles tiles;
      abi::index_t begin, end;
    } arguments{tiles->argument(), begin, end};
    std::array<std::uint64_t, sizeof(arguments) / sizeof(std::uint64_t)> words{};
    std::memcpy(words.data(), &arguments, sizeof(arguments));
    queue.launch(*signal, {.threads = 32}, words);
  }
}

std::uint64_t Matmul::bytes(const Tensors& tensors) const {
  const std::uint64_t of_bias = bias_ < 0 ? 0 : shape_.columns;
  return (tensors[a_].count + tensors[b_].count + of_bias + tensors[out_].count) *
         size_of(shape_.dtype);
}

}  // namespace coconet::jit
