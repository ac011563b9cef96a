// NVRTC: cubins for real architectures where it is present, a sentence where it is not.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/bare_nvrtc.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/nvrtc_kernels.h"
#include "sched/plan.h"
#include "texts.h"

using namespace coconet;
using namespace coconet::jit;
using namespace coconet::test;

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
  CHECK_THROWS_AS(NvrtcCompiler("sm_90"), CompileError);
  CHECK_THROWS_WITH(NvrtcCompiler("sm_90"), "NVRTC is not available: " + nvrtc::version() + ".");
}

TEST_CASE("NVRTC compiles to a cubin and reports each kernel's resources") {
  if (!nvrtc::is_available()) return;
  for (const char* arch : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    INFO(arch);
    const CompileResult result = compiled(two_kernels, arch);
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
  const CompileResult result = compiled(R"(
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
  REQUIRE(result.kernels.size() == 1);
  CHECK(result.kernels[0].spill_store_bytes > 0);
  CHECK(result.kernels[0].spill_load_bytes > 0);
}

TEST_CASE("products and sums are not contracted") {
  if (!nvrtc::is_available()) return;
  const char* text = R"(extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; })";
  const char* fused =
      R"(extern "C" __global__ void k(float* x) { x[0] = fmaf(x[1], x[2], x[3]); })";
  CHECK(compiled(text).binary != compiled(fused).binary);
}

TEST_CASE("conversions of what f32 does not hold to 16 bits compile, in registers alone") {
  if (!nvrtc::is_available()) return;
  Program program("casts", Mesh({{"world", 1}}));
  const Dim n = program.dim("n");
  for (const DType from : {f64, i64, i32}) {
    const std::string name(to_string(from));
    const Value x = program.input(name, from, {n}, replicated);
    for (const DType to : {f16, bf16}) {
      const std::string result = name + "_as_" + std::string(to_string(to));
      program.output(result, cast(x, to).named(result));
    }
  }
  for (const KernelText& kernel : kernels_of(program)) {
    INFO(kernel.name);
    CHECK(compiled(complete_source(kernel, "cuda")).kernels.front().stack_bytes == 0);
  }
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
  for (const char* arch : {"sm_1", "sm_90ab", "compute_1", "sm_", ""}) {
    CHECK_THROWS_WITH(
        NvrtcCompiler(arch).compile(two_kernels),
        "NVRTC " + nvrtc::version() + " does not know the architecture '" + arch + "'; it knows " +
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

TEST_CASE("a GPU newer than NVRTC gets a binary of its major number, else PTX") {
  if (!nvrtc::is_available()) return;
  const std::vector<std::string> known = {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100"};
  const auto [gpu, expected] = GENERATE(table<const char*, const char*>({
      {"sm_90", "sm_90"},         // its own
      {"sm_89", "sm_86"},         // the nearest of the major number
      {"sm_103", "sm_100"},       // written with the same number of digits, or more
      {"sm_99", "sm_90"},         // not the next major number's
      {"sm_120", "compute_100"},  // none of the major number
      {"sm_110", "compute_100"},
      {"sm_72", ""},  // older than all
  }));
  const nvrtc::Target target = nvrtc::target_for(gpu, known);
  CHECK(target.arch == expected);
  CHECK(target.why.empty() == (target.arch == gpu));
  CHECK(nvrtc::target_for("sm_75", {"sm_80"}).arch.empty());
  CHECK(nvrtc::target_for("sm_90", {}).arch == "sm_90");  // without NVRTC, which says so itself
}

TEST_CASE("PTX is text for the driver, under a key of its own") {
  if (!nvrtc::is_available()) return;
  const NvrtcCompiler compiler("compute_90");
  const CompileResult result = compiled(two_kernels, "compute_90");
  CHECK(result.binary.find(".target sm_90\n") != std::string::npos);
  CHECK(result.binary.back() == '\0');  // the driver takes no length
  const KernelSource source{"types.h 1\n", "a", "k"};
  CHECK(compiler.key(source).digest() != NvrtcCompiler("sm_90").key(source).digest());
  CHECK_THAT(compiler.key(source).text(), Catch::Matchers::Contains("ptx"));
}

TEST_CASE("a key tells architectures, options and sources apart, and line numbers are on request") {
  if (!nvrtc::is_available()) return;
  const NvrtcCompiler plain("sm_90"), lines("sm_90", true);
  const auto digest = [](const NvrtcCompiler& compiler, const char* text, const char* entry) {
    return compiler.key({"types.h 1\n", text, entry}).digest();
  };
  CHECK(digest(plain, "a", "k") == digest(NvrtcCompiler("sm_90"), "a", "k"));
  CHECK(digest(plain, "a", "k") != digest(plain, "b", "k"));
  CHECK(digest(plain, "a", "k") != digest(plain, "a", "l"));
  CHECK(digest(plain, "a", "k") != digest(lines, "a", "k"));
  CHECK(digest(plain, "a", "k") != digest(NvrtcCompiler("sm_80"), "a", "k"));
  const std::string text = plain.key({"", "a", "k"}).text();
  CHECK_THAT(text, Catch::Matchers::Contains("NVRTC " + nvrtc::version() + "\n") &&
                       Catch::Matchers::Contains("Compiler Build ID: ") &&
                       Catch::Matchers::Contains("register bounds 1\n"));
  CHECK(plain.compile(two_kernels).binary.find(".debug_line") == std::string::npos);
  CHECK(lines.compile(two_kernels).binary.find(".debug_line") != std::string::npos);
}

TEST_CASE("a bound on registers is for one more block at once, near, and of use") {
  if (!nvrtc::is_available()) return;
  // 64 warps of 32 registers fill a multiprocessor, 32 of 64, 24 of 80, 16 of 128, 8 of 255.
  for (const auto& [registers, bound] : std::vector<std::pair<int, int>>{{0, 0},
                                                                         {41, 0},
                                                                         {64, 0},
                                                                         {66, 64},
                                                                         {73, 64},
                                                                         {74, 0},
                                                                         {80, 0},
                                                                         {81, 80},
                                                                         {82, 80},
                                                                         {91, 80},
                                                                         {92, 0},
                                                                         {128, 0},
                                                                         {129, 128},
                                                                         {146, 128},
                                                                         {147, 0},
                                                                         {255, 0}}) {
    INFO(registers);
    CHECK(nvrtc::register_bound(registers) == bound);
  }
}

namespace {

/// A kernel that holds `values` values of 4 bytes at once, `stride` apart in memory. Where that is
/// no number, NVRTC also keeps addresses, as far as there are registers for them.
std::string holding(int values, const std::string& stride) {
  return R"(
extern "C" __global__ void crowded(float* x, long stride) {
  constexpr int count = )" +
         std::to_string(values) + R"(;
  float v[count];
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = x[i * )" +
         stride + R"( + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) x[i * )" +
         stride + R"( + threadIdx.x] = v[i] * v[(i * 7 + 3) % count];
}
)";
}

}  // namespace

TEST_CASE("a kernel a few registers over a step of occupancy is compiled below it") {
  if (!nvrtc::is_available()) return;
  const auto resources_of = [](const std::string& source) {
    const CompileResult result = compiled(source);
    REQUIRE(result.kernels.size() == 1);
    CHECK(result.kernels[0].spill_store_bytes == 0);
    return std::pair(result.kernels[0].registers,
                     result.command.find("--maxrregcount=") != std::string::npos);
  };
  CHECK(resources_of(holding(24, "stride")) == std::pair(64, true));
  // What would spill below the step stays above it.
  const auto [registers, bounded] = resources_of(holding(64, "1024"));
  CHECK(nvrtc::register_bound(registers) == 64);
  CHECK_FALSE(bounded);
}

TEST_CASE("shared memory is reported") {
  if (!nvrtc::is_available()) return;
  const CompileResult result = compiled(R"(
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

TEST_CASE("launches of several ranks need no memory for their arguments") {
  if (!nvrtc::is_available()) return;
  const KernelText kernel =
      kernels_of(programs::adam(Mesh({{"world", 8}})), Schedule::load("adam-fused.json")).front();
  const NvrtcCompiler alone("sm_90"), together("sm_90", false, 8);
  CHECK(alone.key({"", "a", "k"}).digest() != together.key({"", "a", "k"}).digest());
  for (const NvrtcCompiler* compiler : {&alone, &together}) {
    const CompileResult result = compiler->compile(complete_source(kernel, "cuda"));
    INFO(result.log);
    REQUIRE(result.kernels.size() == 1);
    CHECK(result.kernels[0].stack_bytes == 0);  // where arguments would be copied to be indexed
    CHECK(result.kernels[0].spill_store_bytes == 0);
  }
}

namespace {

/// Kernels that sum, or take the largest, of `dtype` over 8 ranks with a multicast pointer, and
/// write it to all.
KernelText with_multicast(DType dtype, Reduction reduction) {
  Program program("total", Mesh({{"world", 8}}));
  const Value g = program.input("g", dtype, {program.dim("n")}, local);
  program.output("y", all_reduce(g, reduction).named("y"));
  Knobs knobs;
  knobs.algorithm = "multimem";
  return kernels_of(program, Schedule().fuse("k", "all_reduce", {"y"}, knobs)).front();
}

/// Whether the assembler gets to see `instruction` of the kernel on `arch`: it does not know one of
/// another name.
bool uses(const KernelText& kernel, const std::string& instruction, const char* arch) {
  std::string source = complete_source(kernel, "cuda");
  for (std::size_t at = 0; (at = source.find(instruction, at)) != std::string::npos;)
    source.replace(at, instruction.size(), "no.such.instruction");
  return !NvrtcCompiler(arch).compile(source).ok;
}

}  // namespace

TEST_CASE("kernels with a multicast pointer compile for all architectures and spill nothing") {
  if (!nvrtc::is_available()) return;
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, i8, u8}) {
    for (const char* arch : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
      INFO(to_string(dtype) << " on " << arch);
      const KernelText kernel = with_multicast(dtype, Reduction::sum);
      const CompileResult result = compiled(complete_source(kernel, "cuda"), arch);
      REQUIRE(result.kernels.size() == 1);
      CHECK(result.kernels[0].spill_store_bytes == 0);
      CHECK(result.kernels[0].stack_bytes == 0);
    }
  }
}

TEST_CASE("the switch adds and copies from sm_90 on what it can, and ranks do the rest") {
  if (!nvrtc::is_available()) return;
  const std::string load = "multimem.ld_reduce";
  const std::string store = "multimem.st";
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32}) {
    INFO(to_string(dtype));
    const KernelText sum = with_multicast(dtype, Reduction::sum);
    const KernelText max = with_multicast(dtype, Reduction::max);
    const bool integer = !is_float(dtype);
    CHECK(uses(sum, load, "sm_90"));
    CHECK(uses(max, load, "sm_90") == integer);  // a float's may be NaN
    CHECK_FALSE(uses(with_multicast(dtype, Reduction::prod), load, "sm_90"));
    // Of which a switch makes a sum that f16 may not hold.
    if (!integer)
      CHECK(uses(with_multicast(dtype, Reduction::mean), load, "sm_90") == (dtype != f16));
    CHECK(uses(max, store, "sm_90"));
    CHECK_FALSE(uses(sum, load, "sm_80"));
    CHECK_FALSE(uses(sum, store, "sm_80"));
  }
  // Whole vectors are one access; of 8 bits they are copied, not added.
  CHECK(uses(with_multicast(f32, Reduction::sum), "add \".v4.\" type", "sm_90"));
  CHECK_FALSE(uses(with_multicast(u8, Reduction::sum), load, "sm_90"));
  CHECK(uses(with_multicast(u8, Reduction::sum), store, "sm_90"));
}
