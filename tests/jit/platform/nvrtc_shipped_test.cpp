// Every kernel of the shipped programs compiles under NVRTC for the architectures we support, and
// spills nothing.
#include <catch2/catch.hpp>

#include <iostream>

#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/gpu_kernels.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE(
    "every kernel of the shipped programs compiles for every architecture and spills nothing") {
  require_nvrtc();
  GpuKernels shipped = shipped_kernels();
  CHECK(shipped.size() > 150);
  std::erase_if(shipped, [](const auto&) { return !draw(); });
  const std::vector<std::string> faults =
      faults_of(shipped, runs_all() ? Architectures::all : Architectures::in_turn);
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
  std::cout << shipped.size() << " kernels compiled with NVRTC " << jit::nvrtc::version()
            << std::endl;
}

TEST_CASE("kernels that differ in names only count as one, and in nothing else") {
  const std::string text = "struct Args {\n  f32* w;\n};\nf32 zeta = a.w[0] + 0.5f;\n";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    REQUIRE(other.find(from) != std::string::npos);
    return other.replace(other.find(from), from.size(), to);
  };
  CHECK(without_names(changed("zeta", "eta_1")) == without_names(text));
  CHECK(without_names(changed("a.w", "a.zeta")) != without_names(text));
  CHECK(without_names(changed("f32", "f64")) != without_names(text));
  CHECK(without_names(changed("+", "-")) != without_names(text));
  CHECK(without_names(changed("[0]", "[1]")) != without_names(text));
  CHECK(without_numbers(changed("[0]", "[1]")) == without_numbers(text));
  CHECK(without_numbers(changed("f32", "f64")) != without_numbers(text));
}
