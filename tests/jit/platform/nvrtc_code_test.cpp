// Instructions that NVRTC makes of the text of kernels.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "jit/platform/bare_nvrtc.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/nvrtc_kernels.h"
#include "texts.h"

using namespace coconet;
using namespace coconet::jit;
using namespace coconet::test;

namespace {

/// The kernel of an AllReduce on a ring with ll128.
std::string exchange_in_lines() {
  Program program("sum", Mesh({{"world", 4}}));
  program.output("y",
                 all_reduce(program.input("x", f32, {program.dim("n")}, local), sum).named("sum"));
  Knobs knobs;
  knobs.algorithm = "ring";
  knobs.protocol = "ll128";
  const Schedule schedule = Schedule("sum").fuse("sum", "all_reduce", {"sum"}, knobs);
  return complete_source(kernels_of(program, schedule).front(), "cuda");
}

/// What NVRTC makes of `source` before it is a binary, which the library has no use for; empty
/// without NVRTC.
std::string ptx_of(const std::string& source) {
  const test::BareNvrtc nvrtc;
  if (!nvrtc.is_here()) return {};
  return nvrtc.ptx(source,
                   {"--gpu-architecture=compute_80", "--std=c++20",
                    "--device-as-default-execution-space", "--define-macro=RANKS_PER_LAUNCH=1"});
}

/// The PTX of the one kernel of `program`; empty without NVRTC.
std::string ptx_of(const Program& program) {
  const std::vector<KernelText> kernels = kernels_of(program);
  REQUIRE(kernels.size() == 1);
  return ptx_of(complete_source(kernels.front(), "cuda"));
}

}  // namespace

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
  (void)compiled(complete_source(words, "cuda"), "sm_80");
}

TEST_CASE("a team loads and stores 16 bytes of a line a lane, all lanes together") {
  const std::string text = ptx_of(exchange_in_lines());
  if (text.empty()) return;  // no NVRTC
  for (const std::string access :
       {"\tld.volatile.global.v2.u64 ", "\tst.volatile.global.v2.u64 "}) {
    INFO(access);
    REQUIRE(text.find(access) != std::string::npos);
    for (std::size_t at = text.find(access); at != std::string::npos;
         at = text.find(access, at + 1)) {
      // From where the team meets on, nothing parts its lanes.
      const std::size_t met = text.rfind("\tbar.warp.sync ", at);
      REQUIRE(met != std::string::npos);
      const std::string between = text.substr(met, at - met);
      CHECK(between.find("$L_") == std::string::npos);
      CHECK(between.find("\t@") == std::string::npos);
    }
  }
}

TEST_CASE("a vector is stored by one instruction wherever a row begins, halves packed in pairs") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    INFO(to_string(dtype));
    Program program("rows", Mesh({{"world", 1}}));
    const Dim H = program.dim("H");
    const Value x = program.input("x", dtype, {program.dim("B"), H}, replicated);
    const Value h = program.input("h", dtype, {H}, replicated);
    program.output("y", (x + h).named("y"));
    const std::string text = ptx_of(program);
    if (text.empty()) return;                    // no NVRTC
    CHECK(count_of(text, "\tld.global.") == 4);  // of both operands, and of what is left over
    CHECK(count_of(text, "\tst.global.") == 2);
    CHECK(count_of(text, "\tst.global.v4.b32 ") == 1);
    // 8 elements in 4 words; and every sum of bf16, one left over included, is rounded so.
    CHECK(count_of(text, "x2.f32 ") == (dtype == f16 ? 4 : dtype == bf16 ? 4 + 9 : 0));
  }
}

TEST_CASE("random words are drawn four at a time") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const bool in_rows : {false, true}) {
      INFO(to_string(dtype) << (in_rows ? " in rows" : ""));
      Program program("drops", Mesh({{"world", 1}}));
      const Dim H = program.dim("H");
      const Value x = program.input("x", dtype, {program.dim("B"), H}, replicated);
      const Value sum = in_rows ? x + program.input("h", dtype, {H}, replicated) : x;
      program.output("y", dropout(sum, 0.5, 1).named("y"));
      const std::string text = ptx_of(program);
      if (text.empty()) return;  // no NVRTC
      // Four words take 20 products. A vector of N elements has N / 4 times four, or (N + 6) / 4
      // where it may begin anywhere, and an element that is left over draws for itself.
      const int lanes = 16 / static_cast<int>(size_of(dtype));
      const int draws = (in_rows ? (lanes + 6) / 4 : (lanes + 2) / 4) + 1;
      const int products = count_of(text, ", 3528531795;") + count_of(text, ", 3449720151;");
      CHECK(products > 0);
      CHECK(products <= 20 * draws);
    }
  }
}

TEST_CASE("a reduction loads four vectors before it waits for one, and meets once a segment") {
  for (const DType dtype : {f64, f32, f16}) {
    INFO(to_string(dtype));
    Program program("norms", Mesh({{"world", 1}}));
    const Value x = program.input("x", dtype, {program.dim("n")}, replicated);
    program.output("y", max(x).named("y"));
    const std::string text = ptx_of(program);
    if (text.empty()) return;  // no NVRTC
    const std::string load = dtype == f64   ? "\tld.global.v2.f64 "
                             : dtype == f32 ? "\tld.global.v4.f32 "
                                            : "\tld.global.v4.u32 ";
    CHECK(count_of(text, load) == 5);  // and one of what is left over
    CHECK(count_of(text, "\tatom.acq_rel.gpu.global.add.u64 ") == 1);
    CHECK(count_of(text, "\tmembar") + count_of(text, "\tfence") == 0);
    // Between the first of the four and the last, nothing looks at what they load.
    const std::size_t first = text.find(load);
    std::size_t last = first;
    for (int v = 1; v < 4; ++v) last = text.find(load, last + 1);
    const std::string between = text.substr(first, last - first);
    CHECK(between.find("setp") == std::string::npos);
    CHECK(between.find("\tbra") == std::string::npos);
  }
}
