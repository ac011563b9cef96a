// Reading COCONET_* variables as a function of an environment, so that it can be tested without
// changing one.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "coconet/config.h"
#include "coconet/options.h"

namespace coconet::jit {

/// (name, value) pairs in the order of the process's environment; of a repeated name the first
/// counts.
using Environment = std::vector<std::pair<std::string, std::string>>;

/// What the build says about defaults.
struct BuildDefaults {
  std::string_view cxx;        ///< the compiler that built the library
  std::string_view cache_dir;  ///< that of the build tree; empty when the library is in none
};

struct ParsedConfig {
  Config config;
  std::vector<std::string> warnings;  ///< one sentence per unknown COCONET_* name
  std::vector<std::string> set;       ///< variables that have a value in the environment
};

/// The configuration that `environment` asks for. A variable that is set to nothing counts as not
/// set. Throws ConfigError naming the variable, its value and what it takes.
[[nodiscard]] ParsedConfig parse_config(const Environment& environment,
                                        const BuildDefaults& defaults);

/// `base` with `options`, but for those whose variable is in `set`. What is said about these goes
/// to `notes`. Throws ConfigError naming the option, its value and what it takes.
[[nodiscard]] Config with_options(const Config& base, const Options& options,
                                  const std::vector<std::string>& set,
                                  std::vector<std::string>& notes);

/// Whether the whole of `text` is a number, which `into` then is.
template <class Number>
[[nodiscard]] bool parse_number(std::string_view text, Number& into) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, into);
  return error == std::errc() && end == last;
}

/// A number of bytes, with K, M, G or T behind it for powers of 1024, as COCONET_CACHE_MAX_SIZE
/// takes it; nothing when `text` is none, or more than 64 bits hold.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// This process's environment.
[[nodiscard]] Environment process_environment();

/// `config_variables()` as a Markdown table: the body of docs/configuration.md.
[[nodiscard]] std::string config_table();

}  // namespace coconet::jit
