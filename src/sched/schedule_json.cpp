// Schedule <-> JSON, and the JSON Schema, all three from the parameter schemas of the
// transformations.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coconet/error.h"
#include "ir/json/element.h"
#include "ir/json/text.h"
#include "sched/schedule.h"

namespace coconet::sched {

namespace {

using json = nlohmann::ordered_json;

constexpr int format_version = 1;
constexpr std::string_view why_key = "why";

using ir::JsonElement;

std::string text_argument(const JsonElement& element, const Parameter& parameter) {
  const std::string text = element.string();
  const auto& choices = parameter.choices;
  if (choices.empty() || std::ranges::find(choices, text) != choices.end()) return text;
  std::vector<std::string> known;
  for (const std::string_view choice : choices) {
    if (!choice.empty()) known.emplace_back(choice);
  }
  element.unknown(parameter.name, text, known);
}

Argument parse_argument(const JsonElement& element, const Parameter& parameter) {
  if (parameter.kind == Parameter::Kind::text) return text_argument(element, parameter);
  if (parameter.kind == Parameter::Kind::integer) return element.integer(0);
  std::vector<std::string> list;
  for (const JsonElement& item : element.elements()) list.push_back(item.string());
  return list;
}

const Transformation& parse_transformation(const std::string& name, const JsonElement& step) {
  if (const Transformation* known = find_transformation(name)) return *known;
  std::vector<std::string> names;
  for (const Transformation* row : transformations()) names.emplace_back(row->name);
  step.unknown("transformation", name, names);
}

Step parse_step(const JsonElement& element) {
  auto members =
      element.is_object() ? element.members() : std::vector<std::pair<std::string, JsonElement>>();
  std::erase_if(members, [](const auto& member) { return member.first == why_key; });
  if (members.size() != 1) {
    element.wrong_type(
        "an object with one key, the transformation: {\"split\": {\"op\": \"avg\"}}, and perhaps "
        "a text, \"why\"");
  }
  const auto [name, arguments] = members.front();
  const Transformation& transformation = parse_transformation(name, element);
  std::vector<std::string_view> keys;
  for (const Parameter& parameter : transformation.parameters) keys.push_back(parameter.name);
  arguments.require_object(keys);
  Step step{name, {}};
  if (const auto why = element.find(why_key)) step.why = why->string();
  for (const Parameter& parameter : transformation.parameters) {
    if (const auto argument = arguments.find(parameter.name)) {
      step.arguments.emplace(parameter.name, parse_argument(*argument, parameter));
    } else if (parameter.required) {
      arguments.fail(fmt::format("the key '{}' is missing: {}", parameter.name, parameter.summary));
    }
  }
  return complete(std::move(step));
}

Steps parse_root(const JsonElement& root) {
  if (!root.is_object())
    root.wrong_type("an object with the keys coconet_schedule, name and steps");
  root.require_version("coconet_schedule", format_version);
  root.require_object({"$schema", "coconet_schedule", "name", "description", "automatic", "steps"});
  if (const auto description = root.find("description")) (void)description->string();
  Steps steps;
  steps.name = root.at("name").string();
  if (const auto automatic = root.find("automatic")) {
    steps.is_automatic = automatic->boolean();
    if (!steps.is_automatic) automatic->fail("it can only be true; a schedule has steps otherwise");
    if (root.find("steps")) root.at("steps").fail("an automatic schedule has no steps of its own");
    return steps;
  }
  for (const JsonElement& step : root.at("steps").elements())
    steps.steps.push_back(parse_step(step));
  return steps;
}

json as_json(const Steps& steps) {
  json out;
  out["coconet_schedule"] = format_version;
  out["name"] = steps.name;
  if (steps.is_automatic) {
    out["automatic"] = true;
    return out;
  }
  out["steps"] = json::array();
  for (const Step& step : steps.steps) {
    json arguments = json::object();
    for (const Parameter& parameter : find_transformation(step.transformation)->parameters) {
      const Argument& argument = step.arguments.find(parameter.name)->second;
      if (!parameter.required && argument == fallback_of(parameter)) continue;
      std::visit([&](const auto& held) { arguments[std::string(parameter.name)] = held; },
                 argument);
    }
    json written = {{step.transformation, std::move(arguments)}};
    if (!step.why.empty()) written[std::string(why_key)] = step.why;
    out["steps"].push_back(std::move(written));
  }
  return out;
}

}  // namespace

std::string to_json(const Steps& steps) {
  try {
    return ir::json_text(as_json(steps), 2) + "\n";
  } catch (const json::type_error&) {
    throw ScheduleError("schedule '" + steps.name +
                        "' cannot be written as JSON, which is UTF-8: a text in it is not");
  }
}

Steps parse_schedule(const JsonElement& element) {
  return parse_root(element);
}

Steps parse_schedule(std::string_view text) {
  try {
    return parse_root(ir::parse_json(text, "schedule JSON"));
  } catch (const ProgramError& error) {
    throw ScheduleError(error.what());
  }
}

namespace {

json schema_of(const Parameter& parameter) {
  json property;
  property["description"] = parameter.summary;
  constexpr std::string_view types[] = {"string", "array", "integer"};
  property["type"] = types[static_cast<std::size_t>(parameter.kind)];
  if (parameter.kind == Parameter::Kind::integer) property["minimum"] = 0;
  if (parameter.kind == Parameter::Kind::list) property["items"] = {{"type", "string"}};
  if (!parameter.choices.empty()) property["enum"] = parameter.choices;
  return property;
}

json schema_of(const Transformation& transformation) {
  json properties = json::object();
  json required = json::array();
  for (const Parameter& parameter : transformation.parameters) {
    if (parameter.required) required.push_back(parameter.name);
    properties[std::string(parameter.name)] = schema_of(parameter);
  }
  const json arguments = {{"type", "object"},
                          {"properties", std::move(properties)},
                          {"required", std::move(required)},
                          {"additionalProperties", false}};
  return {{"type", "object"},
          {"description", transformation.summary},
          {"properties",
           {{std::string(transformation.name), arguments},
            {std::string(why_key),
             {{"type", "string"}, {"description", "why the step is there, for people"}}}}},
          {"required", {transformation.name}},
          {"additionalProperties", false}};
}

}  // namespace

std::string json_schema() {
  json steps = json::array();
  for (const Transformation* transformation : transformations())
    steps.push_back(schema_of(*transformation));
  const json automatic = {
      {"const", true},
      {"description", "compile chooses the steps: those of the quickest schedule that is known"}};
  const json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "coconet-jit schedule"},
                       {"type", "object"},
                       {"properties",
                        {{"$schema", {{"type", "string"}}},
                         {"coconet_schedule",
                          {{"const", format_version}, {"description", "version of this format"}}},
                         {"name", {{"type", "string"}}},
                         {"description", {{"type", "string"}}},
                         {"automatic", automatic},
                         {"steps", {{"type", "array"}, {"items", {{"oneOf", std::move(steps)}}}}}}},
                       {"required", {"coconet_schedule", "name"}},
                       {"oneOf", {{{"required", {"steps"}}}, {{"required", {"automatic"}}}}},
                       {"additionalProperties", false}};
  return ir::json_text(schema, 2) + "\n";
}

}  // namespace coconet::sched
