// fuse: makes one kernel of several ops. The kernel holds the named ops and the pointwise ops that they read,
// directly or through further pointwise ops.
//
// Kinds:
//   computation  pointwise ops and updates over one domain
//   all_reduce   reduce_scatter, computation on the slice, all_gather, and the updates of what was gathered
#include <algorithm>
#include <cctype>

#include "coconet/error.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

constexpr std::string_view kinds[] = {"computation", "all_reduce"};
constexpr std::string_view algorithms[] = {"", "direct"};
constexpr std::string_view protocols[] = {"", "simple"};

constexpr Parameter parameters[] = {
    {"kernel", Parameter::Kind::text, true, "", {}, "the kernel's name, a C identifier"},
    {"kind", Parameter::Kind::text, true, "", kinds, "what the kernel is made of"},
    {"ops", Parameter::Kind::list, true, "", {}, "the ops to fuse; pointwise ops that they read join them"},
    {"algorithm", Parameter::Kind::text, false, "", algorithms, "knob: collective algorithm"},
    {"protocol", Parameter::Kind::text, false, "", protocols, "knob: synchronisation protocol"},
    {"channels", Parameter::Kind::integer, false, "0", {}, "knob: independent blocks, 1 to 64; 0: automatic"},
    {"threads", Parameter::Kind::integer, false, "0", {},
     "knob: GPU threads per block, a multiple of 32 up to 1024; 0: automatic"},
    {"vector_bytes", Parameter::Kind::integer, false, "0", {},
     "knob: bytes of a vector access, 4, 8, 16, 32 or 64; 0: automatic"},
};

Knobs read_knobs(const Step& step) {
  Knobs knobs;
  knobs.algorithm = step.text("algorithm");
  knobs.protocol = step.text("protocol");
  const std::int64_t channels = step.integer("channels");
  const std::int64_t threads = step.integer("threads");
  const std::int64_t vector_bytes = step.integer("vector_bytes");
  if (channels < 0 || channels > 64) {
    throw ScheduleError("'channels' is " + std::to_string(channels) + "; it must be 1 to 64, or 0");
  }
  if (threads < 0 || threads > 1024 || threads % 32 != 0) {
    throw ScheduleError("'threads' is " + std::to_string(threads) + "; it must be a multiple of 32 up to 1024, or 0");
  }
  if (vector_bytes != 0 && vector_bytes != 4 && vector_bytes != 8 && vector_bytes != 16 && vector_bytes != 32 &&
      vector_bytes != 64) {
    throw ScheduleError("'vector_bytes' is " + std::to_string(vector_bytes) + "; it must be 4, 8, 16, 32 or 64, or 0");
  }
  knobs.channels = static_cast<int>(channels);
  knobs.threads = static_cast<int>(threads);
  knobs.vector_bytes = static_cast<int>(vector_bytes);
  return knobs;
}

std::string read_name(const Graph& graph, const Step& step) {
  const std::string& name = step.text("kernel");
  const bool identifier = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                          std::all_of(name.begin(), name.end(), [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_';
                          });
  if (!identifier) {
    throw ScheduleError("the kernel name '" + name + "' is no identifier; use letters, digits and _");
  }
  for (const Fusion& fusion : graph.fusions) {
    if (fusion.name == name) throw ScheduleError("there is a kernel '" + name + "' already; choose another name");
  }
  return name;
}

/// The named ops and the pointwise ops that they read.
std::set<ValueId> find_members(const Graph& graph, const std::vector<std::string>& ops) {
  std::set<ValueId> members;
  for (const std::string& name : ops) {
    const ValueId id = require_value(graph, name);
    const Node& node = graph.at(id);
    if (node.weak || node.op == Op::input || node.op == Op::state) {
      throw ScheduleError(quoted(graph, id) + " is an operand, no work that a kernel could do; leave it out");
    }
    if (const Fusion* fusion = graph.fusion_of(id)) {
      throw ScheduleError(quoted(graph, id) + " is in kernel '" + fusion->name + "' already; an op is in one kernel");
    }
    members.insert(id);
  }
  if (members.empty()) throw ScheduleError("'ops' is empty; name the ops to fuse");
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (!members.contains(id) || graph.at(id).op == Op::reduce_scatter) continue;
    for (const ValueId operand : graph.at(id).operands) {
      const Node& node = graph.at(operand);
      if (ir::is_elementwise(node.op) && !node.weak && graph.fusion_of(operand) == nullptr) members.insert(operand);
    }
  }
  return members;
}

