// The space of schedules: it holds what people would write, its rules lose nothing, and all in it
// computes what the program does.
#include "sched/tune/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "coconet/programs.h"
#include "golden.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "precisions.h"
#include "sample.h"
#include "sched/schedule.h"
#include "sched/subjects.h"
#include "sched/tune/canonical.h"

using namespace coconet;
using coconet::test::draw;

namespace {

/// Plans by their canonical forms.
class Plans {
 public:
  explicit Plans(const sched::Space& space) {
    for (const sched::Candidate& candidate : space.candidates)
      keys_.insert(canonical_.key(candidate.plan));
  }
  [[nodiscard]] bool contains(const sched::Plan& plan) {
    return keys_.contains(canonical_.key(plan));
  }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  [[nodiscard]] bool is_within(const sched::Space& other) {
    std::set<std::string> others;
    for (const sched::Candidate& candidate : other.candidates)
      others.insert(canonical_.key(candidate.plan));
    return std::includes(others.begin(), others.end(), keys_.begin(), keys_.end());
  }

 private:
  sched::Canonical canonical_;
  std::set<std::string> keys_;
};

sched::Plan plan_of(const Program& program, const std::string& schedule) {
  const Schedule shipped = Schedule::load(ir::graph_of(program)->name + "-" + schedule + ".json");
  return sched::lower(*ir::graph_of(shipped.apply(program).back()));
}

bool is_local(const ir::Node& node) {
  return std::any_of(node.layout.begin(), node.layout.end(),
                     [](Placement placement) { return placement.kind == Placement::Kind::local; });
}

/// A number that differs between ranks where their local values of `node` differ.
std::int64_t salt_of(const ir::Graph& graph, const ir::Node& node, int rank) {
  std::int64_t salt = 3;
  for (std::size_t axis = 0; axis < node.layout.size(); ++axis) {
    if (node.layout[axis].kind == Placement::Kind::local)
      salt = 3 * salt + 5 * graph.mesh.coordinate(rank, static_cast<int>(axis));
  }
  return salt;
}

using Results = std::map<std::string, std::vector<ir::Data>>;

/// All states and outputs of `graph` after two steps, put together from the ranks' parts: one
/// tensor, or one for each rank where they differ.
Results results_of(const ir::Graph& graph) {
  std::map<std::string, std::int64_t> sizes;
  for (const Dim& dim : graph.dims) sizes[dim.name] = 4;
  ir::Reference reference(graph, sizes);
  const int ranks = graph.mesh.size();
  std::map<std::string, double> scalars;
  std::map<std::string, ir::ValueId> kept;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    if (node.op == ir::Op::scalar) scalars[node.name] = 1;
    if (node.op == ir::Op::state) kept[node.name] = id;
    if (node.op != ir::Op::input && node.op != ir::Op::state) continue;
    const ir::Extents extents = ir::global_extents(node.shape, sizes);
    ir::RankData data;
    for (int rank = 0; rank < ranks; ++rank) {
      const ir::Part part = reference.part(id, rank);
      const std::int64_t salt = salt_of(graph, node, rank);
      ir::Data own(static_cast<std::size_t>(part.count()));
      for_each_element(extents, part, [&](std::int64_t whole, std::int64_t index) {
        own[static_cast<std::size_t>(index)] =
            static_cast<double>((whole * 7 + salt) % 11) / 8 + 0.25;
      });
      data.push_back(std::move(own));
    }
    reference.set(node.name, std::move(data));
  }
  for (int step = 0; step < 2; ++step) reference.run(scalars);
  for (const ir::Output& output : graph.outputs()) kept[output.name] = output.value;
  Results results;
  for (const auto& [name, id] : kept) {
    const ir::Node& node = graph.at(id);
    const ir::Extents extents = ir::global_extents(node.shape, sizes);
    std::vector<ir::Data>& tensors = results[name];
    tensors.assign(is_local(node) ? graph.mesh.size() : 1,
                   ir::Data(static_cast<std::size_t>(ir::product(extents))));
    for (int rank = 0; rank < ranks; ++rank) {
      ir::Data& tensor = tensors[is_local(node) ? static_cast<std::size_t>(rank) : 0];
      const ir::Data& own = reference.get(name)[rank];
      for_each_element(extents, reference.part(id, rank), [&](std::int64_t whole, std::int64_t i) {
        tensor[static_cast<std::size_t>(whole)] = own[static_cast<std::size_t>(i)];
      });
    }
  }
  return results;
}

void check_close(const Results& got, const Results& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, tensors] : expected) {
    INFO(name);
    REQUIRE(got.at(name).size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t k = 0; k < tensors[i].size(); ++k)
        CHECK(got.at(name)[i][k] == Approx(tensors[i][k]).epsilon(1e-12));
    }
  }
}

Program shipped_program(const programs::Shipped& shipped, programs::Precision precision) {
  return shipped.build(shipped.mesh(2 * shipped.stages), precision);
}

}  // namespace

TEST_CASE("every shipped schedule is in the space of its program") {
  for (const auto& [shipped, precision] : test::usual_programs()) {
    if (!draw()) continue;
    const Program program = shipped_program(shipped, precision);
    const sched::Space space = sched::find_space(*ir::graph_of(program));
    CHECK(space.whole);
    CHECK(space.unplanned.empty());
    Plans plans(space);
    for (const std::string_view name : shipped.schedules) {
      const std::string schedule(name);
      INFO(shipped.name << " " << schedule);
      const sched::Plan plan = plan_of(program, schedule);
      const bool has_ratio = shipped.name == "lamb" || shipped.name == "lars";
      if (!has_ratio || schedule == "fused") {
        CHECK(plans.contains(plan));
        continue;
      }
      // These name the seam at which the ratio of norms is computed in a kernel of its own; the
      // space has the kernels around it without that one.
      CHECK(std::any_of(space.candidates.begin(), space.candidates.end(), [&](const auto& found) {
        return found.plan.steps.size() + 1 == plan.steps.size() &&
               found.plan.buffers.size() + 1 == plan.buffers.size();
      }));
    }
  }
}

