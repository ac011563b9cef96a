// NVRTC: cubins for real architectures where it is present, a sentence where it is not.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "jit/codegen/codegen.h"
#include "jit/compile/nvrtc.h"
#include "sched/plan.h"

using namespace coconet::jit;

namespace {

constexpr const char* two_kernels = R"(
struct Args { float* p[8]; int own; };
extern "C" __global__ void plain(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void indexed(Args a) { a.p[a.own][threadIdx.x] = a.p[0][threadIdx.x]; }
)";

const KernelResources* find(const CompileResult& result, const std::string& entry) {
  for (const auto& kernel : result.kernels) {
    if (kernel.entry == entry) return &kernel;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("without NVRTC a compilation says why") {
  if (nvrtc::is_available()) return;
  CHECK_FALSE(nvrtc::version().empty());
  CHECK(nvrtc::architectures().empty());
  CHECK_THROWS_AS(NvrtcCompiler("sm_90"), coconet::CompileError);
  CHECK_THROWS_WITH(NvrtcCompiler("sm_90"), "NVRTC is not available: " + nvrtc::version() + ".");
}

TEST_CASE("NVRTC compiles to a cubin and reports each kernel's resources") {
  if (!nvrtc::is_available()) return;
  for (const char* arch : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    INFO(arch);
    const CompileResult result = NvrtcCompiler(arch).compile(two_kernels);
    INFO(result.log);
    REQUIRE(result.ok);
    CHECK(result.binary.substr(1, 3) == "ELF");
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
  const CompileResult result = NvrtcCompiler("sm_90").compile(R"(
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
)");
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
  const NvrtcCompiler compiler("sm_90");
  CHECK(compiler.compile(text).binary != compiler.compile(fused).binary);
}

TEST_CASE("an error in CUDA text comes with its line") {
  if (!nvrtc::is_available()) return;
  const CompileResult result = NvrtcCompiler("sm_90").compile("int a;\nint b = nothing;\n");
  CHECK_FALSE(result.ok);
  CHECK(result.binary.empty());
  CHECK(result.log.find("kernel.cu(2): error:") != std::string::npos);
  CHECK(result.log.find("NVRTC for sm_90: NVRTC_ERROR_COMPILATION") != std::string::npos);
}

TEST_CASE("an architecture that NVRTC does not know is refused with those that it knows") {
  if (!nvrtc::is_available()) return;
  for (const char* arch : {"sm_1", "sm_90ab", "compute_90", "sm_", ""}) {
    CHECK_THROWS_WITH(
        NvrtcCompiler(arch), "NVRTC " + nvrtc::version() + " does not know the architecture '" +
                                 arch + "'; it knows " +
                                 [] {
                                   std::string all;
                                   for (const std::string& name : nvrtc::architectures())
                                     all += (all.empty() ? "" : ", ") + name;
                                   return all;
                                 }() +
                                 ".");
  }
  CHECK(NvrtcCompiler("sm_90a").compile(two_kernels).ok);
}

TEST_CASE("a key tells architectures, options and sources apart, and line numbers are on request") {
  if (!nvrtc::is_available()) return;
  const NvrtcCompiler plain("sm_90");
  const NvrtcCompiler lines("sm_90", true);
  CHECK(plain.key("a", "k").digest() == NvrtcCompiler("sm_90").key("a", "k").digest());
  CHECK(plain.key("a", "k").digest() != plain.key("b", "k").digest());
  CHECK(plain.key("a", "k").digest() != plain.key("a", "l").digest());
  CHECK(plain.key("a", "k").digest() != lines.key("a", "k").digest());
  CHECK(plain.key("a", "k").digest() != NvrtcCompiler("sm_80").key("a", "k").digest());
  CHECK(plain.key("a", "k").text().find("NVRTC " + nvrtc::version() + " /") != std::string::npos);
  CHECK(plain.compile(two_kernels).binary.find(".debug_line") == std::string::npos);
  CHECK(lines.compile(two_kernels).binary.find(".debug_line") != std::string::npos);
}

TEST_CASE("shared memory is reported") {
  if (!nvrtc::is_available()) return;
  const CompileResult result = NvrtcCompiler("sm_90").compile(R"(
extern "C" __global__ void turned(float* x) {
  __shared__ float row[256];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = row[255 - threadIdx.x];
}
)");
  REQUIRE(result.kernels.size() == 1);
  CHECK(result.kernels[0].shared_bytes >= 1024);
}

TEST_CASE("words that ranks share have relaxed loads and stores") {
  if (!nvrtc::is_available()) return;
  KernelText words;
  words.source = R"(
struct Args { u64* words; };
DEVICE void words_block(const Args& a, const Block& block) {
  store_relaxed(a.words + 1, load_relaxed(a.words));
}
KERNEL_ENTRY(words)
)";
  const CompileResult result = NvrtcCompiler("sm_80").compile(complete_source(words, "cuda"));
  INFO(result.log);
  CHECK(result.ok);
}

TEST_CASE("launches of several ranks need no memory for their arguments") {
  if (!nvrtc::is_available()) return;
  using namespace coconet;
  const Program program = programs::adam(Mesh({{"world", 8}}));
  const auto scheduled = Schedule::load("adam-fused.json").apply(program);
  const KernelText kernel = generate(sched::lower(*scheduled.back().graph())).front();
  const NvrtcCompiler alone("sm_90");
  const NvrtcCompiler together("sm_90", false, 8);
  CHECK(alone.key("a", "k").digest() != together.key("a", "k").digest());
  for (const NvrtcCompiler* compiler : {&alone, &together}) {
    const CompileResult result = compiler->compile(complete_source(kernel, "cuda"));
    INFO(result.log);
    REQUIRE(result.kernels.size() == 1);
    CHECK(result.kernels[0].stack_bytes == 0);  // where arguments would be copied to be indexed
    CHECK(result.kernels[0].spill_store_bytes == 0);
  }
}
