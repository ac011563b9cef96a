// The blocks of transformers compute what a plain loop does, under every schedule, and say on what
// they run.
#include <catch2/catch.hpp>
#include <functional>

#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

constexpr std::int64_t batch = 2, sequence = 3, hidden = 5, inner = 7;

using Element = std::function<double(std::int64_t flat, int owner)>;

/// Numbers the ranks that hold values of their own of `id`.
int owner_of(const ir::Graph& graph, ir::ValueId id, int rank) {
  int owner = 0;
  for (std::size_t axis = 0; axis < graph.mesh.axes().size(); ++axis) {
    if (graph.at(id).layout[axis] != local) continue;
    owner =
        owner * graph.mesh.axes()[axis].size + graph.mesh.coordinate(rank, static_cast<int>(axis));
  }
  return owner;
}

/// What `rank` has of the tensor `id`, whose elements depend on the place in the whole tensor and
/// on the owner.
ir::Data part_of(const Program& program, const ir::Reference& reference, ir::ValueId id, int rank,
                 const ir::Extents& global, const Element& element) {
  const ir::Part part = reference.part(id, rank);
  const int owner = owner_of(*ir::graph_of(program), id, rank);
  ir::Data data;
  for_each_element(global, part,
                   [&](std::int64_t flat, std::int64_t) { data.push_back(element(flat, owner)); });
  return data;
}

double x_of(std::int64_t flat, int owner) {
  return static_cast<double>(flat * 5 % 13 - 6 + owner) / 8;
}
double w_of(std::int64_t flat, int) {
  return static_cast<double>(flat * 3 % 11 - 5) / 4;
}
double b_of(std::int64_t flat, int owner) {
  return static_cast<double>(flat + owner) / 2;
}
double r_of(std::int64_t flat, int owner) {
  return static_cast<double>(flat * 7 % 17 - 8 - owner);
}

/// `out` on every rank, after one step of `program` with all numbers exact in f64.
ir::RankData out_of(const Program& program) {
  const ir::Graph& graph = *ir::graph_of(program);
  std::map<std::string, std::int64_t> sizes = {{"B", batch}, {"S", sequence}, {"H", hidden}};
  if (graph.dims.size() == 4) sizes["F"] = inner;
  ir::Reference reference(graph, sizes);
  const std::pair<const char*, Element> elements[] = {
      {"x", x_of}, {"w", w_of}, {"b", b_of}, {"r", r_of}};
  for (const auto& [name, element] : elements) {
    const ir::ValueId id = graph.find(name);
    if (id < 0) continue;
    ir::RankData parts;
    for (int rank = 0; rank < graph.mesh.size(); ++rank) {
      parts.push_back(part_of(program, reference, id, rank,
                              ir::global_extents(graph.at(id).shape, sizes), element));
    }
    reference.set(name, parts);
  }
  reference.run({{"t", 3}});
  return reference.get("out");
}

/// matmul(x, w) + b + r of whole tensors, as a plain loop.
ir::Data expected(std::int64_t width) {
  ir::Data out;
  for (std::int64_t row = 0; row < batch * sequence; ++row) {
    for (std::int64_t column = 0; column < hidden; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < width; ++k)
        sum += x_of(row * width + k, 0) * w_of(k * hidden + column, 0);
      out.push_back(sum + b_of(column, 0) + r_of(row * hidden + column, 0));
    }
  }
  return out;
}

constexpr programs::BlockOptions no_dropout = {.dropout = 0};

}  // namespace

TEST_CASE("mlp_block adds bias and residual to the product of slices") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const ir::Data& out :
         out_of(programs::mlp_block(Mesh({{"world", ranks}}), f64, no_dropout)))
      CHECK(out == expected(inner));
  }
}

TEST_CASE("attention_block does so with a square matrix") {
  for (const int ranks : {1, 2, 3, 4}) {
    const Program p = programs::attention_block(Mesh({{"world", ranks}}), f64, no_dropout);
    for (const ir::Data& out : out_of(p)) CHECK(out == expected(hidden));
  }
}

TEST_CASE("blocks are divided along the axis 'tp' where the mesh has several") {
  const Program p = programs::mlp_block(Mesh({{"dp", 2}, {"tp", 2}}));
  CHECK(type_of(p, "x") == "x: f32[B, S, F] {dp: replicated, tp: sliced(2)}");
  CHECK(type_of(p, "w") == "w: f32[F, H] {dp: replicated, tp: sliced(0)}");
  CHECK(type_of(p, "layer") == "layer: f32[B, S, H] {dp: replicated, tp: local}");
  CHECK(type_of(p, "out") == "out: f32[B, S, H] {dp: replicated, tp: replicated}");
}

TEST_CASE("the dropout of a block takes the sum with its bias, before the residual") {
  const Mesh mesh = two_ranks();
  const ir::Data whole = out_of(programs::mlp_block(mesh, f64, no_dropout)).front();
  const ir::Data dropped = out_of(programs::mlp_block(mesh, f64, {.dropout = 0.5})).front();
  int zeros = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double residual = r_of(static_cast<std::int64_t>(i), 0);
    const bool zero = dropped[i] == residual;
    zeros += zero ? 1 : 0;
    CHECK((zero || dropped[i] == 2 * (whole[i] - residual) + residual));
  }
  CHECK(zeros > 5);
  CHECK(zeros < 25);
}

TEST_CASE("pipeline_block hands the sum of a stage, with its bias and residual, to the next one") {
  for (const int ranks : {1, 2, 3}) {
    const Program p = programs::pipeline_block(Mesh({{"pp", 2}, {"tp", ranks}}), f64, no_dropout);
    const ir::RankData out = out_of(p);
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(out[static_cast<std::size_t>(rank)] == ir::Data(batch * sequence * hidden));
      for (std::int64_t i = 0; i < batch * sequence * hidden; ++i) {
        double sum = 0;
        for (int other = 0; other < ranks; ++other) sum += x_of(i, other);
        CHECK(out[static_cast<std::size_t>(ranks + rank)][static_cast<std::size_t>(i)] ==
              sum + b_of(i % hidden, 0) + r_of(i, 0));
      }
    }
  }
}

TEST_CASE("schedules do not change what a block computes") {
  for (const char* name : {"mlp_block", "attention_block", "pipeline_block"}) {
    const programs::Shipped& shipped = *programs::find(name);
    for (const int ranks : {2, 6}) {
      const Program program = shipped.build(shipped.mesh(ranks), f64);
      const ir::RankData out = out_of(program);
      for (const std::string_view schedule : shipped.schedules) {
        const auto file = std::string(name) + "-" + std::string(schedule) + ".json";
        for (const Program& p : Schedule::load(file).apply(program)) CHECK(out_of(p) == out);
      }
    }
  }
}

TEST_CASE("a pipeline runs on a multiple of its stages") {
  const programs::Shipped& pipeline = *programs::find("pipeline_block");
  CHECK(pipeline.mesh(6) == Mesh({{"pp", 2}, {"tp", 3}}));
  CHECK(pipeline.runs_on(2));
  CHECK_FALSE(pipeline.runs_on(3));
  CHECK(refusal<ProgramError>([&] { (void)pipeline.mesh(3); }) ==
        "pipeline_block has 2 stages, each of as many ranks; it runs on a multiple of 2 ranks, not "
        "on 3");
  CHECK(programs::find("mlp_block")->mesh(3) == Mesh({{"world", 3}}));
}
