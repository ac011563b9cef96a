#include "ir/json/text.h"

#include <nlohmann/json.hpp>

namespace coconet::ir {

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent);
}

nlohmann::ordered_json json_of(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

}  // namespace coconet::ir
