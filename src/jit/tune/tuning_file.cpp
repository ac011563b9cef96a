// The content of tuning files: their JSON, and what is found in them.
#include "jit/tune/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "coconet/error.h"
#include "ir/json/element.h"
#include "ir/json/text.h"
#include "ir/lists.h"
#include "jit/cache/digest.h"
#include "sched/schedule.h"

namespace coconet::jit {
namespace {

using ir::JsonElement;
using json = nlohmann::ordered_json;

constexpr int format_version = 1;

double positive(const JsonElement& element) {
  const double number = element.number();
  if (!(number > 0)) element.wrong_type("a number above 0");
  return number;
}

TuningFile::Choice parse_choice(const JsonElement& element) {
  element.require_object(
      {"sizes", "ms", "over_unfused", "schedule", "collectives", "preempted", "doubt"});
  TuningFile::Choice choice;
  for (const auto& [name, extent] : element.at("sizes").members())
    choice.sizes[name] = extent.integer(1);
  choice.ms = positive(element.at("ms"));
  choice.over_unfused = positive(element.at("over_unfused"));
  choice.schedule = sched::to_json(sched::parse_schedule(element.at("schedule")));
  if (const auto collectives = element.find("collectives")) {
    choice.collectives_by_mpi = collectives->string() == "mpi";
    if (!choice.collectives_by_mpi)
      collectives->fail(fmt::format("'{}' is none of the ways that collectives are kept to; mpi is",
                                    collectives->string()));
  }
  if (const auto preempted = element.find("preempted")) {
    choice.preempted = preempted->number();
    if (!(choice.preempted >= 0 && choice.preempted <= 1)) preempted->wrong_type("a share, 0 to 1");
  }
  if (const auto doubt = element.find("doubt")) choice.doubt = doubt->string();
  return choice;
}

/// Who measured, on what.
TuningFile parse_origin(const JsonElement& root) {
  if (!root.is_object()) root.wrong_type("an object with the key coconet_tuning and others");
  root.require_version("coconet_tuning", format_version);
  TuningFile file;
  file.library = root.at("library").string();
  file.device = root.at("device").string();
  return file;
}

TuningFile parse_root(const JsonElement& root) {
  TuningFile file = parse_origin(root);
  root.require_object(
      {"coconet_tuning", "library", "device", "machines", "begun", "programs"});
  for (const bool is_begun : {false, true}) {
    const auto machines = root.find(is_begun ? "begun" : "machines");
    if (!machines) continue;
    for (const JsonElement& machine : machines->elements()) {
      const sched::Cluster cluster = sched::parse_cluster(machine, is_begun);
      (is_begun ? file.begun : file.machines)[cluster.ranks()] = cluster;
    }
  }
  if (const auto programs = root.find("programs")) {
    for (const JsonElement& program : programs->elements()) {
      program.require_object({"name", "digest", "choices"});
      file.programs.push_back({program.at("name").string(), program.at("digest").name(), {}});
      for (const JsonElement& choice : program.at("choices").elements())
        file.programs.back().choices.push_back(parse_choice(choice));
    }
  }
  return file;
}

TuningFile parse_by(std::string_view text, TuningFile (*parse)(const JsonElement& root)) {
  try {
    return parse(ir::parse_json(text, "tuning JSON"));
  } catch (const ProgramError& error) {
    throw ConfigError(error.what());
  }
}

/// How far `sizes` are from what was measured: the sum of the binary logarithms of the extents'
/// ratios; nothing where one is beyond a factor of 2, but for numbers of buffers, or the dimensions
/// are others.
std::optional<double> distance(const Sizes& measured, const Sizes& sizes) {
  if (measured.size() != sizes.size()) return {};
  double sum = 0;
  for (const auto& [name, extent] : measured) {
    const auto found = sizes.find(name);
    if (found == sizes.end()) return {};
    const double steps =
        std::abs(std::log2(static_cast<double>(found->second) / static_cast<double>(extent)));
    if (!(steps <= 1) && ir::counted_by(Dim(name, 0)).empty()) return {};
    sum += steps;
  }
  return sum;
}

}  // namespace

const TuningFile::TunedProgram* TuningFile::find(std::string_view digest) const {
  const auto found = std::ranges::find(programs, digest, &TunedProgram::digest);
  return found == programs.end() ? nullptr : &*found;
}

const sched::Cluster* TuningFile::machine(int ranks, int cores) const {
  const auto found = machines.find(ranks);
  return found == machines.end() || found->second.cores != cores ? nullptr : &found->second;
}

void TuningFile::set(const std::string& name, const std::string& digest, Choice choice) {
  auto program = std::ranges::find(programs, digest, &TunedProgram::digest);
  if (program == programs.end())
    program = programs.insert(programs.end(), TunedProgram{name, digest, {}});
  std::erase_if(program->choices, [&](const Choice& one) { return one.sizes == choice.sizes; });
  program->choices.push_back(std::move(choice));
}

std::string digest_of(const Program& program, int cores) {
  return sha256_hex(program.json() + (cores > 1 ? fmt::format("{} cores", cores) : ""));
}

const TuningFile::Choice* nearest_choice(const TuningFile::TunedProgram& program,
                                         const Sizes& sizes) {
  const TuningFile::Choice* nearest = nullptr;
  double least = 0;
  for (const TuningFile::Choice& choice : program.choices) {
    const auto far = distance(choice.sizes, sizes);
    if (!far || (nearest != nullptr && *far >= least)) continue;
    nearest = &choice;
    least = *far;
  }
  return nearest;
}

TuningFile parse_tuning(std::string_view text) {
  return parse_by(text, parse_root);
}

TuningFile parse_tuning_origin(std::string_view text) {
  return parse_by(text, parse_origin);
}

std::string to_json(const TuningFile& file) {
  json out;
  out["coconet_tuning"] = format_version;
  out["library"] = file.library;
  out["device"] = file.device;
  out["machines"] = json::array();
  for (const auto& [ranks, cluster] : file.machines)
    out["machines"].push_back(ir::json_of(sched::to_json(cluster)));
  for (const auto& [ranks, cluster] : file.begun)
    out["begun"].push_back(ir::json_of(sched::to_json(cluster)));
  out["programs"] = json::array();
  for (const TuningFile::TunedProgram& program : file.programs) {
    json choices = json::array();
    for (const TuningFile::Choice& choice : program.choices) {
      choices.push_back({{"sizes", choice.sizes},
                         {"ms", choice.ms},
                         {"over_unfused", choice.over_unfused},
                         {"schedule", ir::json_of(choice.schedule)}});
      if (choice.collectives_by_mpi) choices.back()["collectives"] = "mpi";
      if (choice.preempted > 0) choices.back()["preempted"] = choice.preempted;
      if (!choice.doubt.empty()) choices.back()["doubt"] = choice.doubt;
    }
    out["programs"].push_back(
        {{"name", program.name}, {"digest", program.digest}, {"choices", std::move(choices)}});
  }
  return ir::json_text(out, 1) + "\n";
}

}  // namespace coconet::jit
