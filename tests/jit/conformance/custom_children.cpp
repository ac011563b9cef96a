// What conformance_custom_test.cpp runs in processes of their own.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/kernels/binary_request.h"
#include "jit/platform/host/compiler.h"
#include "sched/plan.h"

using namespace coconet;

TEST_CASE("prints the key of a kernel of an op with TEST_DEVICE_TEXT", "[.child][custom-op-key]") {
  const char* const device = std::getenv("TEST_DEVICE_TEXT");
  REQUIRE(device != nullptr);
  const PointwiseOp twice = define_pointwise(
      {.name = "twice", .device = device, .reference = [](double a, double, double) {
         return a * 2;
       }});
  Program program("twice", Mesh({{"world", 1}}));
  const Value x = program.input("x", f32, {program.dim("n")}, local);
  program.output("y", twice(x).named("y"));
  const auto texts = jit::generate(sched::lower(*ir::graph_of(program)));
  REQUIRE(texts.size() == 1);
  const jit::HostCompiler compiler(config().cxx, "", std::chrono::seconds(60));
  const jit::BinaryRequest request(compiler, texts.front(), config());
  std::printf("key %s\n", jit::hex(request.key().digest()).c_str());
}
