// The kernels that tests emitted compile under NVRTC and spill nothing, each for one architecture in turn: those of the
// shipped programs aside, whose test is nvrtc_shipped_test.cpp, one of all that differ in names and numbers only.
//
// The tests leave complete sources in COCONET_DUMP_DIR.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "coconet/coconet.h"
#include "jit/platform/gpu_kernels.h"
#include "jit/platform/nvrtc.h"

using namespace coconet;
using namespace coconet::test;

namespace {

namespace fs = std::filesystem;

struct Dumped {
  GpuKernels kernels;
  std::size_t sources = 0;
};

/// The largest of those that differ in names and numbers only, but for those like `shipped`. Large numbers, of ranks in
/// the first place, unroll the most.
Dumped dumped_kernels(const GpuKernels& shipped) {
  std::set<std::string> known;
  for (const auto& [key, kernel] : shipped) known.insert(without_numbers(kernel.text));
  Dumped dumped;
  const char* directory = std::getenv("COCONET_DUMP_DIR");
  if (directory == nullptr || !fs::is_directory(directory)) return dumped;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text = kernel_in({std::istreambuf_iterator<char>(file), {}});
    if (text.empty()) continue;
    ++dumped.sources;
    std::string key = without_numbers(text);
    if (known.contains(key)) continue;
    GpuKernel& kernel = dumped.kernels[std::move(key)];
    if (std::tuple(text.size(), text) > std::tuple(kernel.text.size(), kernel.text))
      kernel = {text, entry.path().string()};
  }
  return dumped;
}

}  // namespace

TEST_CASE("kernels that tests emit compile and spill nothing") {
  require_nvrtc();
  const Dumped dumped = dumped_kernels(shipped_kernels());
  const std::vector<std::string> faults = faults_of(dumped.kernels, false);
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
  std::cout << dumped.kernels.size() << " kernels of " << dumped.sources
            << " sources compiled with NVRTC " << jit::nvrtc::version() << " for one architecture"
            << std::endl;
}
