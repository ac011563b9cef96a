// The table of docs/gpu-model.md: how long steps of Adam and LAMB take on H100s, if the constants
// below are right. No GPU was asked: it is arithmetic over bytes, latencies, fences and launches.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "golden.h"
#include "jit/platform/gpus.h"

using namespace coconet::test;

namespace {

// All times are in nanoseconds, and GB/s are bytes a nanosecond. Sources are in the document.
const Gpu& gpu = gpu_of("sm_90");
constexpr double cycle = 1 / 1.755;          // at the boost clock
constexpr double memory = 3350 * 0.9;        // what copies reach of the data sheet's
constexpr double link = 450 * 0.8;           // each way, what NCCL reaches of the data sheet's
constexpr double hop = link_hop_ns;          // a store until another GPU sees it, through a switch
constexpr double look = 270 * cycle;         // a load of a flag, which the L2 has
constexpr double fence = 2 * hop;            // MEMBAR.SYS: what was stored is acknowledged
constexpr double local_fence = 270 * cycle;  // without stores to other GPUs
constexpr double first_launch = 2500, next_launch = 1000;
constexpr double nccl_latency = 6600 + 14 * hop;  // a ring of 8, with ll
constexpr double issue_rate = 4;       // instructions a cycle and multiprocessor, of a warp each
constexpr double dependent_issue = 5;  // cycles from an instruction to one that needs it
constexpr int block_threads = 256, lanes = 4;

/// What differs before and after.
struct Kernels {
  int lamb_blocks;          ///< on a multiprocessor, on 8 ranks
  double adam, lamb_first;  ///< instructions for one vector of a main loop, on 8 ranks
  bool one_fence;           ///< barriers have one for all flags, not one for each
  bool ranks_first;         ///< totals are combined in the rank, then exchanged
  bool whole_grid_reductions;
};
// Those of 287032e and of this version, as NVRTC 13.0 compiles them for sm_90.
constexpr Kernels kernels_before = {2, 309, 379, false, false, false};
constexpr Kernels kernels_after = {4, 320, 386, true, true, true};

/// A pass over `elements`, with so many instructions for each vector: bytes of memory, those of
/// each direction of the link, all instructions, or one load and one vector's instructions.
double pass(double elements, double memory_bytes, double link_bytes, double instructions,
            double latency) {
  const double warps = std::max(1.0, elements / lanes / 32);
  const double issued = warps * instructions / (gpu.multiprocessors * issue_rate) * cycle;
  const double alone = latency + instructions * dependent_issue * cycle;
  return std::max({memory_bytes / memory, link_bytes / link, issued, alone});
}

int blocks_of(double elements, int at_once) {
  const double useful = elements / (lanes * block_threads);
  return int(std::clamp(useful, 1.0, double(at_once) * gpu.multiprocessors));
}

double barrier(int ranks, const Kernels& kernels) {
  if (ranks == 1) return 0;
  if (kernels.one_fence) return fence + hop + 2 * look;
  return (ranks - 1) * (fence + look) + hop;
}

/// The barrier of all blocks with two totals of each, and their sum in every thread.
double totals(int ranks, int blocks, const Kernels& kernels) {
  constexpr double add = 30 * cycle;  // a load that the L1 has, and an addition
  if (kernels.ranks_first) {
    const double of_rank =
        local_fence + look + 2 * std::max(1.0, blocks / double(block_threads)) * look;
    const double of_all = ranks == 1 ? local_fence + 2 * look : barrier(ranks, kernels);
    return of_rank + of_all + 2 * ranks * add;
  }
  const double polls = std::max(1.0, double(blocks) * ranks / block_threads) * look;
  return ranks * (ranks == 1 ? local_fence : fence) + (ranks == 1 ? 0 : hop) + polls +
         2.0 * blocks * ranks * add;
}

double fused_adam(double n, int ranks, const Kernels& kernels) {
  const double slice = n / ranks;
  const double others = 4 * slice * (ranks - 1);
  const double latency = gpu.memory_latency_ns + (ranks > 1 ? 2 * hop : 0);
  const double in_memory = ranks == 1 ? 28 * n : 8 * n + 20 * slice;
  return first_launch + 2 * barrier(ranks, kernels) +
         pass(slice, in_memory, 2 * others, kernels.adam, latency);
}

double fused_lamb(double n, int ranks, const Kernels& kernels) {
  const double slice = n / ranks;
  const double others = 4 * slice * (ranks - 1);
  const double far = ranks > 1 ? 2 * hop : 0;
  const double first = ranks == 1 ? 28 * n : 4 * n + 24 * slice;
  const double second = ranks == 1 ? 12 * n : 4 * n + 8 * slice;
  return first_launch + 2 * barrier(ranks, kernels) +
         totals(ranks, blocks_of(slice, kernels.lamb_blocks), kernels) +
         pass(slice, first, others, kernels.lamb_first, gpu.memory_latency_ns + far) +
         pass(slice, second, others, 46, gpu.memory_latency_ns);
}

double all_reduce(double n, int ranks) {
  if (ranks == 1) return pass(n, 8 * n, 0, 20, gpu.memory_latency_ns);
  return nccl_latency + 2 * 4 * n * (ranks - 1) / ranks / link;
}

double reduction(double n, const Kernels& kernels) {
  const double latency = gpu.memory_latency_ns;
  if (!kernels.whole_grid_reductions) return std::max(1.0, n / block_threads) * latency;
  return pass(n, 4 * n, 0, 18, latency) + 2 * (local_fence + look);
}

double unfused_adam(double n, int ranks, const Kernels&) {
  return first_launch + all_reduce(n, ranks) + next_launch +
         pass(n, 28 * n, 0, 235, gpu.memory_latency_ns);
}

double unfused_lamb(double n, int ranks, const Kernels& kernels) {
  const double latency = gpu.memory_latency_ns;
  return first_launch + all_reduce(n, ranks) + 5 * next_launch + pass(n, 28 * n, 0, 301, latency) +
         2 * reduction(n, kernels) + pass(1, 12, 0, 220, latency) + pass(n, 12 * n, 0, 27, latency);
}

std::string table() {
  std::string text =
      "| step | ranks | parameters | before, µs | after, µs |\n"
      "|---|---|---|---|---|\n";
  using Step = double (*)(double, int, const Kernels&);
  const std::pair<const char*, Step> steps[] = {{"Adam, fused", fused_adam},
                                                {"Adam, unfused", unfused_adam},
                                                {"LAMB, fused", fused_lamb},
                                                {"LAMB, unfused", unfused_lamb}};
  for (const auto& [name, step] : steps) {
    for (const int ranks : {1, 8}) {
      for (const int power : {12, 20, 24}) {
        const double n = double(1 << power);
        text += fmt::format("| {} | {} | 2^{} | {:.1f} | {:.1f} |\n", name, ranks, power,
                            step(n, ranks, kernels_before) / 1000,
                            step(n, ranks, kernels_after) / 1000);
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("the table of docs/gpu-model.md is what the model says") {
  const std::string file = "docs/gpu-model.md";
  check_golden(file,
               with_table(source_text(file), "<!-- by tests/jit/platform/gpu_model_test.cpp -->\n",
                          "<!-- end -->\n", table()));
}
