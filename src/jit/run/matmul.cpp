// The matrices of a matmul on a rank, and running it.
#include "jit/run/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "jit/run/product_shape.h"

namespace coconet::jit {
namespace {

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
    : a_(step.a), b_(step.b), bias_(step.bias), out_(step.out) {
  ProductShape product = product_shape(plan, step, cores);
  if (product.swapped) std::swap(a_, b_);
  shape_ = std::move(product.matrices);
  library_ = platform.make_matmul(shape_);
}

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
