// JSON to text and back. The JSON library does both in templates, which cost a file that calls them
// two seconds of the compiler's time: only this folder does.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace coconet::ir {

/// On one line, or with an `indent` on as many as there are values, that many blanks a level.
/// Throws nlohmann::json::type_error where a string is not UTF-8.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// What a text says that this library wrote: what others write is for `parse_json`, which says what
/// is wrong with it. Throws nlohmann::json::parse_error.
[[nodiscard]] nlohmann::ordered_json json_of(std::string_view text);

}  // namespace coconet::ir
