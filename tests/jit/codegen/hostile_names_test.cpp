// Names reach kernel text as identifiers, and inside comments that end with their line.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "sched/plan.h"

using namespace coconet;

namespace {

/// The text of the one kernel of w - LR * w, where LR has that name.
std::string text_with_scalar(const std::string& name, const std::string& value = "product") {
  Program p("p", Mesh({{"world", 1}}));
  const Value w = p.state("w", f32, {p.dim("n", 8)}, replicated);
  const Value product = (p.scalar(name) * w).named(value);
  update(w, exp(w - product) * product);
  const std::vector<jit::KernelText> kernels = jit::generate(sched::lower(*ir::graph_of(p)));
  REQUIRE(kernels.size() == 1);
  return kernels.front().source;
}

}  // namespace

TEST_CASE("a scalar's name stays in the comment behind its argument") {
  const std::string text = text_with_scalar("lr\n}; int evil() { return 0; } struct Args2 {\\");
  CHECK_THAT(text, Catch::Contains("// lr }; int evil() { return 0; } struct Args2 { \n"));
  CHECK_THAT(text, !Catch::Contains("\n}; int evil"));
}

TEST_CASE("comments are ASCII, so that editors show what compilers read") {
  const std::string text = text_with_scalar("\u202elr\u2028\xff");
  for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
}

TEST_CASE("a number that is converted has a variable of its own") {
  // The scalar lr becomes lr_n where it is an f32.
  const std::string text = text_with_scalar("lr", "lr_n");
  CHECK_THAT(text, Catch::Contains("const f32 lr_n = ") && Catch::Contains("const f32 lr_n_2 = "));
}

TEST_CASE("what numbers are computed from is told in a line, however often they are read") {
  Program p("p", Mesh({{"world", 1}}));
  const Value w = p.state("w", f32, {p.dim("n", 8)}, replicated);
  Value number = p.scalar("lr");
  for (int i = 0; i < 100; ++i) number = number + number;
  update(w, w * number);
  const std::vector<jit::KernelText> kernels = jit::generate(sched::lower(*ir::graph_of(p)));
  CHECK(kernels.front().source.size() < 10'000);
}
