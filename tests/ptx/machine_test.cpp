// What the reader of PTX does not understand is an error, so that no instruction which orders
// memory is overlooked.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "ptx/machine.h"

using namespace coconet::test::ptx;

namespace {

/// Has a machine of one thread run a kernel of this body.
void run_text(const std::string& body) {
  const Module module =
      read_module(".version 9.0\n.visible .entry k(\n.param .u64 k_0\n)\n{\n" + body + "\n}\n");
  Machine machine(MachineShape{});
  machine.launch(module, "k", 0, std::vector<std::uint64_t>{1 << 20}, 0, 1);
  machine.run(0);
}

}  // namespace

TEST_CASE("an instruction that is not known ends the reading with a sentence") {
  CHECK_NOTHROW(run_text("ret;"));
  CHECK_THROWS_WITH(run_text("fence.proxy.async;"),
                    "PTX line 6, 'fence.proxy.async': the instruction is not known to the reader "
                    "of litmus tests");
  for (const char* unknown :
       {".reg .b32 %r<2>;\nld.global.nc.u32 %r1, [k_0];", "bar.sync 0, 32;", "bar.arrive 0, 32;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;", "red.global.cas.b32 [k_0], 1;",
        ".reg .b32 %r<2>;\natom.relaxed.sys.cas.b32 %r1, [k_0], 1, 2;", "membar.new;",
        ".reg .f32 %f<2>;\nadd.f32 %f1, %f0, %f0;", "st.mmio.relaxed.sys.u32 [k_0], 1;"}) {
    INFO(unknown);
    CHECK_THROWS_WITH(run_text(unknown), Catch::Contains("is not known to the reader"));
  }
  CHECK_THROWS_WITH(run_text(".weird x;"),
                    "PTX line 6: the directive '.weird x' is not known to this reader");
}

TEST_CASE("a wait that never ends is an error with the line that waits") {
  CHECK_THROWS_WITH(
      run_text(".reg .b64 %rd<3>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [k_0];\n$again:\n"
               "ld.relaxed.sys.global.u64 %rd2, [%rd1];\nsetp.eq.s64 %p1, %rd2, 0;\n"
               "@%p1 bra $again;\nret;"),
      "PTX line 12, '@%p1 bra $again': what is waited for does not come");
}

TEST_CASE("elements of one location have one size") {
  CHECK_THROWS_WITH(run_text(".reg .b64 %rd<2>;\nld.param.u64 %rd1, [k_0];\n"
                             "st.global.u64 [%rd1], 1;\nst.global.u32 [%rd1+4], 1;"),
                    "memory is accessed by elements that overlap in part");
}
