// NVRTC: cubins for real architectures where it is present, a sentence where it is not.
#include <catch2/catch.hpp>

#include "coconet/error.h"
#include "jit/compile/nvrtc.h"

using namespace coconet::jit;

namespace {

constexpr const char* two_kernels = R"(
struct Args { float* p[8]; int own; };
extern "C" __global__ void plain(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void indexed(Args a) { a.p[a.own][threadIdx.x] = a.p[0][threadIdx.x]; }
)";

const nvrtc::KernelResources* find(const nvrtc::Result& result, const std::string& entry) {
  for (const auto& kernel : result.kernels) {
    if (kernel.entry == entry) return &kernel;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("without NVRTC a compilation says why") {
  if (nvrtc::is_available()) return;
  CHECK_FALSE(nvrtc::version().empty());
  CHECK_THROWS_AS(nvrtc::compile(two_kernels, "sm_90"), coconet::CompileError);
  CHECK_THROWS_WITH(nvrtc::compile(two_kernels, "sm_90"),
                    "NVRTC is not available: " + nvrtc::version() + ".");
}

TEST_CASE("NVRTC compiles to a cubin and reports each kernel's resources") {
  if (!nvrtc::is_available()) return;
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    INFO(arch);
    const nvrtc::Result result = nvrtc::compile(two_kernels, arch);
    INFO(result.log);
    REQUIRE(result.ok);
    CHECK(result.cubin.substr(1, 3) == "ELF");
    REQUIRE(result.kernels.size() == 2);
    const auto* plain = find(result, "plain");
    const auto* indexed = find(result, "indexed");
    REQUIRE(plain != nullptr);
    REQUIRE(indexed != nullptr);
    CHECK(plain->registers > 0);
    CHECK(plain->stack_bytes == 0);
    CHECK(plain->spill_store_bytes == 0);
    CHECK(plain->spill_load_bytes == 0);
    // The pointer table is copied to the stack to be indexed: a figure that must not be overlooked.
    CHECK(indexed->stack_bytes >= 64);
  }
}

TEST_CASE("spills are reported") {
  if (!nvrtc::is_available()) return;
  const nvrtc::Result result = nvrtc::compile(R"(
extern "C" __global__ void __launch_bounds__(1024, 2) crowded(float* x) {
  float v[96];
  for (int i = 0; i < 96; ++i) v[i] = x[i * 1024 + threadIdx.x];
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + 3) % 96] + 1.0f;
    __syncthreads();
  }
  for (int i = 0; i < 96; ++i) x[i * 1024 + threadIdx.x] = v[i];
}
)",
                                              "sm_90");
  REQUIRE(result.ok);
  REQUIRE(result.kernels.size() == 1);
  CHECK(result.kernels[0].spill_store_bytes > 0);
  CHECK(result.kernels[0].spill_load_bytes > 0);
}

TEST_CASE("products and sums are not contracted") {
  if (!nvrtc::is_available()) return;
  const char* text = R"(extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; })";
  const char* fused =
      R"(extern "C" __global__ void k(float* x) { x[0] = fmaf(x[1], x[2], x[3]); })";
  CHECK(nvrtc::compile(text, "sm_90").cubin != nvrtc::compile(fused, "sm_90").cubin);
}

TEST_CASE("an error in CUDA text comes with its line") {
  if (!nvrtc::is_available()) return;
  const nvrtc::Result result = nvrtc::compile("int a;\nint b = nothing;\n", "sm_90");
  CHECK_FALSE(result.ok);
  CHECK(result.cubin.empty());
  CHECK(result.log.find("kernel.cu(2): error:") != std::string::npos);
  CHECK(result.log.find("NVRTC for sm_90: NVRTC_ERROR_COMPILATION") != std::string::npos);
}

TEST_CASE("an architecture that NVRTC does not know is refused with its name") {
  if (!nvrtc::is_available()) return;
  const nvrtc::Result result = nvrtc::compile(two_kernels, "sm_1");
  CHECK_FALSE(result.ok);
  CHECK(result.log.find("NVRTC for sm_1: NVRTC_ERROR_INVALID_OPTION") != std::string::npos);
}
