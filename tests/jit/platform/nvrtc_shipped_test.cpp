// Every kernel of the shipped programs compiles under NVRTC for the architectures we support,
// spills nothing and keeps its contract, which docs/gpu-kernels.md explains.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <sstream>

#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/gpu_contract.h"
#include "jit/platform/gpu_kernels.h"
#include "jit/platform/gpus.h"
#include "jit/platform/sass.h"
#include "sample.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#endif

using namespace coconet;
using namespace coconet::test;

namespace {

/// Kernels that fall short of their contract as NVRTC 13.0 compiles them, and by how much. Fused
/// kernels over scattered tensors keep an address for every tensor and rank; reductions of 16-bit
/// elements keep a total of 8 bytes for each, and the assembler then loads no further ahead.
constexpr std::string_view short_of_contract[] = {
    "adam_fused_kernel on sm_100, adam_scattered under adam-fused in f64: 1 blocks",
    "adamw_fused_kernel on sm_100, adamw_scattered under adamw-fused in f64: 1 blocks",
    "nadam_fused_kernel on sm_100, nadam_scattered under nadam-fused in f64: 1 blocks",
    "g_squares_kernel on sm_90, lars under lars-unfused in bf16: 12 KiB",
    "g_squares_kernel on sm_90, lars under lars-unfused in f16: 10 KiB",
    "radam_fused_kernel on sm_100, radam_scattered under radam-fused in f64: 1 blocks",
    "rprop_fused_kernel on sm_100, rprop_scattered under rprop-fused in f32: 1 blocks",
    "w_squares_kernel on sm_90, lamb under lamb-unfused in bf16: 12 KiB",
    "w_squares_kernel on sm_90, lamb under lamb-unfused in f16: 10 KiB",
    "w_squares_kernel on sm_90, lamb_scattered under lamb-unfused in bf16: 12 KiB",
    "w_squares_kernel on sm_90, lamb_scattered under lamb-unfused in f16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb under lamb-sliced in bf16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb under lamb-sliced in f16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb_scattered under lamb-sliced in bf16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb_scattered under lamb-sliced in f16: 10 KiB",
};

/// Whether a line of `contract_of` is one of `short_of_contract`.
bool is_known(const std::string& fault) {
  return std::ranges::any_of(short_of_contract,
                             [&](std::string_view known) { return fault.starts_with(known); });
}

}  // namespace

TEST_CASE(
    "every kernel of the shipped programs compiles for every architecture, spills nothing and "
    "keeps its contract") {
  require_nvrtc();
  GpuKernels shipped = shipped_kernels();
  CHECK(shipped.size() > 150);
  std::erase_if(shipped, [](const auto&) { return !draw(); });
  std::size_t known = 0;
  for (const std::string& text :
       faults_of(shipped, runs_all() ? Architectures::all : Architectures::in_turn, contract_of)) {
    std::istringstream lines(text);
    for (std::string fault; std::getline(lines, fault);) {
      known += is_known(fault) ? 1 : 0;
      if (!is_known(fault)) FAIL_CHECK(fault);
    }
  }
  if (runs_all() && one_in() == 1 && !disassembler().empty())
    CHECK(known == std::size(short_of_contract));
  std::cout << shipped.size() << " kernels compiled with NVRTC " << jit::nvrtc::version() << "\n";
  if (disassembler().empty())
    std::cout << "their machine code was not looked at: there is no nvdisasm, which tests/run.sh "
                 "--all fetches\n";
}

TEST_CASE("machine code is read: loops, accesses, what is loaded ahead, fences, local memory") {
  const auto kernels = read_sass(R"(
.text.one_kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDL R9, [R1] ;
.L_x_1:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/              @!P0 LDG.E.64 R8, desc[UR4][R12.64] ;
        /*0040*/                   FADD R14, R15, R15 ;
        /*0050*/                   FADD R14, R9, R14 ;
        /*0060*/                   LDG.E R20, desc[UR4][R18.64] ;
        /*0070*/                   STG.E.U16 desc[UR4][R12.64], R14 ;
        /*0080*/                   LDG.E.64.STRONG.SYS R26, desc[UR4][R18.64] ;
        /*0090*/               @P0 BRA `(.L_x_1) ;
        /*00a0*/                   MEMBAR.ALL.SYS ;
        /*00a8*/                   MEMBAR.ALL.GPU ;
.L_x_2:
        /*00b0*/                   STG.E desc[UR4][R12.64], R14 ;
        /*00c0*/               @P0 BRA `(.L_x_2) ;
        /*00d0*/                   EXIT ;
$one_kernel$called:
        /*00e0*/                   STL [R1], R4 ;
.text.other_kernel:
        /*0000*/                   EXIT ;
)");
  REQUIRE(kernels.size() == 2);
  const SassKernel& one = kernels.at("one_kernel");
  CHECK(one.fences == 1);
  CHECK(one.local_accesses == 2);
  REQUIRE(one.loops.size() == 1);  // the one with accesses of 16 bytes
  CHECK(one.loops[0].loads == Accesses{{4, 1}, {8, 1}, {16, 1}});
  CHECK(one.loops[0].stores == Accesses{{2, 1}});
  CHECK(one.loops[0].bytes_ahead == 28);  // the load behind the use goes on around
  CHECK(kernels.at("other_kernel").loops.empty());
}

#if __has_include(<cuda_occupancy.h>)
TEST_CASE("blocks at once are those of CUDA's occupancy formulas") {
  for (const Gpu& gpu : gpus) {
    cudaOccDeviceProp device;
    device.computeMajor = std::stoi(std::string(gpu.arch.substr(3))) / 10;
    device.computeMinor = 0;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = gpu.threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerMultiprocessor = std::size_t(gpu.shared_bytes);
    device.numSms = gpu.multiprocessors;
    device.sharedMemPerBlockOptin = std::size_t(gpu.shared_bytes) - 1024;
    device.reservedSharedMemPerBlock = 1024;
    for (int registers = 16; registers <= 255; ++registers) {
      for (const int shared : {0, 256, 9000, 40000}) {
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = std::size_t(shared);
        cudaOccResult result;
        cudaOccDeviceState state;
        state.carveoutConfig = 100;  // percent, as much shared memory as there is
        REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, 256,
                                                        0) == CUDA_OCC_SUCCESS);
        INFO(gpu.arch << ", " << registers << " registers, " << shared << " bytes");
        CHECK(blocks_at_once(gpu, 256, registers, shared) == result.activeBlocksPerMultiprocessor);
        // The bound on registers is the most with which one more block runs.
        const int bound = jit::nvrtc::register_bound(registers);
        if (bound == 0 || shared > 0 || gpu.arch == "sm_120") continue;
        CHECK(blocks_at_once(gpu, 256, bound, 0) > blocks_at_once(gpu, 256, registers, 0));
        CHECK(blocks_at_once(gpu, 256, bound + 1, 0) == blocks_at_once(gpu, 256, registers, 0));
      }
    }
  }
}
#endif

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
