// Typed access to a JSON document with errors that say where.
#include "ir/json/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "coconet/error.h"
#include "ir/graph.h"

namespace coconet::ir {

struct JsonElement::Document {
  std::string what;
  nlohmann::json json;
};

namespace {

const nlohmann::json& typed(const void* json) {
  return *static_cast<const nlohmann::json*>(json);
}

// RFC 6901: "~" and "/" in keys are escaped.
std::string pointer_token(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

std::string type_text(const nlohmann::json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "an array";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "true or false";
    default:
      return "the number " + json.dump();
  }
}

// The library's messages read "[json.exception...] parse error at line 1, column 2: syntax error
// ...".
std::string reason_of(const std::string& what) {
  const auto column = what.find(", column ");
  const auto start = column == std::string::npos ? what.find("] ") : what.find(": ", column);
  return start == std::string::npos ? what : what.substr(start + 2);
}

}  // namespace

void JsonElement::fail(const std::string& message) const {
  throw ProgramError(document_->what + (pointer_.empty() ? "" : " at " + pointer_) + ": " +
                     message);
}

void JsonElement::require_object(const std::vector<std::string_view>& keys) const {
  if (!typed(json_).is_object()) wrong_type("an object");
  for (const auto& [key, member] : members()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    member.unknown("key", key, {keys.begin(), keys.end()});
  }
}

void JsonElement::require_version(std::string_view key, int version) const {
  const JsonElement written = at(key);
  if (written.integer(1) == version) return;
  written.fail(fmt::format("version {} is unknown; this library reads version {}",
                           written.integer(1), version));
}

std::optional<JsonElement> JsonElement::find(std::string_view key) const {
  const auto found = typed(json_).find(key);
  if (found == typed(json_).end()) return std::nullopt;
  return JsonElement(document_, &*found, pointer_ + "/" + pointer_token(key));
}

JsonElement JsonElement::at(std::string_view key) const {
  auto found = find(key);
  if (!found) fail(fmt::format("the key '{}' is missing", key));
  return *std::move(found);
}

std::vector<JsonElement> JsonElement::elements() const {
  if (!typed(json_).is_array()) wrong_type("an array");
  std::vector<JsonElement> result;
  for (const auto& element : typed(json_)) {
    result.emplace_back(document_, &element, fmt::format("{}/{}", pointer_, result.size()));
  }
  return result;
}

std::vector<std::pair<std::string, JsonElement>> JsonElement::members() const {
  std::vector<std::pair<std::string, JsonElement>> result;
  for (const auto& member : typed(json_).items()) {
    result.emplace_back(member.key(), JsonElement(document_, &member.value(),
                                                  pointer_ + "/" + pointer_token(member.key())));
  }
  return result;
}

bool JsonElement::is_string() const {
  return typed(json_).is_string();
}
bool JsonElement::is_number() const {
  return typed(json_).is_number();
}
bool JsonElement::is_object() const {
  return typed(json_).is_object();
}

std::string JsonElement::string() const {
  if (!typed(json_).is_string()) wrong_type("a string");
  return typed(json_).get<std::string>();
}

std::string JsonElement::name() const {
  std::string text = string();
  if (text.empty()) fail("is empty; it must be a name");
  return text;
}

double JsonElement::number() const {
  const nlohmann::json& json = typed(json_);
  if (!json.is_number()) wrong_type("a number");
  const auto held = json.get<double>();
  const bool is_exact =
      json.is_number_unsigned()
          ? held < 0x1p64 && static_cast<std::uint64_t>(held) == json.get<std::uint64_t>()
          : !json.is_number_integer() ||
                static_cast<std::int64_t>(held) == json.get<std::int64_t>();
  if (!is_exact) {
    fail(fmt::format("is {}, which no double holds, as numbers must be; the nearest is {:.0f}",
                     json.dump(), held));
  }
  return held;
}

bool JsonElement::boolean() const {
  if (!typed(json_).is_boolean()) wrong_type("true or false");
  return typed(json_).get<bool>();
}

std::int64_t JsonElement::integer(std::int64_t least) const {
  const std::string expected = fmt::format("a whole number of at least {}", least);
  if (!typed(json_).is_number_integer()) wrong_type(expected);
  const bool too_large =
      typed(json_).is_number_unsigned() &&
      typed(json_).get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (too_large) wrong_type(expected + " and below 2^63");
  if (typed(json_).get<std::int64_t>() < least) wrong_type(expected);
  return typed(json_).get<std::int64_t>();
}

int JsonElement::small_integer(int least) const {
  const std::int64_t value = integer(least);
  if (value > std::numeric_limits<int>::max()) wrong_type("a whole number below 2^31");
  return static_cast<int>(value);
}

std::uint64_t JsonElement::unsigned_integer() const {
  const auto& json = typed(json_);
  const bool negative =
      !json.is_number_unsigned() && json.is_number_integer() && json.get<std::int64_t>() < 0;
  if (!json.is_number_integer() || negative) wrong_type("a whole number from 0 to 2^64 - 1");
  return json.get<std::uint64_t>();
}

void JsonElement::wrong_type(std::string_view it_must_be) const {
  fail(fmt::format("is {}; it must be {}", type_text(typed(json_)), it_must_be));
}

void JsonElement::unknown(std::string_view what, std::string_view name,
                          const std::vector<std::string>& known) const {
  const std::string all =
      known.empty() ? "" : fmt::format("; known are {}", fmt::join(known, ", "));
  fail(fmt::format("unknown {} '{}'{}", what, name, suggestion(name, known, all)));
}

namespace {

/// Follows the parser, which does not say where in the document it is, and refuses what it would
/// let pass.
class Watch {
 public:
  using Event = nlohmann::json::parse_event_t;
  explicit Watch(const std::string& what) : what_(what) {}

