// What `legal` lists is what is legal: each listed step applies, what the listing says of others
// holds, and nothing else applies. Of the shipped programs after each step of their schedules, and
// of random programs after random ones.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "coconet/programs.h"
#include "ir/access.h"
#include "jit/conformance/random_program.h"
#include "jit/conformance/random_schedule.h"
#include "sample.h"
#include "sched/kernels.h"
#include "sched/rewrite.h"
#include "sched/subjects.h"
#include "sched/transforms/fuse.h"

using namespace coconet;
using ir::Graph;
using ir::Op;
using ir::ValueId;
using sched::LegalStep;
using sched::Step;

namespace {

using Names = std::vector<std::string>;
using Ids = std::set<ValueId>;

bool is_among(const Names& names, const Names& all) {
  return std::ranges::all_of(
      names, [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); });
}

// ---- the rules of kernels, of ops that all are in one listed kernel

Names names_of(const Graph& graph, const Ids& ids) {
  Names names;
  for (const ValueId id : ids) names.push_back(graph.at(id).name);
  return names;
}

/// `from` and all that is computed from it, or that it is computed from; what runs as a whole
/// follows as a whole.
Ids follow(const Graph& graph, Ids from, bool forward) {
  for (std::size_t before = 0; before != from.size();) {
    before = from.size();
    for (const ValueId id :
         forward ? sched::descendants(graph, from) : sched::ancestors(graph, from))
      from.insert(id);
    for (const ir::Fusion& kernel : graph.fusions()) {
      Ids whole = {kernel.members.begin(), kernel.members.end()};
      whole.insert(kernel.arriving.begin(), kernel.arriving.end());
      if (std::ranges::any_of(whole, [&](ValueId id) { return from.contains(id); }))
        from.insert(whole.begin(), whole.end());
    }
  }
  return from;
}

/// Whether something outside is computed from `ops` and read by them.
bool has_cycle(const Graph& graph, const Ids& ops) {
  const auto& users = graph.users();
  Ids outside;
  for (const ValueId id : ops) {
    for (const ValueId user : users[id]) {
      if (!ops.contains(user)) outside.insert(user);
    }
  }
  const Ids behind = outside.empty() ? outside : follow(graph, outside, true);
  return std::ranges::any_of(ops, [&](ValueId id) {
    return std::ranges::any_of(graph.at(id).operands, [&](ValueId operand) {
      return !ops.contains(operand) && behind.contains(operand);
    });
  });
}

bool has_gap(const Graph& graph, const Ids& ops) {
  Ids joined = {*ops.begin()}, values;
  for (std::size_t before = 0; before != joined.size();) {
    before = joined.size();
    for (const ValueId id : joined) {
      values.insert(id);
      for (const ValueId operand : graph.at(id).operands) {
        if (!graph.at(operand).weak) values.insert(operand);
      }
    }
    for (const ValueId id : ops) {
      const auto& operands = graph.at(id).operands;
      if (values.contains(id) ||
          std::ranges::any_of(operands, [&](ValueId one) { return values.contains(one); }))
        joined.insert(id);
    }
  }
  return joined.size() < ops.size();
}

bool keeps_rules(const Graph& graph, const std::string& kind, const Ids& ops) {
  const auto find = [&](std::initializer_list<Op> any) {
    for (const ValueId id : ops) {
      if (std::ranges::find(any, graph.at(id).op) != any.end()) return id;
    }
    return ValueId{-1};
  };
  const bool computes = kind == "computation";
  const bool reduces = kind == "all_reduce" || kind == "reduce_scatter" || kind == "reduce";
  const ValueId combine =
      reduces ? find({Op::reduce_scatter, Op::reduce, Op::all_reduce}) : ValueId{-1};
  const bool whole = combine >= 0 && graph.at(combine).op == Op::all_reduce;
  const bool spreads = !computes && !whole && kind != "reduce_scatter" && kind != "reduce";
  const ValueId spread = whole     ? combine
                         : spreads ? find({Op::all_gather, Op::broadcast, Op::send})
                                   : ValueId{-1};
  if ((reduces && combine < 0) || (spreads && spread < 0)) return false;
  if (spreads && reduces && !ops.contains(graph.at(spread).operands.front())) return false;
  const auto& users = graph.users();
  const ValueId domain = combine >= 0  ? combine
                         : spread >= 0 ? graph.at(spread).operands.front()
                                       : ValueId{-1};
  Ids results;
  for (const ValueId id : ops) {
    const ir::Node& node = graph.at(id);
    const bool leaves =
        node.op == Op::update || graph.is_output(id) ||
        std::ranges::any_of(users[id], [&](ValueId one) { return !ops.contains(one); });
    const bool is_handed_on =
        spread >= 0 && (id == spread || (node.op == Op::update && node.operands[1] == spread));
    const bool is_scalar = !computes && sched::is_scalar(graph, domain, id);
    if (leaves && !is_handed_on && !is_scalar) results.insert(id);
  }
  if (domain >= 0) {
    results.insert(domain);
  } else if (results.empty()) {
    return false;
  }
  const ir::Node& first = graph.at(*results.begin());
  return !has_gap(graph, ops) && !has_cycle(graph, ops) &&
         std::ranges::all_of(results, [&](ValueId id) {
           return graph.at(id).shape == first.shape && graph.at(id).layout == first.layout;
         });
}