/// A value outside that is computed from one member and needed by another would have to run in mid-kernel.
void refuse_cycle(const Graph& graph, const std::set<ValueId>& members) {
  const std::set<ValueId> after = descendants(graph, members);
  for (const ValueId id : ancestors(graph, members)) {
    if (members.contains(id) || !after.contains(id)) continue;
    const auto& operands = graph.at(id).operands;
    const auto from = std::find_if(operands.begin(), operands.end(), [&](ValueId v) { return after.contains(v); });
    throw ScheduleError("the kernel would wait for itself (a cycle): " + quoted(graph, id) +
                        " reads " + quoted(graph, *from) + " and is needed by another of its ops; fuse " +
                        quoted(graph, id) + " too, or leave out what it lies between");
  }
}

/// Ops that share no value, not even an operand, gain nothing from one kernel and make its domain ambiguous.
void refuse_gap(const Graph& graph, const std::set<ValueId>& members) {
  std::set<ValueId> joined = {*members.begin()};
  std::set<ValueId> values = joined;
  for (bool grew = true; grew;) {
    grew = false;
    for (const ValueId id : members) {
      if (joined.contains(id)) continue;
      const auto& operands = graph.at(id).operands;
      const bool touches = values.contains(id) || std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
                             return !graph.at(v).weak && values.contains(v);
                           });
      if (touches) joined.insert(id);
      grew = grew || touches;
    }
    for (const ValueId id : joined) {
      values.insert(id);
      for (const ValueId operand : graph.at(id).operands) {
        if (!graph.at(operand).weak) values.insert(operand);
      }
    }
  }
  for (const ValueId id : members) {
    if (!joined.contains(id)) {
      throw ScheduleError("there is a gap: " + quoted(graph, id) + " shares no value with " +
                          quoted(graph, *members.begin()) + " and the ops around it; fuse the ops that connect " +
                          "them, or make two kernels");
    }
  }
}

bool needed_outside(const Graph& graph, const std::set<ValueId>& members, ValueId id) {
  const auto users = graph.users()[static_cast<std::size_t>(id)];
  return std::any_of(users.begin(), users.end(), [&](ValueId user) { return !members.contains(user); }) ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const ir::Output& output) { return output.value == id; });
}

/// All results that leave the kernel must be of one shape and layout: that of `domain`.
void require_domain(const Graph& graph, const std::set<ValueId>& members, ValueId domain, const std::set<ValueId>& free) {
  for (const ValueId id : members) {
    if (free.contains(id)) continue;
    if (graph.at(id).op != Op::update && !needed_outside(graph, members, id)) continue;
    if (graph.at(id).shape != graph.at(domain).shape || graph.at(id).layout != graph.at(domain).layout) {
      throw ScheduleError("one kernel runs over one domain, but its results differ: " + describe(graph, domain) +
                          " and " + describe(graph, id) + "; make two kernels");
    }
  }
}

void check_computation(const Graph& graph, const std::set<ValueId>& members) {
  ValueId domain = -1;
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (!ir::is_elementwise(op) && op != Op::update) {
      throw ScheduleError(quoted(graph, id) + " is " + (ir::is_collective(op) ? "a collective" : "no pointwise op") +
                          "; a kernel of kind 'computation' takes pointwise ops and updates" +
                          (op == Op::reduce_scatter || op == Op::all_gather ? ", one of kind 'all_reduce' takes it" : ""));
    }
    if (op == Op::update || needed_outside(graph, members, id)) domain = id;
  }
  if (domain < 0) throw ScheduleError("nothing outside the kernel reads any of its results; name an update or an output");
  require_domain(graph, members, domain, {});
}

