// Schedule <-> JSON, and the JSON Schema, all three from the parameter schemas of the transformations.
#include <nlohmann/json.hpp>

#include "coconet/error.h"
#include "sched/schedule.h"

namespace coconet::sched {

namespace {

using json = nlohmann::ordered_json;

constexpr int format_version = 1;

[[noreturn]] void fail(const std::string& pointer, const std::string& message) {
  throw ScheduleError("schedule at " + (pointer.empty() ? "/" : pointer) + ": " + message);
}

Argument parse_argument(const json& value, const std::string& pointer) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_array()) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_string()) fail(pointer + "/" + std::to_string(i), "must be a string, a value's name");
      list.push_back(value[i].get<std::string>());
    }
    return list;
  }
  fail(pointer, "is " + std::string(value.type_name()) + "; it must be a string, a whole number or a list of strings");
}

Step parse_step(const json& value, const std::string& pointer) {
  if (!value.is_object() || value.size() != 1) {
    fail(pointer, "a step is an object with one key, the transformation: {\"split\": {\"op\": \"avg\"}}");
  }
  Step step;
  step.transformation = value.begin().key();
  const json& arguments = value.begin().value();
  const std::string inner = pointer + "/" + step.transformation;
  if (!arguments.is_object()) fail(inner, "must be an object of parameters");
  for (const auto& [key, argument] : arguments.items()) {
    step.arguments[key] = parse_argument(argument, inner + "/" + key);
  }
  try {
    return complete(std::move(step));
  } catch (const ScheduleError& error) {
    fail(inner, error.what());
  }
}

}  // namespace

std::string to_json(const Schedule::Steps& steps) {
  json out;
  out["coconet_schedule"] = format_version;
  out["name"] = steps.name;
  out["steps"] = json::array();
  for (const Step& step : steps.steps) {
    json arguments = json::object();
    for (const Parameter& parameter : find_transformation(step.transformation)->parameters) {
      const Argument& argument = step.arguments.find(parameter.name)->second;
      const bool is_fallback =
          !parameter.required &&
          std::visit(
              [&](const auto& held) {
                using Held = std::decay_t<decltype(held)>;
                if constexpr (std::is_same_v<Held, std::string>) return held == parameter.fallback;
                if constexpr (std::is_same_v<Held, std::int64_t>) return std::to_string(held) == parameter.fallback;
                return false;
              },
              argument);
      if (is_fallback) continue;
      std::visit([&](const auto& held) { arguments[std::string(parameter.name)] = held; }, argument);
    }
    out["steps"].push_back({{step.transformation, std::move(arguments)}});
  }
  return out.dump(2) + "\n";
}

Schedule::Steps parse_schedule(std::string_view text) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& error) {
    throw ScheduleError("the schedule is not JSON: " + std::string(error.what()));
  }
  if (!root.is_object()) fail("", "must be an object with 'coconet_schedule', 'name' and 'steps'");
  for (const auto& [key, value] : root.items()) {
    if (key != "coconet_schedule" && key != "name" && key != "steps" && key != "$schema" && key != "description") {
      fail("/" + key, "is unknown; known are coconet_schedule, name, description, steps and $schema");
    }
  }
  if (!root.contains("coconet_schedule")) {
    fail("", "'coconet_schedule' is missing: the format's version, " + std::to_string(format_version));
  }
  if (root["coconet_schedule"] != format_version) {
    fail("/coconet_schedule", "is " + root["coconet_schedule"].dump() + "; this library reads version " +
                                  std::to_string(format_version));
  }
  Schedule::Steps steps;
  if (!root.contains("name") || !root["name"].is_string()) fail("/name", "must be a string");
  steps.name = root["name"].get<std::string>();
  if (!root.contains("steps") || !root["steps"].is_array()) fail("/steps", "must be a list of steps");
  for (std::size_t i = 0; i < root["steps"].size(); ++i) {
    steps.steps.push_back(parse_step(root["steps"][i], "/steps/" + std::to_string(i)));
  }
  return steps;
}

std::string json_schema() {
  json steps = json::array();
  for (const Transformation* transformation : transformations()) {
    json properties = json::object();
    json required = json::array();
    for (const Parameter& parameter : transformation->parameters) {
      json property;
      property["description"] = parameter.summary;
      switch (parameter.kind) {
        case Parameter::Kind::text: property["type"] = "string"; break;
        case Parameter::Kind::integer: property["type"] = "integer"; break;
        case Parameter::Kind::list:
          property["type"] = "array";
          property["items"] = {{"type", "string"}};
          break;
      }
      if (!parameter.choices.empty()) property["enum"] = parameter.choices;
      if (parameter.required) required.push_back(parameter.name);
      properties[std::string(parameter.name)] = std::move(property);
    }
    const json arguments = {{"type", "object"},
                            {"properties", std::move(properties)},
                            {"required", std::move(required)},
                            {"additionalProperties", false}};
    steps.push_back({{"type", "object"},
                     {"description", transformation->summary},
                     {"properties", {{std::string(transformation->name), arguments}}},
                     {"required", {transformation->name}},
                     {"additionalProperties", false}});
  }
  const json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "coconet-jit schedule"},
      {"type", "object"},
      {"properties",
       {{"$schema", {{"type", "string"}}},
        {"coconet_schedule", {{"const", format_version}, {"description", "version of this format"}}},
        {"name", {{"type", "string"}}},
        {"description", {{"type", "string"}}},
        {"steps", {{"type", "array"}, {"items", {{"oneOf", std::move(steps)}}}}}}},
      {"required", {"coconet_schedule", "name", "steps"}},
      {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

}  // namespace coconet::sched
