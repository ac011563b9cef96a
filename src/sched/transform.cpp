// The table of transformations, and the checks of a step against its schema.
#include "sched/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "coconet/error.h"
#include "sched/kernels.h"
#include "sched/overlaps.h"
#include "sched/patterns.h"

namespace coconet::sched {

namespace {

constexpr const Transformation* table[] = {
#define COCONET_TRANSFORMATION(name) &name##_transformation,
#include "sched/transforms.def"
#undef COCONET_TRANSFORMATION
};

std::string_view kind_name(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::text:
      return "a string";
    case Parameter::Kind::list:
      return "a list of strings";
    case Parameter::Kind::integer:
      return "a whole number";
  }
  return "";
}

Argument parse_fallback(const Parameter& parameter) {
  switch (parameter.kind) {
    case Parameter::Kind::text:
      return std::string(parameter.fallback);
    case Parameter::Kind::list:
      return std::vector<std::string>{};
    case Parameter::Kind::integer:
      break;
  }
  std::int64_t number = 0;
  std::from_chars(parameter.fallback.data(), parameter.fallback.data() + parameter.fallback.size(),
                  number);
  return number;
}

void check_choice(const Step& step, const Parameter& parameter, const Argument& argument) {
  if (parameter.choices.empty()) return;
  const std::string& text = std::get<std::string>(argument);
  if (std::find(parameter.choices.begin(), parameter.choices.end(), text) !=
      parameter.choices.end())
    return;
  std::string accepted;
  for (const std::string_view choice : parameter.choices) {
    if (choice.empty()) continue;
    accepted += (accepted.empty() ? "" : ", ") + (fmt::format("'{}'", choice));
  }
  throw ScheduleError(fmt::format("{}: '{}' is '{}'; it takes {}", step.transformation,
                                  parameter.name, text, accepted));
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return "[" + text + "]";
}

}  // namespace

const std::string& Step::text(std::string_view name) const {
  return std::get<std::string>(arguments.find(name)->second);
}
const std::vector<std::string>& Step::list(std::string_view name) const {
  return std::get<std::vector<std::string>>(arguments.find(name)->second);
}
std::int64_t Step::integer(std::string_view name) const {
  return std::get<std::int64_t>(arguments.find(name)->second);
}

std::span<const Transformation* const> transformations() {
  return table;
}

const Transformation* find_transformation(std::string_view name) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const Transformation* row) { return row->name == name; });
  return found == std::end(table) ? nullptr : *found;
}

ir::Graph transform(const ir::Graph& graph, const Step& step) {
  const Step completed = complete(step);
  const auto apply = find_transformation(completed.transformation)->apply;
  const std::vector<Step> steps = expand(graph, completed);
  ir::Graph after = apply(graph, steps.front());
  for (const Step& next : std::span(steps).subspan(1)) after = apply(after, next);
  check_kernels(after);
  check_overlaps(after);
  return after;
}

std::string legal(const ir::Graph& graph, const Step& step) {
  try {
    (void)transform(graph, step);
    return {};
  } catch (const ScheduleError& error) {
    return error.what();
  } catch (const ProgramError& error) {
    return error.what();
  }
}

Step complete(Step step) {
  const Transformation* transformation = find_transformation(step.transformation);
  if (transformation == nullptr) {
    std::vector<std::string> known;
    for (const Transformation* row : table) known.emplace_back(row->name);
    const std::string near = ir::nearest(step.transformation, known);
    throw ScheduleError(
        "there is no transformation '" + step.transformation + "'; " +
        (near.empty() ? "known are " + join(known) : "did you mean '" + near + "'?"));
  }
  std::vector<std::string> known;
  for (const Parameter& parameter : transformation->parameters) known.emplace_back(parameter.name);
  for (const auto& [name, argument] : step.arguments) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ScheduleError(step.transformation + " has no parameter '" + name + "'; it takes " +
                          join(known));
    }
  }
  for (const Parameter& parameter : transformation->parameters) {
    const auto found = step.arguments.find(parameter.name);
    if (found == step.arguments.end()) {
      if (parameter.required) {
        throw ScheduleError(fmt::format("{} needs '{}': {}", step.transformation, parameter.name,
                                        parameter.summary));
      }
      step.arguments.emplace(parameter.name, parse_fallback(parameter));
      continue;
    }
    if (found->second.index() != static_cast<std::size_t>(parameter.kind)) {
      throw ScheduleError(fmt::format("{}: '{}' must be {}: {}", step.transformation,
                                      parameter.name, kind_name(parameter.kind),
                                      parameter.summary));
    }
    check_choice(step, parameter, found->second);
  }
  return step;
}

std::string to_string(const Step& step) {
  std::string text = step.transformation;
  const Transformation* transformation = find_transformation(step.transformation);
  if (transformation == nullptr) return text;
  for (const Parameter& parameter : transformation->parameters) {
    const auto found = step.arguments.find(parameter.name);
    if (found == step.arguments.end()) continue;
    if (!parameter.required && found->second == parse_fallback(parameter)) continue;
    text += fmt::format(" {}=", parameter.name);
    if (const auto* word = std::get_if<std::string>(&found->second)) text += *word;
    if (const auto* words = std::get_if<std::vector<std::string>>(&found->second))
      text += join(*words);
    if (const auto* number = std::get_if<std::int64_t>(&found->second))
      text += std::to_string(*number);
  }
  return text;
}

ir::ValueId require_value(const ir::Graph& graph, std::string_view name) {
  try {
    return graph.require(name);
  } catch (const ProgramError& error) {
    throw ScheduleError(error.what());
  }
}

std::string quoted(const ir::Graph& graph, ir::ValueId id) {
  return fmt::format("'{}' ({})", graph.at(id).name, to_string(graph.at(id).op));
}

}  // namespace coconet::sched