TEST_CASE("on a mesh of nodes the space holds the schedules for nodes") {
  for (const std::string name : {"sgd", "adam"}) {
    const programs::Shipped& shipped = *programs::find(name);
    const Program program = shipped.build(shipped.mesh_of_nodes(4, 2), f32);
    const sched::Space space = sched::find_space(*ir::graph_of(program));
    CHECK(space.whole);
    Plans plans(space);
    for (const std::string schedule : {"unfused", "hierarchical"}) {
      INFO(name << " " << schedule << ", of " << space.candidates.size());
      CHECK(plans.contains(plan_of(program, schedule)));
    }
  }
}

TEST_CASE("all of a space computes what the program does") {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with_layers != nullptr) continue;  // hundreds of values, hundreds of times
    const Program program = shipped_program(shipped, f64);
    const Results expected = results_of(*ir::graph_of(program));
    for (const sched::Candidate& candidate : sched::find_space(*ir::graph_of(program)).candidates) {
      if (!draw()) continue;
      INFO(shipped.name << ": " << sched::to_string(candidate.steps));
      check_close(results_of(candidate.graph), expected);
      check_close(results_of(candidate.plan.graph), expected);
    }
  }
}

TEST_CASE("merging loses no plan, and every plan is there once") {
  Program p("step", two_ranks());
  const Dim n = p.dim("n", 8);
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  update(w, w - 0.1 * all_reduce(g, mean).named("avg"));
  p.may_slice({"w"});
  const sched::Space merged = sched::find_space(*ir::graph_of(p));
  const sched::Space all =
      sched::find_space(*ir::graph_of(p), {.merge_programs = false, .merge_plans = false});
  CHECK(all.whole);
  CHECK(Plans(all).is_within(merged));
  CHECK(Plans(merged).is_within(all));
  CHECK(Plans(merged).size() == merged.candidates.size());
  CHECK(merged.same_program > 0);
  CHECK(merged.generated + 1 == merged.same_program + merged.same_plan + merged.candidates.size());
  CHECK(merged.generated < all.generated);
}

TEST_CASE("slicing all states at once loses only plans that keep some whole") {
  Momentum step;
  step.p.may_slice({"m", "w"});
  const sched::Space at_once = sched::find_space(*ir::graph_of(step.p));
  const sched::Space one_by_one = sched::find_space(*ir::graph_of(step.p), {.slice_all = false});
  CHECK(Plans(at_once).is_within(one_by_one));
  CHECK(at_once.candidates.size() < one_by_one.candidates.size());
  const auto sliced = [](const sched::Candidate& candidate) {
    return std::count_if(
        candidate.graph.nodes().begin(), candidate.graph.nodes().end(), [](const ir::Node& node) {
          return node.op == ir::Op::state && node.layout.front() == coconet::sliced(0);
        });
  };
  for (const sched::Candidate& candidate : at_once.candidates) CHECK(sliced(candidate) != 1);
}

TEST_CASE("states that may be sliced are all at once, and no others") {
  const programs::Shipped& adam = *programs::find("adam");
  Program program = shipped_program(adam, f32);
  const auto sliced = [](const sched::Candidate& candidate) {
    return std::count_if(candidate.steps.begin(), candidate.steps.end(),
                         [](const sched::Step& one) { return one.transformation == "as_slice"; });
  };
  std::set<std::int64_t> counts;
  for (const sched::Candidate& candidate : sched::find_space(*ir::graph_of(program)).candidates)
    counts.insert(sliced(candidate));
  CHECK(counts == std::set<std::int64_t>{0, 2});
  program.may_slice({"m", "v"}, false);
  for (const sched::Candidate& candidate : sched::find_space(*ir::graph_of(program)).candidates)
    CHECK(sliced(candidate) == 0);
}

TEST_CASE("docs/tuning.md says how large the spaces are") {
  std::string table = "| | adam | lamb | mlp_block | attention_block |\n|---|---|---|---|---|\n";
  std::vector<sched::Space> spaces;
  for (const char* const name : {"adam", "lamb", "mlp_block", "attention_block"}) {
    const Program program = shipped_program(*programs::find(name), f32);
    spaces.push_back(sched::find_space(*ir::graph_of(program)));
  }
  const auto row = [&](const std::string& what, std::size_t (*count)(const sched::Space&)) {
    table += "| " + what + " |";
    for (const sched::Space& space : spaces) table += fmt::format(" {} |", count(space));
    table += "\n";
  };
  row("programs generated", [](const sched::Space& space) { return space.generated; });
  row("of which were there, by other steps",
      [](const sched::Space& space) { return space.same_program; });
  row("had the plan of another", [](const sched::Space& space) { return space.same_plan; });
  row("candidates", [](const sched::Space& space) { return space.candidates.size(); });
  const std::string text = source_text("docs/tuning.md");
  const std::string begin = "<!-- written by sched/space -->\n", end = "\n<!-- end -->";
  const auto from = text.find(begin), to = text.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  check_golden("docs/tuning.md", text.substr(0, from) + begin + "\n" + table + text.substr(to));
}

TEST_CASE("a search stops where it is told to, and says so") {
  const sched::Space space =
      sched::find_space(*ir::graph_of(shipped_program(*programs::find("lamb"), f32)), {.most = 5});
  CHECK_FALSE(space.whole);
  CHECK(space.candidates.size() <= 5);
}