// ---- what the application reads and writes

/// The types of all inputs, states and outputs, but of the state that `step` is asked to slice.
std::map<std::string, std::string> interface_of(const Graph& graph, const Step& step) {
  std::map<std::string, std::string> types;
  const auto type = [&](ValueId id) {
    const std::string text = ir::describe(graph, id);
    return text.substr(text.find(": "));
  };
  for (ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    const bool is_asked = step.transformation == "as_slice" && step.text("state") == node.name;
    if ((node.op == Op::input || node.op == Op::state) && !is_asked) types[node.name] = type(id);
  }
  for (const ir::Output& output : graph.outputs())
    types["output " + output.name] = type(output.value);
  return types;
}

// ---- candidates

/// Draws steps that may or may not be legal.
class Draw {
  std::size_t below(std::size_t limit) { return random_() % limit; }
  template <class Range>
  typename Range::value_type any(const Range& range) {
    return range[below(range.size())];
  }

 public:
  Draw(const Graph& graph, const std::vector<LegalStep>& legal, std::uint64_t seed)
      : graph_(graph), users_(graph.users()), legal_(legal), random_(seed) {}

  Step step() {
    switch (below(6)) {
      case 0:
        return sched::complete(
            {"split",
             {{"op", value()},
              {"into", any(Names{"reduce_scatter+all_gather", "reduce+broadcast", "hierarchical"})},
              {"dim", static_cast<std::int64_t>(below(5)) - 1}}});
      case 1:
        return sched::complete({"as_slice", {{"state", value()}}});
      case 2:
        return sched::complete({"reorder", {{"all_gather", gather()}, {"before", some(4)}}});
      case 3: {
        Names steps;
        for (std::size_t i = 1 + below(3); i-- > 0;) steps.push_back(stage());
        return sched::complete({"overlap", {{"steps", std::move(steps)}}});
      }
      default:
        return fuse();
    }
  }

 private:
  std::string value() { return graph_.at(static_cast<ValueId>(below(graph_.nodes().size()))).name; }
  std::string gather() {
    Names gathers;
    for (const ir::Node& node : graph_.nodes()) {
      if (node.op == Op::all_gather) gathers.push_back(node.name);
    }
    return gathers.empty() || below(8) == 0 ? value() : any(gathers);
  }
  std::string stage() {
    return graph_.fusions().empty() || below(4) == 0
               ? value()
               : graph_.fusions()[below(graph_.fusions().size())].name;
  }
  Names some(std::size_t most) {
    Names names;
    for (std::size_t i = 1 + below(most); i-- > 0;) names.push_back(value());
    return names;
  }
  /// Values that are near each other.
  Names neighbours() {
    Names names = {value()};
    for (std::size_t i = below(8); i-- > 0;) {
      const ValueId from = graph_.find(any(names));
      const auto& near = below(2) == 0 ? graph_.at(from).operands : users_[from];
      if (!near.empty()) names.push_back(graph_.at(any(near)).name);
    }
    return names;
  }
  /// Part of what is listed, and perhaps one more.
  Names part() {
    std::vector<const LegalStep*> fuses;
    for (const LegalStep& one : legal_) {
      if (one.step.transformation == "fuse" && !one.any_of.empty()) fuses.push_back(&one);
    }
    if (fuses.empty()) return some(4);
    const LegalStep& from = *any(fuses);
    kind_ = from.step.text("kind");
    Names names;
    const std::size_t keep = 1 + below(8);
    for (const std::string& name : from.any_of) {
      if (below(8) < keep) names.push_back(name);
    }
    if (names.empty() || below(4) == 0) names.push_back(value());
    return names;
  }
  Step fuse() {
    kind_ = any(Names{"computation", "all_reduce", "reduce_scatter", "all_gather", "reduce",
                      "broadcast", "send"});
    Names ops = below(3) == 0 ? some(5) : below(2) == 0 ? neighbours() : part();
    return sched::complete(
        {"fuse", {{"kernel", std::string("drawn")}, {"kind", kind_}, {"ops", std::move(ops)}}});
  }

  const Graph& graph_;
  const Indexed<std::vector<ValueId>>& users_;
  const std::vector<LegalStep>& legal_;
  std::mt19937_64 random_;
  std::string kind_;
};

// ---- the property

struct Checked {
  std::size_t listed = 0, refused = 0, covered = 0;
};

