// The kernels of the table conformance test, which are of every row of every table, compile under
// NVRTC and spill nothing: one of all that differ in names and numbers only.
#include <catch2/catch.hpp>

#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "jit/codegen/table.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/gpu_kernels.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// The largest of those that differ in names and numbers only. Large numbers, of ranks in the first
/// place, unroll the most.
GpuKernels table_kernels() {
  GpuKernels found;
  for (const auto& make : {runs_of_ops, runs_of_kernels, runs_of_schedules}) {
    for (const PossibleRun& possible : make()) {
      if (!draw()) continue;
      const std::optional<TableRun> run = possible();
      if (!run) continue;
      GpuKernels kernels;
      add_kernels(run->program, run->schedule, kernels);
      for (auto& [key, kernel] : kernels) {
        GpuKernel& largest = found[without_numbers(kernel.text)];
        if (std::tuple(kernel.text.size(), kernel.text) >
            std::tuple(largest.text.size(), largest.text))
          largest = std::move(kernel);
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("the kernels of every row of the tables compile for GPUs and spill nothing") {
  require_nvrtc();
  const GpuKernels kernels = table_kernels();
  const std::vector<std::string> faults = faults_of(kernels, Architectures::in_turn);
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
  CHECK(!kernels.empty());
  std::cout << kernels.size() << " kernels compiled with NVRTC " << jit::nvrtc::version()
            << std::endl;
}
