// Rows of the table of measurements on a GPU, as Markdown and as JSON.
#pragma once

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace bench {

struct Target {
  std::string text;  ///< ">= 0.92"; empty when there is none
  bool met = false;
};

inline std::string decimals(double number, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

inline Target at_least(double number, double limit) {
  return {">= " + decimals(limit, 2), number >= limit};
}

inline std::string power_of_two(int exponent) {
  return "2^" + std::to_string(exponent);
}

struct Row {
  std::string what;
  std::string size;
  std::string result;     ///< with its unit
  std::string peer = {};  ///< what it is compared with and what that took; empty for nothing
  double ratio = 0;       ///< as the target counts it; 0 for none
  Target target = {};
  nlohmann::json numbers = {};  ///< the same without units in text
};

/// A row of what took `ms`, beside a peer.
inline Row beside(const std::string& what, const std::string& size, double ms,
                  const std::string& peer, double peer_ms, nlohmann::json numbers) {
  numbers.update({{"ms", ms}, {"peer_ms", peer_ms}});
  return {.what = what,
          .size = size,
          .result = decimals(ms * 1e3, 1) + " us",
          .peer = peer + ": " + decimals(peer_ms * 1e3, 1) + " us",
          .ratio = peer_ms / ms,
          .numbers = std::move(numbers)};
}

/// Prints rows as it gets them, and keeps them as lines of JSON in a file.
class Table {
 public:
  explicit Table(const std::string& json_lines) {
    if (json_lines.empty()) return;
    json_.open(json_lines, std::ios::app);
    if (!json_) throw std::runtime_error("cannot write " + json_lines);
  }

  void add(const Row& row) {
    const bool aims = !row.target.text.empty();
    std::printf("| %s | %s | %s | %s | %s | %s |\n", row.what.c_str(), row.size.c_str(),
                row.result.c_str(), row.peer.empty() ? "-" : row.peer.c_str(),
                row.ratio == 0 ? "-" : decimals(row.ratio, 3).c_str(),
                aims ? (row.target.text + (row.target.met ? ": pass" : ": FAIL")).c_str() : "-");
    std::fflush(stdout);
    nlohmann::json json = {{"what", row.what}, {"size", row.size}};
    json.update(row.numbers);
    if (row.ratio != 0) json["ratio"] = row.ratio;
    if (aims) {
      json["target"] = row.target.text;
      json["pass"] = row.target.met;
    }
    write(json);
  }
  void add_not_measured(const std::string& what, const std::string& size, const std::string& why) {
    std::printf("| %s | %s | not measured: %s | - | - | - |\n", what.c_str(), size.c_str(),
                why.c_str());
    std::fflush(stdout);
    write({{"what", what}, {"size", size}, {"not_measured", why}});
  }

 private:
  void write(const nlohmann::json& json) {
    if (!json_.is_open()) return;
    json_ << json.dump() << "\n";
    if (!json_.flush()) throw std::runtime_error("cannot write the rows as JSON");
  }

  std::ofstream json_;
};

}  // namespace bench
