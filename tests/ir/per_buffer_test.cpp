// Values for each buffer of a list: how they are made, combined with elements, and refused.
#include <catch2/catch.hpp>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "refusal.h"

using namespace coconet;

namespace {

struct Parameters {
  Program p{"parameters", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 6);
  Value w = p.state("w", f32, {n}, replicated);
  Value decay = p.input("decay", f32, {p.buffers(n)}, replicated);

  template <class Body>
  [[nodiscard]] std::string reason(const Body& body) {
    return refusal<ProgramError>([&] { (void)body(); });
  }
};

const ir::Lists three_buffers = {{"n", {3, 1, 2}}};

}  // namespace

TEST_CASE("a reduction of each buffer has an element for each, and an op repeats it") {
  Parameters s;
  const Value norms = norm(s.w, per_buffer);
  CHECK(norms.shape() == Shape{s.p.buffers(s.n)});
  CHECK(norms.shape().front().str() == "n.buffers");
  const Value scaled = s.w * norms;
  CHECK(scaled.shape() == Shape{s.n});
  CHECK((norms * s.decay).shape() == norms.shape());
  CHECK(s.p.str().find("repeat(") != std::string::npos);
  CHECK(s.p.str().find("per_buffer)") != std::string::npos);
}

TEST_CASE("JSON has values for each buffer") {
  Parameters s;
  update(s.w, s.w - s.decay * s.w / norm(s.w, per_buffer));
  const Program again = Program::parse(s.p.json());
  CHECK(again.str() == s.p.str());
  CHECK(again.json() == s.p.json());
}

TEST_CASE("the reference reduces and repeats by buffer, also of slices that cut them") {
  Parameters s;
  const Value part = slice(s.w);
  s.p.output("sums", sum(part, per_buffer));
  s.p.output("largest", max(s.w, per_buffer).named("most"));
  update(s.w, s.w * s.decay);
  ir::Reference reference(*ir::graph_of(s.p), {}, three_buffers);
  reference.set("w", {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}});
  reference.set("decay", {{10, 100, 1000}, {10, 100, 1000}});
  reference.run({});
  for (const int rank : {0, 1}) {
    CHECK(reference.get("sums")[rank] == ir::Data{6, 4, 11});
    CHECK(reference.get("largest")[rank] == ir::Data{3, 4, 6});
    CHECK(reference.get("w")[rank] == ir::Data{10, 20, 30, 400, 5000, 6000});
  }
}

TEST_CASE("without a list there is one buffer") {
  Parameters s;
  s.p.output("total", sum(s.w, per_buffer));
  ir::Reference reference(*ir::graph_of(s.p), {});
  reference.set("w", {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}});
  reference.set("decay", {{1}, {1}});
  reference.run({});
  CHECK(reference.get("total")[0] == ir::Data{21});
}

TEST_CASE("lists are for dimensions whose buffers are told apart") {
  Parameters s;
  const auto& graph = *ir::graph_of(s.p);
  CHECK(ir::listed_dims(graph) == std::vector<std::string>{"n"});
  const auto sizes = ir::resolve_sizes(graph, {}, three_buffers);
  CHECK(sizes.at("n") == 6);
  CHECK(sizes.at("n.buffers") == 3);
  CHECK(ir::resolve_sizes(graph, sizes, three_buffers) == sizes);
  CHECK(s.reason([&] {
    return ir::resolve_sizes(graph, {{"n.buffers", 4}}, three_buffers);
  }) == "dimension 'n.buffers' is given the extent 4; leave it out, and give the lengths of the "
        "buffers of 'n'");
}

TEST_CASE("what makes no sense of buffers is refused") {
  Parameters s;
  const Dim k = s.p.dim("k", 3);
  const Value matrix = s.p.input("matrix", f32, {k, s.n}, replicated);
  const Value mine = s.p.input("mine", f32, {s.p.buffers(s.n)}, local);
  CHECK(s.reason([&] { return sum(matrix, per_buffer); }) ==
        "in program 'parameters', 'sum_4' (reduction): 'matrix' is f32[k, n] replicated; a "
        "reduction of each buffer takes a tensor of one dimension, made with Program::dim, by "
        "whose name the lengths of the buffers are given");
  CHECK(s.reason([&] {
           return sum(s.decay, per_buffer);
         }).find("'decay' is f32[n.buffers] replicated; a reduction of each buffer takes") !=
        std::string::npos);
  CHECK(s.reason([&] { return mean(s.w, per_buffer); }) ==
        "mean of each buffer of 'w'; there are sum, max, min and prod of each buffer: divide a sum "
        "by the lengths");
  CHECK(s.reason([&] { return repeat(s.w, s.n); }) ==
        "in program 'parameters', 'repeat_4' (repeat): 'w' is f32[n] replicated; it takes a tensor "
        "of [n.buffers], which has an element for each buffer of 'n'");
  CHECK(s.reason([&] {
           return repeat(reduce_scatter(mine, sum), s.n);
         }).ends_with("but elements of any buffer may be on any rank; all_gather it first"));
  CHECK(s.reason([&] { return s.p.dim("m.buffers"); }) ==
        "a dimension cannot be called 'm.buffers', which is how that of the buffers of another one "
        "is called");
  CHECK(s.reason([&] { return s.p.buffers(Dim("m", 3)); }) ==
        "program 'parameters' has no dimension 'm' whose buffers it could count; make it with "
        "Program::dim");
}
