// The rules of overlap. A chain of steps runs at once: each takes what the one before makes, tile
// by tile, and nothing else that the chain makes, or that is computed from it. Run one after the
// other they do the same.
#include "sched/overlaps.h"

#include <algorithm>

#include "coconet/error.h"
#include "sched/kernels.h"
#include "sched/knobs.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

[[noreturn]] void refuse(const Fusion& kernel, const std::string& why) {
  throw ScheduleError("kernel '" + kernel.name + "' cannot be overlapped: " + why);
}

Collective collective_of(const Graph& graph, const Fusion& kernel) {
  return find_collective(graph, {kernel.members.begin(), kernel.members.end()});
}

/// Whether `a` and `b` have the same elements at the same places of a rank's memory.
bool alike(const Graph& graph, ValueId a, ValueId b) {
  const auto whole = [](Placement placement) { return placement.kind != Placement::Kind::sliced; };
  const ir::Placements& one = graph.at(a).layout;
  return graph.at(a).shape == graph.at(b).shape &&
         std::equal(one.begin(), one.end(), graph.at(b).layout.begin(),
                    [&](Placement x, Placement y) { return x == y || (whole(x) && whole(y)); });
}

/// What makes `value`, which arrives at `kernel`, must say tile by tile what it has made.
void check_maker(const Graph& graph, const Fusion& kernel, ValueId value, const Stage& maker) {
  const std::string named = quoted(graph, value);
  if (maker.values.empty()) {
    const Op op = graph.at(value).op;
    refuse(kernel, named +
                       " is made by no kernel and no matmul, whose tiles could be waited for; " +
                       (ir::is_collective(op) ? "fuse it into a kernel of its own first"
                                              : "overlap with a step that computes"));
  }
  if (maker.kernel == nullptr) return;
  if (maker.kernel == &kernel) refuse(kernel, "it computes " + named + " itself");
  if (maker.kernel->kind == Fusion::Kind::computation) {
    refuse(kernel, maker.str(graph) +
                       " is of kind 'computation', which does not tell others of its tiles; a "
                       "matmul and a kernel with a collective do");
  }
  const Collective made = collective_of(graph, *maker.kernel);
  if (value == made.spread || graph.at(value).op == Op::all_reduce) return;
  if (!alike(graph, value, made.domain)) {
    refuse(kernel, "what arrives is " + describe(graph, value) + ", and " + maker.str(graph) +
                       " goes through " + describe(graph, made.domain) +
                       " tile by tile; overlap what it makes of that shape");
  }
  for (const ValueId half : {made.combine, made.spread}) {
    if (half < 0) continue;
    if (graph.at(half).op == Op::reduce || graph.at(half).op == Op::broadcast) {
      refuse(kernel, named + " is made beside " + quoted(graph, half) +
                         ", by one rank tile by tile and by others at once; overlap what the " +
                         "kernel spreads, or slice it with a reduce_scatter");
    }
  }
}

/// `kernel` must read `value` element by element.
void check_reader(const Graph& graph, const Fusion& kernel, ValueId value) {
  const Collective collective = collective_of(graph, kernel);
  bool read = false;
  for (const ValueId member : kernel.members) {
    const auto& operands = graph.at(member).operands;
    const bool reads = std::ranges::find(operands, value) != operands.end();
    if (reads && ir::reads_elsewhere(graph.at(member), value)) {
      refuse(kernel, quoted(graph, member) +
                         (ir::is_view(graph.at(member).op) ? " is a view of " : " gathers from ") +
                         quoted(graph, value) +
                         ", which the kernel reads in another order than its tiles are made");
    }
    read = read || reads;
  }
  if (!read) refuse(kernel, "it does not read " + quoted(graph, value));
  const bool combined =
      collective.combine >= 0 && graph.at(collective.combine).operands.front() == value;
  if (combined || alike(graph, value, collective.domain)) return;
  refuse(kernel, "what arrives is " + describe(graph, value) + ", and the kernel goes through " +
                     describe(graph, collective.domain) +
                     "; what arrives tile by tile lies in memory like that, or is what the kernel "
                     "reduces");
}

