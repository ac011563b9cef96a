// What waiting for other ranks costs on a GPU, in the PTX of shipped kernels on 8 ranks: releases,
// acquires and the widths of accesses. Without NVRTC there is none to look at.
#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/abi/abi.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/bare_nvrtc.h"
#include "sched/knobs.h"
#include "sched/plan.h"
#include "texts.h"

using namespace coconet;

namespace {

/// The PTX of the kernel that fuses the shipped `program`; empty without NVRTC.
std::string ptx_of_fused(const std::string& program, const char* algorithm = "",
                         const char* protocol = "") {
  const test::BareNvrtc nvrtc;
  if (!nvrtc.is_here()) return {};
  Knobs knobs;
  knobs.algorithm = algorithm;
  knobs.protocol = protocol;
  const Program fused = Schedule::load(program + "-fused.json")
                            .apply(programs::find(program)->build(Mesh({{"world", 8}}), f32))
                            .back();
  const auto kernels = jit::generate(sched::lower(*ir::graph_of(sched::with_knobs(fused, knobs))));
  return nvrtc.ptx(jit::complete_source(kernels.front(), "cuda"),
                   {"--gpu-architecture=compute_90", "--std=c++20",
                    "--device-as-default-execution-space", "--define-macro=RANKS_PER_LAUNCH=1"});
}

int count_of(const std::string& text, const std::string& instruction) {
  return test::count_of(text, "\t" + instruction);
}

}  // namespace

TEST_CASE("a barrier of ranks has one release for all of them, and polls without acquiring") {
  const std::string text = ptx_of_fused("adam");
  if (text.empty()) return;
  CHECK(count_of(text, "st.release.sys.") == 2);  // one in each barrier, by a thread for each rank
  CHECK(count_of(text, "fence.") == 0);
  CHECK(count_of(text, "ld.relaxed.sys.") > 0);
  // Of a notice of a rank, once there is one, and of the last look: nothing goes back before that.
  REQUIRE(count_of(text, "ld.acquire.sys.") == 2);
  const std::size_t last = text.rfind("\tld.acquire.sys.");
  CHECK(text.find("\tret;", last) < text.find("bra", last));
}

TEST_CASE("a rank's blocks are counted in its GPU, and only its totals are exchanged") {
  const auto words = [](int ranks, int blocks) { return jit::abi::total_words(2, ranks, blocks); };
  CHECK(words(8, 132) - words(8, 131) == words(2, 132) - words(2, 131));
  const std::string text = ptx_of_fused("lamb");
  if (text.empty()) return;
  CHECK(count_of(text, "atom.acq_rel.gpu.global.add.") == 1);
  CHECK(count_of(text, "st.release.sys.") == 3);  // first barrier, totals, last barrier
}

TEST_CASE("a chunk in a mailbox has one release for all who have not seen it") {
  for (const char* protocol : {"simple", "ll"}) {
    INFO(protocol);
    const std::string text = ptx_of_fused("adam", "ring", protocol);
    if (text.empty()) return;
    // On the way up, at the owner, and on the way down.
    CHECK(count_of(text, "st.release.sys.") == 3);
    // The last look at a flag; and each wait's at a notice of a rank, once there is one.
    const int waits = protocol == std::string("ll") ? 2 : 1;
    CHECK(count_of(text, "ld.acquire.sys.") == 1 + waits);
  }
}

TEST_CASE("a thread has 16 bytes of the cells of ll, and its neighbours have those beside them") {
  const std::string text = ptx_of_fused("adam", "ring", "ll");
  if (text.empty()) return;
  // On the way up, at the owner, and on the way down: two cells in a vector's loop, one in a tail.
  CHECK(count_of(text, "st.relaxed.sys.global.v2.u64") == 3);
  CHECK(count_of(text, "st.relaxed.sys.global.u64") == 3);
  CHECK(count_of(text, "ld.relaxed.sys.global.v2.u64") >= 3);
}

TEST_CASE("the threads that signal and wait order multicast addresses, and no others do") {
  const std::string text = ptx_of_fused("adam", "multimem");
  if (text.empty()) return;
  REQUIRE(count_of(text, "fence.proxy.alias;") == 2);
  const std::size_t first = text.find("\tfence.proxy.alias;");
  const std::size_t second = text.find("\tfence.proxy.alias;", first + 1);
  // The first is before the block meets, behind the wait; the second behind that, before a signal.
  CHECK(text.find("\tmultimem.", first) > text.find("\tbar.red.", first));
  CHECK(text.find("\tst.release.sys.", second) < text.find("\tbar.", second));
}
