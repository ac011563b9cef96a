// Timing copies and products.
#include "jit/run/roofline.h"

#include <algorithm>
#include <array>
#include <bit>

#include "jit/comm/comm.h"

namespace coconet::jit {
namespace {

/// Milliseconds of `body`, which puts work into the queue: the best of several passes, each of
/// `times` calls.
double best_ms(const Platform& platform, Queue& queue, std::size_t times,
               const std::function<void()>& body) {
  constexpr int passes = 7;
  const std::unique_ptr<Event> begin = platform.make_event(), end = platform.make_event();
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    begin->record(queue);
    for (std::size_t i = 0; i < times; ++i) body();
    end->record(queue);
    queue.finish();
    const double ms = static_cast<double>(end->ms_since(*begin)) / static_cast<double>(times);
    best = pass == 0 ? ms : std::min(best, ms);
  }
  return best;
}

}  // namespace

double Roofline::copy_ms(std::uint64_t bytes) {
  // Slices differ by rank; all ranks must measure the same size together.
  const std::uint64_t largest = greatest_of_all(comm_, bytes);
  const int exponent = std::clamp(static_cast<int>(std::bit_width(largest)) - 1, 10, 28);
  if (!ms_per_byte_.contains(exponent))
    ms_per_byte_[exponent] = measure_copy(std::size_t{1} << (exponent - 1));
  return ms_per_byte_[exponent] * static_cast<double>(bytes);
}

double Roofline::measure_copy(std::size_t half) {
  std::shared_ptr<Memory> from, to;
  std::unique_ptr<Queue> queue;
  together(comm_, [&] {
    from = platform_.allocate(half);
    to = platform_.allocate(half);
    queue = platform_.make_queue(cores_);
    queue->zero(from->data(), half);  // backed by pages from here on
    queue->zero(to->data(), half);
    queue->finish();
  });
  // Some milliseconds a pass, or one copy; a GPU's copies each take microseconds to begin.
  const std::size_t most = platform_.traits().immediate ? std::size_t{1} << 13 : 32;
  const std::size_t copies = std::clamp<std::size_t>((std::size_t{1} << 22) / half, 1, most);
  double best = 0;
  together(comm_, [&] {
    best = best_ms(platform_, *queue, copies, [&] { queue->copy(to->data(), from->data(), half); });
  });
  return best / static_cast<double>(2 * half);
}

double Roofline::multiply_ms(DType dtype, double operations) {
  if (!ms_per_operation_.contains(dtype)) ms_per_operation_[dtype] = measure_product(dtype);
  return ms_per_operation_[dtype] * operations;
}

double Roofline::measure_product(DType dtype) {
  constexpr double long_enough_ms = 2;
  constexpr std::int64_t largest = 8192;
  for (std::int64_t n = 256;; n *= 2) {
    const double ms = product_ms(dtype, n);
    const auto rows = static_cast<double>(n);
    if (comm_.any_failed(ms >= long_enough_ms || n == largest, 0))
      return ms / (2 * rows * rows * rows);
  }
}

double Roofline::product_ms(DType dtype, std::int64_t n) {
  const MatmulShape::Operand whole{.row = n, .matrices = {0}};
  const std::size_t bytes = static_cast<std::size_t>(n) * n * size_of(dtype);
  std::array<std::shared_ptr<Memory>, 3> matrices;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<LibraryMatmul> library;
  double best = 0;
  together(comm_, [&] {
    queue = platform_.make_queue(cores_);
    for (auto& matrix : matrices) {
      matrix = platform_.allocate(bytes);
      queue->zero(matrix->data(), bytes);
    }
    library = platform_.make_matmul({.name = "roofline",
                                     .dtype = dtype,
                                     .rows = n,
                                     .columns = n,
                                     .terms = n,
                                     .a = whole,
                                     .b = whole,
                                     .out = whole,
                                     .cores = cores_});
  });
  const MatmulTensors tensors{matrices[0]->data(), matrices[1]->data(), nullptr,
                              matrices[2]->data()};
  together(comm_, [&] {
    best = best_ms(platform_, *queue, 1, [&] {
      library->begin_run();
      library->enqueue(*queue, tensors, 0, n);
    });
  });
  return best;
}

}  // namespace coconet::jit
