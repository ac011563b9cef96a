// Checks and defaults of knobs, and their combinations.
#include "sched/knobs.h"

#include <fmt/format.h>

#include <string>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"

namespace coconet::sched {

namespace {

std::string quoted_choices(const ir::KnobRow& row) {
  std::string known;
  for (const KnobChoice& choice : row.choices)
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", choice.name);
  return known;
}

}  // namespace

Knobs with_defaults(Knobs knobs) {
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (row.text != nullptr && !row.is_set(knobs)) knobs.*row.text = row.choices.front().name;
  }
  return knobs;
}

void check_knobs(const Knobs& knobs) {
  for (const ir::KnobRow& row : ir::knob_table()) {
    Knobs parsed;
    const std::string value = row.value(knobs);
    if (!row.is_set(knobs) || row.parse(value, parsed)) continue;
    throw ScheduleError(
        row.text != nullptr
            ? fmt::format("'{}' is '{}'; it takes {}", row.name, value, quoted_choices(row))
            : fmt::format("'{}' is {}; it must be {}, or 0", row.name, value, row.accepted));
  }
}

bool works_in_place(const Knobs& knobs) {
  const Knobs chosen = with_defaults(knobs);
  return (chosen.algorithm == "direct" && chosen.protocol == "simple") || uses_multicast(knobs);
}

bool uses_multicast(const Knobs& knobs) {
  return knobs.algorithm == "multimem";
}

std::string conflict_in(const Knobs& knobs) {
  const Knobs chosen = with_defaults(knobs);
  if (!uses_multicast(chosen) || chosen.protocol == "simple") return {};
  return "the algorithm 'multimem' works in place, and the protocol '" + chosen.protocol +
         "' is one of mailboxes; use the protocol 'simple', or the algorithm 'direct'";
}

Program with_knobs(const Program& program, const Knobs& set) {
  if (set == Knobs{}) return program;
  auto graph = std::make_shared<ir::Graph>(*ir::graph_of(program));
  std::vector<ir::Fusion> fusions = graph->fusions();
  for (ir::Fusion& fusion : fusions) {
    for (const ir::KnobRow& row : ir::knob_table()) {
      if (row.is_set(set)) row.set(fusion.knobs, set);
    }
  }
  graph->set_fusions(std::move(fusions));
  return ir::program_of(std::move(graph));
}

}  // namespace coconet::sched