/// Whether another kernel takes tiles of what `kernel` makes.
bool hands_on(const Graph& graph, const Fusion& kernel) {
  return std::ranges::any_of(kernel.members, [&](ValueId member) { return graph.arrives(member); });
}

/// What runs at once exchanges chunks: in place a kernel begins when the operands of all ranks are
/// whole.
void refuse_multicast(const Graph& graph, const Fusion& kernel) {
  const bool sends = kernel.kind == Fusion::Kind::send;  // which does without
  if (sends || !uses_multicast(kernel.knobs)) return;
  if (kernel.arriving.empty() && !hands_on(graph, kernel)) return;
  refuse(kernel,
         "with the algorithm 'multimem' it begins when the operands of all ranks are whole; use "
         "'direct', 'ring' or 'tree', which exchange chunks");
}

/// Steps that run at once, in the order of what they hand on.
using Chain = std::vector<Stage>;

Chain chain_to(const Graph& graph, const Fusion& last) {
  Chain chain = {{&last, {last.members.begin(), last.members.end()}}};
  while (chain.front().kernel != nullptr && !chain.front().kernel->arriving.empty()) {
    chain.insert(chain.begin(), stage_of(graph, chain.front().kernel->arriving.front()));
    if (chain.size() > graph.fusions().size() + 1) refuse(last, "the steps wait for each other");
  }
  return chain;
}

void refuse_shortcuts(const Graph& graph, const Chain& chain) {
  for (const Stage& stage : chain) {
    for (const ValueId member : stage.values) {
      for (const ValueId operand : graph.at(member).operands) {
        const bool arrives_here =
            stage.kernel != nullptr && std::binary_search(stage.kernel->arriving.begin(),
                                                          stage.kernel->arriving.end(), operand);
        if (arrives_here || stage.values.contains(operand)) continue;
        for (const Stage& other : chain) {
          if (!other.values.contains(operand)) continue;
          refuse(*chain.back().kernel,
                 quoted(graph, member) + " reads " + quoted(graph, operand) + " of " +
                     other.str(graph) +
                     ", which runs at the same time; only the step before hands on its tiles");
        }
      }
    }
  }
}

/// Nothing may have to run between two steps that run at once.
std::set<ValueId> refuse_gaps(const Graph& graph, const Chain& chain,
                              const std::set<ValueId>& inside) {
  std::set<ValueId> after;  // outside, computed from the chain
  bool grew = true;
  const auto needs = [&](ValueId id) {
    const auto& operands = graph.at(id).operands;
    return std::ranges::any_of(operands, [&](ValueId operand) {
      return inside.contains(operand) || after.contains(operand);
    });
  };
  while (grew) {
    grew = false;
    for (ValueId id = 0; id < graph.size(); ++id) {
      if (inside.contains(id) || after.contains(id) || !needs(id)) continue;
      grew = true;
      after.insert(id);
      if (const Fusion* kernel = graph.fusion_of(id))
        after.insert(kernel->members.begin(), kernel->members.end());
    }
  }
  for (const Stage& stage : chain) {
    for (const ValueId member : stage.values) {
      for (const ValueId operand : graph.at(member).operands) {
        if (!after.contains(operand)) continue;
        refuse(*chain.back().kernel,
               "there is a gap: " + quoted(graph, operand) + " is computed from " +
                   chain.front().str(graph) + " and read by " + quoted(graph, member) + " of " +
                   stage.str(graph) + ", which runs at the same time; overlap fewer steps");
      }
    }
  }
  return after;
}

