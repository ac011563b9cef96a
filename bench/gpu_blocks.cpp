// The blocks of transformers under their schedules, of ranks that share a GPU and of GPUs with a
// rank each.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/coconet.h"
#include "coconet/programs.h"
#include "gpu_ranks.h"
#include "gpu_steps.h"
#include "gpu_timing.h"
#include "jit/comm/access.h"

namespace bench {

namespace {

struct BlockSizes {
  std::int64_t batch, sequence, hidden;
  [[nodiscard]] std::string str() const {
    return "B" + std::to_string(batch) + " S" + std::to_string(sequence) + " H" +
           std::to_string(hidden);
  }
};

/// A shipped block and the sizes that it is timed at.
struct Block {
  const char* name;
  std::vector<BlockSizes> sizes;
  [[nodiscard]] bool is_pipeline() const { return std::string_view(name) == "pipeline_block"; }
  [[nodiscard]] coconet::Mesh mesh(int ranks) const {
    if (is_pipeline()) return coconet::Mesh({{"pp", 2}, {"tp", ranks / 2}});
    return coconet::Mesh({{"world", ranks}});
  }
  [[nodiscard]] coconet::Sizes named(const BlockSizes& of) const {
    coconet::Sizes named = {{"B", of.batch}, {"S", of.sequence}, {"H", of.hidden}};
    if (std::string_view(name) == "mlp_block") named["F"] = 4 * of.hidden;
    return named;
  }
};

/// The ends of layers of GPT-2's 345 million parameters and of 8.3 billion, as Megatron-LM has
/// them.
const std::array<Block, 3> blocks = {{
    {"mlp_block", {{8, 128, 768}, {16, 1024, 1024}, {8, 1024, 3072}}},
    {"attention_block", {{8, 128, 768}, {16, 1024, 1024}, {8, 1024, 3072}}},
    {"pipeline_block", {{8, 512, 1024}, {8, 1024, 3072}}},
}};

const std::array<const char*, 3> schedules = {"unfused", "fused", "overlapped"};

/// A step of a shipped block that goes into the stopwatch's queue on rank 0.
class BlockStep : public Contestant {
 public:
  BlockStep(const coconet::World& world, Stopwatch& watch, const Block& block, coconet::DType dtype,
            const coconet::Sizes& sizes, const std::string& schedule)
      : executable_(coconet::compile(
            coconet::programs::find(block.name)->build(block.mesh(world.size()), dtype),
            coconet::Schedule::load(std::string(block.name) + "-" + schedule + ".json"), world,
            sizes)) {
    if (world.rank() == 0) executable_.use_stream(watch.queue().handle());
    for (const char* const input : {"x", "w", "b", "r"}) {
      if (*input == 'w' && block.is_pipeline()) continue;
      const std::vector<float> values = made_up(executable_.count(input), 7);
      if (dtype == coconet::f32) {
        executable_.write(input, values);
      } else {
        const std::vector<coconet::BFloat16> narrow(values.begin(), values.end());
        executable_.write(input, dtype, narrow.data(), narrow.size());
      }
    }
    step = [this] { executable_.run({{"t", 1}}); };
    wait = [this] { executable_.synchronize(); };
  }

 private:
  coconet::Executable executable_;
};

void measure_block(const Block& block, const BlockSizes& sizes, coconet::DType dtype, int ranks,
                   const char* where, bool small, Table& table) {
  coconet::World::local(ranks, [&](coconet::World& world) {
    Stopwatch watch(coconet::jit::comm_of(world), backend_of(world));
    std::vector<std::unique_ptr<BlockStep>> steps;
    std::vector<Contestant*> contestants;
    for (const char* const schedule : schedules) {
      steps.push_back(
          std::make_unique<BlockStep>(world, watch, block, dtype, block.named(sizes), schedule));
      contestants.push_back(steps.back().get());
    }
    watch.measure(contestants, small ? 1 : 10);
    if (world.rank() != 0) return;
    const double unfused = steps.front()->ms;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      const std::string dtype_name(coconet::to_string(dtype));
      table.add(beside(std::string(block.name) + ", " + schedules[i] + ", " + dtype_name + ", " +
                           std::to_string(ranks) + " ranks " + where,
                       sizes.str(), steps[i]->ms, "unfused", unfused,
                       {{"block", block.name},
                        {"schedule", schedules[i]},
                        {"dtype", dtype_name},
                        {"ranks", ranks}}));
    }
  });
}

}  // namespace

void measure_blocks(bool over_gpus, bool small, Table& table) {
  const int gpus = coconet::jit::Device::count();
  if (over_gpus && gpus < 2) {
    table.add_not_measured("blocks of transformers, a rank a GPU", "all", "there is one GPU");
    return;
  }
  const char* const where = over_gpus ? "with a GPU each" : "on one GPU";
  for (const Block& block : blocks) {
    if (small) {
      measure_block(block, {1, 256, 64}, coconet::bf16, 2, where, small, table);
      continue;
    }
    for (const int ranks : {2, 4}) {
      if (over_gpus && ranks > gpus) continue;
      for (const coconet::DType dtype : {coconet::f32, coconet::bf16}) {
        for (const BlockSizes& sizes : block.sizes)
          measure_block(block, sizes, dtype, ranks, where, small, table);
      }
    }
  }
}

void measure_overlap(bool small, Table& table) {
  if (small)
    return measure_block(blocks.front(), {1, 256, 16}, coconet::bf16, 2, "on one GPU", small,
                         table);
  for (const Block& block : blocks) {
    measure_block(block, block.sizes[block.sizes.size() - 2], coconet::bf16, 2, "on one GPU", small,
                  table);
  }
}

}  // namespace bench
