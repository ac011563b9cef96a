// The memory of tile counts.
#include "jit/bind/tile_counts.h"

#include <atomic>

#include "jit/bind/grid.h"
#include "jit/exchange/tiles.h"

namespace coconet::jit {
namespace {

constexpr std::size_t count_bytes = abi::FLAG_STRIDE * sizeof(abi::u64);

/// Elements of a tile of a product whose part on a rank is `part`.
std::int64_t tile_of_product(const Platform& platform, const ir::Part& part) {
  const std::int64_t columns = std::max<std::int64_t>(part.extent.back(), 1);
  const std::int64_t rows = part.count() / columns;
  return columns * platform.rows_of_tile(rows, columns);
}

}  // namespace

TileCounts::TileCounts(const Platform& platform, const RankPlan& plan, std::size_t producer,
                       sched::BufferId id) {
  const ir::Part& part = plan.buffer_part(id);
  const std::vector<sched::PlanStep>& steps = plan.plan().steps;
  const auto& consumer = std::get<sched::KernelStep>(steps[producer + 1]);
  const bool product = std::holds_alternative<sched::MatmulStep>(steps[producer]);
  const int ranks = plan.ranks(consumer.axis);
  const int blocks = std::max(consumer.knobs.channels, 1);
  const std::int64_t chunk = chunk_elements(plan.plan(), consumer, ranks, blocks);
  count_ = part.count();
  tile_ = product ? tile_of_product(platform, part) : chunk;
  made_ = platform.allocate(std::max<std::size_t>(tiles(), 1) * count_bytes);

  const std::vector<sched::KernelStep::Load> loads = consumer.loads();
  const bool combined = std::ranges::any_of(
      loads, [&](const auto& load) { return load.buffer == id && load.combined; });
  if (!combined) {
    order_ = tile_order(count_, tile_, nullptr);
    return;
  }
  const ExchangeOrder order{.algorithm = find_algorithm(consumer.knobs.algorithm),
                            .slices = plan.slices(consumer),
                            .rank = plan.position(consumer.axis),
                            .ranks = ranks,
                            .chunk = chunk,
                            .lanes = lanes_of(plan.plan(), consumer, vector_bytes(platform)),
                            .blocks = blocks};
  order_ = tile_order(count_, tile_, &order);
}

abi::Tiles TileCounts::argument() const {
  return {
      .made = reinterpret_cast<abi::u64*>(made_->data()), .tile = tile_, .count = count_, .run = 0};
}

void TileCounts::signal(std::int64_t tile) const {
  std::atomic_ref(argument().made[tile * abi::FLAG_STRIDE])
      .fetch_add(static_cast<abi::u64>(begin(tile + 1) - begin(tile)), std::memory_order_release);
}

AllTileCounts make_tile_counts(const Platform& platform, const RankPlan& plan) {
  AllTileCounts counts;
  for (const sched::Overlap& overlap : plan.plan().overlaps) {
    for (std::size_t producer = overlap.first; producer + 1 < overlap.first + overlap.count;
         ++producer) {
      for (const auto& load :
           std::get<sched::KernelStep>(plan.plan().steps[producer + 1]).loads()) {
        if (load.arriving) counts.try_emplace(load.buffer, platform, plan, producer, load.buffer);
      }
    }
  }
  return counts;
}

}  // namespace coconet::jit
