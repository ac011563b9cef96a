// Every kernel of the shipped programs compiles under NVRTC for the architectures we support,
// spills nothing and keeps its contract; docs/gpu-kernels.md has the figures.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <sstream>

#include "golden.h"
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

constexpr const char* table_file = "docs/gpu-kernels.md";

/// Kernels that fall short of their contract as NVRTC 13.0 compiles them, and by how much. Fused
/// kernels over scattered tensors keep an address for every tensor and rank; reductions of 16-bit
/// elements keep a total of 8 bytes for each, and the assembler then loads no further ahead.
constexpr std::string_view short_of_contract[] = {
    "adam_fused_kernel on sm_100, adam_scattered under adam-fused in f64: 1 blocks",
    "adamw_fused_kernel on sm_100, adamw_scattered under adamw-fused in f64: 1 blocks",
    "nadam_fused_kernel on sm_100, nadam_scattered under nadam-fused in f64: 1 blocks",
    "radam_fused_kernel on sm_100, radam_scattered under radam-fused in f64: 1 blocks",
    "u_squares_kernel on sm_90, lamb under lamb-unfused in bf16: 12 KiB",
    "u_squares_kernel on sm_90, lamb under lamb-unfused in f16: 10 KiB",
    "w_squares_kernel on sm_90, lamb under lamb-unfused in bf16: 12 KiB",
    "w_squares_kernel on sm_90, lamb under lamb-unfused in f16: 10 KiB",
    "w_squares_kernel on sm_90, lamb_scattered under lamb-unfused in bf16: 12 KiB",
    "w_squares_kernel on sm_90, lamb_scattered under lamb-unfused in f16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb under lamb-sliced in bf16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb under lamb-sliced in f16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb_scattered under lamb-sliced in bf16: 12 KiB",
    "w_squares_partial_kernel on sm_90, lamb_scattered under lamb-sliced in f16: 10 KiB",
};

/// Takes what `short_of_contract` has out of `faults`, each a line, and returns how many were
/// there.
std::size_t drop_known(std::string& faults) {
  std::size_t known = 0;
  std::string others;
  std::istringstream lines(faults);
  for (std::string line; std::getline(lines, line);) {
    const bool listed = std::ranges::any_of(short_of_contract, [&](std::string_view fault) {
      return line.starts_with(std::string(fault_mark) + std::string(fault));
    });
    known += listed ? 1 : 0;
    if (!listed) others += line + "\n";
  }
  faults = others;
  return known;
}

/// By its first columns: GPU, program, kernel.
using Rows = std::map<std::string, std::string>;

std::string first_columns(const std::string& row, int columns) {
  std::size_t end = 1;
  for (int column = 0; column < columns; ++column) end = row.find('|', end) + 1;
  return row.substr(0, end);
}

void add_row(const std::string& row, Rows& rows) {
  rows[first_columns(row, 3)] = row;
}

/// The document without its rows.
std::string text_of_table() {
  const std::string text = source_text(table_file);
  return text.substr(0, text.find(row_header));
}

Rows expected_rows() {
  Rows rows;
  std::istringstream lines(source_text(table_file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| sm_")) add_row(line, rows);
  }
  return rows;
}

bool updates_golden() {
  return std::getenv("COCONET_UPDATE_GOLDEN") != nullptr;
}

/// Checks that rows are as in the document, and that it has no others if these are `all`.
void check_rows(const Rows& found, bool all) {
  if (found.empty()) return;
  if (updates_golden()) {
    REQUIRE((all && !disassembler().empty()));  // TESTS_ALL=1 makes all rows, nvdisasm whole ones
    std::string text = text_of_table() + row_header;
    for (const auto& [key, row] : found) text += row + "\n";
    check_golden(table_file, text);
    return;
  }
  const std::string version = "NVRTC " + jit::nvrtc::version();
  if (text_of_table().find(version) == std::string::npos) {
    std::cout << table_file << " has no figures of " << version << "; they were not compared\n";
    return;
  }
  const Rows expected = expected_rows();
  if (expected.empty()) {
    std::cout << table_file << " has no rows yet; none was compared\n";
    return;
  }
  INFO("TESTS_ALL=1 COCONET_UPDATE_GOLDEN=1 ctest -R jit/nvrtc_shipped writes " << table_file);
  for (const auto& [key, row] : found) {
    INFO(key);
    REQUIRE(expected.contains(key));
    const int known = disassembler().empty() ? 6 : 10;  // of the columns
    CHECK(drift_of(first_columns(row, known), first_columns(expected.at(key), known)) == "");
  }
  for (const auto& [key, row] : expected) {
    INFO(key << " is no kernel that ships");
    CHECK((!all || found.contains(key)));
  }
}

}  // namespace

TEST_CASE(
    "every kernel of the shipped programs compiles for every architecture, spills nothing and "
    "keeps its contract") {
  require_nvrtc();
  GpuKernels shipped = shipped_kernels();
  CHECK(shipped.size() > 150);
  if (!updates_golden()) std::erase_if(shipped, [](const auto&) { return !draw(); });
  const std::vector<std::string> said =
      faults_of(shipped, runs_all() ? Architectures::all : Architectures::in_turn, contract_of);
  Rows rows;
  std::string faults;
  for (const std::string& text : said) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(row_mark)) {
        add_row(line.substr(std::string_view(row_mark).size()), rows);
      } else {
        faults += line + "\n";
      }
    }
  }
  const std::size_t known = drop_known(faults);
  CHECK(faults == "");
  const bool all = runs_all() && (updates_golden() || one_in() == 1);
  if (all && !disassembler().empty()) CHECK(known == std::size(short_of_contract));
  check_rows(rows, all);
  std::cout << shipped.size() << " kernels compiled with NVRTC " << jit::nvrtc::version() << "\n";
  if (disassembler().empty())
    std::cout << "their machine code was not looked at: there is no nvdisasm, which tests/run.sh "
                 "--all fetches\n";
}

TEST_CASE("a row of the table may drift by 5 percent, and by nothing else") {
  const std::string row = "| sm_90 | adam | k | 79 | 0 | 3 | 4 | 77.2 | 11 loads of 16; 1 | 84 |";
  const auto changed = [&](const std::string& from, const std::string& to) {
    return std::string(row).replace(row.find(from), from.size(), to);
  };
  CHECK(drift_of(row, row) == "");
  CHECK(drift_of(changed("77.2", "80.9"), row) == "");
  CHECK(drift_of(changed("77.2", "73.5"), row) == "");
  CHECK(drift_of(changed("77.2", "81.2"), row) ==
        "has " + changed("77.2", "81.2") + " and not " + row);
  CHECK(drift_of(changed("77.2", "73.2"), row) != "");
  CHECK(drift_of(changed("| 3 |", "| 2 |"), row) != "");
  CHECK(drift_of(changed("16;", "8;"), row) != "");
  CHECK(drift_of(changed("loads", "stores"), row) != "");
  CHECK(drift_of(row + " 1", row) != "");
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
  CHECK(one.instructions == 16);
  CHECK(one.fences == 1);
  CHECK(one.gpu_fences == 1);
  CHECK(one.local_accesses == 2);
  REQUIRE(one.loops.size() == 1);  // the one with accesses of 16 bytes
  CHECK(one.loops[0].instructions == 8);
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