/// Whether `step` is listed, or made of names that a listed one says its list may hold.
bool is_covered(const std::vector<LegalStep>& legal, const Step& step) {
  return std::ranges::any_of(legal, [&](const LegalStep& one) {
    if (one.step.transformation != step.transformation) return false;
    if (step.transformation == "reorder") {
      return one.step.text("all_gather") == step.text("all_gather") &&
             is_among(step.list("before"), one.any_of);
    }
    if (step.transformation == "fuse")
      return one.step.text("kind") == step.text("kind") && is_among(step.list("ops"), one.any_of);
    return one.step == step;
  });
}

/// Checks one candidate; what is wrong, or nothing.
std::string fault_of(const Graph& graph, const std::vector<LegalStep>& legal, const Step& step,
                     Checked& checked) {
  const std::optional<Graph> after = sched::try_transform(graph, step);
  if (after && interface_of(*after, step) != interface_of(graph, step))
    return "changes what the application reads and writes";
  if (!is_covered(legal, step)) {
    if (after) return "applies, and is not listed";
    ++checked.refused;
    return "";
  }
  ++checked.covered;
  if (step.transformation != "fuse") return after ? "" : "is listed, and does not apply";
  if (after) {
    const std::vector<ValueId>& members = after->fusions().back().members;
    Step whole = step;
    whole.arguments["ops"] = names_of(graph, {members.begin(), members.end()});
    return is_covered(legal, whole) ? "" : "holds more ops than any that is listed";
  }
  Ids ops;
  for (const std::string& name : step.list("ops")) ops.insert(graph.find(name));
  return keeps_rules(graph, step.text("kind"), ops) ? "keeps the rules, and does not apply" : "";
}

void check(const Graph& graph, std::uint64_t seed, std::size_t unlisted, Checked& checked) {
  const std::vector<LegalStep> legal = sched::legal_steps(graph);
  for (const LegalStep& one : legal) {
    ++checked.listed;
    INFO(ir::print(graph) << to_string(one.step));
    const std::optional<Graph> after = sched::try_transform(graph, one.step);
    if (!after) {
      FAIL_CHECK(sched::legal(graph, one.step));
    } else {
      CHECK(interface_of(*after, one.step) == interface_of(graph, one.step));
    }
    if (!is_covered(legal, one.step)) FAIL_CHECK("is part of no largest one");
  }
  Draw draw(graph, legal, seed);
  const std::size_t enough = checked.refused + unlisted;
  while (checked.refused < enough) {
    const Step step = draw.step();
    const std::string fault = fault_of(graph, legal, step, checked);
    if (fault.empty()) continue;
    FAIL_CHECK(ir::print(graph) << to_string(step) << "\n"
                                << fault << ": " << sched::legal(graph, step));
    return;
  }
}

/// Checks `program` after each step of `schedule`.
void check(const Program& program, const Schedule& schedule, std::uint64_t seed,
           std::size_t unlisted, Checked& checked) {
  for (const Program& scheduled : schedule.apply(program))
    check(*ir::graph_of(scheduled), seed, unlisted, checked);
}

constexpr std::size_t unlisted = 500;

}  // namespace

TEST_CASE("legal steps of shipped programs are those that are listed") {
  Checked checked;
  for (const programs::Shipped& shipped : programs::shipped()) {
    const auto with = [&](const Mesh& mesh, const auto& schedules) {
      for (const std::string_view name : schedules) {
        if (!test::draw()) continue;
        INFO(shipped.name << " " << name);
        const std::string file = std::string(shipped.name) + "-" + std::string(name) + ".json";
        check(shipped.build(mesh, shipped.dtypes.front()), Schedule::load(file), test::seed(),
              unlisted, checked);
      }
    };
    with(shipped.mesh(4), shipped.schedules);
    if (!shipped.across_nodes.empty()) with(shipped.mesh_of_nodes(4, 2), shipped.across_nodes);
  }
  WARN(checked.listed << " listed steps apply, " << checked.covered << " like them, "
                      << checked.refused << " others are refused");
  CHECK(checked.listed > 0);
  CHECK(checked.covered > 0);
}

TEST_CASE("legal steps of random programs after random schedules are those that are listed") {
  constexpr std::size_t programs = 200;
  std::mt19937_64 random(test::seed());
  Checked checked;
  for (std::size_t i = test::share_of(programs); i-- > 0;) {
    const auto genes = [&] {
      std::vector<std::uint32_t> drawn(20 + random() % 100);
      for (std::uint32_t& gene : drawn) gene = static_cast<std::uint32_t>(random());
      return test::Genes(std::move(drawn));
    };
    test::Genes of_program = genes(), of_schedule = genes();
    const Program program = test::write_random_program(of_program).program;
    const Schedule schedule = test::random_schedule(program, of_schedule, false);
    check(program, schedule, random(), unlisted / (schedule.size() + 1), checked);
  }
  WARN(checked.listed << " listed steps apply, " << checked.covered << " like them, "
                      << checked.refused << " others are refused");
  CHECK(checked.listed > 0);
  CHECK(checked.covered > 0);
}