void check_all_reduce(const Graph& graph, const std::set<ValueId>& members) {
  ValueId scatter = -1;
  ValueId gather = -1;
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (op == Op::reduce_scatter || op == Op::all_gather) {
      ValueId& slot = op == Op::reduce_scatter ? scatter : gather;
      if (slot >= 0) {
        throw ScheduleError("two collectives on one side: " + quoted(graph, slot) + " and " + quoted(graph, id) +
                            "; the kernel takes one reduce_scatter and one all_gather" +
                            (op == Op::all_gather ? " (as_slice removes the gather of a state)" : ""));
      }
      slot = id;
    } else if (!ir::is_elementwise(op) && op != Op::update) {
      throw ScheduleError(quoted(graph, id) + " cannot be in a kernel of kind 'all_reduce', which takes a " +
                          "reduce_scatter, pointwise ops, an all_gather and updates");
    }
  }
  if (scatter < 0 || gather < 0) {
    throw ScheduleError("a kernel of kind 'all_reduce' needs a reduce_scatter and an all_gather, and has no " +
                        std::string(scatter < 0 ? "reduce_scatter" : "all_gather") + "; split an all_reduce first");
  }
  const Node& first = graph.at(scatter);
  const Node& last = graph.at(gather);
  const Node& slice = graph.at(last.operands.front());
  if (first.attributes.axis != last.attributes.axis || first.layout != slice.layout || first.shape != slice.shape) {
    throw ScheduleError(quoted(graph, scatter) + " makes " + describe(graph, scatter) + " but " + quoted(graph, gather) +
                        " gathers " + describe(graph, last.operands.front()) + "; they must slice alike");
  }
  std::set<ValueId> gathered = {gather};
  for (const ValueId id : members) {
    const Node& node = graph.at(id);
    if (id == gather) continue;
    for (const ValueId operand : node.operands) {
      if (operand == gather && node.op != Op::update) {
        throw ScheduleError(quoted(graph, id) + " reads the gathered " + quoted(graph, gather) +
                            " in the same kernel; reorder it before the all_gather, or leave it out");
      }
      if (operand == gather) gathered.insert(id);
      if (gathered.contains(operand) && operand != gather) {
        throw ScheduleError(quoted(graph, id) + " reads the gathered state in the same kernel; leave it out");
      }
    }
    if (id != scatter && descendants(graph, {id}).contains(scatter)) {
      throw ScheduleError(quoted(graph, id) + " comes before " + quoted(graph, scatter) +
                          "; the kernel takes computation between the collectives: leave it out");
    }
  }
  if (!members.contains(last.operands.front())) {
    throw ScheduleError(quoted(graph, gather) + " gathers " + quoted(graph, last.operands.front()) +
                        ", which the kernel does not compute; fuse it too");
  }
  require_domain(graph, members, scatter, gathered);
}

Graph apply(const Graph& graph, const Step& step) {
  Fusion fusion;
  fusion.name = read_name(graph, step);
  fusion.knobs = read_knobs(step);
  fusion.kind = step.text("kind") == kinds[0] ? Fusion::Kind::computation : Fusion::Kind::all_reduce;
  const std::set<ValueId> members = find_members(graph, step.list("ops"));
  refuse_cycle(graph, members);
  refuse_gap(graph, members);
  if (fusion.kind == Fusion::Kind::computation) {
    check_computation(graph, members);
  } else {
    check_all_reduce(graph, members);
  }
  fusion.members.assign(members.begin(), members.end());
  Graph result = graph;
  result.fusions.push_back(std::move(fusion));
  return result;
}

std::vector<Step> candidates(const Graph& graph) {
  std::vector<std::string> updates;
  std::vector<std::string> everything;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::update) updates.push_back(node.name);
    if (node.op == Op::update || node.op == Op::reduce_scatter || node.op == Op::all_gather) everything.push_back(node.name);
  }
  std::vector<Step> steps;
  for (const bool all_reduce : {false, true}) {
    Step step = complete({"fuse",
                          {{"kernel", graph.name + "_step"},
                           {"kind", std::string(kinds[all_reduce ? 1 : 0])},
                           {"ops", all_reduce ? everything : updates}}});
    if (legal(graph, step).empty()) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

constinit const Transformation fuse_transformation{
    "fuse", "makes one kernel of several ops", parameters, apply, candidates};

}  // namespace coconet::sched
