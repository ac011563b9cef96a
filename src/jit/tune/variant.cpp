// Variants as schedules, and their neighbours.
#include "jit/tune/variant.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet::jit {
namespace {

/// Whether the candidate has a kernel that exchanges data.
bool exchanges(const sched::Candidate& candidate) {
  return std::ranges::any_of(candidate.steps, [](const sched::Step& step) {
    return step.transformation == "fuse" && step.text("kind") != "computation";
  });
}

}  // namespace

std::vector<Variant> knob_variants(const sched::Space& space, const Variant& best,
                                   const Traits& traits, int round) {
  std::vector<Variant> variants;
  const auto add = [&](const Knobs& knobs) {
    if (knobs != best.knobs && sched::conflict_in(knobs).empty())
      variants.push_back({best.candidate, knobs});
  };
  if (!exchanges(space.candidates[best.candidate])) return variants;
  Knobs knobs = best.knobs;
  if (round == 0) {
    for (const ir::KnobChoice& algorithm : ir::algorithm_choices) {
      if (algorithm.name == "multimem" && !traits.needs_multicast) continue;
      for (const ir::KnobChoice& protocol : ir::protocol_choices) {
        knobs.algorithm = algorithm.name;
        knobs.protocol = protocol.name;
        // The first of each is what a kernel has without knobs.
        if (algorithm.name != ir::algorithm_choices[0].name ||
            protocol.name != ir::protocol_choices[0].name)
          add(knobs);
      }
    }
    return variants;
  }
  const auto add_each = [&](int Knobs::*knob, std::initializer_list<int> values) {
    for (const int value : values) {
      knobs = best.knobs;
      knobs.*knob = value;
      add(knobs);
    }
  };
  if (!sched::works_in_place(best.knobs)) add_each(&Knobs::chunk_bytes, {8192, 131072});
  if (traits.fixed_threads == 0) {  // a GPU; the width of a processor's vectors is its own
    add_each(&Knobs::vector_bytes, {8, 32});
    add_each(&Knobs::threads, {128, 512});
  }
  return variants;
}

std::string describe(const sched::Space& space, const Variant& variant) {
  std::string text = sched::to_string(space.candidates[variant.candidate].steps);
  if (text.empty()) text = "no steps";
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (row.is_set(variant.knobs))
      text += fmt::format("; {} {}", row.name, row.value(variant.knobs));
  }
  if (variant.by_mpi) text += "; collectives by MPI (COCONET_COLLECTIVES=mpi)";
  return text;
}

Schedule schedule_of(const sched::Space& space, const Variant& variant, const std::string& name) {
  sched::Steps steps{name, space.candidates[variant.candidate].steps, {}};
  for (sched::Step& step : steps.steps) {
    if (step.transformation != "fuse") continue;
    for (const ir::KnobRow& row : ir::knob_table()) {
      if (!row.is_set(variant.knobs)) continue;
      step.arguments[std::string(row.name)] =
          row.text != nullptr ? sched::Argument(variant.knobs.*row.text)
                              : sched::Argument(std::int64_t{variant.knobs.*row.number});
    }
  }
  return Schedule::parse(sched::to_json(steps));
}

}  // namespace coconet::jit
