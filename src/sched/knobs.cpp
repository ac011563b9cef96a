// Names, ranges and defaults of knobs.
#include "sched/knobs.h"

#include <algorithm>
#include <string>

#include "coconet/error.h"
#include "ir/graph.h"

namespace coconet::sched {

namespace {

constexpr KnobChoice algorithms[] = {
#define COCONET_ALGORITHM(name, summary) {#name, summary},
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
};
constexpr KnobChoice protocols[] = {
#define COCONET_PROTOCOL(name, summary) {#name, summary},
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL
};

void check_name(std::string_view knob, const std::string& name,
                std::span<const KnobChoice> choices) {
  if (name.empty()) return;
  std::string known;
  for (const KnobChoice& choice : choices) {
    if (choice.name == name) return;
    known += (known.empty() ? "'" : ", '") + std::string(choice.name) + "'";
  }
  throw ScheduleError("'" + std::string(knob) + "' is '" + name + "'; it takes " + known);
}

void refuse(std::string_view knob, int value, const std::string& accepted) {
  throw ScheduleError("'" + std::string(knob) + "' is " + std::to_string(value) + "; it must be " +
                      accepted + ", or 0");
}

bool is_power_of_two(int value) {
  return value > 0 && (value & (value - 1)) == 0;
}

}  // namespace

std::span<const KnobChoice> algorithm_choices() {
  return algorithms;
}
std::span<const KnobChoice> protocol_choices() {
  return protocols;
}

Knobs with_defaults(Knobs knobs) {
  if (knobs.algorithm.empty()) knobs.algorithm = algorithms[0].name;
  if (knobs.protocol.empty()) knobs.protocol = protocols[0].name;
  return knobs;
}

void check_knobs(const Knobs& knobs) {
  check_name("algorithm", knobs.algorithm, algorithms);
  check_name("protocol", knobs.protocol, protocols);
  if (knobs.channels < 0 || knobs.channels > 1024) refuse("channels", knobs.channels, "1 to 1024");
  if (knobs.threads < 0 || knobs.threads > 1024 || knobs.threads % 32 != 0)
    refuse("threads", knobs.threads, "a multiple of 32 up to 1024");
  if (knobs.vector_bytes != 0 &&
      (!is_power_of_two(knobs.vector_bytes) || knobs.vector_bytes < 4 || knobs.vector_bytes > 64))
    refuse("vector_bytes", knobs.vector_bytes, "4, 8, 16, 32 or 64");
  if (knobs.chunk_bytes != 0 && (!is_power_of_two(knobs.chunk_bytes) || knobs.chunk_bytes < 1024 ||
                                 knobs.chunk_bytes > 1 << 20))
    refuse("chunk_bytes", knobs.chunk_bytes, "a power of two from 1024 to 1048576");
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
  auto graph = std::make_shared<ir::Graph>(*program.graph());
  for (ir::Fusion& fusion : graph->fusions) {
    Knobs& knobs = fusion.knobs;
    if (!set.algorithm.empty()) knobs.algorithm = set.algorithm;
    if (!set.protocol.empty()) knobs.protocol = set.protocol;
    if (set.channels != 0) knobs.channels = set.channels;
    if (set.threads != 0) knobs.threads = set.threads;
    if (set.vector_bytes != 0) knobs.vector_bytes = set.vector_bytes;
    if (set.chunk_bytes != 0) knobs.chunk_bytes = set.chunk_bytes;
  }
  return Program(std::move(graph));
}

}  // namespace coconet::sched