/// No step may write a state that another of the chain, or what comes after it, still reads.
void refuse_overwriting(const Graph& graph, const Chain& chain, const std::set<ValueId>& after) {
  const auto& users = graph.users();
  for (const Stage& stage : chain) {
    for (const ValueId update : stage.values) {
      if (graph.at(update).op != Op::update) continue;
      const ValueId state = graph.at(update).operands.front();
      for (const ValueId reader : users[state]) {
        const bool beside =
            !stage.values.contains(reader) && std::ranges::any_of(chain, [&](const Stage& other) {
              return other.values.contains(reader);
            });
        if (!beside && !after.contains(reader)) continue;
        refuse(*chain.back().kernel, stage.str(graph) + " writes state '" + graph.at(state).name +
                                         "', which " + quoted(graph, reader) +
                                         " reads at the same time or later; leave " +
                                         quoted(graph, update) + " out of the overlap");
      }
    }
  }
}

void check_chain(const Graph& graph, const Chain& chain) {
  std::set<ValueId> inside;
  const Fusion* reduces = nullptr;
  for (const Stage& stage : chain) {
    inside.insert(stage.values.begin(), stage.values.end());
    if (stage.kernel == nullptr) continue;
    for (const ValueId member : stage.kernel->members) {
      if (graph.at(member).op != Op::reduction || reduces == stage.kernel) continue;
      if (reduces != nullptr) {
        refuse(*chain.back().kernel, "kernels '" + reduces->name + "' and '" + stage.kernel->name +
                                         "' both hold reductions, at whose barriers all ranks "
                                         "meet; at most one of an overlap may");
      }
      reduces = stage.kernel;
    }
  }
  refuse_shortcuts(graph, chain);
  refuse_overwriting(graph, chain, refuse_gaps(graph, chain, inside));
}

}  // namespace

std::string Stage::str(const Graph& graph) const {
  return kernel != nullptr ? "kernel '" + kernel->name + "'" : quoted(graph, *values.begin());
}

Stage stage_of(const Graph& graph, ValueId value) {
  if (const Fusion* kernel = graph.fusion_of(value))
    return {kernel, {kernel->members.begin(), kernel->members.end()}};
  if (graph.at(value).op == Op::matmul) return {nullptr, {value}};
  return {};
}

std::vector<ValueId> read_of(const Graph& graph, const Fusion& kernel, const Stage& from) {
  std::set<ValueId> read;
  for (const ValueId member : kernel.members) {
    for (const ValueId operand : graph.at(member).operands) {
      if (from.values.contains(operand)) read.insert(operand);
    }
  }
  return {read.begin(), read.end()};
}

Graph without_overlap(Graph graph, const Overlap& overlap) {
  std::vector<Fusion> kernels = graph.fusions();
  for (Fusion& kernel : kernels) {
    if (overlap.takers.contains(kernel.name)) kernel.arriving.clear();
  }
  graph.set_fusions(std::move(kernels));
  return graph;
}

void check_overlaps(const Graph& graph) {
  std::set<ValueId> handed_on;  // a value of each step that hands on tiles
  for (const Fusion& kernel : graph.fusions()) {
    refuse_multicast(graph, kernel);
    if (kernel.arriving.empty()) continue;
    if (kernel.kind == Fusion::Kind::computation) {
      refuse(kernel,
             "it is of kind 'computation', which waits for no tiles; a kernel with a "
             "collective does");
    }
    const Stage maker = stage_of(graph, kernel.arriving.front());
    for (const ValueId value : kernel.arriving) {
      check_maker(graph, kernel, value, stage_of(graph, value));
      check_reader(graph, kernel, value);
      if (!maker.values.contains(value)) {
        refuse(kernel, quoted(graph, kernel.arriving.front()) + " and " + quoted(graph, value) +
                           " are made by two steps; a kernel takes tiles of one");
      }
    }
    if (!handed_on.insert(*maker.values.begin()).second) {
      refuse(kernel, maker.str(graph) +
                         " is overlapped with another kernel already; a step hands its tiles on "
                         "to one");
    }
  }
  for (const Fusion& kernel : graph.fusions()) {
    if (!kernel.arriving.empty() && !hands_on(graph, kernel))
      check_chain(graph, chain_to(graph, kernel));
  }
}

}  // namespace coconet::sched