  bool operator()(int, Event event, nlohmann::json& parsed) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (open_.size() == deepest_json) {
          fail(place(open_.size()), fmt::format("arrays and objects are nested deeper than the {} "
                                                "that are read; no document of this library is",
                                                deepest_json));
        }
        open_.push_back({.is_array = event == Event::array_start});
        break;
      case Event::object_end:
      case Event::array_end:
        open_.pop_back();
        count();
        break;
      case Event::key:
        open_.back().key = parsed.get<std::string>();
        if (!open_.back().keys.insert(open_.back().key).second) {
          fail(place(open_.size() - 1),
               "the key '" + open_.back().key + "' appears twice in one object");
        }
        break;
      case Event::value:
        count();
        break;
    }
    return true;
  }

  /// The pointer of the value that is being read.
  [[nodiscard]] std::string place() const { return place(open_.size()); }

  [[noreturn]] void fail(const std::string& pointer, const std::string& message) const {
    throw ProgramError(what_ + (pointer.empty() ? "" : " at " + pointer) + ": " + message);
  }

 private:
  /// An array or object that has not ended.
  struct Open {
    bool is_array = false;
    std::size_t index = 0;  ///< of an array: elements so far
    std::string key = {};   ///< of an object: the last one
    std::set<std::string> keys = {};
  };

  void count() {
    if (!open_.empty() && open_.back().is_array) ++open_.back().index;
  }

  /// The pointer of what the outermost `depth` of them are at.
  [[nodiscard]] std::string place(std::size_t depth) const {
    std::string pointer;
    for (std::size_t i = 0; i < depth; ++i)
      pointer +=
          "/" + (open_[i].is_array ? std::to_string(open_[i].index) : pointer_token(open_[i].key));
    return pointer;
  }

  const std::string& what_;
  std::vector<Open> open_;
};

}  // namespace

JsonElement parse_json(std::string_view text, const std::string& what) {
  Watch watch(what);
  try {
    const auto document = std::make_shared<const JsonElement::Document>(
        JsonElement::Document{what, nlohmann::json::parse(text, std::ref(watch))});
    return {document, &document->json, ""};
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte == 0 ? 0 : error.byte - 1);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw ProgramError(
        fmt::format("{}, line {}, column {}: {}", what, line, column, reason_of(error.what())));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    watch.fail(watch.place(), reason_of(error.what()));
  }
}

}  // namespace coconet::ir
