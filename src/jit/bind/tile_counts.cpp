// Sizes, orders and memory of tiles; the layout is that of the device prelude's tiles.h.
#include "jit/bind/tile_counts.h"

#include <algorithm>
#include <atomic>

#include "jit/exchange/algorithm.h"
#include "jit/exchange/slices.h"

namespace coconet::jit {

namespace {

constexpr std::size_t count_bytes = 64;  // a cache line: FLAG_STRIDE words

// Tiles of a product are an eighth of it, so that there is something to overlap, but not so few rows that OpenBLAS gets
// slow, and no more than where it is near to its full speed. On GPUs they are whole blocks of cuBLASLt's usual kernels, as
// many as it takes; not measured there.
constexpr std::int64_t wanted_tiles = 8;
constexpr std::int64_t least_rows = 32;
constexpr std::int64_t most_rows = 256;
constexpr std::int64_t rows_of_gpu_block = 128;

/// Elements of a tile of a product whose part on a rank is `part`.
std::int64_t tile_of_product(const Platform& platform, const ir::Part& part) {
  const std::int64_t columns = std::max<std::int64_t>(part.extent.back(), 1);
  const std::int64_t rows = part.count() / columns;
  return columns *
         (platform.device() == nullptr ? rows_of_host_tile(rows) : rows_of_gpu_tile(rows));
}

/// The elements of chunk `number` of `block`, of what a rank owns: [begin, end).
struct Range {
  std::int64_t begin, end;
};
Range chunk_range(std::int64_t elements, int block, int blocks, std::int64_t chunk,
                  std::int64_t number) {
  const std::int64_t length = std::min(chunk, elements / blocks + 1);
  const std::int64_t begin = std::min((number * blocks + block) * length, elements);
  return {begin, std::min(begin + length, elements)};
}

/// Calls visit(first, last) with the elements of the tensor that the exchange of `step` reads one chunk after the other.
template <class Visit>
void visit_chunks(const RankPlan& plan, const sched::KernelStep& step, const Visit& visit) {
  const Slices slices = plan.slices(step);
  const int ranks = plan.ranks(step.axis);
  const int own = plan.position(step.axis);
  const Algorithm& algorithm = find_algorithm(step.knobs.algorithm);
  const int blocks = std::max(step.knobs.channels, 1);
  const std::int64_t chunk = chunk_of(plan.plan(), step);
  std::int64_t longest = 0;
  for (int r = 0; r < ranks; ++r) longest = std::max(longest, slices.count(r));
  for (std::int64_t number = 0; number * chunk <= longest / blocks; ++number) {
    for (int k = 0; k < ranks; ++k) {
      const int tree = static_cast<int>(number % algorithm.trees);
      const int owner = k < ranks - 1 ? algorithm.up_owner(own, k, ranks, tree) : own;
      for (int block = 0; block < blocks; ++block) {
        const Range range = chunk_range(slices.count(owner), block, blocks, chunk, number);
        if (range.begin < range.end)
          visit(slices.element(owner, range.begin), slices.element(owner, range.end - 1));
      }
    }
  }
}

}  // namespace

std::int64_t rows_of_host_tile(std::int64_t rows) {
  return std::clamp((rows + wanted_tiles - 1) / wanted_tiles, least_rows, most_rows);
}

std::int64_t rows_of_gpu_tile(std::int64_t rows) {
  const std::int64_t wanted = (rows + wanted_tiles - 1) / wanted_tiles;
  return std::max((wanted + rows_of_gpu_block - 1) / rows_of_gpu_block, std::int64_t{1}) *
         rows_of_gpu_block;
}

TileCounts::TileCounts(const Platform& platform, const RankPlan& plan, std::size_t maker,
                       sched::BufferId id) {
  const ir::Part& part = plan.buffer_part(id);
  const std::vector<sched::PlanStep>& steps = plan.plan().steps;
  const auto& taker = std::get<sched::KernelStep>(steps[maker + 1]);
  const bool product = std::holds_alternative<sched::MatmulStep>(steps[maker]);
  count_ = part.count();
  tile_ = product ? tile_of_product(platform, part) : chunk_of(plan.plan(), taker);
  made_ =
      platform.allocate(std::max<std::size_t>(static_cast<std::size_t>(tiles()), 1) * count_bytes);

  std::vector<bool> listed(static_cast<std::size_t>(tiles()), false);
  const auto list = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t tile = first / tile_; tile <= last / tile_; ++tile) {
      if (listed[static_cast<std::size_t>(tile)]) continue;
      listed[static_cast<std::size_t>(tile)] = true;
      order_.push_back(tile);
    }
  };
  const std::vector<sched::KernelStep::Load> loads = taker.loads();
  const bool combined = std::any_of(loads.begin(), loads.end(), [&](const auto& load) {
    return load.buffer == id && load.combined;
  });
  if (combined) visit_chunks(plan, taker, list);
  if (count_ > 0) list(0, count_ - 1);
}

std::vector<std::uint64_t> TileCounts::words() const {
  return {reinterpret_cast<std::uint64_t>(made_->data()), static_cast<std::uint64_t>(tile_),
          static_cast<std::uint64_t>(count_), 0};
}

void TileCounts::tell(std::int64_t tile) const {
  auto* const count = reinterpret_cast<std::uint64_t*>(
      made_->data() + static_cast<std::size_t>(tile) * count_bytes);
  std::atomic_ref(*count).fetch_add(static_cast<std::uint64_t>(begin(tile + 1) - begin(tile)),
                                    std::memory_order_release);
}

AllTileCounts make_tile_counts(const Platform& platform, const RankPlan& plan) {
  AllTileCounts counts;
  for (const sched::Overlap& overlap : plan.plan().overlaps) {
    for (std::size_t maker = overlap.first; maker + 1 < overlap.first + overlap.count; ++maker) {
      for (const auto& load : std::get<sched::KernelStep>(plan.plan().steps[maker + 1]).loads()) {
        if (load.arriving) counts.try_emplace(load.buffer, platform, plan, maker, load.buffer);
      }
    }
  }
  return counts;
}

}  // namespace coconet::jit
